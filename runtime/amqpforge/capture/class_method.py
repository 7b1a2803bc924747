"""The frames of the class/method dialects, AMQP 0-9-1 and its kin, as the generated package of one decodes
them.
"""

from __future__ import annotations

import re
from functools import cache
from types import ModuleType
from typing import ClassVar

from amqpforge.capture.finder import FrameFinder, Verdict
from amqpforge.capture.record import Record
from amqpforge_protocol._support.errors import DecodeError

__all__ = ["Decoder", "names"]

_FRAME_HEADER = 7  # type, channel and size of the payload (AMQP 0-9-1, section 4.2.3)

_FRAME_START = re.compile(
    rb"""AMQP[\x00\x01][\x00-\x63]{3}           # a protocol header
    | \x08\x00\x00\x00\x00\x00\x00\xce          # a heartbeat
    | [\x01\x02]..[\x00-\x03]...\x00[\x0a-\xff]  # type, channel, size of a frame, and the class in it
    """,
    re.DOTALL | re.VERBOSE,
)


def names(dialect: ModuleType) -> tuple[str, ...]:
    """The names of everything that a method frame of the dialect can hold."""
    return tuple(method.XML_NAME for method in dialect.RULES)


def _whole(data: bytes, position: int) -> int:
    """The octets of the frame, as its header says."""
    return _FRAME_HEADER + int.from_bytes(data[position + 3 : position + _FRAME_HEADER], "big") + 1


@cache
def _frame_types(dialect: ModuleType) -> tuple[int, ...]:
    return tuple(map(int, dialect.FrameType))


class Decoder(FrameFinder):
    """A `FrameDecoder` of the class/method dialect."""

    FRAME_HEADER: ClassVar[int] = _FRAME_HEADER
    START: ClassVar[re.Pattern[bytes]] = _FRAME_START
    LONGEST_START: ClassVar[int] = 9

    __slots__ = ()

    def measure(self, data: bytes, position: int) -> int | str:
        """The octets of the frame, its header and its end included, or why this cannot be its type."""
        known = _frame_types(self.dialect)
        if data[position] not in known:
            return f"a frame of type {data[position]}: there are {', '.join(map(str, known))}"
        return _whole(data, position)

    def judge(self, data: bytes, position: int) -> Verdict:
        """Whether a method or content header that is known, with the frame's end behind it, is there."""
        end = position + _whole(data, position)
        if end > len(data):
            return "perhaps" if end - position <= 4 * 1024 * 1024 else "no"
        try:
            self.dialect.decode_frame(data[position:end])
        except DecodeError:
            return "no"
        return "frame"

    def frame(self, octets: bytes, offset: int, time: int | None) -> Record:
        """The record of a frame: its method, its content header, or the size of its body."""
        channel = int.from_bytes(octets[1:3], "big")
        try:
            frame, _ = self.dialect.decode_frame(octets)
        except DecodeError as error:
            return self.explained(error, offset, time, channel)
        kind = self.dialect.FrameType(frame.type).name
        if kind == "METHOD":
            record = self.record("method", offset, time, channel, frame.payload.XML_NAME)
        elif kind == "HEADER":
            record = self.record("content-header", offset, time, channel)
        elif kind == "HEARTBEAT":
            return self.record("heartbeat", offset, time, channel)
        else:
            record = self.record("body" if kind == "BODY" else "trace", offset, time, channel)
            record.octets = octets[_FRAME_HEADER:-1]
            record.payload_bytes = len(record.octets)
            return record
        record.value = frame.payload
        record.octets = octets[_FRAME_HEADER:-1]
        return record

"""The frames of the control/command dialects, the early draft of AMQP 1.0, as the generated package of one
decodes them.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any, ClassVar

from amqpforge.capture.finder import FrameFinder, Verdict
from amqpforge.capture.record import Kind, Record
from amqpforge_protocol._support.errors import DecodeError

__all__ = ["Decoder", "names"]

_FRAME_HEADER = 24
_STRUCT = _FRAME_HEADER + 4  # behind the size of the struct that is the body

_FRAME_START = re.compile(
    rb"""AMQP\x01\x00\x00.                               # a protocol header
    | \x00\x00\x00\x18[\x00\x01][\x00-\x03].{18}          # an empty frame
    | [\x00-\x03]...[\x00\x01][\x00-\x03].{18}[\x00-\x03]...  # a frame, and a struct as its body
    """,
    re.DOTALL | re.VERBOSE,
)


def names(dialect: ModuleType) -> tuple[str, ...]:
    """The names of everything that a frame of the dialect can hold."""
    return tuple(operation.XML_NAME for operation in dialect.OPERATIONS.values())


def _size(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "big")


class Decoder(FrameFinder):
    """A `FrameDecoder` of the control/command dialect."""

    FRAME_HEADER: ClassVar[int] = _FRAME_HEADER
    START: ClassVar[re.Pattern[bytes]] = _FRAME_START
    LONGEST_START: ClassVar[int] = 30

    __slots__ = ()

    def measure(self, data: bytes, position: int) -> int | str:
        """The octets of the frame, or why these cannot be its size and type."""
        size, kind = _size(data, position), data[position + 4]
        if size < _FRAME_HEADER:
            return f"a frame of {size} octets (at least {_FRAME_HEADER} are needed)"
        return f"a frame of type {kind}, neither control nor command" if kind > 1 else size

    def judge(self, data: bytes, position: int) -> Verdict:
        """Whether the frame is empty, or its body a struct that fills it."""
        size = _size(data, position)
        if size == _FRAME_HEADER:
            return "frame"
        inner = int.from_bytes(data[position + _FRAME_HEADER : position + _STRUCT], "big")
        if size - _STRUCT != inner:
            return "no"
        if position + size > len(data):
            return "perhaps"
        try:
            self.dialect.decode_frame(data[position : position + size])
        except DecodeError:
            return "no"
        return "frame"

    def frame(self, octets: bytes, offset: int, time: int | None) -> Record:
        """The record of a frame: its control or command."""
        channel = int.from_bytes(octets[6:8], "big")
        try:
            frame, _ = self.dialect.decode_frame(octets)
        except DecodeError as error:
            return self.explained(error, offset, time, channel)
        operation: Any = frame.operation
        if operation is None:
            return self.record("empty", offset, time, channel)
        kind: Kind = operation.KIND
        record = self.record(kind, offset, time, channel, operation.XML_NAME)
        record.value = operation
        record.octets = octets[_FRAME_HEADER:]
        return record

"""The frames of AMQP 1.0 (part 2, section 2.3), as the generated package decodes them."""

from __future__ import annotations

import re
import struct
from types import ModuleType
from typing import Any, ClassVar

from amqpforge.capture.finder import FrameFinder, Verdict
from amqpforge.capture.record import Header, Kind, Record
from amqpforge_protocol.amqp_1_0 import DecodeError, decode_frame, decode_performative
from amqpforge_protocol.amqp_1_0.registry import FRAME, SASL_FRAME

__all__ = ["Decoder", "names"]

_FRAME_HEADER = 8
_SASL = 1
_unpack_size = struct.Struct(">IB").unpack_from
_TLS = 2
_PERFORMATIVE_LOOK = 64 * 1024  # octets of a frame within which its performative must end, when searching

_FRAME_START = re.compile(
    rb"""AMQP[\x00\x02\x03]\x01\x00\x00        # a protocol header
    | \x00\x00\x00\x08\x02\x00..               # an empty frame
    | [\x00-\x03]...\x02[\x00\x01]..\x00(?:    # size, data offset, type, channel, descriptor constructor, and
          \x53[\x10-\x18\x40-\x44]             # - smallulong
        | \x80\x00{7}[\x10-\x18\x40-\x44]      # - ulong
        | \xa3.amqp:                           # - symbol, short and long
        | \xb3\x00\x00\x00.amqp:)
    """,
    re.DOTALL | re.VERBOSE,
)


def names(dialect: ModuleType) -> tuple[str, ...]:
    """The names of everything that a frame can hold."""
    return tuple(
        kind.__dict__["XML_NAME"] for providers in (FRAME, SASL_FRAME) for kind in providers.encoders
    )


class Decoder(FrameFinder):
    """A `FrameDecoder` of AMQP 1.0."""

    FRAME_HEADER: ClassVar[int] = _FRAME_HEADER
    START: ClassVar[re.Pattern[bytes]] = _FRAME_START
    LONGEST_START: ClassVar[int] = 32  # the first letters of a symbolic descriptor included

    __slots__ = ()

    def measure(self, data: bytes, position: int) -> int | str:
        """The octets of the frame, or why these cannot be its size and data offset (section 2.3.1)."""
        size, data_offset = _unpack_size(data, position)
        if size < _FRAME_HEADER:
            return f"a frame of {size} octets (at least {_FRAME_HEADER} are needed)"
        if data_offset < 2 or data_offset * 4 > size:
            return f"a frame of {size} octets whose body begins at octet {data_offset * 4}"
        return int(size)

    def judge(self, data: bytes, position: int) -> Verdict:
        """Whether a performative is where the body of the frame would be."""
        size, _ = _unpack_size(data, position)
        if size == _FRAME_HEADER:
            return "frame"
        end = min(position + size, len(data), position + _PERFORMATIVE_LOOK)
        try:
            decode_performative(memoryview(data)[:end], position + _FRAME_HEADER)
        except DecodeError:
            complete = end - position in (size, _PERFORMATIVE_LOOK)
            return "no" if complete else "perhaps"
        return "frame"

    def frame(self, octets: bytes, offset: int, time: int | None) -> Record:
        """The record of a frame: its performative and the size of its payload."""
        kind: Kind = "sasl" if octets[5] == _SASL else "amqp"
        channel = int.from_bytes(octets[6:8], "big") if kind == "amqp" else None
        try:
            frame, _ = decode_frame(octets)
        except DecodeError as error:
            return self.explained(error, offset, time, channel)
        performative: Any = frame.performative
        if performative is None:
            return self.record("empty", offset, time, channel)
        return Record(
            time,
            self._stream,
            self._direction,
            offset,
            kind,
            channel,
            performative.XML_NAME,
            performative,
            octets[octets[4] * 4 :],
            len(frame.payload),
            None,
            self.dialect,
        )

    def opaque(self, header: Header) -> str | None:
        """TLS encrypts what follows its header (part 5, section 5.2)."""
        return "encrypted from here on (TLS)" if header.protocol_id == _TLS else None

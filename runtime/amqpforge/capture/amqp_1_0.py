"""The frames of one direction of an AMQP 1.0 connection (part 2, section 2.3), out of whatever a capture has
of it.

Frames are decoded by the generated package. This module finds them: at the start, after one that cannot be
decoded, after a gap, and in a stream that was captured from the middle, where it searches for octets that
look like the beginning of a frame and decode as one.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from amqpforge.capture.dialects import HEADER_SIZE, MAGIC, parse_header
from amqpforge.capture.record import Kind, Record
from amqpforge.capture.tcp import Direction
from amqpforge_protocol.amqp_1_0 import DecodeError, decode_frame, decode_performative
from amqpforge_protocol.amqp_1_0.registry import FRAME, SASL_FRAME

__all__ = ["MAX_FRAME", "PERFORMATIVES", "Decoder"]

MAX_FRAME = 64 * 1024 * 1024
"""Octets of a frame that are collected to decode it; a longer one is reported and passed over."""

PERFORMATIVES: tuple[str, ...] = tuple(
    kind.__dict__["XML_NAME"] for providers in (FRAME, SASL_FRAME) for kind in providers.encoders
)
"""The names of everything that a frame can hold."""

_FRAME_HEADER = 8
_SASL = 1
_TLS = 2
_PERFORMATIVE_LOOK = 64 * 1024  # octets of a frame within which its performative must end, when searching
_LONGEST_START = (
    32  # octets that _FRAME_START may need to match, a symbolic descriptor's first letters included
)

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

_Verdict = Literal["frame", "no", "perhaps"]


class Decoder:
    """A `FrameDecoder` of AMQP 1.0.

    `searching` tells that the first octets need not be the beginning of a frame. Octets that are passed over
    in a search are reported in one error record, at the offset of the first.
    """

    __slots__ = (
        "_after_tls",
        "_direction",
        "_encrypted",
        "_held",
        "_lost",
        "_offset",
        "_reason",
        "_skip",
        "_stream",
        "_wanted",
    )

    def __init__(self, stream: int, direction: Direction, *, searching: bool = False) -> None:
        self._stream = stream
        self._direction: Direction = direction
        self._held = bytearray()
        self._offset = 0  # of the first octet held, or of the next one
        self._wanted = 1  # octets that must be held before it is worth looking again
        self._skip = 0  # octets left of a frame that was given up
        self._lost: int | None = 0 if searching else None  # where the search for a frame began
        self._reason = "captured from the middle: no frame begins here" if searching else ""
        self._after_tls = False  # the last header asked for TLS: no frames follow it
        self._encrypted = False

    def data(self, offset: int, time: int | None, data: bytes) -> list[Record]:
        """The next octets of the direction."""
        if self._skip:
            dropped = min(self._skip, len(data))
            self._skip -= dropped
            data, offset = data[dropped:], offset + dropped
        if not self._held:
            self._offset = offset
        if self._held or len(data) < self._wanted:
            self._held += data
            if len(self._held) < self._wanted:
                return []
            data = bytes(self._held)
            self._held.clear()
        return self._read(data, time, last=False)

    def gap(self, offset: int, time: int | None, length: int) -> list[Record]:
        """Octets that are missing: the frame they belong to is given up, and if need be the next one searched
        for.
        """
        records = self._flush(offset, time)
        start, held = (self._offset, bytes(self._held)) if self._held else (offset, b"")
        self._held.clear()
        self._wanted = 1
        left = self._skip
        if self._lost is not None:
            self._skipped(offset, time, records)
            start = offset
        elif _is_whole(held):
            left = int.from_bytes(held[:4], "big") - len(held)
        if left >= length:
            self._skip = left - length
            where = ", inside this frame"
        else:
            self._skip = 0
            self._search(offset + length, "no frame begins after the missing octets")
            where = ""
        records.append(self._error(start, time, f"{length} octets are missing from the capture{where}"))
        return records

    def end(self, offset: int, time: int | None, closed: bool) -> list[Record]:
        """No more octets: what is held is incomplete."""
        records = self._flush(offset, time)
        what = "the connection" if closed else "the capture"
        if self._lost is not None:
            self._skipped(offset, time, records)
        elif self._held:
            of = f" of {int.from_bytes(self._held[:4], 'big')}" if _is_whole(self._held) else ""
            reason = f"{what} ends inside a frame, after {len(self._held)}{of} octets"
            records.append(self._error(self._offset, time, reason))
        elif self._skip:
            records.append(self._error(offset, time, f"{what} ends inside a frame"))
        self._held.clear()
        return records

    def _read(self, data: bytes, time: int | None, *, last: bool) -> list[Record]:
        """The records of the frames in `data`, which begins at `_offset`; the rest is held."""
        records: list[Record] = []
        rest = self._frames(data, time, records, last)
        self._held += data[rest:]
        self._offset += rest
        return records

    def _flush(self, offset: int, time: int | None) -> list[Record]:
        """No more octets follow those held: a search need not hope for them any longer."""
        if self._lost is None or not self._held:
            return []
        data = bytes(self._held)
        self._held.clear()
        return self._read(data, time, last=True)

    def _frames(self, data: bytes, time: int | None, records: list[Record], last: bool) -> int:
        """Append a record for each complete frame in `data`; returns where the first incomplete one
        begins.
        """
        position, length = 0, len(data)
        while True:
            if self._encrypted:
                self._wanted = 1
                return length
            if self._lost is not None:
                position = self._find(data, position, time, records, last)
                if self._lost is not None:
                    return position
            left = length - position
            if left < _FRAME_HEADER:
                self._wanted = _FRAME_HEADER
                return position
            if self._after_tls and not data.startswith(MAGIC, position):
                self._encrypted = True
                records.append(self._error(self._offset + position, time, "encrypted from here on (TLS)"))
                continue
            if data.startswith(MAGIC, position):
                self._header(data, position, time, records)
                position += HEADER_SIZE
                continue
            size = int.from_bytes(data[position : position + 4], "big")
            fault = _fault(size, data[position + 4])
            if fault:
                self._search(self._offset + position, fault)
                continue
            if size > MAX_FRAME:
                reason = f"a frame of {size} octets: passed over (at most {MAX_FRAME} are read)"
                records.append(self._error(self._offset + position, time, reason))
                self._skip = max(0, size - left)
                self._wanted = 1
                if self._skip:
                    return length
            elif left < size:
                self._wanted = size
                return position
            else:
                records.append(self._frame(data[position : position + size], self._offset + position, time))
            position += size

    def _frame(self, octets: bytes, offset: int, time: int | None) -> Record:
        """The record of the frame that `octets` are."""
        kind: Kind = "sasl" if octets[5] == _SASL else "amqp"
        channel = int.from_bytes(octets[6:8], "big") if kind == "amqp" else None
        try:
            frame, _ = decode_frame(octets)
        except DecodeError as error:
            return self._error(offset, time, _explain(error, offset), channel)
        performative: Any = frame.performative
        if performative is None:
            return Record(time, self._stream, self._direction, offset, "empty", channel)
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
        )

    def _header(self, data: bytes, position: int, time: int | None, records: list[Record]) -> None:
        """A protocol header; those of SASL and TLS come before the one of AMQP itself (part 5, sections 5.2
        and 5.3).
        """
        header = parse_header(data, position)
        offset = self._offset + position
        records.append(Record(time, self._stream, self._direction, offset, "header", value=header))
        self._after_tls = header.protocol_id == _TLS

    def _search(self, offset: int, reason: str) -> None:
        self._lost, self._reason = offset, reason

    def _skipped(self, offset: int, time: int | None, records: list[Record]) -> None:
        """The search that is on ends at `offset`."""
        if self._lost is not None and offset > self._lost:
            reason = f"{self._reason}; {offset - self._lost} octets skipped"
            records.append(self._error(self._lost, time, reason))
        self._lost = None

    def _find(self, data: bytes, position: int, time: int | None, records: list[Record], last: bool) -> int:
        """Where the next frame begins in `data`; while the search goes on, where to go on when there is
        more.
        """
        while match := _FRAME_START.search(data, position):
            position = match.start()
            verdict = _judge(data, position)
            if verdict == "frame":
                self._skipped(self._offset + position, time, records)
                return position
            if verdict == "perhaps" and not last:
                self._wanted = len(data) - position + 1
                return position
            position += 1
        self._wanted = 1
        return max(position, len(data) - _LONGEST_START + 1)

    def _error(self, offset: int, time: int | None, reason: str, channel: int | None = None) -> Record:
        return Record(time, self._stream, self._direction, offset, "error", channel, reason=reason)


def _fault(size: int, data_offset: int) -> str | None:
    """Why these cannot be the size and the data offset of a frame (section 2.3.1)."""
    if size < _FRAME_HEADER:
        return f"a frame of {size} octets (at least {_FRAME_HEADER} are needed)"
    if data_offset < 2 or data_offset * 4 > size:
        return f"a frame of {size} octets whose body begins at octet {data_offset * 4}"
    return None


def _is_whole(held: bytes | bytearray) -> bool:
    """Whether the first octets are a frame header that can be believed."""
    return (
        len(held) >= _FRAME_HEADER
        and not held.startswith(MAGIC)
        and _fault(int.from_bytes(held[:4], "big"), held[4]) is None
    )


def _judge(data: bytes, position: int) -> _Verdict:
    """Whether a frame begins at `position`, where _FRAME_START matches."""
    if data.startswith(MAGIC, position):
        return "frame"
    size = int.from_bytes(data[position : position + 4], "big")
    if size == _FRAME_HEADER:
        return "frame"
    end = min(position + size, len(data), position + _PERFORMATIVE_LOOK)
    try:
        decode_performative(memoryview(data)[:end], position + _FRAME_HEADER)
    except DecodeError:
        complete = end - position in (size, _PERFORMATIVE_LOOK)
        return "no" if complete else "perhaps"
    return "frame"


def _explain(error: DecodeError, offset: int) -> str:
    """The reason of a decoder's error, with the place in words of the definitions and as an offset in the
    direction.
    """
    where = ".".join(name for name in (error.type, error.field) if name)
    octet = "" if error.offset is None else f" (octet {offset + error.offset})"
    return f"{where}: {error.reason}{octet}" if where else f"{error.reason}{octet}"

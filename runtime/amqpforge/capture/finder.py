"""Finds the frames of one direction of a connection in whatever a capture has of it: at the start, after one
that cannot be decoded, after a gap, and in a stream that was captured from the middle, where it searches for
octets that look like the beginning of a frame and decode as one.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from types import ModuleType
from typing import ClassVar, Literal

from amqpforge.capture.dialects import HEADER_SIZE, MAGIC, parse_header
from amqpforge.capture.record import Header, Kind, Record
from amqpforge.capture.tcp import Direction
from amqpforge_protocol._support.errors import CodecError

__all__ = ["MAX_FRAME", "FrameFinder", "Verdict"]

MAX_FRAME = 64 * 1024 * 1024
"""Octets of a frame that are collected to decode it; a longer one is reported and passed over."""

Verdict = Literal["frame", "no", "perhaps"]


class FrameFinder(ABC):
    """A `FrameDecoder` of one family of protocols, once a subclass says what their frames look like.

    `dialect` is the generated package of the protocol. `searching` tells that the first octets need not be
    the beginning of a frame. Octets that are passed over in a search are reported in one error record, at the
    offset of the first.
    """

    FRAME_HEADER: ClassVar[int]
    """Octets of a frame that tell its size."""
    START: ClassVar[re.Pattern[bytes]]
    """Matches where a frame or a protocol header may begin; `judge` has the last word."""
    LONGEST_START: ClassVar[int]
    """Octets that START may need to match."""

    __slots__ = (
        "_closed",
        "_direction",
        "_held",
        "_lost",
        "_offset",
        "_opaque",
        "_reason",
        "_skip",
        "_stream",
        "_wanted",
        "dialect",
    )

    def __init__(
        self, dialect: ModuleType, stream: int, direction: Direction, *, searching: bool = False
    ) -> None:
        self.dialect = dialect
        self._stream = stream
        self._direction: Direction = direction
        self._held = bytearray()
        self._offset = 0  # of the first octet held, or of the next one
        self._wanted = 1  # octets that must be held before it is worth looking again
        self._skip = 0  # octets left of a frame that was given up
        self._lost: int | None = 0 if searching else None  # where the search for a frame began
        self._reason = "captured from the middle: no frame begins here" if searching else ""
        self._opaque: str | None = None  # why nothing behind the last protocol header can be read
        self._closed = False  # what follows cannot be read

    @abstractmethod
    def measure(self, data: bytes, position: int) -> int | str:
        """The octets of the whole frame at `position`, where FRAME_HEADER octets are; or why it is none."""

    @abstractmethod
    def judge(self, data: bytes, position: int) -> Verdict:
        """Whether a frame begins at `position`, where START matches and no protocol header stands."""

    @abstractmethod
    def frame(self, octets: bytes, offset: int, time: int | None) -> Record:
        """The record of the frame that `octets` are."""

    def opaque(self, header: Header) -> str | None:
        """Why nothing behind a protocol header can be read, or None."""
        return None

    def data(self, offset: int, time: int | None, data: bytes) -> list[Record]:
        """The next octets of the direction."""
        if self._closed:
            return []
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
        if self._closed:
            return []
        records = self._flush(offset, time)
        start, held = (self._offset, bytes(self._held)) if self._held else (offset, b"")
        self._held.clear()
        self._wanted = 1
        left = self._skip
        if self._lost is not None:
            self._skipped(offset, time, records)
            start = offset
        elif (size := self._size_of(held)) is not None:
            left = size - len(held)
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
            size = self._size_of(bytes(self._held))
            of = "" if size is None else f" of {size}"
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
            if self._lost is not None:
                position = self._find(data, position, time, records, last)
                if self._lost is not None:
                    return position
            left = length - position
            if left < HEADER_SIZE and MAGIC.startswith(data[position : position + len(MAGIC)]):
                self._wanted = HEADER_SIZE
                return position
            if data.startswith(MAGIC, position):
                self._header(data, position, time, records)
                position += HEADER_SIZE
                continue
            if left and self._opaque is not None:
                records.append(self._error(self._offset + position, time, self._opaque))
                self._closed = True
                return length
            if left < self.FRAME_HEADER:
                self._wanted = self.FRAME_HEADER
                return position
            size = self.measure(data, position)
            if isinstance(size, str):
                self._search(self._offset + position, size)
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
                records.append(self.frame(data[position : position + size], self._offset + position, time))
            position += size

    def _header(self, data: bytes, position: int, time: int | None, records: list[Record]) -> None:
        header = parse_header(data, position)
        offset = self._offset + position
        records.append(Record(time, self._stream, self._direction, offset, "header", value=header))
        self._opaque = self.opaque(header)

    def _size_of(self, held: bytes) -> int | None:
        """The octets of the frame that `held` begins with, if enough of it is there to be believed."""
        if len(held) < self.FRAME_HEADER or held.startswith(MAGIC):
            return None
        size = self.measure(held, 0)
        return None if isinstance(size, str) else size

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
        while match := self.START.search(data, position):
            position = match.start()
            verdict = "frame" if data.startswith(MAGIC, position) else self.judge(data, position)
            if verdict == "frame":
                self._skipped(self._offset + position, time, records)
                return position
            if verdict == "perhaps" and not last:
                self._wanted = len(data) - position + 1
                return position
            position += 1
        self._wanted = 1
        return max(position, len(data) - self.LONGEST_START + 1)

    def record(
        self, kind: Kind, offset: int, time: int | None, channel: int | None = None, name: str | None = None
    ) -> Record:
        """A record of this direction."""
        record = Record(time, self._stream, self._direction, offset, kind, channel, name)
        record.dialect = self.dialect
        return record

    def explained(self, error: CodecError, offset: int, time: int | None, channel: int | None) -> Record:
        """The error record of a frame at `offset`: the place in words of the definitions, then as an offset
        in the direction.
        """
        where = ".".join(name for name in (error.type, error.field) if name)
        octet = "" if error.offset is None else f" (octet {offset + error.offset})"
        reason = f"{where}: {error.reason}{octet}" if where else f"{error.reason}{octet}"
        return self._error(offset, time, reason, channel)

    def _error(self, offset: int, time: int | None, reason: str, channel: int | None = None) -> Record:
        return Record(time, self._stream, self._direction, offset, "error", channel, reason=reason)

"""A connection cut into frames: whole octets, not decoded; what decodes them comes later.

The finders of `amqpforge.capture` find the frames, in whatever a capture has of a connection. Here they hand
each on to an `Outlet` instead of decoding it, and those of AMQP 1.0, the usual ones, are cut by their sizes
alone as long as nothing is odd.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib import import_module
from typing import Final

from amqpforge.capture import amqp_1_0, class_method, control_command
from amqpforge.capture.conversation import Conversation
from amqpforge.capture.dialects import Dialect, FrameDecoder, dialects, guess
from amqpforge.capture.finder import MAX_FRAME, FrameFinder
from amqpforge.capture.record import Header, Record
from amqpforge.capture.tcp import Direction

from .rows import UNKNOWN, Origin

__all__ = ["Connection", "Outlet"]

_FRAME_HEADER: Final = 8
_unpack_size = struct.Struct(">IB").unpack_from


class Outlet:
    """Where frames go.

    Attributes:
        take: takes frames of AMQP 1.0 that came one behind the other: all their octets, the octets of each,
            and the offset of the first one in the direction; None: nobody wants them, only their places.
        origin: where what is cut at present comes from.
        time: when it was captured, in microseconds since 1970.
    """

    __slots__ = ("origin", "take", "time")

    def __init__(self) -> None:
        self.take: Callable[[bytes, list[int], int], object] | None = None
        self.origin: Origin = UNKNOWN
        self.time: int | None = None

    def __reduce__(self) -> tuple[type[Outlet], tuple[()]]:
        """A copy for elsewhere: whoever takes the frames stays here."""
        return Outlet, ()


class _Cutter(FrameFinder):
    """A finder whose frames go to an outlet; only headers and errors become records.

    `outlet` is set once it is made.
    """

    __slots__ = ("outlet",)
    outlet: Outlet

    def frame(self, octets: bytes, offset: int, time: int | None) -> Record:
        """A record that holds the whole frame."""
        record = self.record("amqp", offset, time)
        record.octets = octets
        return record


class _SelfDescribing(_Cutter, amqp_1_0.Decoder):
    __slots__ = ()

    def _frames(self, data: bytes, time: int | None, records: list[Record], last: bool) -> int:
        start = 0
        if self._lost is None and self._opaque is None:
            start, is_done = self._sized(data)
            if is_done:
                return start
        self._offset += start
        rest = super()._frames(data[start:], time, records, last)
        self._offset -= start
        return start + rest

    def _sized(self, data: bytes) -> tuple[int, bool]:
        """Cut frames by their sizes; where that ended, and whether no more can be done before more octets
        come.
        """
        sizes = list[int]()
        position, length = 0, len(data)
        is_odd = False
        self._wanted = _FRAME_HEADER
        while length - position >= _FRAME_HEADER:
            size, data_offset = _unpack_size(data, position)
            if not _FRAME_HEADER <= data_offset * 4 <= size <= MAX_FRAME:
                is_odd = True  # A protocol header, perhaps.
                break
            end = position + size
            if end > length:
                self._wanted = size
                break
            sizes.append(size)
            position = end
        take = self.outlet.take
        if sizes and take is not None:
            take(data[:position], sizes, self._offset)
        return position, not is_odd


class _ClassMethod(_Cutter, class_method.Decoder):
    __slots__ = ()


class _ControlCommand(_Cutter, control_command.Decoder):
    __slots__ = ()


_CUTTERS: Final[dict[str, type[_Cutter]]] = {
    "amqp-1.0": _SelfDescribing,
    "class-method": _ClassMethod,
    "control-command": _ControlCommand,
}


class _Cut(Dialect):
    """A dialect whose decoders are cutters; `outlet` is set once it is made."""

    outlet: Outlet

    def decoder(self, stream: int, direction: Direction, *, searching: bool) -> FrameDecoder:
        """What cuts one direction of a stream."""
        protocol = import_module(f"amqpforge_protocol.{self.package}")
        made = _CUTTERS[self.grammar](protocol, stream, direction, searching=searching)
        made.outlet = self.outlet
        return made


class Connection(Conversation):
    """A conversation whose frames go to an outlet.

    Each call returns records of protocol headers, errors, and frames that were found in another way than by
    their sizes; those hold the whole frame as their octets. What went to the outlet during the call came
    before them. `usual` is what a direction without a protocol header is taken for, if its first octets do
    not tell.
    """

    __slots__ = ("outlet", "usual")

    def __init__(self, number: int, *, beginning: bool, usual: str, outlet: Outlet) -> None:
        super().__init__(number, beginning=beginning)
        self.usual = usual
        self.outlet = outlet

    def announced(self, header: Header) -> Dialect:
        """The dialect from a protocol header on."""
        self.dialect = self._cut(super().announced(header))
        return self.dialect

    def data(self, direction: Direction, offset: int, time: int | None, data: bytes) -> list[Record]:
        """The next octets of a direction."""
        if self.dialect is None and not self.beginning:
            found = guess(data)
            self.dialect = self._cut(dialects()[self.usual] if found is guess(b"") else found)
        return super().data(direction, offset, time, data)

    def gap(self, direction: Direction, offset: int, time: int | None, length: int) -> list[Record]:
        """Octets of a direction that the capture has not got."""
        known = self.dialect
        if known is None or not known.package:
            self.dialect = self._cut(dialects()[self.usual])
        records = super().gap(direction, offset, time, length)
        self.dialect = known
        return records

    def _cut(self, dialect: Dialect) -> Dialect:
        made = _Cut(*dialect)
        made.outlet = self.outlet
        return made

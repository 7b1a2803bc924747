"""Following one capture or stream dump from any place that was marked before.

A `Walk` is all that is known of the connections of a file at some place in it: sequence numbers, held
segments, incomplete frames and messages. It can be pickled, so that a task goes on where the pass over the
file that marked the place was; the frames that it finds are those that one reader of the whole file would
find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from amqpforge.capture.dialects import MAGIC
from amqpforge.capture.errors import CaptureError
from amqpforge.capture.hextext import unhex
from amqpforge.capture.network import SegmentReader
from amqpforge.capture.packet import Packet
from amqpforge.capture.pcap import read_pcap
from amqpforge.capture.pcapng import read_pcapng
from amqpforge.capture.reader import Format
from amqpforge.capture.record import Header, Record
from amqpforge.capture.source import Remark, Source
from amqpforge.capture.tcp import Assembler, Data, Direction, Event, Gap, Half, TcpLimits

from .cutting import Connection, Outlet
from .joining import Joiner, Way
from .rows import UNKNOWN, Origin, Rows

__all__ = ["PACKET_READERS", "Walk"]

PACKET_READERS: Final[dict[Format, Callable[[Source, Remark], Iterator[Packet]]]] = {
    "pcap": read_pcap,
    "pcapng": read_pcapng,
}
"""The formats that consist of packets."""

_PIECE: Final = 64 * 1024  # octets of a stream dump at a time
_LIMITS: Final = TcpLimits(streams=16_384)
_AMQP_1_0: Final = "amqp_1_0"

_Flow = tuple[Way, Origin, Connection]
"""What is known of a direction of a connection."""


class Walk:
    """What is known of the connections of a file at some place in it.

    Attributes:
        packets: how many were read before.
        offset: of a stream dump: octets that were read before.
    """

    def __init__(self, dialect: str, direction: Direction, *, sections: bool) -> None:
        """At the beginning of a file.

        Args:
            dialect: what a connection is taken for that was captured from the middle.
            direction: of a stream dump.
            sections: whether messages are put together.
        """
        self.packets = 0
        self.offset = 0
        self._dialect = dialect
        self._direction: Direction = direction
        self._assembler = Assembler(_LIMITS)
        self._segments = SegmentReader()
        self._connections: dict[int, Connection] = {}
        self._joiner = Joiner() if sections else None
        self._outlet = Outlet()
        self._rows: Rows | None = None
        self._flows: dict[Half, _Flow] = {}
        self._way: Way = (0, direction)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": None, "_flows": {}}

    def rows(
        self, source: Source, form: Format, rows: Rows, *, since: int, until: int | None
    ) -> Iterator[Any]:
        """Go on with what `source` has, and yield record batches of what is found in a part of it.

        Args:
            source: the octets of the file from this place on, behind what a reader needs of its beginning.
            form: of the file.
            rows: makes the batches.
            since: packets, and pieces of a dump, that begin before this place are followed only; 0: none.
            until: those that begin there or later are of another part; None: all are of this one.
        """
        remarks: list[str] = []
        self._lead_to(rows if since == 0 else None)
        damage: CaptureError | None = None
        try:
            for place, octets in self._steps(source, form, remarks.append):
                if until is not None and place >= until:
                    break
                if self._rows is None:
                    if place >= since:
                        self._lead_to(rows)
                elif rows.is_full(octets):
                    yield from rows.batches()
        except CaptureError as error:
            damage = error
        if self._rows is None and (damage is not None or until is not None):
            return  # Whatever is wrong there is in another part.
        self._lead_to(rows)
        rows.packet = None  # What shows only now came with no packet.
        if until is None:
            for text in remarks:
                self.remark(text)
        if until is None or damage is not None:
            self._finish(form)
        if damage is not None:
            self.remark(str(damage))
        yield from rows.batches()

    def follow(self, source: Source, form: Format) -> None:
        """Go on with what `source` has, to its end or where the file is damaged; nobody wants rows of it."""
        self._lead_to(None)
        with suppress(CaptureError):
            for _ in self._steps(source, form, _ignore):
                pass

    def remark(self, text: str) -> None:
        """Something is odd about the file as a whole: a row without a stream."""
        if self._rows is not None:
            self._rows.error(text, UNKNOWN, None, None, self._dialect)

    # --- packets and pieces ---

    def _steps(self, source: Source, form: Format, remark: Remark) -> Iterator[tuple[int, int]]:
        """Take one packet or piece after the other; tells before where each begins, and its octets."""
        return self._packets(source, form, remark) if form in PACKET_READERS else self._dump(source, form)

    def _packets(self, source: Source, form: Format, remark: Remark) -> Iterator[tuple[int, int]]:
        read, feed, take = self._segments.read, self._assembler.feed, self._event
        for time, link_type, data, offset in PACKET_READERS[form](source, remark):
            yield offset, len(data)
            self.packets += 1
            segment = read(link_type, data)
            if segment is not None:
                events = feed(time, segment)
                if events:
                    if self._rows is not None:
                        self._rows.packet = self.packets
                    for event in events:
                        take(event)

    def _dump(self, source: Source, form: Format) -> Iterator[tuple[int, int]]:
        read = unhex(source.read) if form == "hex" else source.read
        connection = self._connections.get(0) or self._connection(0, beginning=False)
        way = self._way = (0, self._direction)
        self._outlet.origin = (0, None, None, None, None, self._direction)
        while piece := read(_PIECE):
            yield self.offset, len(piece)
            self._records(connection.data(way[1], self.offset, None, piece))
            self.offset += len(piece)

    def _finish(self, form: Format) -> None:
        """The file is over."""
        if form in PACKET_READERS:
            for event in self._assembler.finish():
                self._event(event)
            for reason, count in self._segments.skipped.items():
                self.remark(f"skipped: {count} {reason}")
        elif (connection := self._connections.get(0)) is not None:
            self._records(connection.end(self._direction, self.offset, None, False))
            if self._rows is not None:
                self._rows.end(None, self._outlet.origin, self.offset, closed=False)

    def _event(self, event: Event) -> None:
        half, offset, time = event.half, event.offset, event.time
        found = self._flows.get(half) or self._flow(half)
        outlet = self._outlet
        way, outlet.origin, connection = found
        outlet.time = None if time is None else time // 1000
        self._way = way
        if isinstance(event, Data):
            records = connection.data(half.direction, offset, time, event.data)
            if records:
                self._records(records)
            return
        joiner = self._joiner
        if isinstance(event, Gap):
            self._records(connection.gap(half.direction, offset, time, event.length))
            if joiner is not None:
                joiner.gap(way)
            return
        self._records(connection.end(half.direction, offset, time, event.closed))
        if self._rows is not None:
            self._rows.end(outlet.time, outlet.origin, offset, closed=event.closed)
        if joiner is not None:
            joiner.end(way)
        if all(half.ended for half in half.stream.halves):
            del self._connections[half.stream.number]
            for one in half.stream.halves:
                self._flows.pop(one, None)

    def _connection(self, number: int, *, beginning: bool) -> Connection:
        made = self._connections[number] = Connection(
            number, beginning=beginning, usual=self._dialect, outlet=self._outlet
        )
        return made

    def _flow(self, half: Half) -> _Flow:
        stream = half.stream
        client, server = stream.client, stream.server
        ends = (client, server) if half.direction == "c2s" else (server, client)
        (source, source_port), (destination, destination_port) = ends
        origin = (stream.number, source, source_port, destination, destination_port, half.direction)
        connection = self._connections.get(stream.number) or self._connection(
            stream.number, beginning=stream.handshake
        )
        found = self._flows[half] = ((stream.number, half.direction), origin, connection)
        return found

    # --- what is found ---

    def _lead_to(self, rows: Rows | None) -> None:
        """Lead what is found to `rows`, and the joiner."""
        self._rows = rows
        outlet, joiner = self._outlet, self._joiner
        extend = None if rows is None else rows.extend

        def take(octets: bytes, sizes: list[int], offset: int) -> None:
            messages = () if joiner is None else joiner.take(self._way, octets, sizes)
            if extend is not None:
                extend(octets, sizes, outlet.origin, outlet.time, offset, messages)

        outlet.take = None if extend is None and joiner is None else take

    def _records(self, records: list[Record]) -> None:
        """Headers and errors, and frames that were found by searching or are of other dialects."""
        rows, outlet = self._rows, self._outlet
        origin, time = outlet.origin, outlet.time
        for record in records:
            dialect = self._package(record)
            if record.octets and dialect == _AMQP_1_0:
                if outlet.take is not None:
                    outlet.take(record.octets, [len(record.octets)], record.offset)
            elif rows is None:
                continue
            elif record.octets:
                rows.frame(record.octets, origin, time, record.offset, dialect)
            elif isinstance(record.value, Header):
                rows.frame(MAGIC + bytes(record.value), origin, time, record.offset, dialect)
            else:
                rows.error(record.reason or "", origin, time, record.offset, dialect)

    def _package(self, record: Record) -> str:
        if record.dialect is not None:
            return record.dialect.__name__.rpartition(".")[2]
        known = self._connections[self._way[0]].dialect
        return (known.package if known is not None else "") or self._dialect


def _ignore(text: str) -> None:
    """Another part of the file tells what is odd about the whole."""

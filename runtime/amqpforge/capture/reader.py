"""Octets in, records out: finds out what an input is, and joins the layers that read it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Literal, get_args

from amqpforge.capture.conversation import Conversation
from amqpforge.capture.dialects import GUESS_LOOK, HEADER_SIZE, MAGIC, Dialect, guess
from amqpforge.capture.errors import CaptureError
from amqpforge.capture.hextext import is_hex_text, unhex
from amqpforge.capture.network import SegmentReader
from amqpforge.capture.packet import Packet
from amqpforge.capture.pcap import is_pcap, read_pcap
from amqpforge.capture.pcapng import is_pcapng, read_pcapng
from amqpforge.capture.record import Record
from amqpforge.capture.source import Read, Remark, Source, gunzip, is_gzip
from amqpforge.capture.tcp import DEFAULT_TCP_LIMITS, Assembler, Data, Direction, Event, Gap, TcpLimits

__all__ = ["FORMATS", "CaptureReader", "Format", "detect"]

Format = Literal["auto", "pcap", "pcapng", "raw", "hex"]
FORMATS: tuple[Format, ...] = get_args(Format)

_MAGIC_LOOK = 12  # octets that tell the binary formats apart
_TEXT_LOOK = 4096  # octets looked at to see whether an input is text
_PIECE = 64 * 1024  # octets of a stream dump at a time

OnEnd = Callable[[int, Direction, int | None, bool], None]
_PacketReader = Callable[[Source, Remark], Iterator[Packet]]
_PACKET_READERS: dict[Format, _PacketReader] = {"pcap": read_pcap, "pcapng": read_pcapng}


class CaptureReader:
    """The records of one input: a packet capture, or the octets of one direction of one stream.

    `direction` is that direction; captures know their own. `first_number` numbers the first stream, `streams`
    names those that are wanted (None: all), `remark` is told what is odd about the input as a whole. Without
    a `dialect`, protocol headers decide how a connection is decoded. `on_end` is called when a direction of a
    captured stream ends, behind its last record but for one that says that the end cuts a frame: with the
    number of the stream, the direction, the time, and whether its sender ended it (if not, the capture is
    over).
    """

    def __init__(
        self,
        read: Read,
        *,
        remark: Remark,
        form: Format = "auto",
        direction: Direction = "c2s",
        first_number: int = 0,
        streams: Collection[int] | None = None,
        dialect: Dialect | None = None,
        limits: TcpLimits = DEFAULT_TCP_LIMITS,
        on_end: OnEnd | None = None,
    ) -> None:
        self._source = Source(read)
        self._remark = remark
        self._form: Format = form
        self._direction: Direction = direction
        self._streams = streams
        self._dialect = dialect
        self._assembler = Assembler(limits, first_number=first_number)
        self._conversations: dict[int, Conversation] = {}
        self._dumped = False
        self._on_end = on_end

    @property
    def next_number(self) -> int:
        """The number of the first stream of a further input."""
        return self._assembler.next_number + self._dumped

    def records(self) -> Iterator[Record]:
        """Every record, as soon as the input has what completes it.

        Raises CaptureError if the input is no capture, or is damaged so that reading cannot go on; what was
        read before has been yielded then.
        """
        if is_gzip(self._source.peek(2)):
            self._source = Source(gunzip(self._source.read, self._remark))
        form = self._form
        if form == "auto":
            form = detect(self._source, is_forced=self._dialect is not None)
        packets = _PACKET_READERS.get(form)
        if packets is not None:
            yield from self._captured(packets(self._source, self._remark))
        else:
            read = unhex(self._source.read) if form == "hex" else self._source.read
            yield from self._dump(read)

    def _captured(self, packets: Iterator[Packet]) -> Iterator[Record]:
        segments = SegmentReader()
        damage: CaptureError | None = None
        try:
            for time, link_type, data, _ in packets:
                segment = segments.read(link_type, data)
                if segment is not None:
                    for event in self._assembler.feed(time, segment):
                        yield from self._event(event)
        except CaptureError as error:
            damage = error
        for event in self._assembler.finish():
            yield from self._event(event)
        for reason, count in segments.skipped.items():
            self._remark(f"skipped: {count} {reason}")
        if damage is not None:
            raise damage

    def _event(self, event: Event) -> list[Record]:
        half, offset, time = event.half, event.offset, event.time
        number = half.stream.number
        if self._streams is not None and number not in self._streams:
            return []
        conversation = self._conversations.get(number)
        if conversation is None:
            conversation = Conversation(number, beginning=half.stream.handshake, dialect=self._dialect)
            self._conversations[number] = conversation
        if isinstance(event, Data):
            return conversation.data(half.direction, offset, time, event.data)
        if isinstance(event, Gap):
            return conversation.gap(half.direction, offset, time, event.length)
        if self._on_end is not None:
            self._on_end(number, half.direction, time, event.closed)
        records = conversation.end(half.direction, offset, time, event.closed)
        if all(half.ended for half in half.stream.halves):
            del self._conversations[number]
        return records

    def _dump(self, read: Read) -> Iterator[Record]:
        number, direction = self.next_number, self._direction
        self._dumped = True
        if self._streams is not None and number not in self._streams:
            return
        conversation = Conversation(number, beginning=False, dialect=self._dialect)
        offset = 0
        damage: CaptureError | None = None
        try:
            while piece := read(_PIECE):
                yield from conversation.data(direction, offset, None, piece)
                offset += len(piece)
        except CaptureError as error:
            damage = error
        yield from conversation.end(direction, offset, None, False)
        if damage is not None:
            raise damage


def detect(source: Source, *, is_forced: bool) -> Format:
    """What an input is, from its first octets. Raises CaptureError if it is nothing that can be read.

    `is_forced`: the dialect is known, so that whatever is nothing else is a stream of it.

    No more is looked at than needed, so that a capture that is still being made is decoded as it comes.
    """
    head = source.peek(_MAGIC_LOOK)
    if not head:
        raise CaptureError("the input is empty")
    if is_pcapng(head):
        return "pcapng"
    if is_pcap(head):
        return "pcap"
    if head.startswith(MAGIC) or _may_be_frame(head):
        return "raw"
    if guess(source.peek(GUESS_LOOK)) is not guess(b""):
        return "raw"
    if is_hex_text(source.peek(_TEXT_LOOK)):
        return "hex"
    if is_forced:
        return "raw"
    raise CaptureError("not a capture: neither pcap, pcapng, hexadecimal text nor an AMQP stream")


def _may_be_frame(head: bytes) -> bool:
    """Whether a dump may begin so: with the header of an AMQP 1.0 frame (part 2, section 2.3.1) of less than
    2^26 octets.
    """
    if len(head) < HEADER_SIZE:
        return False
    size, data_offset, kind = int.from_bytes(head[:4], "big"), head[4], head[5]
    return size < 1 << 26 and 2 <= data_offset <= size // 4 and kind <= 1

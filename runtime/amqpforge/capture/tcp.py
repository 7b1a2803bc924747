"""TCP streams put back together from captured segments.

Sans-I/O: `Assembler.feed` takes a segment and returns what it made known, in order: octets, gaps, ends. Time
only passes through. What was sent is judged by sequence numbers (RFC 9293 section 3.4), unwrapped into
positions that never wrap.

A hole is waited for: later octets are held until it is filled. It becomes a `Gap` when the receiver has
plainly got the missing octets although the capture has not (it keeps acknowledging them), when more is held
than the limits allow, or when the stream ends. Where segments overlap, what was delivered first stands.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal, NamedTuple

from amqpforge.capture.network import ACK, FIN, RST, SYN, Endpoint, Segment, endpoints, reverse

__all__ = [
    "DEFAULT_TCP_LIMITS",
    "Assembler",
    "Data",
    "Direction",
    "End",
    "Event",
    "Gap",
    "Half",
    "Stream",
    "TcpLimits",
]

Direction = Literal["c2s", "s2c"]

_SEQUENCE_MASK = 0xFFFF_FFFF
_SEQUENCE_HALF = 0x8000_0000
_FARTHEST = 1 << 30  # the largest window there can be (RFC 7323 section 2.3)
_PATIENCE = 16  # acknowledgments past a hole before it is given up: captures reorder packets a little


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """What reassembly may hold: per direction, and how many connections it remembers."""

    held_octets: int = 8 * 1024 * 1024
    held_segments: int = 4096
    streams: int = 65536


DEFAULT_TCP_LIMITS = TcpLimits()


@dataclass(slots=True, eq=False)
class Stream:
    """One TCP connection. `number` counts from the order of appearance.

    `handshake` tells whether its beginning was captured; without it the capture started in the middle of the
    connection, and the lower port is taken for the server's.
    """

    number: int
    client: Endpoint
    server: Endpoint
    handshake: bool
    reset: bool = False
    """Whether a RST was seen."""
    halves: tuple[Half, Half] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        c2s, s2c = Half(self, "c2s"), Half(self, "s2c")
        c2s.peer, s2c.peer = s2c, c2s
        self.halves = (c2s, s2c)

    @property
    def finished(self) -> bool:
        """Whether the connection is over: a RST was seen, or both directions have ended."""
        return self.reset or (self.halves[0].ended and self.halves[1].ended)


@dataclass(slots=True, eq=False)
class Half:
    """One direction of a stream."""

    stream: Stream
    direction: Direction
    peer: Half = field(init=False, repr=False)
    position: int = 0
    """Octets delivered or given up so far: the offset of the next one."""
    expected: int | None = None
    """The sequence number of the next octet; None until one is known."""
    first: int | None = None
    """The sequence number of the first octet, if the handshake told it."""
    held: list[tuple[int, bytes]] = field(default_factory=list)
    """Octets past a hole, by position."""
    held_octets: int = 0
    doubts: int = 0
    fin: int | None = None
    """The position where the direction ends, once its FIN was seen."""
    acknowledged: int | None = None
    """The newest acknowledgment of this direction by its peer."""
    ended: bool = False

    def distance(self, sequence: int) -> int:
        """How far `sequence` lies ahead of the next octet (negative: behind)."""
        expected = sequence if self.expected is None else self.expected
        return ((sequence - expected + _SEQUENCE_HALF) & _SEQUENCE_MASK) - _SEQUENCE_HALF


class Data(NamedTuple):
    """The next octets of a direction; `offset` is the position of the first."""

    half: Half
    offset: int
    time: int | None
    data: bytes


class Gap(NamedTuple):
    """`length` octets of a direction that the capture has not got."""

    half: Half
    offset: int
    time: int | None
    length: int


class End(NamedTuple):
    """No more octets of this direction: its FIN or a RST was seen, or the capture is over (`closed`
    false).
    """

    half: Half
    offset: int
    time: int | None
    closed: bool


Event = Data | Gap | End


class Assembler:
    """Feeds on the segments of a capture, in captured order, and tells streams and directions apart."""

    __slots__ = ("_first_number", "_halves", "_limits", "_opened", "_streams", "_time")

    def __init__(self, limits: TcpLimits = DEFAULT_TCP_LIMITS, *, first_number: int = 0) -> None:
        self._limits = limits
        self._first_number = first_number
        self._opened = 0
        self._time: int | None = None
        self._halves: dict[bytes, Half] = {}
        self._streams: dict[Stream, bytes] = {}  # in order of appearance, with the client's key

    @property
    def next_number(self) -> int:
        """The number that the next new stream would get."""
        return self._first_number + self._opened

    def feed(self, time: int | None, segment: Segment) -> list[Event]:
        """What this segment makes known; often one `Data`, often nothing."""
        events: list[Event] = []
        key, sequence, acknowledgment, flags, length, payload = segment
        self._time = time
        half = self._halves.get(key)
        if half is None or flags & SYN or half.ended:
            half = self._open(half, time, segment, events)
        if flags & SYN:
            sequence = (sequence + 1) & _SEQUENCE_MASK  # the SYN itself takes a number
        if flags & ACK:
            peer = half.peer
            peer.acknowledged = acknowledgment
            if peer.held:
                self._doubt(peer, time, events)
        if length and not half.ended and not flags & RST:  # what a RST carries is a remark, not data
            if sequence == half.expected and not half.held:
                _deliver(half, time, payload, events)
            else:
                self._take(half, time, sequence, payload, events)
        if flags & (FIN | RST) and not half.ended:
            self._close(half, time, (sequence + length) & _SEQUENCE_MASK, flags, events)
        elif half.fin is not None and half.fin <= half.position:
            _end(half, time, True, events)
        return events

    def finish(self) -> list[Event]:
        """The capture is over: what is still held is delivered, holes become gaps, open directions end."""
        events: list[Event] = []
        for stream in self._streams:
            _finish(stream, self._time, False, events)
        self._halves.clear()
        self._streams.clear()
        return events

    def _open(self, half: Half | None, time: int | None, segment: Segment, events: list[Event]) -> Half:
        """The half that a segment belongs to which opens a stream, or may: a SYN, an unknown key, an ended
        half.
        """
        flags = segment.flags
        first = (segment.sequence + 1) & _SEQUENCE_MASK
        if half is not None and not _is_another(half, segment):
            if flags & SYN and half.first is None:
                _synchronise(half, first)
            return half
        if half is not None:
            self._forget(half.stream, time, events)
        elif len(self._streams) >= self._limits.streams:
            oldest = next((stream for stream in self._streams if stream.finished), next(iter(self._streams)))
            self._forget(oldest, time, events)
        half = self._new_stream(segment.key, flags)
        if flags & SYN:
            _synchronise(half, first)
            if flags & ACK:
                _synchronise(half.peer, segment.acknowledgment)
        return half

    def _new_stream(self, key: bytes, flags: int) -> Half:
        source, destination = endpoints(key)
        from_client = source.port >= destination.port if not flags & SYN else not flags & ACK
        client, server = (source, destination) if from_client else (destination, source)
        stream = Stream(self.next_number, client, server, bool(flags & SYN))
        self._opened += 1
        c2s, s2c = stream.halves
        sender = c2s if from_client else s2c
        self._halves[key] = sender
        self._halves[reverse(key)] = sender.peer
        self._streams[stream] = key
        return sender

    def _forget(self, stream: Stream, time: int | None, events: list[Event]) -> None:
        _finish(stream, time, False, events)
        key = self._streams.pop(stream)
        self._halves.pop(key, None)
        self._halves.pop(reverse(key), None)

    def _take(self, half: Half, time: int | None, sequence: int, payload: bytes, events: list[Event]) -> None:
        """A segment that is not simply the next one: repeated, overlapping, early, or the first of a
        direction.
        """
        if half.expected is None:
            half.expected = sequence
        ahead = half.distance(sequence)
        if ahead > _FARTHEST:
            return  # no window reaches there: damage, or a stray from an older connection
        if ahead > 0:
            if payload:
                insort(half.held, (half.position + ahead, payload), key=itemgetter(0))
                half.held_octets += len(payload)
        elif len(payload) + ahead > 0:
            _deliver(half, time, payload[-ahead:] if ahead else payload, events)
        _release(half, time, events)
        while half.held_octets > self._limits.held_octets or len(half.held) > self._limits.held_segments:
            _skip_to(half, time, half.held[0][0], events)
            _release(half, time, events)

    def _doubt(self, half: Half, time: int | None, events: list[Event]) -> None:
        """Count an acknowledgment that lies past the hole of `half`; give the hole up when there were
        enough.
        """
        if half.acknowledged is None or half.position + half.distance(half.acknowledged) < half.held[0][0]:
            return
        half.doubts += 1
        if half.doubts >= _PATIENCE:
            _skip_to(half, time, half.held[0][0], events)
            _release(half, time, events)

    def _close(self, half: Half, time: int | None, end: int, flags: int, events: list[Event]) -> None:
        if flags & RST:  # its sender sends no more; what its peer had under way may still be captured
            half.stream.reset = True
            _finish_half(half, time, True, events)
            return
        if half.expected is None:
            half.expected = end
        half.fin = half.position + half.distance(end)
        if half.fin <= half.position:
            _end(half, time, True, events)


def _is_another(half: Half, segment: Segment) -> bool:
    """Whether a segment under the key of `half` belongs to a later connection between the same ports."""
    if segment.flags & SYN:
        first = (segment.sequence + 1) & _SEQUENCE_MASK
        if half.first is not None:
            return half.first != first
        return half.expected is not None and half.expected != first
    # Both ends were seen, and yet octets come from somewhere else entirely: its SYN was not captured.
    return (
        bool(segment.payload)
        and half.stream.finished
        and abs(half.distance(segment.sequence)) > _FARTHEST >> 10
    )


def _synchronise(half: Half, first: int) -> None:
    half.first = first
    if half.expected is None:
        half.expected = first


def _deliver(half: Half, time: int | None, data: bytes, events: list[Event]) -> None:
    if data:
        events.append(Data(half, half.position, time, data))
        _advance(half, len(data))


def _advance(half: Half, count: int) -> None:
    half.position += count
    if half.expected is not None:
        half.expected = (half.expected + count) & _SEQUENCE_MASK
    half.doubts = 0


def _release(half: Half, time: int | None, events: list[Event]) -> None:
    """Deliver what is held and no longer waits for anything."""
    released = 0
    for position, data in half.held:
        if position > half.position:
            break
        released += 1
        half.held_octets -= len(data)
        _deliver(half, time, data[half.position - position :], events)
    del half.held[:released]


def _skip_to(half: Half, time: int | None, position: int, events: list[Event]) -> None:
    events.append(Gap(half, half.position, time, position - half.position))
    _advance(half, position - half.position)


def _end(half: Half, time: int | None, closed: bool, events: list[Event]) -> None:
    if not half.ended:
        half.ended = True
        events.append(End(half, half.position, time, closed))


def _finish(stream: Stream, time: int | None, closed: bool, events: list[Event]) -> None:
    for half in stream.halves:
        _finish_half(half, time, closed or stream.reset, events)


def _finish_half(half: Half, time: int | None, closed: bool, events: list[Event]) -> None:
    if half.ended:
        return
    while half.held:
        _skip_to(half, time, half.held[0][0], events)
        _release(half, time, events)
    last = half.fin
    if last is None and half.acknowledged is not None and half.expected is not None:
        # One octet too many may be acknowledged for a FIN that the capture has not got.
        beyond = half.distance(half.acknowledged)
        last = half.position + beyond if 1 < beyond <= _FARTHEST else None
    if last is not None and last > half.position:
        _skip_to(half, time, last, events)
    _end(half, time, closed, events)

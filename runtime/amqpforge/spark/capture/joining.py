"""The message that the transfers of a delivery carry (AMQP 1.0 part 2, section 2.6.14)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from amqpforge_protocol.amqp_1_0 import Close, DecodeError, Detach, End, Transfer, decode_frame

__all__ = ["MAX_JOINED", "MAX_MESSAGE", "MAX_OPEN", "Joiner", "Way"]

MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Octets of a message that are put together; of a longer one there are the transfers only."""

MAX_JOINED: Final = 128 * 1024 * 1024
"""Octets held of all messages that are not complete; the oldest are given up beyond it."""

MAX_OPEN: Final = 65_536
"""Deliveries of several transfers that are followed at a time; the oldest is forgotten beyond it."""

_SMALL_ULONG: Final = b"\x00\x53"
_SMALL_TRANSFER: Final = b"\x00\x53\x14\xc0"
_FIELDS: Final = 6
"""Octets from where a transfer begins to its first field, the handle."""

_WIDTHS: Final = {0x43: 1, 0x52: 2, 0x70: 5}
"""Octets of a uint, by the constructor that it begins with (section 1.6.7)."""

_NUMBERS: Final = frozenset(bytes([constructor]) for constructor in _WIDTHS)
_MATTERS: Final = (b"\x00\x53\x14", b"\x00\x53\x16", b"\x00\x53\x17", b"\x00\x53\x18")
"""Where transfers begin, and what ends a link, a session and a connection: detach, end, close."""

Way = tuple[int, str]
"""A direction of a stream: its number, and "c2s" or "s2c"."""

_Place = tuple[Way, int, int]


class Joiner:
    """Takes the frames of all directions of a capture, and holds what is not complete."""

    __slots__ = ("_held", "_lost", "_octets", "_open")

    def __init__(self) -> None:
        # By direction, channel and handle, the oldest first: what there is of deliveries, and those whose
        # message cannot be had any more.
        self._held: OrderedDict[_Place, list[bytes]] = OrderedDict()
        self._lost: OrderedDict[_Place, None] = OrderedDict()
        self._open: dict[Way, dict[int, set[int]]] = {}  # The handles of both, by channel.
        self._octets = 0

    def take(self, way: Way, octets: bytes, sizes: Iterable[int]) -> list[bytes | None]:
        """The message that each of these frames completes, or None.

        They are whole frames, one behind the other in ``octets``, and have these sizes. One that cannot be
        decoded is passed over. An aborted delivery, one whose link, session or connection ends, one that
        lacks transfers, and one that is larger than is held, gives no message.
        """
        found: list[bytes | None] = []
        behind = 0
        is_open = way in self._open
        for size in sizes:
            frame, behind = behind, behind + size
            body = frame + octets[frame + 4] * 4
            start = octets[body : body + 4]
            if start == _SMALL_TRANSFER and not is_open and behind > body + _FIELDS:
                # Nearly always: a delivery of one transfer. With a delivery-id behind the handle it begins
                # here; without a true in its fields there is no more to come, and it is not aborted.
                end = min(body + 5 + octets[body + 4], behind)
                fields = octets[body + _FIELDS : end]
                handle = _WIDTHS.get(octets[body + _FIELDS], 0)
                begins = fields[handle : handle + 1] in _NUMBERS
                if begins and b"\x41" not in fields and b"\x56" not in fields:
                    found.append(octets[end:behind] or None)
                    continue
            if start.startswith(_SMALL_ULONG) and not start.startswith(_MATTERS):
                found.append(None)
            else:
                found.append(self._decoded(way, octets[frame:behind]))
                is_open = way in self._open
        return found

    def gap(self, way: Way) -> None:
        """Octets of a direction are missing, perhaps of what is held."""
        if way in self._open:
            for place in [place for place in self._held if place[0] == way]:
                self._lose(place)

    def end(self, way: Way) -> None:
        """A direction is over."""
        for channel in list(self._open.get(way, ())):
            self._end_channel(way, channel)

    def _decoded(self, way: Way, frame: bytes) -> bytes | None:
        try:
            found, _ = decode_frame(frame)
        except DecodeError:
            return None
        performative, channel = found.performative, found.channel
        if isinstance(performative, Transfer):
            return self._transfer((way, channel or 0, performative.handle), performative, found.payload)
        if isinstance(performative, Detach):
            self._forget((way, channel or 0, performative.handle))
        elif isinstance(performative, End):
            self._end_channel(way, channel or 0)
        elif isinstance(performative, Close):
            self.end(way)
        return None

    def _transfer(self, place: _Place, transfer: Transfer, payload: bytes) -> bytes | None:
        is_first = place not in self._held and place not in self._lost
        if transfer.aborted or (is_first and not transfer.more):
            self._forget(place)
            # Without a delivery-id it goes on with a delivery whose beginning is not there.
            return None if transfer.aborted or transfer.delivery_id is None else payload or None
        if is_first:
            self._begin(place, is_whole=transfer.delivery_id is not None)
        pieces = self._held.get(place)
        if pieces is not None:
            pieces.append(payload)
            self._octets += len(payload)
        if not transfer.more:
            whole = b"".join(pieces or ())
            self._forget(place)
            return whole if 0 < len(whole) <= MAX_MESSAGE else None
        while self._octets > MAX_JOINED:
            self._lose(next(iter(self._held)))
        return None

    def _begin(self, place: _Place, *, is_whole: bool) -> None:
        """A delivery has begun; ``is_whole``: with its first transfer."""
        if len(self._held) + len(self._lost) >= MAX_OPEN:
            self._forget(next(iter(self._lost or self._held)))
        if is_whole:
            self._held[place] = []
        else:
            self._lost[place] = None
        way, channel, handle = place
        self._open.setdefault(way, {}).setdefault(channel, set()).add(handle)

    def _lose(self, place: _Place) -> None:
        """Give a message up, and remember that the rest of it is to come."""
        self._octets -= sum(map(len, self._held.pop(place)))
        self._lost[place] = None

    def _end_channel(self, way: Way, channel: int) -> None:
        for handle in list(self._open.get(way, {}).get(channel, ())):
            self._forget((way, channel, handle))

    def _forget(self, place: _Place) -> None:
        """Nothing more comes of what is held of a link, if there is any."""
        if place in self._lost:
            del self._lost[place]
        elif place in self._held:
            self._octets -= sum(map(len, self._held.pop(place)))
        else:
            return
        way, channel, handle = place
        channels = self._open[way]
        channels[channel].remove(handle)
        if not channels[channel]:
            del channels[channel]
        if not channels:
            del self._open[way]

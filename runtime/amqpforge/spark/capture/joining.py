"""The message that the transfers of a delivery carry (AMQP 1.0 part 2, section 2.6.14)."""

from __future__ import annotations

from typing import Final

from amqpforge_protocol.amqp_1_0 import Close, DecodeError, Detach, End, Transfer, decode_frame

__all__ = ["MAX_JOINED", "MAX_MESSAGE", "Joiner", "Way"]

MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Octets of a message that are put together; of a longer one there are the transfers only."""

MAX_JOINED: Final = 128 * 1024 * 1024
"""Octets held of all messages that are not complete; the oldest are given up beyond it."""

_TRANSFER: Final = b"\x00\x53\x14"
_ENDINGS: Final = frozenset((b"\x00\x53\x16", b"\x00\x53\x17", b"\x00\x53\x18"))  # detach, end, close
_SMALL_ULONG: Final = b"\x00\x53"
_LIST8: Final = b"\xc0"

Way = tuple[int, str]
"""A direction of a stream: its number, and "c2s" or "s2c"."""

_Place = tuple[Way, int, int]


class Joiner:
    """Takes the frames of all directions of a capture, and holds what is not complete."""

    __slots__ = ("_held", "_octets", "_open")

    def __init__(self) -> None:
        # By direction, channel and handle, the oldest first; None: the message cannot be had any more.
        self._held: dict[_Place, list[bytes] | None] = {}
        self._open: dict[Way, int] = {}  # deliveries begun in a direction
        self._octets = 0

    def take(self, way: Way, frame: bytes) -> bytes | None:
        """The message that this frame completes, or None.

        ``frame`` is a whole frame. One that cannot be decoded is passed over. An aborted delivery, one whose
        link, session or connection ends, one that lacks transfers, and one that is larger than is held, gives
        no message.
        """
        body = frame[4] * 4
        start = frame[body : body + 3]
        if start == _TRANSFER and way not in self._open and frame[body + 3 : body + 4] == _LIST8:
            # Nearly always: a delivery of one transfer. Without a true in its fields there is no more to
            # come, and it is not aborted.
            end = body + 5 + frame[body + 4]
            fields = frame[body + 6 : end]
            if b"\x41" not in fields and b"\x56" not in fields:
                return frame[end:] or None
        if start[:2] == _SMALL_ULONG and start != _TRANSFER and not (way in self._open and start in _ENDINGS):
            return None
        return self._decoded(way, frame)

    def gap(self, way: Way) -> None:
        """Octets of a direction are missing, perhaps of what is held."""
        for place in [place for place in self._held if place[0] == way]:
            self._lose(place)

    def end(self, way: Way) -> None:
        """A direction is over."""
        self._drop(way, None, None)

    def _decoded(self, way: Way, frame: bytes) -> bytes | None:
        try:
            found, _ = decode_frame(frame)
        except DecodeError:
            return None
        performative, channel = found.performative, found.channel
        if isinstance(performative, Transfer):
            return self._transfer((way, channel or 0, performative.handle), performative, found.payload)
        if isinstance(performative, Detach):
            self._drop(way, channel, performative.handle)
        elif isinstance(performative, End):
            self._drop(way, channel, None)
        elif isinstance(performative, Close):
            self._drop(way, None, None)
        return None

    def _transfer(self, place: _Place, transfer: Transfer, payload: bytes) -> bytes | None:
        is_first = place not in self._held
        if transfer.aborted or (is_first and not transfer.more):
            self._pop(place)
            # Without a delivery-id it goes on with a delivery whose beginning is not there.
            return None if transfer.aborted or transfer.delivery_id is None else payload or None
        if is_first:
            self._held[place] = None if transfer.delivery_id is None else []
            self._open[place[0]] = self._open.get(place[0], 0) + 1
        pieces = self._held[place]
        if pieces is not None:
            pieces.append(payload)
            self._octets += len(payload)
        if not transfer.more:
            whole = b"".join(self._pop(place) or ())
            return whole if 0 < len(whole) <= MAX_MESSAGE else None
        while self._octets > MAX_JOINED:
            self._lose(next(place for place, held in self._held.items() if held))
        return None

    def _drop(self, way: Way, channel: int | None, handle: int | None) -> None:
        """Drop what is held of a direction, of one channel of it, or of one link."""
        if way in self._open:
            for place in list(self._held):
                if place[0] == way and channel in (None, place[1]) and handle in (None, place[2]):
                    self._pop(place)

    def _lose(self, place: _Place) -> None:
        """Give a message up, and remember that the rest of it is to come."""
        self._octets -= sum(map(len, self._held[place] or ()))
        self._held[place] = None

    def _pop(self, place: _Place) -> list[bytes] | None:
        if place not in self._held:
            return None
        pieces = self._held.pop(place)
        self._octets -= sum(map(len, pieces or ()))
        self._open[place[0]] -= 1
        if not self._open[place[0]]:
            del self._open[place[0]]
        return pieces

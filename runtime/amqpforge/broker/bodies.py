"""The payloads that are in memory: how many octets they are, which are left to the disk, which come back."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from amqpforge.broker.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from amqpforge.broker.message import Message
    from amqpforge.broker.store.base import Store

__all__ = ["Bodies"]

READ_COUNT = 64
"""How many payloads are read from the store at a time, at most: one query instead of that many."""

READ_OCTETS = 1024 * 1024
"""How many octets these are, at most, but for the one that is asked for."""

LOOKED_AT = 256
"""How many of the following messages are looked at for it: those in memory already do not end the search."""


def _ignore(_pressed: bool) -> None:
    """Nobody wants to know."""


class Bodies:
    """Keeps account of payloads, and keeps them within bounds.

    Up to ``limit`` octets stay in memory. Beyond it the payload of a message that the store has is dropped as
    soon as it is written, so that the oldest messages, which are wanted first, stay. What is read back for
    messages that are wanted soon takes at most a quarter of ``limit`` more.

    What cannot be dropped, since it is not on disk or not yet, still counts: at ``high`` octets there is
    pressure, until ``low`` is reached again. What came of messages that are not whole counts as well.

    Args:
        store: reads payloads back.
        limit: octets, from 0.
        high: octets, above ``low``; None: twice the limit, and at least 1.
        low: octets, at least five quarters of the limit, which a backlog on disk may take up for good; None:
            one and a half times the limit.
        on_change: called with whether there is pressure now, each time that this changes.

    Raises:
        ValueError: the numbers contradict each other.
    """

    def __init__(
        self,
        store: Store,
        *,
        limit: int,
        high: int | None = None,
        low: int | None = None,
        on_change: Callable[[bool], None] = _ignore,
    ) -> None:
        high = max(1, 2 * limit) if high is None else high
        low = min(limit + limit // 2, high - 1) if low is None else low
        if not 0 <= limit + limit // 4 <= low < high:
            raise ValueError(
                f"limit {limit}, low {low} and high {high} octets do not go together:"
                " low must be at least five quarters of limit, and high above low"
            )
        self._store = store
        self._limit = limit
        self._high = high
        self._low = low
        self._on_change = on_change
        self._used = 0
        self._is_pressed = False
        self._read: OrderedDict[int, Message] = OrderedDict()
        self._read_octets = 0

    @property
    def used(self) -> int:
        """How many octets of payloads are in memory, of messages that are not whole included."""
        return self._used

    def has_room(self, octets: int) -> bool:
        """Whether so many octets more can come from clients who do not wait, although there is pressure."""
        return self._used + octets <= 2 * self._high

    def come(self, octets: int) -> bool:
        """Count octets that came of messages which are not whole yet; below 0: so many less. Returns whether
        there is room for them: if not, nothing is counted.
        """
        if octets > 0 and not self.has_room(octets):
            return False
        self._count(octets)
        return True

    @property
    def is_pressed(self) -> bool:
        """Whether publishers are to wait."""
        return self._is_pressed

    def hold(self, message: Message) -> None:
        """A message is in the broker, whether its payload is at hand or not."""
        if message.payload is not None:
            self._count(message.size)

    def stored(self, message: Message) -> None:
        """The store has written a message; nothing if it has been released since."""
        if self._used > self._limit and message.is_stored and self._store.is_durable:
            self.release(message)

    def release(self, message: Message) -> None:
        """No queue holds a message any more: its payload is gone, unless somebody has the octets."""
        if message.payload is not None:
            if self._read.pop(message.id, None) is not None:
                self._read_octets -= message.size
            message.payload = None
            self._count(-message.size)

    def payload(self, message: Message, following: Iterable[Message] = ()) -> bytes:
        """The payload of a message that a queue holds.

        If it has to be read, so are those of the next few messages, if there is room for them.

        Args:
            message: it.
            following: what is likely to be wanted next, soonest first; not used up further than needed.

        Raises:
            StoreError: it cannot be read.
        """
        if message.payload is not None:
            return message.payload
        if not message.is_stored:
            raise StoreError(f"message {message.id} is neither in memory nor stored: it was released")
        wanted = self._choose(message, following)
        found = self._store.read([one.id for one in wanted])
        for one in wanted:
            self._keep(one, found[one.id])
        return found[message.id]

    def _choose(self, message: Message, following: Iterable[Message]) -> list[Message]:
        """The message, and what may be read with it: all of it fits into what is kept."""
        wanted = {message.id: message}
        room = min(READ_OCTETS, self._limit // 4) - message.size
        for looked_at, one in enumerate(following, 1):
            if one.payload is None and one.is_stored and one.id not in wanted:
                room -= one.size
                if room < 0:
                    break
                wanted[one.id] = one
            if len(wanted) >= READ_COUNT or looked_at >= LOOKED_AT:
                break
        return list(wanted.values())

    def _keep(self, message: Message, payload: bytes) -> None:
        """Keep a payload that was read, in place of those that were read longest ago."""
        room = self._limit // 4
        if message.size > room:
            return
        change = message.size
        while self._read_octets + message.size > room:
            _, oldest = self._read.popitem(last=False)
            self._read_octets -= oldest.size
            change -= oldest.size
            oldest.payload = None
        message.payload = payload
        self._read[message.id] = message
        self._read_octets += message.size
        self._count(change)

    def _count(self, octets: int) -> None:
        self._used += octets
        pressed = self._used > self._low if self._is_pressed else self._used >= self._high
        if pressed != self._is_pressed:
            self._is_pressed = pressed
            self._on_change(pressed)

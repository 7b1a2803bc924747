"""The entries of a queue: those that can be had, and those that somebody has."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from .held import Held
from .priority import level
from .shelf import Shelf

if TYPE_CHECKING:
    from amqpforge.broker.message import Message

    from .entry import Entry

__all__ = ["RANK_BITS", "Stock"]

RANK_BITS: Final = 48
"""Where the rank begins in a key: ids of messages stay below, were there a million a second for years."""


@cache
def _bases(levels: int) -> tuple[int, ...]:
    """The rank of each priority, in its place of a key; the same for all queues with so many levels."""
    return tuple((levels - 1 - level(priority, levels)) << RANK_BITS for priority in range(256))


class Stock:
    """Entries in the order in which they are to be delivered, by keys.

    A key is the rank of the message's priority, 0 for the highest level, and the message's id: the least key
    is next. With one level of priority the key is the id itself.

    Attributes:
        ready: the entries that are AVAILABLE.
        held: those that are ACQUIRED. One that comes back is where it was.
    """

    __slots__ = ("_bases", "held", "ready")

    def __init__(self, levels: int) -> None:
        self.ready = Shelf()
        self.held = Held()
        self._bases = _bases(levels)

    def __len__(self) -> int:
        return len(self.ready) + len(self.held)

    def __contains__(self, key: int) -> bool:
        return key in self.ready or key in self.held

    def key(self, message: Message) -> int:
        """The key that a message has here."""
        base = self._bases[message.priority]
        # Not one more number in memory where the id will do.
        return base | message.id if base else message.id

    def acquire(self, entry: Entry) -> None:
        """An entry that was ready is held."""
        key = self.key(entry.message)
        self.ready.remove(key)
        self.held.add(key, entry)

    def give_back(self, entry: Entry) -> None:
        """An entry that was held is ready."""
        key = self.key(entry.message)
        self.held.remove(key)
        self.ready.add(key, entry)

    def after(self, key: int) -> tuple[int, Entry] | None:
        """The first entry above a key, ready or held, and its key."""
        ready, held = self.ready.after(key), self.held.after(key)
        if ready is None or held is None:
            return ready or held
        return ready if ready[0] < held[0] else held

    def following(self, entry: Entry) -> Iterator[Entry]:
        """The entries that are ready behind one; the queue may be changed meanwhile."""
        found = self.ready.after(self.key(entry.message))
        while found is not None:
            key, entry = found
            yield entry
            found = self.ready.after(key)

    def oldest(self) -> Entry | None:
        """The entry that has been ready for the longest, whatever its priority."""
        oldest = self.ready.first()
        found = None if oldest is None else self.ready.after(0)
        while found is not None and oldest is not None:
            key, entry = found
            if entry.message.id < oldest.message.id:
                oldest = entry
            found = self.ready.after(key | ((1 << RANK_BITS) - 1))  # the first one of the next rank
        return oldest

    def restore(self, entries: list[Entry]) -> None:
        """Put up many entries at once, in any order; there is none yet."""
        keys = [self.key(entry.message) for entry in entries]
        if any(one >= other for one, other in pairwise(keys)):
            order = sorted(range(len(keys)), key=keys.__getitem__)
            keys = [keys[place] for place in order]
            entries = [entries[place] for place in order]
        self.ready.extend(keys, entries)

    def __iter__(self) -> Iterator[Entry]:
        """All entries in order, ready or held; the queue may be changed meanwhile."""
        key = 0
        while (found := self.after(key)) is not None:
            key, entry = found
            yield entry

"""Entries that consumers hold, by key: in a dictionary, and in order as long as somebody looks at that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from .shelf import Shelf

if TYPE_CHECKING:
    from .entry import Entry

__all__ = ["Held"]

_PATIENCE: Final = 1000
"""Changes without a look at the order, beyond as many as there are entries, until the order is given up."""


class Held:
    """Entries by keys: numbers above 0, each there once.

    Every message that is delivered is added here and removed again, and the order is asked for by browsers
    alone. It is made when the first of them asks, and kept until so many changes have come between two looks
    that making it anew is no more work than keeping it.
    """

    __slots__ = ("_changes", "_entries", "_order")

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._order: Shelf | None = None
        self._changes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: int) -> bool:
        return key in self._entries

    def add(self, key: int, entry: Entry) -> None:
        """Take an entry; there is none with its key."""
        self._entries[key] = entry
        if self._order is not None and self._keeps_order():
            self._order.add(key, entry)

    def remove(self, key: int) -> None:
        """Give away the entry with a key.

        Raises:
            KeyError: there is none.
        """
        del self._entries[key]
        if self._order is not None and self._keeps_order():
            self._order.remove(key)

    def after(self, key: int) -> tuple[int, Entry] | None:
        """The first entry with a key above this one, and its key."""
        self._changes = 0
        order = self._order
        if order is None:
            if not self._entries:
                return None
            keys = sorted(self._entries)
            order = self._order = Shelf()
            order.extend(keys, [self._entries[one] for one in keys])
        return order.after(key)

    def clear(self) -> Iterator[Entry]:
        """Give away everything at once; returns it, in order."""
        entries, self._entries, self._order = self._entries, {}, None
        return (entries[key] for key in sorted(entries))

    def _keeps_order(self) -> bool:
        self._changes += 1
        if self._changes > len(self._entries) + _PATIENCE:
            self._order = None
        return self._order is not None

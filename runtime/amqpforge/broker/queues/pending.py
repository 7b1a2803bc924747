"""Messages that have their place in a queue, and are not to be seen before they are safe."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .entry import Entry

__all__ = ["Pending"]


class Pending:
    """Entries in the order in which they were reserved; in this order they are safe.

    Attributes:
        count: how many are, or may be, safe.
        bytes: octets of their messages.
    """

    __slots__ = ("_decided", "_entries", "bytes", "count")

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._entries: deque[Entry] = deque()
        self._decided: dict[Entry, bool] = {}

    def add(self, entry: Entry) -> None:
        """An entry is reserved."""
        self._entries.append(entry)
        self._count(entry, 1)

    def decide(self, entry: Entry, is_safe: bool) -> Iterator[Entry]:
        """An entry is safe, or is not to be; yields those that are safe, as are all before them."""
        self._decided[entry] = is_safe
        if not is_safe:
            self._count(entry, -1)
        while self._entries and (decision := self._decided.pop(self._entries[0], None)) is not None:
            first = self._entries.popleft()
            if decision:
                self._count(first, -1)
                yield first

    def clear(self) -> list[Entry]:
        """Forget everything; returns the entries that are, or may be, safe."""
        entries = [entry for entry in self._entries if self._decided.get(entry, True)]
        self._entries.clear()
        self._decided.clear()
        self.count = self.bytes = 0
        return entries

    def _count(self, entry: Entry, by: int) -> None:
        self.count += by
        self.bytes += by * entry.message.size

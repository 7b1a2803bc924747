"""Entries in the order of their keys, millions of them: the first, the next and any one are found at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .entry import Entry

__all__ = ["Shelf"]

_BOARD: Final = 512
"""Entries of a board as they are put up at once; one with twice as many is cut in two.

What is inserted or taken out moves the rest of one board in memory, which is as little as a call costs.
"""


class Shelf:
    """Entries by keys: numbers above 0, each there once.

    The entries stand on boards, each with a part of the sorted keys. The steps that an operation takes do not
    depend on how many entries there are, but for the halvings of a binary search in C.
    """

    __slots__ = ("_boards", "_count", "_keys", "_lasts")

    def __init__(self) -> None:
        self._lasts: list[int] = []  # the last key of each board
        self._keys: list[list[int]] = []
        self._boards: list[list[Entry]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: int) -> bool:
        return self.get(key) is not None

    def first(self) -> Entry | None:
        """The entry with the least key."""
        return self._boards[0][0] if self._count else None

    def get(self, key: int) -> Entry | None:
        """The entry with a key."""
        board = bisect_left(self._lasts, key)
        if board == len(self._lasts):
            return None
        keys = self._keys[board]
        place = bisect_left(keys, key)
        return self._boards[board][place] if keys[place] == key else None

    def after(self, key: int) -> tuple[int, Entry] | None:
        """The first entry with a key above this one, and its key."""
        board = bisect_right(self._lasts, key)
        if board == len(self._lasts):
            return None
        keys = self._keys[board]
        place = bisect_right(keys, key)
        return keys[place], self._boards[board][place]

    def add(self, key: int, entry: Entry) -> None:
        """Put an entry in its place; there is none with its key."""
        self._count += 1
        lasts = self._lasts
        if not lasts:
            self._insert_board(0, [key], [entry])
            return
        if key > lasts[-1]:  # as nearly all that come
            board = len(lasts) - 1
            lasts[board] = key
            keys, entries = self._keys[board], self._boards[board]
            keys.append(key)
            entries.append(entry)
        else:
            board = bisect_left(lasts, key)
            keys, entries = self._keys[board], self._boards[board]
            place = bisect_left(keys, key)
            keys.insert(place, key)
            entries.insert(place, entry)
        if len(keys) >= 2 * _BOARD:
            self._insert_board(board + 1, keys[_BOARD:], entries[_BOARD:])
            del keys[_BOARD:], entries[_BOARD:]
            self._lasts[board] = keys[-1]

    def extend(self, keys: Sequence[int], entries: Sequence[Entry]) -> None:
        """Put up many entries, in the order of their keys, which are above all that are here."""
        for start in range(0, len(keys), _BOARD):
            end = start + _BOARD
            self._insert_board(len(self._lasts), list(keys[start:end]), list(entries[start:end]))
        self._count += len(keys)

    def remove(self, key: int) -> None:
        """Take out the entry with a key.

        Raises:
            KeyError: there is none.
        """
        if self._count and self._keys[0][0] == key:  # as nearly all that go
            board = place = 0
            keys = self._keys[0]
        else:
            board = bisect_left(self._lasts, key)
            keys = self._keys[board] if board < len(self._lasts) else []
            place = bisect_left(keys, key)
            if place == len(keys) or keys[place] != key:
                raise KeyError(key)
        self._count -= 1
        if len(keys) == 1:
            del self._lasts[board], self._keys[board], self._boards[board]
            return
        del keys[place], self._boards[board][place]
        if place == len(keys):
            self._lasts[board] = keys[-1]

    def clear(self) -> Iterator[Entry]:
        """Take out everything at once; returns it, in order."""
        boards = self._boards
        self._lasts, self._keys, self._boards, self._count = [], [], [], 0
        return (entry for board in boards for entry in board)

    def _insert_board(self, at: int, keys: list[int], entries: list[Entry]) -> None:
        self._lasts.insert(at, keys[-1])
        self._keys.insert(at, keys)
        self._boards.insert(at, entries)

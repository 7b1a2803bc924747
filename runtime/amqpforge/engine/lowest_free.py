"""Numbers to give away: channels and handles."""

from __future__ import annotations

from heapq import heappop, heappush

__all__ = ["LowestFree"]


class LowestFree:
    """Gives away the lowest number that nobody has (sections 2.5.1 and 2.7.3)."""

    __slots__ = ("_free", "_next")

    def __init__(self) -> None:
        self._free: list[int] = []
        self._next = 0

    @property
    def lowest(self) -> int:
        """The number that :meth:`take` would return."""
        return self._free[0] if self._free else self._next

    def take(self) -> int:
        """The lowest free number, from 0 up; it is taken until it is given back."""
        if self._free:
            return heappop(self._free)
        self._next += 1
        return self._next - 1

    def give_back(self, number: int) -> None:
        """Free a number that was taken, once."""
        heappush(self._free, number)

"""A clock that stands still until a test moves it."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

__all__ = ["FakeClock"]


class _Timer:
    def __init__(self, function: Callable[[], None]) -> None:
        self.function: Callable[[], None] | None = function

    def cancel(self) -> None:
        self.function = None


class FakeClock:
    """Calls what is due while it is moved, in the order of the times."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._now = start
        self._numbers = count()
        self._due: list[tuple[float, int, _Timer]] = []

    def now(self) -> float:
        return self._now

    def call_at(self, when: float, function: Callable[[], None]) -> _Timer:
        timer = _Timer(function)
        heappush(self._due, (when, next(self._numbers), timer))
        return timer

    @property
    def waiting(self) -> int:
        """How many timers have neither been called nor cancelled."""
        return sum(timer.function is not None for _, _, timer in self._due)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        end = self._now + seconds
        while self._due and self._due[0][0] <= end:
            when, _, timer = heappop(self._due)
            self._now = max(self._now, when)
            function, timer.function = timer.function, None
            if function is not None:
                function()
        self._now = end

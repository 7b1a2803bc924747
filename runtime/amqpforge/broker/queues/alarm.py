"""One thing that is to be done at a time that may still change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqpforge.broker.clock import Clock, Timer

__all__ = ["Alarm"]


class Alarm:
    """Calls a function once, at the earliest of the times that it was set to since it last did."""

    __slots__ = ("_clock", "_function", "_timer", "_when")

    def __init__(self, clock: Clock, function: Callable[[], None]) -> None:
        self._clock = clock
        self._function = function
        self._timer: Timer | None = None
        self._when = 0.0

    def set(self, when: float) -> None:
        """Call it at this time, in seconds since the epoch, unless it is called earlier anyway."""
        if self._timer is not None:
            if self._when <= when:
                return
            self._timer.cancel()
        self._when = when
        self._timer = self._clock.call_at(when, self._ring)

    def clear(self) -> None:
        """Call it no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._function()

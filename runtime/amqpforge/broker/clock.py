"""Time as the broker has it: of the wall, because what it means has to survive a restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Clock", "LoopClock", "Timer"]


class Timer(Protocol):
    """Something that will be done."""

    def cancel(self) -> None:
        """Do it no more; nothing happens if it has been done."""
        ...


class Clock(Protocol):
    """Tells the time, and calls functions when it has come."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def call_at(self, when: float, function: Callable[[], None]) -> Timer:
        """Call a function once ``now()`` has reached ``when``, and never before this method returns."""
        ...


class LoopClock:
    """The clock of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return time.time()

    def call_at(self, when: float, function: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(0.0, when - time.time()), function)

"""Event loops for tests: one run a test, and one whose clock leaps over waiting."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

P = ParamSpec("P")

_LONGEST = 8.0
_LOOK = 0.002  # seconds of real time in which octets on the loopback interface surely arrive


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine, run in an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), _LONGEST))

    return run


def in_leaping_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """The same, in a loop whose clock leaps to the next timer whenever nothing else is to be done."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=LeapingLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


class LeapingLoop(asyncio.SelectorEventLoop):
    """An event loop in which time passes only by leaps."""

    def __init__(self) -> None:
        self._now = 1000.0
        super().__init__(_LeapingSelector(self))

    def time(self) -> float:
        return self._now

    def leap(self, seconds: float) -> None:
        self._now += seconds


class _LeapingSelector(selectors.DefaultSelector):
    def __init__(self, loop: LeapingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(_LOOK if timeout is None or timeout > 0 else 0)
        if not found and timeout is not None and timeout > 0:
            self._loop.leap(timeout)
        return found

"""Waiting for something to come true, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = ["Waiting"]

R = TypeVar("R")

_PAUSE: Final = 0.05  # seconds


class Waiting:
    """Those who wait, and for what."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[Any], Callable[[], Any]] = {}

    def look(self) -> None:
        """Ask all who wait: something has happened."""
        for future, predicate in list(self._waiting.items()):
            if future.done():
                continue
            try:
                value = predicate()
            except Exception as error:
                future.set_exception(error)
                continue
            if value:
                future.set_result(value)

    async def wait(self, predicate: Callable[[], R], timeout: float) -> R | None:
        """Wait until a function returns what is true, and return that; None if it takes more seconds than
        ``timeout``. Raises what the function raises.

        It is asked whenever something happens, and now and then: nobody tells what only time has brought.
        """
        value = predicate()
        if value:
            return value
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        future: asyncio.Future[R] = loop.create_future()
        self._waiting[future] = predicate
        try:
            while not future.done() and loop.time() < end:
                await asyncio.wait((future,), timeout=min(_PAUSE, end - loop.time()))
                self.look()
            return future.result() if future.done() else None
        finally:
            del self._waiting[future]

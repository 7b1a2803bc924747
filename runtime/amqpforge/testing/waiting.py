"""Waiting for something to come true, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Waiting"]

R = TypeVar("R")


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
        ``timeout``.
        """
        value = predicate()
        if value:
            return value
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting[future] = predicate
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            if future.done() and not future.cancelled() and future.exception() is not None:
                raise
            return None
        finally:
            del self._waiting[future]

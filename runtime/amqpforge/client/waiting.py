"""Waiting for what a peer does, for ever only if that is asked for; and objects that open when awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from enum import Enum
from types import TracebackType
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from amqpforge.errors import AmqpforgeError, OperationTimedOut

__all__ = ["DEFAULT", "Opening", "Timeout", "fresh", "time_limit", "wait_for"]

T = TypeVar("T")


class Default(Enum):
    """The value of a ``timeout`` that is left to the connection."""

    TIMEOUT = "the time-out of the connection"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = Default.TIMEOUT
"""As a ``timeout``: that of the connection."""

Timeout: TypeAlias = float | Default | None
"""Seconds; None: no limit; ``DEFAULT``: that of the connection."""


async def wait_for(future: asyncio.Future[T], timeout: float | None, doing: str) -> T:
    """The result of a future that nobody else waits for; if the waiting is cancelled, so is the future.

    Args:
        future: what to wait for.
        timeout: seconds; None: no limit.
        doing: what takes so long, for the error.

    Raises:
        OperationTimedOut: the time is up.
    """
    if timeout is None or future.done():
        return await future
    timer = future.get_loop().call_later(timeout, _expire, future, timeout, doing)
    try:
        return await future
    finally:
        timer.cancel()


def _expire(future: asyncio.Future[T], timeout: float, doing: str) -> None:
    if not future.done():
        future.set_exception(timed_out(timeout, doing))


def timed_out(timeout: float | None, doing: str) -> OperationTimedOut:
    """The error that says that something took too long."""
    return OperationTimedOut(f"{doing} took longer than {timeout} s")


@asynccontextmanager
async def time_limit(timeout: float | None, doing: str) -> AsyncIterator[None]:
    """Limit the time of a block that waits for several things.

    Raises:
        OperationTimedOut: the time is up.
    """
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired() or isinstance(error, AmqpforgeError):
            raise
        raise timed_out(timeout, doing) from error


def fresh(error: AmqpforgeError) -> AmqpforgeError:
    """An error that is kept and raised more than once, without the traces of earlier times."""
    return error.with_traceback(None)


class Closable(Protocol):
    """What an ``async with`` block closes at its end."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


C = TypeVar("C", bound=Closable)


class Opening(Generic[C]):
    """An object that is about to be opened: await it, or open and close it by ``async with``.

    Nothing is done before that. Each ``await`` opens one more.
    """

    __slots__ = ("_open", "_opened")

    def __init__(self, open: Callable[[], Awaitable[C]]) -> None:
        self._open = open
        self._opened: C | None = None

    def __await__(self) -> Generator[object, None, C]:
        return self._open().__await__()

    async def __aenter__(self) -> C:
        self._opened = opened = await self._open()
        return opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, trace)

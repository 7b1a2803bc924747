"""What threads have done in the I/O thread, and wait for."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from amqpforge.errors import LocalError

if TYPE_CHECKING:
    from .io_thread import IoThread

__all__ = ["Call", "Operation", "acquired"]

T = TypeVar("T")

_SLICE: Final = 0.1 if sys.platform == "win32" else -1.0
"""Seconds of one wait for a lock; without end where a signal ends it anyway."""


def acquired(lock: threading.Lock, timeout: float | None) -> bool:
    """Wait for a lock; returns whether it was there in time.

    Args:
        lock: what to wait for.
        timeout: seconds; None: no limit.
    """
    if timeout is not None:
        return lock.acquire(timeout=timeout)
    while not lock.acquire(timeout=_SLICE):
        pass
    return True


class Call(Generic[T]):
    """A function that is called in the I/O thread, and whose result a thread waits for."""

    def __init__(self, thread: IoThread, function: Callable[[], T] | None = None) -> None:
        self._thread = thread
        self._function = function
        self._result: T | None = None
        self._error: BaseException | None = None
        self._pending = threading.Lock()
        self._pending.acquire()
        self.is_done = False

    # --- in the I/O thread ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        if self._function is not None and not self.is_done:
            try:
                self._result = self._function()
            except BaseException as error:
                self._error = error
            self.finish()

    def cancel(self) -> None:
        """Nobody waits for the result any more."""
        self.finish()

    def finish(self) -> None:
        """It is done, or never will be begun.

        When the interpreter ends, the daemon threads that wait go on waiting, and end quietly with it.
        """
        if not self.is_done:
            self.is_done = True
            self._thread.release(self)
            if not self._thread.is_ending:
                self._pending.release()

    # --- in the thread that waits -----------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is done, or the seconds are over; returns whether it is done."""
        return acquired(self._pending, timeout)

    def result(self) -> T:
        """What came out of it, once it is done."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # Its trace holds this frame.
        return cast("T", self._result)


class Operation(Call[T]):
    """Something that is awaited in the I/O thread, and whose result a thread waits for."""

    def __init__(
        self,
        thread: IoThread,
        make: Callable[[], Awaitable[T]],
        undo: Callable[[T], Awaitable[object]] | None,
    ) -> None:
        """``undo`` undoes what was done when the wish to cancel it comes too late."""
        super().__init__(thread)
        self._make = make
        self._undo = undo
        self._task: asyncio.Task[T] | None = None
        self._is_cancelled = False

    def start(self) -> None:
        if not self._is_cancelled:
            self._task = asyncio.get_running_loop().create_task(_awaited(self._make))
            self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._task is None:
            self.finish()
        elif not self._task.cancel():
            self._take_back(self._task)

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._error = LocalError("the operation was given up, because the I/O thread ends")
        elif task.exception() is not None:
            self._error = task.exception()
        elif self._is_cancelled:
            self._take_back(task)
        else:
            self._result = task.result()
        self.finish()

    def _take_back(self, task: asyncio.Task[T]) -> None:
        undo, self._undo = self._undo, None
        if undo is not None and not task.cancelled() and task.exception() is None:
            result = task.result()
            self._thread.spawn(_awaited(lambda: undo(result)))


async def _awaited(make: Callable[[], Awaitable[T]]) -> T:
    return await make()

"""The I/O thread: one for all connections of a process, with an event loop that the asyncio client runs in.

It starts with the first connection and ends when the last one is closed, so a process without connections has
none. It is a daemon, which never keeps the interpreter from ending: what is open by then is closed.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from amqpforge.client import Connection
from amqpforge.client.waiting import timed_out
from amqpforge.errors import LocalError

from .calls import Call, Operation
from .executor import DaemonExecutor

__all__ = ["IoThread"]

T = TypeVar("T")

_AT_EXIT: Final = 1.0
"""Seconds that connections get to close when the interpreter ends; then they are cut."""
_GRACE: Final = 1.0
"""Seconds in which a thread ends, or an interrupted operation is undone; longer nobody waits for that."""

_log = logging.getLogger("amqpforge.blocking")


class IoThread:
    """See the head of the module. What is not said to be for the I/O thread is for all others.

    Attributes:
        lock: guards the coming and going of I/O threads. A handler of a signal may need it once more.
        is_ending: the interpreter ends.
    """

    lock = threading.RLock()
    _current: IoThread | None = None

    def __init__(self) -> None:
        self.is_ending = False
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonExecutor())
        self._users: set[object] = set()
        self._spawned: set[asyncio.Task[Any]] = set()
        self._is_over = False
        self._thread = threading.Thread(target=self._work, name="amqpforge I/O", daemon=True)
        self._thread.start()

    @classmethod
    def connect(cls, make: Callable[[], Awaitable[Connection]]) -> tuple[IoThread, Connection]:
        """Open a connection in the I/O thread of this process, which is there until the connection is closed.

        Raises:
            AmqpforgeError: there is no connection.
        """
        with cls.lock:
            thread = cls._current
            if thread is None or thread._is_over:
                thread = cls._current = cls()
            thread.check()
            call = Operation(
                thread,
                lambda: thread._hold(make()),
                lambda connection: thread.let_go(connection, connection.close()),
            )
            thread._users.add(call)
        try:
            return thread, thread._do(call)
        finally:
            thread._join()

    # --- for connections, links and deliveries ----------------------------------------------------------

    @property
    def is_foreign(self) -> bool:
        """Whether it runs in another process, from which this one was forked."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """See that it can be waited for.

        Raises:
            LocalError: it runs in another process, or it would have to wait for itself.
        """
        if os.getpid() != self._pid:
            raise LocalError(
                f"the connection belongs to process {self._pid}, from which this one was forked: make "
                "another connection here"
            )
        if threading.get_ident() == self._thread.ident:
            raise LocalError("this is the I/O thread, which must not wait: leave that to another thread")

    def run(
        self, make: Callable[[], Awaitable[T]], undo: Callable[[T], Awaitable[object]] | None = None
    ) -> T:
        """Await something in the I/O thread, and wait for what comes out of it.

        If the waiting is interrupted, it is cancelled there; if that comes too late, it is undone.

        Args:
            make: makes what is awaited, in the I/O thread.
            undo: undoes it, given what came out of it.

        Raises:
            LocalError: there is no connection left, or as :meth:`check`.
        """
        self.check()
        return self._do(Operation(self, make, undo))

    def wait_for(self, call: Call[T], timeout: float | None, doing: str) -> T:
        """Begin a call, and wait for what comes out of it.

        Raises:
            OperationTimedOut: the seconds are over; the call is cancelled.
            LocalError: there is no connection left, or as :meth:`check`.
        """
        self.check()
        return self._do(call, timeout, doing)

    def run_last(self, make: Callable[[], Awaitable[None]]) -> None:
        """Await what ends something, and wait for it; if that was the last of all, for the thread as well.

        Nothing happens if everything is over, or goes on in another process.
        """
        if self.is_foreign:
            return
        if not self._is_over:
            self.run(make)
        self._join()

    def end_block(self, make: Callable[[], Awaitable[None]], error: BaseException | None) -> None:
        """Await the end of a block that has to say what is to become of it.

        Raises:
            LocalError: as :meth:`run`, but not if the block ends with an error, which says it all.
        """
        if error is None or not (self.is_foreign or self._is_over):
            self.run(make)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the I/O thread, or here if that has ended.

        Raises:
            LocalError: as :meth:`check`.
        """
        self.check()
        return function() if self._is_over else self._do(Call(self, function))

    def submit(self, function: Callable[[], object]) -> None:
        """Have a function called in the I/O thread, behind all that was asked for before; does not wait.

        If that thread has ended, or is in another process, it would matter to nobody: nothing happens.
        """
        if self.is_foreign:
            return
        with self.lock:
            if not self._is_over:
                self._loop.call_soon_threadsafe(function)

    def submit_later(self, seconds: float, function: Callable[[], object]) -> None:
        """As :meth:`submit`, after some time."""
        self.submit(lambda: self._loop.call_later(seconds, function))

    def stay_for(self, user: object) -> None:
        """Do not end before a user has been released.

        Raises:
            LocalError: there is no connection left.
        """
        with self.lock:
            if self._is_over:
                raise LocalError("the connection is closed")
            self._users.add(user)

    def _join(self) -> None:
        """If it is about to end, wait until it has, so that nobody finds it any more."""
        if self._is_over:
            self._thread.join(_GRACE)

    def _do(self, call: Call[T], timeout: float | None = None, doing: str = "") -> T:
        try:
            with self.lock:
                self.stay_for(call)
                self._loop.call_soon_threadsafe(call.start)
            if not call.wait(timeout):
                raise timed_out(timeout, doing)
        except BaseException:  # KeyboardInterrupt, or what else a handler of a signal raises.
            self.submit(call.cancel)
            if not (call.is_done or self._is_over):
                call.wait(_GRACE)
            raise
        return call.result()

    # --- in the I/O thread ------------------------------------------------------------------------------

    def release(self, user: object) -> None:
        """A call is over, or a connection is closed; with the last of them the thread ends."""
        with self.lock:
            self._users.discard(user)
            if not self._users:
                self._stop()

    def _stop(self) -> None:
        with self.lock:
            if not self._is_over:
                self._is_over = True
                self._loop.stop()

    async def let_go(self, connection: Connection, closing: Awaitable[None]) -> None:
        """Await the closing of a connection: the thread has not to be there for it any more."""
        try:
            await closing
        finally:
            self.release(connection)

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        """Do something that nobody waits for."""
        task = self._loop.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._note_spawned)

    def _note_spawned(self, task: asyncio.Task[Any]) -> None:
        self._spawned.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.debug("what was interrupted could not be undone: %s", task.exception())

    async def _hold(self, opening: Awaitable[Connection]) -> Connection:
        connection = await opening
        self._users.add(connection)
        return connection

    def _work(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            with self.lock:
                self._is_over = True
            loop.run_until_complete(self._tidy())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    async def _tidy(self) -> None:
        """Cancel what is left, and let transports that were dropped end."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_GRACE)
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    # --- the end of the interpreter ---------------------------------------------------------------------

    def end(self) -> None:
        """Close what is open, within a bound, and end."""
        with self.lock:
            if self._is_over:
                return
            self._loop.call_soon_threadsafe(lambda: self.spawn(self._close_all()))
        self._thread.join(_AT_EXIT + 2 * _GRACE)

    async def _close_all(self) -> None:
        self.is_ending = True
        closing = [
            asyncio.ensure_future(user.close()) for user in self._users if isinstance(user, Connection)
        ]
        if closing:
            await asyncio.wait(closing, timeout=_AT_EXIT)
        self._stop()


_TURNS: Final = 4
"""Turns of the event loop in which a transport that was dropped has told so, with TLS on it."""


def _at_exit() -> None:
    thread = IoThread._current
    if thread is not None:
        thread.end()


def _after_fork() -> None:
    IoThread.lock = threading.RLock()
    IoThread._current = None


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

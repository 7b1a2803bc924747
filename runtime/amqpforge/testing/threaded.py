"""The test node with an event loop and a thread of its own, for tests that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from amqpforge.errors import LocalError

from .node import Node

__all__ = ["ThreadedNode"]

R = TypeVar("R")


class ThreadedNode(Node):
    """A node in a thread of its own: ``with ScriptedNode.threaded() as node``.

    All its methods may be called from any thread. Functions that are given to its script, and those that
    are waited for, are called in its thread.
    """

    _own: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None

    def __enter__(self) -> Self:
        if self._own is not None:
            raise LocalError("the node has been entered already")
        loop = asyncio.new_event_loop()
        name = f"amqpforge test node {self.container.id}"
        thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
        self._own = loop, thread
        thread.start()
        try:
            self._submit(self._start()).result()
        except BaseException:
            self._end_thread()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._submit(self._stop()).result()
        finally:
            self._end_thread()
        self._tell_errors(error)

    def wait_for(self, predicate: Callable[[], R], timeout: float = 10.0) -> R:
        """Wait until a function returns what is true, and return that.

        It is asked whenever something happens.

        Args:
            predicate: looks at the node.
            timeout: how long to wait, in seconds.

        Raises:
            OperationTimedOut: it did not happen; the message has the latest frames.
        """
        return self._submit(self._wait(predicate, timeout)).result()

    async def wait_for_async(self, predicate: Callable[[], R], timeout: float = 10.0) -> R:
        """The same for a test with an event loop, which goes on meanwhile.

        Args:
            predicate: looks at the node.
            timeout: how long to wait, in seconds.

        Raises:
            OperationTimedOut: it did not happen; the message has the latest frames.
        """
        return await asyncio.wrap_future(self._submit(self._wait(predicate, timeout)))

    def _submit(self, coroutine: Coroutine[Any, Any, R]) -> Future[R]:
        """Run a coroutine in the thread of the node."""
        if self._own is None:
            coroutine.close()
            raise LocalError("the node is not entered")
        return asyncio.run_coroutine_threadsafe(coroutine, self._own[0])

    def _end_thread(self) -> None:
        if self._own is None:
            return
        loop, thread = self._own
        self._submit(loop.shutdown_default_executor()).result()
        self._own = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

"""A stand with an event loop and a thread of its own, for tests that have none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from amqpforge.errors import LocalError
from amqpforge.loop_thread import LoopThread

from .brokerconnection import BrokerConnection
from .brokerstand import BrokerStand
from .node import Node
from .nodeconnection import NodeConnection
from .served import ServedConnection
from .stand import Stand

__all__ = ["ThreadedBroker", "ThreadedNode"]

C = TypeVar("C", bound=ServedConnection)
R = TypeVar("R")


class _InThread(Stand[C], Generic[C]):
    """What is used in ``with``, with a thread of its own."""

    _own: LoopThread | None = None

    def __enter__(self) -> Self:
        if self._own is not None:
            raise LocalError(f"the {self.title} has been entered already")
        self._own = LoopThread(f"amqpforge {self.title}")
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
            predicate: looks at what there is.
            timeout: how long to wait, in seconds.

        Raises:
            OperationTimedOut: it did not happen; the message has the latest frames.
        """
        return self._submit(self._wait(predicate, timeout)).result()

    async def wait_for_async(self, predicate: Callable[[], R], timeout: float = 10.0) -> R:
        """The same for a test with an event loop, which goes on meanwhile.

        Args:
            predicate: looks at what there is.
            timeout: how long to wait, in seconds.

        Raises:
            OperationTimedOut: it did not happen; the message has the latest frames.
        """
        return await asyncio.wrap_future(self._submit(self._wait(predicate, timeout)))

    def _submit(self, coroutine: Coroutine[Any, Any, R]) -> Future[R]:
        """Run a coroutine in that thread."""
        if self._own is None:
            coroutine.close()
            raise LocalError(f"the {self.title} is not entered")
        return self._own.submit(coroutine)

    def _end_thread(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.end()


class ThreadedNode(_InThread[NodeConnection], Node):
    """A node in a thread of its own: ``with ScriptedNode.threaded() as node``.

    All its methods may be called from any thread. Functions that are given to its script, and those that
    are waited for, are called in its thread.
    """


class ThreadedBroker(_InThread[BrokerConnection], BrokerStand):
    """A broker in a thread of its own, under a script: ``with ScriptedBroker.threaded() as broker``.

    All its methods may be called from any thread. Functions that are given to its script, and those that
    are waited for, are called in its thread.
    """

    def restart(self) -> None:
        """Cut all connections, stop the broker, and start it again on the same port; the script stays.

        What its store does not keep is gone then, but for what its configuration names. It blocks.
        """
        self._submit(self._restart()).result()

    def reset(self) -> None:
        """Start it again, with nothing of what it had: messages, queues, rules of the script, frames.

        It blocks, until all connections are cut and the broker listens again on the same port.

        Raises:
            LocalError: its store is no memory, and so keeps what is durable.
            Exception: what a function of the test has raised since it was entered, or last reset.
        """
        self._submit(self._reset()).result()

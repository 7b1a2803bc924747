"""A stand in the event loop of the test."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

from .brokerconnection import BrokerConnection
from .brokerstand import BrokerStand
from .node import Node
from .nodeconnection import NodeConnection
from .served import ServedConnection
from .stand import Stand
from .threaded import ThreadedBroker, ThreadedNode

__all__ = ["ScriptedBroker", "ScriptedNode"]

C = TypeVar("C", bound=ServedConnection)
R = TypeVar("R")


class _InLoop(Stand[C], Generic[C]):
    """What is used in ``async with``."""

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop()
        self._tell_errors(error)

    async def wait_for(self, predicate: Callable[[], R], timeout: float = 10.0) -> R:
        """Wait until a function returns what is true, and return that.

        It is asked whenever something happens.

        Args:
            predicate: looks at what there is.
            timeout: how long to wait, in seconds.

        Raises:
            OperationTimedOut: it did not happen; the message has the latest frames.
        """
        return await self._wait(predicate, timeout)


class ScriptedNode(_InLoop[NodeConnection], Node):
    """A node in the event loop of the test: ``async with ScriptedNode() as node``.

    For tests without an event loop there is :attr:`threaded`, which takes the same arguments.
    """

    threaded: ClassVar[type[ThreadedNode]] = ThreadedNode


class ScriptedBroker(_InLoop[BrokerConnection], BrokerStand):
    """A broker in the event loop of the test, under a script: ``async with ScriptedBroker() as broker``.

    For tests without an event loop there is :attr:`threaded`, which takes the same arguments.
    """

    threaded: ClassVar[type[ThreadedBroker]] = ThreadedBroker

    async def restart(self) -> None:
        """Cut all connections, stop the broker, and start it again on the same port; the script stays.

        What its store does not keep is gone then, but for what its configuration names.
        """
        await self._restart()

    async def reset(self) -> None:
        """Start it again, with nothing of what it had: messages, queues, rules of the script, frames.

        Raises:
            LocalError: its store is no memory, and so keeps what is durable.
            Exception: what a function of the test has raised since it was entered, or last reset.
        """
        await self._reset()

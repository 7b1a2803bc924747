"""The test node in the event loop of the test."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from .node import Node
from .threaded import ThreadedNode

__all__ = ["ScriptedNode"]

R = TypeVar("R")


class ScriptedNode(Node):
    """A node in the event loop of the test: ``async with ScriptedNode() as node``.

    For tests without an event loop there is :attr:`threaded`, which takes the same arguments.
    """

    threaded: ClassVar[type[ThreadedNode]] = ThreadedNode

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
            predicate: looks at the node.
            timeout: how long to wait, in seconds.

        Raises:
            OperationTimedOut: it did not happen; the message has the latest frames.
        """
        return await self._wait(predicate, timeout)

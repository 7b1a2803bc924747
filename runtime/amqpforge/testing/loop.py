"""What runs in the thread of the event loop: everything that changes a test node."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from concurrent.futures import Future
from functools import update_wrapper
from typing import Concatenate, ParamSpec, Protocol, TypeVar

__all__ = ["LoopThread", "call_in", "in_loop"]

P = ParamSpec("P")
R = TypeVar("R")


class LoopThread(Protocol):
    """What parts of a node ask of it."""

    def run(self, function: Callable[[], R]) -> R:
        """Call a function in the thread of the node's event loop, and wait for what it returns."""
        ...

    def changed(self) -> None:
        """Something happened that somebody may wait for."""
        ...


def call_in(loop: AbstractEventLoop, function: Callable[[], R]) -> R:
    """Call a function in the thread of an event loop, which is another one, and wait for what it returns."""
    future: Future[R] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    loop.call_soon_threadsafe(call)
    return future.result()


class Part(Protocol):
    """A part of a node."""

    @property
    def node(self) -> LoopThread: ...


S = TypeVar("S", bound=Part)


def in_loop(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let a method of a part run in the thread of the node's event loop, whoever calls it."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.node.run(lambda: method(self, *args, **kwargs))

    update_wrapper(call, method)
    return call

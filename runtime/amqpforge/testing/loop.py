"""What runs in the thread of the event loop: everything that changes a stand."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from concurrent.futures import Future
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from .stand import Stand

__all__ = ["call_in", "in_loop"]

P = ParamSpec("P")
R = TypeVar("R")


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
    """A part of a stand."""

    @property
    def stand(self) -> Stand[Any]: ...


S = TypeVar("S", bound=Part)


def in_loop(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let a method of a part run in the thread of the stand's event loop, whoever calls it."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.stand.run(lambda: method(self, *args, **kwargs))

    update_wrapper(call, method)
    return call

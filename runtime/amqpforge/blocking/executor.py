"""Threads for what blocks: the names of hosts are looked up in them, and passwords are hashed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

__all__ = ["DaemonExecutor"]

P = ParamSpec("P")
T = TypeVar("T")


class DaemonExecutor(ThreadPoolExecutor):
    """Does each job in a daemon thread of its own.

    The interpreter waits at its end for the threads of an ordinary pool, and the system takes minutes to find
    out that nobody knows a name. Nor does an ordinary pool take jobs once the main thread has ended, while
    other threads may go on with their connections.
    """

    def __init__(self) -> None:
        super().__init__(1)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start a job; its threads are as many as there are jobs: a few for each connection that opens."""
        future: Future[T] = Future()
        job: tuple[Any, ...] = (future, fn, args, kwargs)
        threading.Thread(target=_do, args=job, name="amqpforge helper", daemon=True).start()
        return future


def _do(future: Future[T], function: Callable[..., T], args: Any, kwargs: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)

"""An event loop with a thread of its own, for what runs in a program without one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from .errors import OperationTimedOut

__all__ = ["LoopThread"]

_PATIENCE: Final = 60.0
"""Seconds for an end. What needs a peer is closed before that: what is left depends on disks and such, and
takes an instant as a rule.
"""

R = TypeVar("R")


class LoopThread:
    """A daemon thread that runs an event loop, from its making until :meth:`end`.

    Attributes:
        loop: the event loop.
    """

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, R]) -> Future[R]:
        """Run a coroutine there; does not wait."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def end(self, timeout: float = _PATIENCE) -> None:
        """Stop the loop, and wait until the thread is gone.

        What the loop has given to the threads of its executor is waited for before that: it cannot be broken
        off, and may be a file that is written.

        Args:
            timeout: seconds for all of it.

        Raises:
            OperationTimedOut: it takes longer. Then all goes on, as long as the process does, and has to be
                left what it works on. This may be called again.
        """
        deadline = time.monotonic() + timeout
        try:
            self.submit(self.loop.shutdown_default_executor()).result(timeout)
        except TimeoutError:
            raise self._too_late(timeout) from None
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(max(deadline - time.monotonic(), 0.0))
        if self._thread.is_alive():
            raise self._too_late(timeout)
        self.loop.close()

    def _too_late(self, timeout: float) -> OperationTimedOut:
        return OperationTimedOut(
            f"the thread {self._thread.name!r} does not end within {timeout:g} s: work that it does, or has "
            "given to other threads, goes on"
        )

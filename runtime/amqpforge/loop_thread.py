"""An event loop with a thread of its own, for what runs in a program without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["LoopThread"]

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

    def end(self) -> None:
        """Stop the loop, and wait until the thread is gone."""
        self.submit(self.loop.shutdown_default_executor()).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

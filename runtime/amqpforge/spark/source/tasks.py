"""Ending tasks of asyncio, whatever becomes of cancellations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["end_tasks", "undisturbed"]

_AGAIN: Final = 1.0
"""Seconds until a task that was cancelled, and goes on, is cancelled again."""


async def end_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until all are done: a cancellation is lost where it meets the end of what the task was
    waiting for.
    """
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=_AGAIN)


async def undisturbed(work: asyncio.Future[Any]) -> None:
    """Wait for work that is not to be left half done; cancellations are told once it is over.

    Raises:
        asyncio.CancelledError: there was one.
        Exception: the work has failed with this.
    """
    is_cancelled = False
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError
    work.result()

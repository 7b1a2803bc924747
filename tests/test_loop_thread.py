"""An event loop with a thread of its own: how it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from amqpforge.errors import OperationTimedOut
from amqpforge.loop_thread import LoopThread


async def in_executor(work: Callable[[], object]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Is opened at the end of a test, whatever waits there."""
    event = threading.Event()
    yield event
    event.set()


def test_work_that_does_not_end_is_left_alone(gate: threading.Event) -> None:
    thread = LoopThread("tested")
    working = thread.submit(in_executor(gate.wait))
    with pytest.raises(OperationTimedOut, match=r"'tested' does not end within 0\.05 s: work .*goes on"):
        thread.end(0.05)
    assert not thread.loop.is_closed()
    gate.set()
    working.result(10)
    thread.end(10)
    assert thread.loop.is_closed()


def test_a_loop_that_is_blocked_is_left_alone(gate: threading.Event) -> None:
    thread = LoopThread("tested")
    thread.loop.call_soon_threadsafe(gate.wait)
    with pytest.raises(OperationTimedOut, match=r"'tested' does not end within 0\.05 s"):
        thread.end(0.05)
    gate.set()
    thread.end(10)
    assert thread.loop.is_closed()

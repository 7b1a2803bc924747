"""What a message takes on a queue does not depend on what else there is: calls and octets are counted."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from amqpforge.broker.message import Message
from amqpforge.broker.queues import ACCEPTED, RELEASED, Entry, Queue
from tests.broker.clock import FakeClock
from tests.broker.queues.peers import FORM, Chosen, Taker, a_queue, put

MANY = 30_000
SIZES = [10, pytest.param(MANY), pytest.param(1_000_000, marks=pytest.mark.slow)]


def calls(work: Callable[[], object]) -> int:
    """How many functions, of Python or not, some work calls."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # what others have asked to be called with it is no work of ours
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def filled(count: int, clock: FakeClock | None = None, **settings: Any) -> Queue:
    """A queue with so many messages."""
    queue = a_queue(clock, **settings)
    entries = []
    for number in range(1, count + 1):
        message = Message(FORM, b"")
        message.id = number
        entries.append(Entry(message))
    queue.restore(entries)
    return queue


def a_message(queue: Queue, taker: Taker) -> int:
    """The calls that a message takes: put, delivered, released, delivered again, accepted."""
    last = queue._last_id

    def work() -> None:
        nonlocal last
        last += 1
        put(queue, last)
        taker.settle(RELEASED, at=-1)
        taker.settle(ACCEPTED, at=-1)

    for _ in range(3):
        work()
    counted = calls(work)
    assert taker.got[-2:] == [last, last]
    return counted


def base() -> int:
    queue = a_queue()
    return a_message(queue, Taker(queue))


@pytest.mark.parametrize("held", SIZES)
def test_messages_that_are_held(held: int) -> None:
    clock = FakeClock()
    queue = filled(held, clock)
    holder = Taker(queue, held)
    clock.advance(0)
    assert queue.unacknowledged == held
    queue.detach(holder)
    assert a_message(queue, Taker(queue)) == base()


@pytest.mark.parametrize("ready", SIZES)
def test_messages_that_wait_for_somebody_else(ready: int) -> None:
    """Taken out of the middle, and put back there."""
    counted = []
    for count in (10, ready):
        clock = FakeClock()
        queue = filled(count, clock)
        picky = Taker(queue, selector=Chosen(count.__lt__))
        clock.advance(0)
        counted.append(a_message(queue, picky))
    assert counted[0] == counted[1]


@pytest.mark.parametrize("count", [10, 10_000])
@pytest.mark.parametrize("kind", ["plain", "picky", "browser"])
def test_consumers_without_credit(kind: str, count: int) -> None:
    queue = a_queue()
    none = Chosen(lambda number: False)
    others = [
        Taker(queue, 1, selector=none if kind == "picky" else None, is_browser=kind == "browser")
        for _ in range(count)
    ]
    for other in others:
        other.flow(0)
    taker = Taker(queue)
    assert a_message(queue, taker) == base()
    assert others[0].got == []


@pytest.mark.parametrize("count", [10, 10_000])
def test_consumers_that_wait_for_their_turn(count: int) -> None:
    queue = a_queue()
    takers = [Taker(queue, at_once=ACCEPTED) for _ in range(count)]
    put(queue, *range(1, 11))
    counted = calls(lambda: put(queue, 11))
    assert max(len(taker.got) for taker in takers) - min(len(taker.got) for taker in takers) <= 2
    alone = a_queue()
    Taker(alone, at_once=ACCEPTED)
    put(alone, *range(1, 11))
    assert counted == calls(lambda: put(alone, 11))


def test_consumers_that_choose_look_at_each_message_once() -> None:
    counted = []
    for count in (100, 1000):
        queue = a_queue()
        none = Chosen(lambda number: False)
        for _ in range(count):
            Taker(queue, selector=none)
        put(queue, 1)
        counted.append(calls(lambda: put(queue, 2)))  # noqa: B023
        assert none.asked == {1: count, 2: count}
    assert counted[1] < 11 * counted[0]


def test_more_consumers_that_choose_than_steps_of_a_run() -> None:
    clock = FakeClock()
    queue = a_queue(clock)
    none = Chosen(lambda number: False)
    for _ in range(3000):
        Taker(queue, selector=none)
    last = Taker(queue, selector=Chosen(lambda number: True))
    put(queue, 1)
    clock.advance(0)
    assert last.got == [1]
    assert clock.waiting == 0


def test_releases_that_nobody_hears_take_no_memory_for_ever() -> None:
    queue = a_queue()
    idle = Taker(queue, 1, selector=Chosen(lambda number: number == 1))
    put(queue, 1, 2)
    taker = Taker(queue, 1_000_000)
    for _ in range(5000):
        taker.settle(RELEASED)
    queue.detach(taker)
    taker.settle(RELEASED)
    assert len(queue._dispatcher._returned._keys) <= 1024
    idle.settle(RELEASED)
    idle.flow(2)
    assert idle.got == [1, 1]


def test_consumers_that_come_and_go_leave_nothing() -> None:
    queue = a_queue()
    for _ in range(1000):
        queue.detach(Taker(queue))
    dispatcher = queue._dispatcher
    assert (len(dispatcher), len(dispatcher._takers), len(dispatcher._choosers)) == (0, 0, 0)


@pytest.mark.parametrize("levels", [1, 10])
def test_the_memory_of_an_entry(levels: int) -> None:
    """About a hundred octets each, besides the message, however they came."""
    messages = []
    for number in range(1, MANY + 1):
        message = Message(FORM, b"", priority=number % 10)
        message.id = number + 1_000_000
        messages.append(message)
    clock = FakeClock()
    queue = a_queue(clock, priority_levels=levels)
    tracemalloc.start()
    try:
        queue.restore([Entry(message, was_acquired=True) for message in messages])
        restored = tracemalloc.get_traced_memory()[0] / MANY
        taker = Taker(queue, MANY, at_once=RELEASED)
        clock.advance(0)
        assert len(taker.got) == MANY
        taker.got.clear()
        used = tracemalloc.get_traced_memory()[0] / MANY
    finally:
        tracemalloc.stop()
    assert restored < 120 + 40 * (levels > 1)
    assert used < restored + 40

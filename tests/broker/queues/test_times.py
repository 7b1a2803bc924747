"""What a queue does as time goes by: messages die, and queues that nobody uses go."""

from __future__ import annotations

import pytest

from amqpforge.broker.queues import ACCEPTED, RELEASED, Death, modified
from amqpforge_protocol.amqp_1_0 import MessageState
from tests.broker.clock import FakeClock
from tests.broker.queues.peers import Chosen, Hooked, Taker, a_queue, put


@pytest.mark.spec("M-HEADER-014", "M-NODE-007")
def test_a_message_dies_without_anybody_looking() -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks)
    (entry, _) = put(queue, 1, expires_at=clock.now() + 10) + put(queue, 2)
    clock.advance(9.9)
    assert queue.ready == 2
    clock.advance(0.1)
    assert entry.state is MessageState.ARCHIVED
    assert (queue.ready, queue.counters.expired, queue.counters.dropped) == (1, 1, 1)
    assert hooks.forgotten == [1]
    assert Taker(queue).got == [2]


def test_a_message_that_has_died_is_not_delivered_before_it_is_swept() -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks, dead_letter_exchange="dead")
    put(queue, 1, 2, expires_at=clock.now() + 10)
    clock._now += 11  # the timer is late
    assert Taker(queue, is_browser=True).got == []
    assert Taker(queue).got == []
    assert [(number, death) for number, death, _ in hooks.dead] == [(1, Death.EXPIRED), (2, Death.EXPIRED)]


@pytest.mark.spec("M-HEADER-013")
@pytest.mark.parametrize(
    ("message", "queue_ttl", "expected"),
    [(None, None, None), (5.0, None, 5.0), (None, 7.0, 7.0), (5.0, 7.0, 5.0), (9.0, 7.0, 7.0)],
)
def test_the_earlier_end_counts(
    message: float | None, queue_ttl: float | None, expected: float | None
) -> None:
    clock = FakeClock()
    queue = a_queue(clock, message_ttl=queue_ttl)
    now = clock.now()
    (entry,) = put(queue, 1, expires_at=None if message is None else now + message)
    assert entry.expires_at == (None if expected is None else now + expected)
    clock.advance(6)
    assert queue.ready == (expected != 5.0)
    clock.advance(10)
    assert queue.ready == (expected is None)


def test_a_message_that_dies_while_it_is_held_goes_when_it_comes_back() -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks, message_ttl=10.0, dead_letter_exchange="dead")
    put(queue, 1, 2, 3)
    one = Taker(queue, 3)
    clock.advance(60)
    assert queue.unacknowledged == 3
    one.settle(ACCEPTED)
    one.settle(RELEASED)
    one.settle(modified(delivery_failed=True))
    assert one.got == [1, 2, 3]
    assert hooks.dead == [(2, Death.EXPIRED, 0), (3, Death.EXPIRED, 1)]
    assert (queue.counters.accepted, queue.counters.expired) == (1, 2)


def test_a_message_that_comes_back_in_time_still_dies() -> None:
    clock = FakeClock()
    queue = a_queue(clock, message_ttl=10.0)
    put(queue, 1)
    one = Taker(queue, 1)
    clock.advance(9)
    one.settle(RELEASED)
    assert queue.ready == 1
    clock.advance(1)
    assert queue.ready == 0


def test_no_time_at_all_is_enough_for_a_consumer_that_waits() -> None:
    clock = FakeClock()
    queue = a_queue(clock, message_ttl=0.0)
    one = Taker(queue, 1)
    put(queue, 1, 2)
    clock.advance(0)
    assert (one.got, queue.ready, queue.counters.expired) == ([1], 0, 1)


def test_many_die_in_parts() -> None:
    clock = FakeClock()
    queue = a_queue(clock, message_ttl=1.0)
    put(queue, *range(1, 3501))
    clock._now += 1
    queue._sweep()
    assert queue.ready == 2500
    clock.advance(0)
    assert queue.ready == 0
    assert clock.waiting == 0


def test_times_of_messages_that_are_gone_are_not_kept() -> None:
    clock = FakeClock()
    queue = a_queue(clock, message_ttl=1000.0)
    one = Taker(queue, at_once=ACCEPTED)
    held = Taker(queue, 0, selector=Chosen(lambda number: number % 100 == 0))
    for start in range(1, 5000, 100):
        held.flow(1)
        put(queue, *range(start, start + 100))
    assert len(held.entries) + len(one.got) == 5000
    assert len(queue._expiry) <= 2 * len(held.entries) + 65
    assert clock.waiting == 1


# --- queues that nobody uses


@pytest.mark.spec("A-QUEUE-008", "A-QUEUE-012")
def test_an_auto_delete_queue_goes_after_its_last_consumer() -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks, auto_delete=True, grace=0.3)
    clock.advance(100)
    takers = [Taker(queue), Taker(queue)]
    queue.detach(takers[0])
    clock.advance(100)
    assert hooks.unused_queues == []
    queue.detach(takers[1])
    clock.advance(0.25)
    last = Taker(queue)
    clock.advance(100)
    assert hooks.unused_queues == []
    queue.detach(last)
    assert hooks.unused_queues == []
    clock.advance(0.05)
    assert hooks.unused_queues == []
    clock.advance(0.55)
    assert hooks.unused_queues == [queue]


def test_without_auto_delete_it_stays() -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks)
    queue.detach(Taker(queue))
    clock.advance(1e6)
    assert hooks.unused_queues == []


def test_a_queue_that_is_not_used_expires() -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks, expires=60.0)
    clock.advance(50)
    queue.touch()
    clock.advance(50)
    one = Taker(queue)
    clock.advance(500)
    queue.touch()
    queue.detach(one)
    clock.advance(59)
    assert hooks.unused_queues == []
    clock.advance(1)
    assert hooks.unused_queues == [queue]


def test_of_two_reasons_to_go_the_earlier_one_counts() -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks, expires=60.0, auto_delete=True, grace=5.0)
    queue.detach(Taker(queue))
    clock.advance(5)
    assert hooks.unused_queues == [queue]


def test_a_queue_that_stops_does_nothing_any_more() -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks, expires=60.0, message_ttl=5.0, acquisition_timeout=5.0)
    put(queue, 1, 2)
    Taker(queue, 1)
    queue.stop()
    assert clock.waiting == 0
    clock.advance(100)
    assert (queue.ready, queue.unacknowledged, hooks.unused_queues) == (1, 1, [])

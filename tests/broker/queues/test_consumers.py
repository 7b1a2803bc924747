"""How consumers share a queue: turns, late bindings, privacy (the architecture's server queue)."""

from __future__ import annotations

import pytest

from amqpforge.broker.errors import NotFound, ResourceLocked
from amqpforge.broker.queues import ACCEPTED, RELEASED, Entry, modified
from amqpforge.broker.selector import Selector
from amqpforge.broker.store import Unit
from amqpforge.errors import LocalError
from tests.broker.clock import FakeClock
from tests.broker.queues.peers import Chosen, Hooked, Taker, a_queue, put


@pytest.mark.spec("A-QUEUE-001", "A-MSG-004")
def test_messages_are_handed_out_in_the_order_of_arrival() -> None:
    queue = a_queue()
    put(queue, *range(1, 51))
    taker = Taker(queue)
    put(queue, *range(51, 101))
    assert taker.got == list(range(1, 101))


@pytest.mark.spec("A-QUEUE-004")
def test_consumers_take_turns() -> None:
    queue = a_queue()
    takers = [Taker(queue) for _ in range(3)]
    put(queue, *range(1, 10))
    assert [taker.got for taker in takers] == [[1, 4, 7], [2, 5, 8], [3, 6, 9]]


def test_a_backlog_is_shared_by_those_who_have_credit() -> None:
    queue = a_queue()
    put(queue, *range(1, 8))
    takers = [Taker(queue, 0) for _ in range(3)]
    for taker in takers:
        taker.credit = 2
    for taker in takers:
        queue.wake(taker)
    assert [taker.got for taker in takers] == [[1, 2], [3, 4], [5, 6]]
    takers[1].flow(1)
    assert takers[1].got == [3, 4, 7]


@pytest.mark.spec("A-QUEUE-009")
def test_a_queue_keeps_what_comes_while_nobody_consumes() -> None:
    queue = a_queue(durable=True)
    queue.detach(Taker(queue))
    put(queue, *range(1, 11))
    assert queue.ready == 10
    assert Taker(queue).got == list(range(1, 11))


@pytest.mark.spec("A-QUEUE-002")
def test_queues_have_nothing_to_do_with_each_other() -> None:
    one, other = a_queue(), a_queue()
    put(one, *range(1, 100))
    put(other, *range(1, 100))
    Taker(one, 10)
    one.purge()
    one.delete(Unit())
    assert (other.ready, other.unacknowledged, other.consumer_count) == (99, 0, 0)
    assert Taker(other).got == list(range(1, 100))


@pytest.mark.spec("A-QUEUE-005")
def test_a_private_queue_turns_a_second_consumer_away() -> None:
    private, shared = a_queue(private=True), a_queue()
    first = Taker(private)
    with pytest.raises(ResourceLocked, match="private"):
        Taker(private)
    private.detach(first)
    Taker(private)
    for _ in range(10):
        Taker(shared)
    assert (private.consumer_count, shared.consumer_count) == (1, 10)


def test_an_exclusive_queue_is_for_one_connection() -> None:
    connection = object()
    queue = a_queue(exclusive=True, owner=connection)
    with pytest.raises(ResourceLocked, match="exclusive"):
        Taker(queue, owner=object())
    Taker(queue, owner=connection)
    Taker(queue, owner=connection)
    queue.check_owner(connection)
    with pytest.raises(ResourceLocked):
        queue.check_owner(None)


@pytest.mark.spec("A-MSG-007")
def test_a_consumer_chooses_when_a_message_leaves() -> None:
    queue = a_queue()
    put(queue, 1, 2)
    at_once, later = Taker(queue, 1, at_once=ACCEPTED), Taker(queue, 1)
    assert (at_once.got, later.got, queue.unacknowledged) == ([1], [2], 1)
    for taker in (at_once, later):
        queue.detach(taker)
        for entry in taker.entries:
            queue.settle((entry,), taker, RELEASED)
    assert Taker(queue).got == [2]


def test_what_a_consumer_holds_is_still_its_own_after_it_has_left() -> None:
    queue = a_queue()
    put(queue, 1, 2)
    one = Taker(queue, 2)
    queue.detach(one)
    queue.detach(one)
    assert Taker(queue).got == []
    one.settle(ACCEPTED)
    assert queue.unacknowledged == 1


def test_a_message_that_comes_back_keeps_its_place() -> None:
    queue = a_queue()
    put(queue, *range(1, 6))
    one = Taker(queue, 4)
    one.settle(RELEASED, at=2)
    one.settle(RELEASED, at=0)
    assert Taker(queue).got == [1, 3, 5]


def test_a_consumer_is_attached_once() -> None:
    queue = a_queue()
    one = Taker(queue)
    with pytest.raises(LocalError, match="attached"):
        queue.attach(one)
    assert list(queue.consumers) == [one]


# --- late bindings


@pytest.mark.spec("A-BIND-012", "M-FILTER-001")
def test_consumers_pick_what_they_are_for() -> None:
    queue = a_queue()
    odd = Taker(queue, selector=Selector("id IN (1, 3, 5, 7)"))
    put(queue, *range(1, 7))
    even = Taker(queue, selector=Selector("id / 2 = 2 OR id = 2"))
    put(queue, 7, 8)
    assert (odd.got, even.got) == ([1, 3, 5, 7], [2, 4])
    assert [entry.message.id for entry in queue if entry.holder is None] == [6, 8]


@pytest.mark.spec("A-BIND-013")
def test_equal_conditions_share_in_turns() -> None:
    queue = a_queue()
    takers = [Taker(queue, selector=Chosen(lambda number: number % 2 == 0)) for _ in range(2)]
    put(queue, *range(1, 21))
    assert [taker.got for taker in takers] == [[2, 6, 10, 14, 18], [4, 8, 12, 16, 20]]
    assert queue.ready == 10


@pytest.mark.spec("A-BIND-014")
def test_selected_messages_keep_their_order() -> None:
    queue = a_queue()
    put(queue, *range(1, 21))
    threes = Taker(queue, 0, selector=Chosen(lambda number: number % 3 == 0))
    for _ in range(6):
        threes.flow(1)
    assert threes.got == [3, 6, 9, 12, 15, 18]
    while threes.entries:
        threes.settle(RELEASED)
    threes.flow(20)
    assert threes.got[6:] == [3, 6, 9, 12, 15, 18]


@pytest.mark.spec("A-BIND-015")
def test_a_message_waits_for_one_that_it_is_for() -> None:
    queue = a_queue()
    put(queue, 1)
    assert Taker(queue, selector=Chosen(lambda number: number == 2)).got == []
    assert Taker(queue, selector=Chosen(lambda number: number == 1)).got == [1]


def test_a_plain_consumer_and_one_with_a_selector_take_turns() -> None:
    queue = a_queue()
    plain, all_of_them = Taker(queue), Taker(queue, selector=Chosen(lambda number: True))
    put(queue, *range(1, 7))
    assert (plain.got, all_of_them.got) == ([1, 3, 5], [2, 4, 6])


@pytest.mark.spec("M-FILTER-002")
def test_each_message_is_looked_at_once_until_it_comes_back() -> None:
    queue = a_queue()
    condition = Chosen(lambda number: number == 3)
    picky = Taker(queue, selector=condition)
    put(queue, *range(1, 6))
    for number in range(6, 20):
        put(queue, number)
        picky.flow(10)
    assert condition.asked == dict.fromkeys(range(1, 20), 1)
    other = Taker(queue, 1)
    other.settle(modified(annotations=b"new"))
    assert condition.asked[1] == 2
    assert condition.asked[2] == 1


def test_a_condition_that_admits_a_message_only_after_it_was_changed() -> None:
    queue = a_queue()
    put(queue, 1, 2)
    picky = Taker(queue, selector=Selector("annotations = 'yes'"))

    class _Changed(Taker):
        def deliver(self, entry: Entry) -> None:
            super().deliver(entry)
            entry.annotations = "yes"  # type: ignore[assignment]

    changer = _Changed(queue, 1)
    changer.settle(modified())
    assert (changer.got, picky.got) == ([1], [1])


def test_what_came_back_is_delivered_before_what_was_not_looked_at() -> None:
    queue = a_queue()
    put(queue, 1, 2, 3)
    picky = Taker(queue, 1, selector=Chosen(lambda number: True))
    picky.settle(RELEASED)
    picky.flow(3)
    assert picky.got == [1, 1, 2, 3]


def test_what_came_back_twice_is_judged_as_it_is_now() -> None:
    queue = a_queue()
    put(queue, 1)
    picky = Taker(queue, 1, selector=Chosen(lambda number: True))
    picky.settle(RELEASED)
    picky.flow(1)
    picky.settle(modified(undeliverable_here=True))
    picky.flow(1)
    assert picky.got == [1, 1]
    assert queue.ready == 1


def test_a_consumer_that_has_missed_very_much_looks_at_everything_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("amqpforge.broker.queues.seat._LEAST", 4)
    queue = a_queue()
    put(queue, *range(1, 4))
    picky = Taker(queue, 1, selector=Chosen(lambda number: number != 2))
    assert picky.got == [1]
    picky.settle(RELEASED)
    other = Taker(queue, 100)
    for _ in range(20):
        other.settle(RELEASED)
    queue.detach(other)
    while other.entries:
        other.settle(RELEASED)
    picky.flow(100)
    assert picky.got == [1, 1, 3]


def test_long_looks_are_made_in_parts() -> None:
    clock = FakeClock()
    queue = a_queue(clock)
    put(queue, *range(1, 5001))
    condition = Chosen(lambda number: number in (1500, 4999, 5000))
    plain = Taker(queue, 0)
    picky = Taker(queue, selector=condition)
    assert picky.got == []
    assert 0 < len(condition.asked) < 1500
    clock.advance(0)
    assert picky.got == [1500, 4999, 5000]
    plain.flow(3000)
    clock.advance(0)
    assert plain.got == [*range(1, 1500), *range(1501, 3002)]
    assert set(condition.asked.values()) == {1}


# --- what consumers do while they are served


def test_a_consumer_that_settles_and_releases_while_it_is_served() -> None:
    clock = FakeClock()
    queue = a_queue(clock)
    put(queue, 1)
    again = Taker(queue, 2500, at_once=RELEASED)
    clock.advance(0)
    assert again.got == [1] * 2500
    assert queue.ready == 1


def test_a_consumer_that_publishes_and_leaves_while_it_is_served() -> None:
    queue = a_queue()
    events: list[str] = []

    class _Busy(Taker):
        def deliver(self, entry: Entry) -> None:
            super().deliver(entry)
            events.append(f"begin {entry.message.id}")
            if entry.message.id == 1:
                put(queue, 2, 3)
            else:
                queue.detach(self)
            events.append(f"end {entry.message.id}")

    busy = _Busy(queue)
    picky = Taker(queue, selector=Chosen(lambda number: number > 2))
    put(queue, 1)
    assert events == ["begin 1", "end 1", "begin 2", "end 2"]
    assert (busy.got, picky.got) == ([1, 2], [3])


def test_a_queue_that_is_deleted_while_it_serves() -> None:
    hooks = Hooked()
    queue = a_queue(hooks=hooks)
    put(queue, 1, 2)

    class _Deleting(Taker):
        def deliver(self, entry: Entry) -> None:
            super().deliver(entry)
            queue.delete(Unit())

    one = _Deleting(queue)
    assert (one.got, one.withdrawn, one.is_cancelled) == ([1], [1], True)
    assert hooks.forgotten == [1, 2]


# --- emptying and deleting


def test_purging_spares_what_is_held() -> None:
    hooks = Hooked()
    queue = a_queue(hooks=hooks, durable=True)
    put(queue, *range(1, 11), durable=True)
    one = Taker(queue, 3)
    hooks.noted.operations.clear()
    assert queue.purge() == 7
    assert hooks.noted.operations == [("dequeue", (1, number)) for number in range(4, 11)]
    assert hooks.forgotten == list(range(4, 11))
    assert (queue.ready, queue.unacknowledged, queue.bytes) == (0, 3, 3)
    one.settle(RELEASED)
    assert Taker(queue).got == [1]
    assert queue.purge() == 0


@pytest.mark.parametrize("durable", [False, True])
def test_deleting_lets_everything_go(durable: bool) -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks, durable=durable, expires=100.0, acquisition_timeout=9.0, message_ttl=50.0)
    put(queue, 1, 2, 3, durable=True)
    takers = [Taker(queue, 1), Taker(queue, 0)]
    queue.detach(takers[0])
    unit = Unit()
    assert queue.delete(unit) == 3
    assert unit.operations == ([("drop_queue", (1,))] if durable else [])
    assert sorted(hooks.forgotten) == [1, 2, 3]
    assert [(taker.withdrawn, taker.is_cancelled) for taker in takers] == [([1], False), ([], True)]
    assert (queue.consumer_count, queue.bytes, clock.waiting) == (0, 0, 0)
    assert queue.delete(unit) == 0
    queue.touch()
    assert clock.waiting == 0
    with pytest.raises(NotFound, match="deleted"):
        put(queue, 4)
    with pytest.raises(NotFound):
        Taker(queue)

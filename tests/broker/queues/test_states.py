"""What outcomes do to messages on a queue (AMQP 1.0, sections 3.3 to 3.5)."""

from __future__ import annotations

import itertools

import pytest

from amqpforge.broker.message import Message
from amqpforge.broker.queues import ACCEPTED, REJECTED, RELEASED, Death, Entry, Outcome, Queue, modified
from amqpforge.broker.settings import QueueSettings
from amqpforge.broker.store import Unit
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import MessageEvent, MessageState
from tests.broker.clock import FakeClock
from tests.broker.queues.peers import FORM, Hooked, Taker, a_queue, put

OUTCOMES = [ACCEPTED, REJECTED, RELEASED, modified(), modified(delivery_failed=True)]


class _Watcher(Taker):
    """Notes the state that a message has when it is delivered."""

    def deliver(self, entry: Entry) -> None:
        super().deliver(entry)
        self.states = [*getattr(self, "states", []), entry.state]


@pytest.mark.spec("M-NODE-001", "A-MSG-003")
def test_one_message_on_several_queues_has_a_state_on_each() -> None:
    hooks = Hooked()
    queues = [Queue(str(number), number, QueueSettings(), FakeClock(), hooks) for number in range(3)]
    message = Message(FORM, b"body")
    message.id = 1
    entries = [queue.reserve(message, Unit()) for queue in queues]
    for queue, entry in zip(queues, entries, strict=True):
        queue.confirm(entry)
    takers = [Taker(queue) for queue in queues]
    assert {id(taker.entries[0].message) for taker in takers} == {id(message)}
    takers[0].settle(ACCEPTED)
    assert [entry.state.name for entry in entries] == ["ARCHIVED", "ACQUIRED", "ACQUIRED"]
    takers[1].settle(RELEASED)
    assert takers[1].got == [1, 1]
    assert hooks.forgotten == []
    takers[1].settle(ACCEPTED)
    takers[2].settle(REJECTED)
    assert hooks.forgotten == [1]
    assert message.references == 0


@pytest.mark.spec("M-NODE-002", "M-NODE-003", "M-NODE-012")
def test_a_message_is_acquired_before_it_is_delivered_and_by_one() -> None:
    queue = a_queue()
    (entry,) = put(queue, 1)
    assert entry.state.name == "AVAILABLE"
    one, other = _Watcher(queue), _Watcher(queue)
    assert one.states == [MessageState.ACQUIRED]
    assert (one.got, other.got) == ([1], [])
    assert (queue.ready, queue.unacknowledged) == (0, 1)
    one.settle(ACCEPTED)
    assert entry.state.name == "ARCHIVED"
    assert (queue.ready, queue.unacknowledged, queue.bytes) == (0, 0, 0)


@pytest.mark.spec("M-NODE-009", "A-MSG-008")
@pytest.mark.parametrize("outcome", [ACCEPTED, REJECTED])
def test_what_is_accepted_or_rejected_is_gone(outcome: Outcome) -> None:
    queue = a_queue()
    (entry,) = put(queue, 1)
    one = Taker(queue)
    one.settle(outcome)
    assert entry.state is MessageState.ARCHIVED
    assert Taker(queue).got == []
    assert one.got == [1]
    assert not list(queue)


@pytest.mark.spec("M-NODE-010", "M-OUTCOME-011")
@pytest.mark.parametrize("outcome", [RELEASED, modified(), modified(delivery_failed=True)])
def test_what_is_released_or_modified_is_for_anybody(outcome: Outcome) -> None:
    queue = a_queue()
    (entry,) = put(queue, 1)
    one = Taker(queue, credit=1)
    one.settle(outcome)
    assert entry.state is MessageState.AVAILABLE
    assert entry.holder is None
    other = Taker(queue, credit=1)
    assert other.got == [1]
    one.flow(5)
    other.settle(outcome)
    assert one.got == [1, 1]


@pytest.mark.spec("M-NODE-004", "M-NODE-013", "M-NODE-014", "M-NODE-016")
def test_browsers_get_each_message_once_and_change_nothing() -> None:
    queue = a_queue()
    mover = Taker(queue, credit=1)
    put(queue, 1, 2, 3)
    browsers = [Taker(queue, is_browser=True) for _ in range(2)]
    assert [browser.got for browser in browsers] == [[1, 2, 3]] * 2
    for browser in browsers:
        for entry, outcome in zip(list(browser.entries), itertools.cycle(OUTCOMES), strict=False):
            queue.settle((entry,), browser, outcome)
    assert (queue.ready, queue.unacknowledged) == (2, 1)
    assert [entry.state.name for entry in queue] == ["ACQUIRED", "AVAILABLE", "AVAILABLE"]
    mover.settle(RELEASED)
    for browser in browsers:
        browser.flow(10)
    put(queue, 4)
    assert [browser.got for browser in browsers] == [[1, 2, 3, 4]] * 2
    mover.flow(10)
    for _ in range(4):
        mover.settle(ACCEPTED)
    assert mover.got == [1, 1, 2, 3, 4]
    assert Taker(queue, is_browser=True).got == []


@pytest.mark.spec("M-NODE-015")
def test_a_browser_without_credit_goes_on_where_it_was() -> None:
    queue = a_queue()
    put(queue, *range(1, 6))
    browser = Taker(queue, 2, is_browser=True)
    mover = Taker(queue, 4)
    for _ in range(3):
        mover.settle(ACCEPTED)
    browser.flow(1)
    browser.flow(1)
    assert browser.got == [1, 2, 4, 5]


def test_a_browser_of_a_queue_with_priorities_sees_what_comes_ahead_of_where_it_is() -> None:
    queue = a_queue(priority_levels=10)
    put(queue, 1, 2, priority=1)
    browser = Taker(queue, is_browser=True)
    put(queue, 3, priority=8)
    put(queue, 4, priority=0)
    put(queue, 5, priority=1)
    assert browser.got == [1, 2, 3, 4, 5]
    assert Taker(queue, is_browser=True).got == [3, 1, 2, 5, 4]


@pytest.mark.spec("M-NODE-008", "M-OUTCOME-001")
def test_what_comes_after_the_queue_took_a_message_back_changes_nothing() -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks, acquisition_timeout=10.0, dead_letter_exchange="dead")
    (entry,) = put(queue, 1)
    one = Taker(queue, 1)
    clock.advance(10)
    assert one.withdrawn == [1]
    other = Taker(queue)
    queue.settle((entry,), one, ACCEPTED)
    assert entry.holder is other
    other.settle(ACCEPTED)
    for outcome in OUTCOMES:
        queue.settle((entry,), other, outcome)
        queue.settle((entry,), one, outcome)
    assert entry.state is MessageState.ARCHIVED
    assert (queue.counters.accepted, hooks.dead, hooks.forgotten) == (1, [], [1])


def test_no_state_is_left_against_the_table() -> None:
    entry = Entry(Message(FORM, b""))
    entry.move(MessageEvent.ACQUIRE)
    with pytest.raises(LocalError, match="ACQUIRED"):
        entry.move(MessageEvent.ACQUIRE)
    entry.move(MessageEvent.ACCEPTED)
    entry.move(MessageEvent.RELEASED)
    assert entry.state is MessageState.ARCHIVED
    with pytest.raises(LocalError, match="ARCHIVED"):
        entry.move(MessageEvent.ACQUIRE)


# --- what outcomes change


@pytest.mark.spec("M-OUTCOME-012")
def test_released_changes_nothing() -> None:
    queue, noted = a_queue(durable=True), Unit()
    (entry,) = put(queue, 1, durable=True, unit=noted)
    one = Taker(queue)
    before = (entry.message.payload, entry.annotations, entry.delivery_count)
    for _ in range(5):
        one.settle(RELEASED)
    assert one.got == [1] * 6
    assert (entry.message.payload, entry.annotations, entry.delivery_count) == before
    assert len(noted.operations) == 1


@pytest.mark.spec("M-OUTCOME-021", "M-OUTCOME-022")
@pytest.mark.parametrize(("failed", "count"), [(True, 2), (False, 0)])
def test_a_failed_delivery_counts(failed: bool, count: int) -> None:
    queue = a_queue()
    put(queue, 1)
    one = Taker(queue)
    for _ in range(2):
        one.settle(modified(delivery_failed=failed))
    assert one.got == [1, 1, 1]
    assert one.entries[0].delivery_count == count


@pytest.mark.spec("M-OUTCOME-007", "M-OUTCOME-009")
def test_rejected_counts_and_accepted_does_not() -> None:
    hooks = Hooked()
    queue = a_queue(hooks=hooks, dead_letter_exchange="dead")
    entries = put(queue, 1, 2)
    one = Taker(queue)
    one.settle(ACCEPTED)
    one.settle(REJECTED)
    assert [entry.delivery_count for entry in entries] == [0, 1]
    assert hooks.dead == [(2, Death.REJECTED, 1)]
    assert (queue.counters.rejected, queue.counters.dead_lettered, queue.counters.dropped) == (1, 1, 0)


@pytest.mark.spec("M-OUTCOME-017", "M-OUTCOME-018")
@pytest.mark.parametrize("annotations", [None, b"more"])
@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize("failed", [False, True])
def test_each_part_of_modified_counts_by_itself(failed: bool, here: bool, annotations: bytes | None) -> None:
    queue = a_queue()
    put(queue, 1)
    one = Taker(queue)
    one.settle(modified(delivery_failed=failed, undeliverable_here=here, annotations=annotations))
    assert one.got == [1] if here else [1, 1]
    other = Taker(queue)
    if not here:
        one.settle(modified())
    (entry,) = one.entries or other.entries
    assert entry.delivery_count == failed
    assert entry.annotations == annotations
    assert entry.message.payload == b"1"


@pytest.mark.spec("M-OUTCOME-023", "M-OUTCOME-024")
def test_undeliverable_here_bars_one_consumer() -> None:
    queue = a_queue()
    put(queue, 1, 2, 3)
    one = Taker(queue, 2)
    one.settle(modified(undeliverable_here=True), at=1)
    one.flow(10)
    assert one.got == [1, 2, 3]
    assert queue.ready == 1
    other = Taker(queue)
    assert other.got == [2]
    one.settle(RELEASED)
    other.settle(RELEASED)
    assert sorted(one.got[3:] + other.got[1:]) == [1, 2]
    assert 2 not in one.got[3:]


def test_a_consumer_that_is_barred_from_nothing_any_more_is_one_like_the_others() -> None:
    queue = a_queue()
    (entry, *_) = put(queue, 1, 2)
    one = Taker(queue, 1)
    one.settle(modified(undeliverable_here=True))
    other = Taker(queue, 1)
    assert other.got == [1]
    other.settle(ACCEPTED)
    assert entry.barred is None
    one.flow(10)
    put(queue, 3)
    assert one.got == [1, 2, 3]


def test_a_consumer_that_has_left_is_barred_from_nothing() -> None:
    queue = a_queue()
    (entry,) = put(queue, 1)
    one = Taker(queue, 1)
    one.settle(modified(undeliverable_here=True))
    assert entry.barred == {one}
    queue.detach(one)
    assert not entry.barred
    queue.attach(one)
    one.flow(1)
    assert one.got == [1, 1]


@pytest.mark.spec("M-OUTCOME-019", "M-OUTCOME-010")
def test_a_message_that_is_held_too_long_is_delivered_again() -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks, acquisition_timeout=30.0)
    put(queue, 1, 2)
    one = Taker(queue, 2)
    clock.advance(20)
    one.settle(ACCEPTED, at=1)
    other = Taker(queue)
    clock.advance(9)
    assert other.got == []
    clock.advance(1)
    assert (one.withdrawn, other.got) == ([1], [1])
    assert other.entries[0].delivery_count == 1
    other.settle(ACCEPTED)
    assert (queue.counters.rejected, queue.counters.redelivered, hooks.dead) == (0, 1, [])
    clock.advance(1000)
    assert other.withdrawn == []


def test_each_hold_has_its_own_time() -> None:
    clock = FakeClock()
    queue = a_queue(clock, acquisition_timeout=30.0)
    put(queue, 1)
    one = Taker(queue)
    clock.advance(20)
    one.settle(RELEASED)
    clock.advance(29)
    assert one.withdrawn == []
    clock.advance(1)
    assert one.withdrawn == [1]
    assert one.got == [1, 1, 1]


def test_who_had_a_message_before_is_known() -> None:
    queue = a_queue()
    (entry,) = put(queue, 1)
    assert not entry.was_acquired
    one = Taker(queue)
    assert not entry.was_acquired
    one.settle(RELEASED)
    assert entry.was_acquired
    assert (queue.counters.delivered, queue.counters.redelivered) == (2, 1)


# --- limits of failures


def test_too_many_failures_make_a_dead_letter() -> None:
    hooks = Hooked()
    queue = a_queue(hooks=hooks, delivery_limit=2, dead_letter_exchange="dead")
    (entry,) = put(queue, 1)
    one = Taker(queue)
    one.settle(RELEASED)
    one.settle(modified(delivery_failed=True))
    assert hooks.dead == []
    one.settle(modified(delivery_failed=True, undeliverable_here=True))
    assert hooks.dead == [(1, Death.DELIVERY_LIMIT, 2)]
    assert entry.state is MessageState.ARCHIVED
    assert hooks.forgotten == [1]


def test_without_a_dead_letter_exchange_they_are_dropped() -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks, delivery_limit=1, acquisition_timeout=5.0)
    put(queue, 1, 2)
    one = Taker(queue)
    one.settle(REJECTED)
    clock.advance(5)
    assert one.withdrawn == [2]
    assert hooks.dead == []
    assert hooks.forgotten == [1, 2]
    assert queue.counters.dropped == 2


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_one_outcome_of_several_messages_is_theirs_one_after_the_other(outcome: Outcome) -> None:
    """Of what the consumer does not hold, or has settled, nothing becomes otherwise."""
    found = []
    for is_at_once in (True, False):
        hooks = Hooked()
        queue = a_queue(
            hooks=hooks, durable=True, delivery_limit=2, dead_letter_exchange="dead", acquisition_timeout=9.0
        )
        entries = put(queue, *range(1, 7), durable=True)
        other, one = Taker(queue, 1), Taker(queue, 4)
        queue.settle(entries[1:2], one, ACCEPTED)
        queue.settle(entries[2:3], one, modified(delivery_failed=True, annotations=b"a"))
        one.got.clear()
        for some in [entries] if is_at_once else [[entry] for entry in entries]:
            queue.settle(some, one, outcome)
        known = [(entry.state, entry.holder is one, entry.delivery_count) for entry in entries]
        assert (known[0][0], entries[0].holder) == (MessageState.ACQUIRED, other)
        left = [entry.message.id for entry in queue]
        found.append((known, left, one.got, queue.counters, queue.bytes, hooks.noted.operations, hooks.dead))
    assert found[0] == found[1]


# --- what is true only with its unit


def test_an_outcome_is_true_with_its_unit() -> None:
    queue, hooks = a_queue(durable=True), Hooked()
    entries = put(queue, 1, 2, 3, durable=True)
    one = Taker(queue)
    unit = Unit()
    outcomes = (ACCEPTED, modified(delivery_failed=True, annotations=b"a"), RELEASED)
    settlements = [
        queue.note(entry, one, outcome, unit) for entry, outcome in zip(entries, outcomes, strict=True)
    ]
    assert unit.operations == [("dequeue", (1, 1)), ("change", (1, 2, 1, b"a"))]
    assert {entry.state for entry in entries} == {MessageState.ACQUIRED}
    assert queue.note(entries[0], one, RELEASED, unit) is None
    one.got.clear()
    for settlement in settlements:
        assert settlement is not None
        queue.apply(settlement)
    assert [entry.state.name for entry in entries] == ["ARCHIVED", "ACQUIRED", "ACQUIRED"]
    assert one.got == [2, 3]
    assert hooks.dead == []


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_outcome_whose_unit_fails_is_none(outcome: Outcome) -> None:
    clock = FakeClock()
    queue = a_queue(clock, acquisition_timeout=10.0)
    (entry,) = put(queue, 1)
    one = Taker(queue, 1)
    settlement = queue.note(entry, one, outcome, Unit())
    assert settlement is not None
    clock.advance(20)
    assert one.withdrawn == []
    queue.undo(settlement)
    assert (entry.holder, entry.state, entry.delivery_count) == (one, MessageState.ACQUIRED, 0)
    clock.advance(10)
    assert one.withdrawn == [1]


def test_a_queue_that_is_deleted_before_an_outcome_is_true() -> None:
    hooks = Hooked()
    queue = a_queue(hooks=hooks)
    entries = put(queue, 1, 2)
    one = Taker(queue)
    settlements = [queue.note(entry, one, ACCEPTED, Unit()) for entry in entries]
    queue.delete(Unit())
    assert None not in settlements
    first, second = (settlement for settlement in settlements if settlement)
    queue.apply(first)
    queue.undo(second)
    assert hooks.forgotten == [1, 2]
    assert queue.counters.accepted == 0
    assert (queue.ready, queue.unacknowledged) == (0, 0)

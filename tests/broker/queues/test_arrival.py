"""How messages come to a queue: safe before they are seen, in their order, within its limits, once."""

from __future__ import annotations

from itertools import permutations

import pytest

from amqpforge.broker.errors import LimitExceeded
from amqpforge.broker.message import Message
from amqpforge.broker.queues import ACCEPTED, RELEASED, Death, Entry, Queue
from amqpforge.broker.queues.duplicates import Duplicates
from amqpforge.broker.settings import Overflow
from amqpforge.broker.store import Unit
from amqpforge.errors import LocalError
from tests.broker.clock import FakeClock
from tests.broker.queues.peers import FORM, Hooked, Taker, a_queue, put


def reserved(queue: Queue, *numbers: int, durable: bool = False, unit: Unit | None = None) -> list[Entry]:
    entries = []
    for number in numbers:
        message = Message(FORM, b"1234", durable=durable)
        message.id = number
        entries.append(queue.reserve(message, Unit() if unit is None else unit))
    return entries


@pytest.mark.parametrize("order", list(permutations(range(4))))
@pytest.mark.parametrize("failing", [(), (0,), (1, 2), (0, 1, 2, 3)])
def test_messages_are_seen_in_the_order_of_their_places(
    order: tuple[int, ...], failing: tuple[int, ...]
) -> None:
    hooks = Hooked()
    queue = a_queue(hooks=hooks)
    one = Taker(queue)
    entries = reserved(queue, 1, 2, 3, 4)
    done: set[int] = set()
    for place in order:
        (queue.cancel if place in failing else queue.confirm)(entries[place])
        done.add(place)
        before = next((number for number in range(4) if number not in done), 4)
        assert one.got == [number + 1 for number in range(before) if number not in failing]
    assert [entry.message.references for entry in entries] == [int(n not in failing) for n in range(4)]
    assert queue.bytes == 4 * len(one.got)
    assert hooks.forgotten == []


def test_what_the_store_has_to_know() -> None:
    hooks, unit = Hooked(), Unit()
    queue = a_queue(hooks=hooks, durable=True)
    (entry,) = reserved(queue, 1, durable=True, unit=unit)
    reserved(queue, 2, unit=unit)
    reserved(a_queue(), 3, durable=True, unit=unit)
    assert unit.operations == [("enqueue", (1, 1, None, 0))]
    queue.confirm(entry)
    one = Taker(queue)
    one.settle(ACCEPTED)
    assert hooks.noted.operations == [("dequeue", (1, 1))]


def test_places_rise() -> None:
    queue = a_queue()
    reserved(queue, 5)
    with pytest.raises(LocalError, match="after message 5"):
        reserved(queue, 5)


def test_a_queue_that_is_deleted_before_a_message_is_safe() -> None:
    hooks = Hooked()
    queue = a_queue(hooks=hooks)
    first, second = reserved(queue, 1, 2)
    queue.delete(Unit())
    assert hooks.forgotten == [1, 2]
    queue.confirm(first)
    queue.cancel(second)
    assert (queue.ready, queue.bytes, first.message.references, second.message.references) == (0, 0, 0, 0)


# --- limits


def test_a_full_queue_refuses() -> None:
    queue = a_queue(max_length=3)
    put(queue, 1)
    one = Taker(queue, 1)
    pending = reserved(queue, 2, 3)
    with pytest.raises(LimitExceeded, match="3 messages"):
        put(queue, 4)
    queue.cancel(pending[1])
    queue.confirm(pending[0])
    put(queue, 4)
    with pytest.raises(LimitExceeded):
        put(queue, 5)
    one.settle(ACCEPTED)
    put(queue, 5)
    assert queue.ready == 3


def test_a_queue_with_too_many_octets_refuses() -> None:
    queue = a_queue(max_bytes=10)
    reserved(queue, 1)
    put(queue, 2)
    message = Message(FORM, b"123456")
    with pytest.raises(LimitExceeded, match="10 octets"):
        queue.check(message)
    queue.check(Message(FORM, b"12345"))


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DEAD_LETTER])
def test_the_oldest_message_that_nobody_has_goes(overflow: Overflow) -> None:
    hooks = Hooked()
    exchange = "dead" if overflow is Overflow.DEAD_LETTER else None
    queue = a_queue(hooks=hooks, max_length=3, overflow=overflow, dead_letter_exchange=exchange)
    put(queue, 1, 2)
    one = Taker(queue, 1)
    put(queue, 3, 4)
    assert [entry.message.id for entry in queue] == [1, 3, 4]
    assert [number for number, _, _ in hooks.dead] == ([2] if exchange else [])
    one.settle(RELEASED)
    put(queue, 5)
    assert [entry.message.id for entry in queue] == [3, 4, 5]
    assert queue.counters.dropped == (0 if exchange else 2)
    assert queue.counters.dead_lettered == (2 if exchange else 0)


def test_dropping_the_oldest_is_not_dead_lettering() -> None:
    """An exchange for other dead letters does not make one of what is dropped."""
    hooks = Hooked()
    queue = a_queue(hooks=hooks, max_length=1, overflow=Overflow.DROP_OLDEST, dead_letter_exchange="dead")
    put(queue, 1, 2)
    assert hooks.dead == []
    assert (queue.counters.dropped, queue.counters.dead_lettered) == (1, 0)


def test_the_oldest_one_is_so_by_arrival_and_not_by_priority() -> None:
    queue = a_queue(max_length=3, overflow=Overflow.DROP_OLDEST, priority_levels=10)
    for number, priority in enumerate([4, 1, 9, 0, 9, 0], 1):
        put(queue, number, priority=priority)
    assert sorted(entry.message.id for entry in queue) == [4, 5, 6]


def test_too_many_octets_drop_as_many_as_it_takes() -> None:
    queue = a_queue(max_bytes=10, overflow=Overflow.DROP_OLDEST)
    put(queue, 1, 2, 3, 4)
    queue.confirm(reserved(queue, 5)[0])
    assert (queue.ready, queue.bytes) == (5, 8)
    put(queue, 123_456)
    assert ([entry.message.id for entry in queue], queue.bytes) == ([5, 123_456], 10)
    put(queue, 12_345_678_901)
    assert (list(queue), queue.bytes) == ([], 0)


def test_a_dead_letter_that_comes_back_to_its_queue_does_not_hang_it() -> None:
    class _Cycle(Hooked):
        last = 100

        def dead_letter(self, queue: Queue, entry: Entry, reason: Death, unit: Unit) -> None:
            super().dead_letter(queue, entry, reason, unit)
            self.last += 1
            queue.confirm(reserved(queue, self.last)[0])

    hooks = _Cycle()
    queue = a_queue(hooks=hooks, max_length=2, overflow=Overflow.DEAD_LETTER, dead_letter_exchange="dead")
    put(queue, 1, 2, 3)
    assert len(hooks.dead) < 10


# --- duplicates


def test_a_message_id_that_was_had_lately_is_known() -> None:
    queue = a_queue(duplicate_window=3)
    for number, name in enumerate([b"sa", b"sb", b"sc", b"sd"], 1):
        assert not queue.is_duplicate(name)
        put(queue, number, message_id=name)
    assert queue.is_duplicate(b"sb")
    assert not queue.is_duplicate(b"sa")
    assert not queue.is_duplicate(b"bb")
    assert queue.counters.duplicates == 1
    assert not a_queue().is_duplicate(b"sa")


def test_a_message_that_did_not_come_to_be_is_no_first_one() -> None:
    queue = a_queue(duplicate_window=10)
    message = Message(FORM, b"")
    message.id = 1
    entry = queue.reserve(message, Unit(), b"sa")
    assert queue.is_duplicate(b"sa")
    queue.cancel(entry, b"sa")
    assert not queue.is_duplicate(b"sa")


def test_long_message_ids_do_not_take_more_memory() -> None:
    known = Duplicates(1, 10)
    known.remember(b"s" + b"x" * 100_000, Unit())
    assert b"s" + b"x" * 100_000 in known
    assert b"s" + b"x" * 99_999 not in known
    assert max(len(key) for key in known._known) <= 64


@pytest.mark.parametrize("bound", [1, 2, 7, 100])
def test_what_a_store_keeps_of_them(bound: int) -> None:
    """The store has all of the window, and not much more; what it has makes the same window again."""
    known, unit = Duplicates(7, bound), Unit()
    kept: dict[bytes, int] = {}
    for number in range(500):
        name = b"s%d" % number
        known.remember(name, unit)
        for operation, (queue, *arguments) in unit.operations:
            assert queue == 7
            if operation == "remember":
                kept[arguments[0]] = arguments[1]
            else:
                kept = {key: value for key, value in kept.items() if value > arguments[0]}
        unit.operations.clear()
        assert list(known._known) == list(kept)[-bound:]
        assert len(kept) <= bound + bound // 8 + 1
    again = Duplicates(7, bound)
    again.restore(kept.items())
    assert again._known == known._known
    again.remember(b"snew", unit)
    assert unit.operations[0] == ("remember", (7, b"snew", 501))


def test_ids_of_messages_that_do_not_survive_are_not_stored() -> None:
    unit = Unit()
    queue = a_queue(durable=True, duplicate_window=10)
    put(queue, 1, message_id=b"sa", unit=unit)
    assert unit.operations == []
    put(queue, 2, message_id=b"sb", unit=unit, durable=True)
    assert [operation for operation, _ in unit.operations] == ["enqueue", "remember"]
    assert queue.is_duplicate(b"sa")


# --- after a restart


def test_a_queue_is_as_it_was() -> None:
    clock, hooks = FakeClock(), Hooked()
    queue = a_queue(clock, hooks, durable=True, priority_levels=5, duplicate_window=5)
    entries = []
    for number in range(1, 2001):
        message = Message(FORM, b"1234", durable=True, priority=number % 10)
        message.id = number
        expires_at = clock.now() + 10 if number % 2 else None
        entries.append(Entry(message, expires_at, number % 3, b"a", was_acquired=True))
    queue.restore(entries, [(b"sa", 3), (b"sb", 9)])
    assert (queue.ready, queue.bytes) == (2000, 8000)
    assert {entry.message.references for entry in entries} == {1}
    assert queue.is_duplicate(b"sa")
    first = next(iter(queue))
    assert (first.message.id, first.delivery_count, first.annotations) == (6, 0, b"a")
    with pytest.raises(LocalError):
        reserved(queue, 2000)
    put(queue, 2001, durable=True, priority=9)
    clock.advance(10)
    one = Taker(queue)
    clock.advance(0)
    assert one.got[:4] == [6, 8, 16, 18]
    assert sorted(one.got) == [*range(2, 2001, 2), 2001]
    assert queue.counters.redelivered == 1000
    one.settle(ACCEPTED)
    assert hooks.noted.operations[-1] == ("dequeue", (1, 6))


def test_an_empty_queue_is_restored() -> None:
    queue = a_queue(durable=True)
    queue.restore([])
    put(queue, 1)
    assert Taker(queue).got == [1]

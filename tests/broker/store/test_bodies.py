"""Payloads within bounds: what is dropped, what comes back, and when publishers are to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge.broker.bodies import Bodies
from amqpforge.broker.errors import StoreError
from amqpforge.broker.message import Message
from amqpforge.broker.store.base import Done, Recovered, Store, Unit
from amqpforge.broker.store.memory import MemoryStore
from amqpforge.broker.store.sqlite import SqliteStore

from .units import commit, message


class Shelf(Store):
    """A durable store of payloads alone, which notes what is read."""

    def __init__(self) -> None:
        self.payloads: dict[int, bytes] = {}
        self.reads: list[list[int]] = []

    @property
    def is_durable(self) -> bool:
        return True

    def open(self) -> Recovered:
        raise NotImplementedError

    def commit(self, unit: Unit, done: Done) -> None:
        raise NotImplementedError

    def read(self, messages: Iterable[int]) -> dict[int, bytes]:
        self.reads.append(list(messages))
        return {number: self.payloads[number] for number in self.reads[-1]}

    async def close(self) -> None:
        raise NotImplementedError

    def put(self, bodies: Bodies, number: int, octets: int) -> Message:
        """A message that came and was stored."""
        made = message(number, bytes([number % 256]) * octets)
        self.payloads[number] = made.payload or b""
        bodies.hold(made)
        bodies.stored(made)
        return made


def test_payloads_beyond_the_limit_stay_on_disk_and_the_oldest_in_memory() -> None:
    shelf = Shelf()
    bodies = Bodies(shelf, limit=1000)
    messages = [shelf.put(bodies, number, 100) for number in range(1, 101)]
    assert [one.id for one in messages if one.payload is not None] == list(range(1, 11))
    assert bodies.used == 1000
    assert not bodies.is_pressed


def test_a_backlog_drains_in_order_with_few_reads_and_bounded_memory() -> None:
    shelf = Shelf()
    bodies = Bodies(shelf, limit=10_000)
    messages = [shelf.put(bodies, number, 100) for number in range(1, 1001)]
    highest = 0
    for place, one in enumerate(messages):
        assert bodies.payload(one, messages[place + 1 :]) == shelf.payloads[one.id]
        highest = max(highest, bodies.used)
        bodies.release(one)
    assert highest <= 12_500
    assert bodies.used == 0
    assert [number for read in shelf.reads for number in read] == list(range(101, 1001))
    assert len(shelf.reads) == 900 / 25  # a quarter of the limit at a time


def test_what_is_looked_at_for_reading_is_bounded() -> None:
    shelf = Shelf()
    bodies = Bodies(shelf, limit=10_000_000)
    recovered = message(1, b"first")
    shelf.payloads[1] = b"first"
    recovered.payload = None
    bodies.hold(recovered)
    looked_at = 0

    def following() -> Iterator[Message]:
        nonlocal looked_at
        while True:
            looked_at += 1
            yield message(1 + looked_at)

    assert bodies.payload(recovered, following()) == b"first"
    assert shelf.reads == [[1]]
    assert looked_at <= 256


def test_what_cannot_be_kept_is_read_alone_and_given_all_the_same() -> None:
    shelf = Shelf()
    bodies = Bodies(shelf, limit=0)
    first, second = shelf.put(bodies, 1, 5000), shelf.put(bodies, 2, 10)
    assert bodies.used == 0
    assert bodies.payload(first, [second]) == shelf.payloads[1]
    assert bodies.payload(second) == shelf.payloads[2]
    assert shelf.reads == [[1], [2]]
    assert bodies.used == 0


def test_browsing_keeps_only_what_was_read_last() -> None:
    shelf = Shelf()
    bodies = Bodies(shelf, limit=400)
    messages = [shelf.put(bodies, number, 100) for number in range(1, 51)]
    for place, one in enumerate(messages):
        bodies.payload(one, messages[place + 1 :])
        assert bodies.used <= 500
    assert [one.id for one in messages if one.payload is not None] == [1, 2, 3, 4, 50]
    for one in messages:
        bodies.release(one)
        bodies.release(one)
    assert bodies.used == 0


def test_messages_that_cannot_be_dropped_press_until_enough_of_them_have_gone() -> None:
    changes: list[bool] = []
    bodies = Bodies(MemoryStore(), limit=100, high=1000, low=500, on_change=changes.append)
    messages = [message(number, bytes(100)) for number in range(1, 13)]
    for one in messages:
        bodies.hold(one)
        bodies.stored(one)
    assert bodies.used == 1200
    assert bodies.is_pressed
    assert changes == [True]
    for one in messages[:6]:
        bodies.release(one)
    assert bodies.is_pressed
    bodies.release(messages[6])
    assert not bodies.is_pressed
    assert changes == [True, False]
    for one in messages[:4]:
        one.payload = bytes(100)
        bodies.hold(one)
    assert changes == [True, False]


def test_transient_messages_stay_though_the_store_is_durable() -> None:
    bodies = Bodies(Shelf(), limit=0, high=100, low=10)
    transient = message(1, bytes(100))
    transient.is_stored = False
    bodies.hold(transient)
    bodies.stored(transient)
    assert bodies.payload(transient) == bytes(100)
    assert bodies.is_pressed


def test_a_message_released_before_it_was_stored_counts_no_more() -> None:
    bodies = Bodies(Shelf(), limit=0)
    gone = message(1, bytes(100))
    bodies.hold(gone)
    bodies.release(gone)
    bodies.stored(gone)
    assert bodies.used == 0
    gone.is_stored = False
    with pytest.raises(StoreError, match="message 1 is neither in memory nor stored"):
        bodies.payload(gone)


@pytest.mark.parametrize(
    ("limit", "low", "high"), [(-1, None, None), (100, 100, 200), (100, 200, 200), (100, None, 120)]
)
def test_numbers_that_contradict_each_other_are_refused(
    limit: int, low: int | None, high: int | None
) -> None:
    with pytest.raises(ValueError, match="do not go together"):
        Bodies(MemoryStore(), limit=limit, low=low, high=high)


@given(
    st.integers(0, 3000),
    st.lists(
        st.tuples(st.sampled_from(["put", "payload", "release"]), st.integers(0, 30), st.integers(0, 900))
    ),
)
def test_the_account_is_right_whatever_happens(limit: int, steps: list[tuple[str, int, int]]) -> None:
    shelf = Shelf()
    bodies = Bodies(shelf, limit=limit)
    messages: dict[int, Message] = {}
    for count, (step, choice, octets) in enumerate(steps, 1):
        if step == "put":
            messages[count] = shelf.put(bodies, count, octets)
        elif messages:
            number = sorted(messages)[choice % len(messages)]
            if step == "payload":
                after = [messages[later] for later in sorted(messages) if later > number]
                assert bodies.payload(messages[number], after) == shelf.payloads[number]
            else:
                bodies.release(messages.pop(number))
        in_memory = sum(one.size for one in messages.values() if one.payload is not None)
        assert bodies.used == in_memory <= limit + limit // 4


def test_with_the_store_in_sqlite_a_backlog_comes_back_whole(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "store.db")
        store.open()
        bodies = Bodies(store, limit=20_000)
        messages = [message(number, b"%d " % number * 100) for number in range(1, 1001)]
        for one in messages:
            unit = Unit()
            unit.add(one)
            bodies.hold(one)
            assert await commit(store, unit) == [None]
            bodies.stored(one)
            assert bodies.used <= 20_000
        for place, one in enumerate(messages):
            assert bodies.payload(one, messages[place + 1 :]) == b"%d " % one.id * 100
            bodies.release(one)
        assert bodies.used == 0
        await store.close()

    asyncio.run(run())

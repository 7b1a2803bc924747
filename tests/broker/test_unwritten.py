"""What the broker does while its store cannot be written: nothing that was accepted is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from amqpforge.broker.amqp_1_0.form import FORM
from amqpforge.broker.bodies import Bodies
from amqpforge.broker.core import Core
from amqpforge.broker.errors import BrokerError, StoreError
from amqpforge.broker.exchanges import Binding, Destination
from amqpforge.broker.host import VirtualHost
from amqpforge.broker.limits import BrokerLimits, Usage
from amqpforge.broker.message import Message
from amqpforge.broker.queues import ACCEPTED, Consumer, Entry, Queue
from amqpforge.broker.recovery import recover
from amqpforge.broker.settings import ExchangeSettings, QueueSettings
from amqpforge.broker.store.base import Done, Recovered, Store, Unit
from amqpforge.broker.store.changes import Changes, only_removes
from tests.broker.clock import FakeClock

FULL = StoreError("the disk is full")
DURABLE = QueueSettings(durable=True)


class Disk(Store):
    """A store that writes when it is told to, and is full as long as it is told so.

    As the store of the broker does it, what only removes is written even then.

    Attributes:
        is_full: whether nothing can be added.
        written: all that it has, as one sum.
    """

    def __init__(self) -> None:
        self.is_full = False
        self.written = Changes()
        self._waiting: list[tuple[Unit, Done]] = []

    @property
    def is_durable(self) -> bool:
        return True

    def open(self) -> Recovered:
        return Recovered(definitions=(), messages=iter(()), entries=iter(()), remembered=iter(()))

    def commit(self, unit: Unit, done: Done) -> None:
        self._waiting.append((unit, done))

    def write(self) -> None:
        """Write what waits, one unit after the other."""
        while self._waiting:
            unit, done = self._waiting.pop(0)
            if self.is_full and not only_removes(unit):
                done(FULL)
            else:
                self.written.take(unit)
                done(None)

    def read(self, messages: Iterable[int]) -> dict[int, bytes]:
        return {id: self.written.bodies[id] for id in messages}

    async def close(self) -> None: ...


class Place:
    """A virtual host on such a disk."""

    def __init__(self, **limits: Any) -> None:
        self.disk = Disk()
        self.clock = FakeClock()
        most = BrokerLimits(**limits)
        bodies = Bodies(self.disk, limit=most.memory // 2, high=most.memory, low=most.memory * 4 // 5)
        self.core = Core(self.disk, self.clock, bodies, Usage(most))
        self.host: VirtualHost = recover(self.core, self.disk.open(), ["/"])["/"]

    def publish(self, key: str, message_id: bytes | None = None, **how: Any) -> list[BrokerError | int]:
        """Publish a durable message; returns what will have come of it."""
        told: list[BrokerError | int] = []
        message = Message(FORM, b"\x00\x53\x75\xa0\x01a", key=key, durable=True, **how)
        self.host.traffic.publish(
            message, message_id, lambda error, count: told.append(count if error is None else error)
        )
        return told

    def pass_barrier(self) -> list[BrokerError | None]:
        told: list[BrokerError | None] = []
        self.core.barrier(told.append)
        return told

    def settle(self) -> None:
        """Let the turn of the loop end, and the disk write."""
        self.clock.advance(0)
        self.disk.write()

    @property
    def kinds(self) -> list[str]:
        """What kinds of things the disk knows of."""
        return sorted(kind for kind, _ in self.disk.written.defined)


def _declare_queue(host: VirtualHost) -> None:
    host.declare_queue("new", DURABLE)


def _declare_exchange(host: VirtualHost) -> None:
    host.declare_exchange("new", ExchangeSettings(durable=True))


def _bind(host: VirtualHost) -> None:
    host.bind(Binding("amq.topic", Destination.queue("q"), "#"))


@pytest.mark.parametrize("declare", [_declare_queue, _declare_exchange, _bind])
def test_what_could_not_be_defined_is_with_the_next_that_is_written(
    declare: Callable[[VirtualHost], None],
) -> None:
    place = Place()
    place.host.declare_queue("q", DURABLE)
    place.settle()
    assert place.kinds == ["queue"]
    place.disk.is_full = True
    declare(place.host)
    refused = place.pass_barrier()
    place.settle()
    assert refused == [FULL]
    again = place.pass_barrier()  # Nothing is new, and still it is not safe.
    place.settle()
    assert again == [FULL]
    place.disk.is_full = False
    accepted = place.publish("q")
    place.settle()
    assert accepted == [1]
    assert len(place.kinds) == 2
    safe = place.pass_barrier()
    place.settle()
    assert safe == [None]


def test_a_message_is_not_accepted_for_a_queue_that_the_store_does_not_know() -> None:
    place = Place()
    place.disk.is_full = True
    queue = place.host.declare_queue("q", DURABLE)
    place.settle()
    refused = place.publish("q")
    place.settle()
    assert refused == [FULL]
    place.disk.is_full = False
    accepted = place.publish("q")
    place.settle()
    assert accepted == [1]
    assert [number for number, _ in place.disk.written.entries] == [queue.number]
    assert place.kinds == ["queue"]


def test_what_could_not_be_defined_and_is_gone_since_is_not_defined() -> None:
    place = Place()
    place.disk.is_full = True
    place.host.declare_queue("early", DURABLE)
    place.settle()
    place.host.declare_queue("late", DURABLE)
    place.host.delete_queue("early")
    place.host.delete_queue("late")  # before it is known that it could not be written
    place.settle()
    place.disk.is_full = False
    place.host.declare_queue("q", DURABLE)
    place.settle()
    assert list(place.disk.written.defined) == [("queue", '["/", "q"]')]


def test_a_repeated_message_is_not_accepted_if_the_first_one_was_lost() -> None:
    place = Place()
    queue = place.host.declare_queue("q", QueueSettings(durable=True, duplicate_window=10))
    place.settle()
    place.disk.is_full = True
    first = place.publish("q", b"1")
    place.clock.advance(0)
    second = place.publish("q", b"1")
    place.settle()
    assert first == [FULL]
    assert isinstance(second[0], StoreError)
    place.disk.is_full = False
    third, fourth = place.publish("q", b"1"), place.publish("q", b"1")
    place.settle()
    assert third == fourth == [1]
    assert queue.ready == 1


def test_a_repeated_message_whose_first_one_left_the_window_is_accepted() -> None:
    place = Place()
    queue = place.host.declare_queue("q", QueueSettings(durable=True, duplicate_window=1))
    place.settle()
    told = [place.publish("q", id) for id in (b"1", b"1", b"2")]
    place.settle()
    assert told == [[1], [1], [1]]
    assert queue.ready == 2


def test_the_store_forgets_a_message_whose_queue_goes_while_it_is_written() -> None:
    place = Place()
    place.host.declare_queue("q", DURABLE)
    place.settle()
    accepted = place.publish("q")
    place.clock.advance(0)
    place.host.delete_queue("q")
    place.settle()
    place.settle()
    assert accepted == [1]
    assert not place.disk.written.messages
    assert not place.disk.written.bodies
    assert place.core.bodies.used == 0


def test_what_a_queue_remembered_that_is_no_more_is_forgotten() -> None:
    place = Place()
    left = Recovered((), iter(()), iter(()), iter([(7, b"1", 1)]))
    recover(place.core, left, [])
    place.settle()
    assert place.disk.written.dropped == {7}


# --- transactions


def test_messages_of_open_transactions_count_as_memory() -> None:
    place = Place(memory=1000)
    place.host.declare_queue("q")

    def fill() -> Any:
        transaction = place.host.traffic.transaction()
        for _ in range(100):
            transaction.publish(Message(FORM, bytes(100), key="q"), None)
        return transaction

    with pytest.raises(BrokerError, match="memory"):
        fill()
    assert place.core.bodies.is_pressed


@pytest.mark.parametrize("end", ["commit", "roll back"])
def test_they_count_once_when_a_transaction_ends(end: str) -> None:
    place = Place(memory=1000)
    place.host.declare_queue("q")
    transaction = place.host.traffic.transaction()
    for _ in range(10):
        transaction.publish(Message(FORM, bytes(100), key="q"), None)
    assert place.core.bodies.used == 1000
    told: list[BrokerError | None] = []
    if end == "commit":
        transaction.commit(told.append)
        place.settle()
        assert told == [None]
        assert place.core.bodies.used == 1000
        place.host.purge_queue("q")
    else:
        transaction.rollback()
    place.settle()
    assert place.core.bodies.used == 0


class _Holder(Consumer):
    def __init__(self, queue: Queue, *, is_wrong: bool = False) -> None:
        self.entries: list[Entry] = []
        self.is_wrong = is_wrong
        queue.attach(self)
        queue.wake(self)

    @property
    def name(self) -> str:
        return "holder"

    @property
    def has_credit(self) -> bool:
        return True

    def deliver(self, entry: Entry) -> None:
        if self.is_wrong:
            raise ValueError("a mistake")
        self.entries.append(entry)

    def withdraw(self, entry: Entry) -> None:
        self.entries.remove(entry)

    def cancel(self) -> None: ...


def test_a_mistake_with_one_message_costs_no_other() -> None:
    place = Place()
    bad, good = place.host.declare_queue("bad", DURABLE), place.host.declare_queue("good", DURABLE)
    place.settle()
    _Holder(bad, is_wrong=True)
    told = [place.publish("bad"), place.publish("good"), place.publish("bad")]
    place.settle()
    assert told == [[1], [1], [1]]
    assert good.ready == 1


def test_a_prepared_transaction_that_cannot_be_committed_can_be_later() -> None:
    place = Place()
    source, target = place.host.declare_queue("from", DURABLE), place.host.declare_queue("to", DURABLE)
    place.publish("from")
    place.settle()
    holder = _Holder(source)
    place.settle()
    transaction = place.host.traffic.transaction()
    transaction.settle(source, holder.entries[:1], holder, ACCEPTED)
    transaction.publish(Message(FORM, b"\x00\x53\x75\xa0\x01b", key="to", durable=True), None)
    told: list[BrokerError | None] = []
    place.host.prepared.prepare(transaction, "x", told.append)
    place.settle()
    place.disk.is_full = True
    place.host.prepared.commit("x", told.append)
    place.settle()
    assert told == [None, FULL]
    assert place.host.prepared.xids == ["x"]
    place.disk.is_full = False
    place.host.prepared.commit("x", told.append)
    place.settle()
    place.settle()
    assert told == [None, FULL, None]
    assert place.host.prepared.xids == []
    assert (source.unacknowledged, target.ready) == (0, 1)
    assert "prepared" not in place.kinds
    assert list(place.disk.written.bodies.values()) == [b"\x00\x53\x75\xa0\x01b"]

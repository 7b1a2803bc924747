"""Transactions in two phases, with an outside coordinator that crashes or lives on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amqpforge.broker.amqp_1_0.form import FORM
from amqpforge.broker.broker import Broker
from amqpforge.broker.config import BrokerConfig, ListenerConfig
from amqpforge.broker.errors import BrokerError, NotFound, PreconditionFailed
from amqpforge.broker.host import VirtualHost
from amqpforge.broker.message import Message
from amqpforge.broker.queues import ACCEPTED, RELEASED, Consumer, Entry, Queue
from amqpforge.broker.settings import QueueSettings
from amqpforge.message import Message as Sent
from tests.client.loops import in_loop

DURABLE = QueueSettings(durable=True)


class Taker(Consumer):
    """Takes a message, and holds it."""

    def __init__(self, queue: Queue) -> None:
        self.entries: list[Entry] = []
        queue.attach(self)
        queue.wake(self)

    @property
    def name(self) -> str:
        return "taker"

    @property
    def has_credit(self) -> bool:
        return not self.entries

    def deliver(self, entry: Entry) -> None:
        self.entries.append(entry)

    def withdraw(self, entry: Entry) -> None:
        self.entries.remove(entry)

    def cancel(self) -> None: ...


def a_broker(tmp_path: Path) -> Broker:
    store = f"sqlite:{tmp_path / 'broker.db'}"
    return Broker(BrokerConfig(listeners=(ListenerConfig(port=0),), store=store))


def host(broker: Broker) -> VirtualHost:
    return broker.hosts["/"]


def a_message(body: str, key: str) -> Message:
    return Message(FORM, Sent(body, durable=True).encode(), key=key, durable=True)


async def asked(do: Callable[[Callable[[BrokerError | None], None]], Any]) -> BrokerError | None:
    """Call something that tells later how it went."""
    told: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
    do(told.set_result)
    return await told


async def prepare(broker: Broker, xid: str, key: str) -> Taker:
    """A branch: one message is consumed from "in", and another one is published with a key."""
    place = host(broker)
    for name in ("in", "out"):
        place.declare_queue(name, DURABLE)
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    place.traffic.publish(a_message("job", "in"), None, lambda error, count: done.set_result(count))
    assert await done == 1
    taker = Taker(place.queue("in"))
    transaction = place.traffic.transaction()
    transaction.publish(a_message("result", key), None)
    transaction.settle(place.queue("in"), taker.entries[:1], taker, ACCEPTED)
    assert await asked(lambda told: place.prepared.prepare(transaction, xid, told)) is None
    return taker


def counts(broker: Broker) -> list[tuple[int, int]]:
    queues = host(broker).queues
    return [(queues[name].ready, queues[name].unacknowledged) for name in ("in", "out")]


@in_loop
@pytest.mark.spec("A-TX-008")
async def test_prepared_branches_are_committed_before_and_after_a_crash(tmp_path: Path) -> None:
    async with a_broker(tmp_path) as broker:
        await prepare(broker, "one", "out")
        await prepare(broker, "two", "out")
        assert counts(broker) == [(0, 2), (0, 0)]
        assert await asked(lambda told: host(broker).prepared.commit("one", told)) is None
        assert counts(broker) == [(0, 1), (1, 0)]
    async with a_broker(tmp_path) as broker:
        assert host(broker).prepared.xids == ["two"]
        assert counts(broker) == [(0, 1), (1, 0)]
        assert await asked(lambda told: host(broker).prepared.commit("two", told)) is None
        assert counts(broker) == [(0, 0), (2, 0)]
    async with a_broker(tmp_path) as broker:
        assert host(broker).prepared.xids == []
        assert counts(broker) == [(0, 0), (2, 0)]


@in_loop
@pytest.mark.spec("A-TX-008")
async def test_prepared_branches_are_rolled_back_before_and_after_a_crash(tmp_path: Path) -> None:
    async with a_broker(tmp_path) as broker:
        await prepare(broker, "one", "out")
        await prepare(broker, "two", "out")
        assert await asked(lambda told: host(broker).prepared.rollback("one", told)) is None
        assert counts(broker) == [(1, 1), (0, 0)]
    async with a_broker(tmp_path) as broker:
        assert await asked(lambda told: host(broker).prepared.rollback("two", told)) is None
        assert counts(broker) == [(2, 0), (0, 0)]
    async with a_broker(tmp_path) as broker:
        assert host(broker).prepared.xids == []
        assert counts(broker) == [(2, 0), (0, 0)]


@in_loop
async def test_what_a_branch_holds_is_its_own(tmp_path: Path) -> None:
    async with a_broker(tmp_path) as broker:
        taker = await prepare(broker, "one", "out")
        place = host(broker)
        place.traffic.settle(place.queue("in"), taker.entries[:1], taker, RELEASED)
        assert counts(broker) == [(0, 1), (0, 0)]
        with pytest.raises(PreconditionFailed, match="prepared already"):
            place.prepared.prepare(place.traffic.transaction(), "one", lambda _: None)
        for decide in (place.prepared.commit, place.prepared.rollback):
            with pytest.raises(NotFound):
                decide("none", lambda _: None)


@in_loop
async def test_what_could_not_be_committed_is_not_prepared(tmp_path: Path) -> None:
    async with a_broker(tmp_path) as broker:
        place = host(broker)
        taker = await prepare(broker, "one", "out")
        transaction = place.traffic.transaction()
        transaction.settle(place.queue("in"), taker.entries[:1], taker, ACCEPTED)
        with pytest.raises(PreconditionFailed, match="taken back"):
            place.prepared.prepare(transaction, "two", lambda _: None)
        assert place.prepared.xids == ["one"]


@in_loop
async def test_a_commit_that_is_refused_leaves_the_branch_prepared(tmp_path: Path) -> None:
    async with a_broker(tmp_path) as broker:
        place = host(broker)
        place.declare_queue("small", QueueSettings(durable=True, max_length=1))
        await prepare(broker, "one", "small")
        assert (
            await asked(
                lambda told: place.traffic.publish(
                    a_message("full", "small"), None, lambda error, _: told(error)
                )
            )
            is None
        )
        refused = await asked(lambda told: place.prepared.commit("one", told))
        assert refused is not None
        assert "max_length" in str(refused)
        assert place.prepared.xids == ["one"]
        assert place.purge_queue("small") == 1
        assert await asked(lambda told: place.prepared.commit("one", told)) is None
        assert place.queue("small").ready == 1

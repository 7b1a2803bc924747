"""A broker starts on a store: what it has again, how much memory that takes, and how a backlog drains."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import pytest

import amqpforge
from amqpforge import Message
from amqpforge.broker.amqp_1_0.form import FORM, arrive
from amqpforge.broker.errors import StoreError
from amqpforge.broker.message import Message as Kept
from amqpforge.broker.settings import QueueSettings
from amqpforge.broker.store.base import Unit
from amqpforge.broker.store.sqlite import SqliteStore
from amqpforge_protocol.amqp_1_0 import Accepted

from .child import Child, children

DIGITS = 10
GROUP = 1000
KIBIBYTE = 1024
MOST_RESIDENT = 400_000_000
FEW = {"memory": 32 << 20}
"""Half of it is for payloads, and an eighth more for those that are read back."""
MOST_BODIES = 20 << 20


def make_store(path: Path, count: int) -> None:
    """A store with durable messages of 1 KiB in the queue q, each with its number in front."""
    template = arrive(Message(b"." * KIBIBYTE).encode(), 0).payload
    start = template.index(b"." * KIBIBYTE)

    def unit_of(first: int, last: int) -> Unit:
        unit = Unit()
        for number in range(first, last + 1):
            octets = b"%0*d" % (DIGITS, number)
            kept = Kept(FORM, template[:start] + octets + template[start + DIGITS :], key="q", durable=True)
            kept.id = number
            unit.add(kept)
            unit.enqueue(1, number, None, 0)
        return unit

    async def run() -> None:
        store = SqliteStore(path)
        store.open()
        room = asyncio.Semaphore(10)
        failed: list[object] = []

        def done(error: StoreError | None) -> None:
            room.release()
            if error is not None:
                failed.append(error)

        unit = Unit()
        settings = QueueSettings(durable=True)
        unit.define("queue", json.dumps(["/", "q"]), {"number": 1, **settings.to_data()})
        for first in range(1, count + 1, GROUP):
            await room.acquire()
            store.commit(unit, done)
            unit = unit_of(first, min(first + GROUP - 1, count))
        await room.acquire()
        store.commit(unit, done)
        await store.close()
        assert failed == []

    asyncio.run(run())


async def drain(url: str, child: Child, count: int) -> dict[str, int]:
    """Consume all messages, which have to come in order; returns the most memory that was seen meanwhile."""
    most: dict[str, int] = {}
    async with (
        amqpforge.connect(url, reconnect=None) as connection,
        connection.receiver("q", credit=500) as receiver,
    ):
        expected = 0
        async for delivery in receiver:
            expected += 1
            assert delivery.payload[-KIBIBYTE:].startswith(b"%0*d" % (DIGITS, expected))
            if not expected % (count // 20):
                for name, octets in child.ask("memory").items():
                    most[name] = max(octets, most.get(name, 0))
            if expected == count:
                break
    return most


def recover_and_drain(folder: Path, count: int) -> None:
    store = folder / "broker.db"
    make_store(store, count)
    with children() as started:
        child = Child(store, limits=FEW)
        started.append(child)
        assert child.url is not None
        assert child.ask("lengths") == {"q": count}
        assert child.ask("reads") == {"calls": 0, "payloads": 0}
        memory = child.ask("memory")
        assert memory["bodies"] == 0
        assert memory["VmHWM"] < MOST_RESIDENT
        most = asyncio.run(drain(child.url, child, count))
        assert most["bodies"] <= MOST_BODIES
        assert most["VmHWM"] < min(MOST_RESIDENT, memory["VmHWM"] + 2 * MOST_BODIES)
        # Each payload is read once, and many at a time.
        reads = child.ask("reads")
        assert reads["payloads"] == count
        assert reads["calls"] <= math.ceil(count / 50)
        assert child.stop() == 0
        started.append(Child(store))
        assert started[-1].ask("lengths") == {"q": 0}


def test_a_backlog_drains_in_order_with_memory_bounded(tmp_path: Path) -> None:
    recover_and_drain(tmp_path, 50_000)


@pytest.mark.slow
def test_a_backlog_of_a_million_drains_in_order_with_memory_bounded(tmp_path: Path) -> None:
    recover_and_drain(tmp_path, 1_000_000)


def test_what_a_queue_knows_of_its_messages_is_there_again(tmp_path: Path) -> None:
    """Delivery-counts, annotations, priorities, message-ids that it has had, and when messages die."""

    async def before(url: str) -> list[Message]:
        async with amqpforge.connect(url, reconnect=None) as connection:
            sender = await connection.sender("q")
            for number, priority in ((1, 2), (2, 9), (3, 9), (4, 0)):
                await sender.send(Message(number, durable=True, priority=priority, message_id=str(number)))
            await sender.send(Message("dead", durable=True, ttl=0.3, message_id="5"))
            async with connection.receiver("q", credit=3, auto_accept=False) as receiver:
                first, second = await receiver.receive(), await receiver.receive()
                assert [first.message.body, second.message.body] == [2, 3]
                second.modify(delivery_failed=True, annotations={"x-opt-seen": "once"})
                assert await sender.send(Message(0, durable=True)) == Accepted()  # It is safe by then.
        return []

    async def after(url: str) -> list[Message]:
        async with amqpforge.connect(url, reconnect=None) as connection:
            async with connection.receiver("dead", mode="copy") as receiver:
                assert (await receiver.receive(timeout=5)).message.body == "dead"
            sender = await connection.sender("q")
            for number in (1, 5):
                await sender.send(Message("again", durable=True, message_id=str(number)))
            async with connection.receiver("q", mode="copy") as receiver:
                return [(await receiver.receive()).message for _ in range(await receiver.drain())]

    queues = {
        "q": {
            "durable": True,
            "priority_levels": 10,
            "duplicate_window": 10,
            "dead_letter_exchange": "amq.fanout",
        },
        "dead": {"durable": True},
    }
    found: list[Message] = []
    lengths: dict[str, int] = {}
    with children() as started:
        for use in (before, after):
            child = Child(tmp_path / "broker.db", queues=queues, bindings=[["amq.fanout", "", "dead"]])
            started.append(child)
            assert child.url is not None
            found = asyncio.run(use(child.url))
            lengths = child.ask("lengths")
            child.end()
    assert lengths == {"q": 5, "dead": 1}
    assert [message.body for message in found] == [2, 3, 0, 1, 4]
    assert [message.delivery_count for message in found] == [0, 1, 0, 0, 0]
    assert [message.first_acquirer for message in found] == [False] * 5
    assert found[1].annotations == {"x-opt-seen": "once"}

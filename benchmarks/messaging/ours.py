"""Ours as a worker: the asyncio client, against a node of ours or against a broker."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

from amqpforge.client import Connection, Message, Opening, Receiver, Sender, connect
from amqpforge_protocol.amqp_1_0 import SenderSettleMode
from benchmarks.messaging.ours_engine import joined
from benchmarks.messaging.ours_node import listen
from benchmarks.messaging.work import WINDOW, Answer, Inbox, Job, Meter, resident_octets

LABEL = "amqpforge"


def _connection(job: Job) -> Opening[Connection]:
    return connect(f"amqp://127.0.0.1:{job.port}", reconnect=None)


def _mode(job: Job) -> SenderSettleMode:
    return SenderSettleMode.SETTLED if job.settled else SenderSettleMode.UNSETTLED


def _sender(connection: Connection, job: Job) -> Opening[Sender]:
    return connection.sender(job.address, snd_settle_mode=_mode(job))


def _receiver(connection: Connection, job: Job) -> Opening[Receiver]:
    return connection.receiver(job.address, credit=WINDOW, snd_settle_mode=_mode(job))


async def _send(job: Job) -> dict[str, Any]:
    bodies = job.bodies()
    async with _connection(job) as connection, _sender(connection, job) as sender:
        meter = Meter()
        await sender.send_many(map(Message, bodies), window=WINDOW)
    return meter.stop()


async def _fetch(job: Job) -> dict[str, Any]:
    inbox = Inbox(job)
    result: dict[str, Any] = {}
    async with _connection(job) as connection, _receiver(connection, job) as receiver:
        meter = Meter()
        async for delivery in receiver:
            inbox.take(delivery.message.body)
            if inbox.is_full:
                result = meter.stop()
                break
    return result


async def _round_trips(job: Job) -> dict[str, Any]:
    bodies = job.bodies()
    micros = []
    async with _connection(job) as connection, _sender(connection, job) as sender:
        for body in bodies:
            begin = time.perf_counter_ns()
            await sender.send(Message(body))
            micros.append((time.perf_counter_ns() - begin) / 1000)
    return {"micros": micros}


async def _links(job: Job) -> dict[str, Any]:
    async with _connection(job) as connection:
        senders = []
        resident = []
        for _ in range(2):
            senders += [await connection.sender(job.address) for _ in range(job.count)]
            gc.collect()
            resident.append(resident_octets())
    return {"before": resident[0], "after": resident[1]}


def send(job: Job, answer: Answer) -> dict[str, Any]:
    """Send all messages to a node."""
    return asyncio.run(_send(job))


def fetch(job: Job, answer: Answer) -> dict[str, Any]:
    """Receive all messages from a node."""
    return asyncio.run(_fetch(job))


def round_trips(job: Job, answer: Answer) -> dict[str, Any]:
    """Send one message at a time, each after the outcome of the one before."""
    return asyncio.run(_round_trips(job))


def links(job: Job, answer: Answer) -> dict[str, Any]:
    """Memory before and after many links are opened."""
    return asyncio.run(_links(job))


ROLES = {
    "accept": listen,
    "fetch": fetch,
    "joined": joined,
    "links": links,
    "listen": listen,
    "round trips": round_trips,
    "send": send,
}

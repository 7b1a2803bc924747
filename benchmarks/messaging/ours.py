"""Ours as a worker: the asyncio client, against a node of ours or against a broker."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
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


def _messages(job: Job, bodies: Iterable[bytes], times: list[int]) -> Iterable[Message]:
    """The messages of a job, each made when it is its turn."""
    return _marked(job, bodies, times) if job.timed or job.durable else map(Message, bodies)


def _marked(job: Job, bodies: Iterable[bytes], times: list[int]) -> Iterable[Message]:
    for body in bodies:
        if job.timed:
            times.append(time.monotonic_ns())
        yield Message(body, durable=job.durable)


async def _send(job: Job) -> dict[str, Any]:
    bodies = job.bodies()
    times: list[int] = []
    async with _connection(job) as connection, _sender(connection, job) as sender:
        meter = Meter()
        await sender.send_many(_messages(job, bodies, times), window=WINDOW)
    return {**meter.stop(), "times": times}


async def _pace(job: Job) -> dict[str, Any]:
    """Send at a steady rate; a message that is late does not make the next one late."""
    bodies = job.bodies()
    times: list[int] = []
    loop = asyncio.get_running_loop()
    async with _connection(job) as connection, _sender(connection, job) as sender:
        meter = Meter()
        due = loop.time()
        for message in _messages(job, bodies, times):
            sender.post(message)
            due += 1 / job.rate
            await asyncio.sleep(max(0.0, due - loop.time()))
        await sender.flush()
    return {**meter.stop(), "times": times}


async def _fetch(job: Job) -> dict[str, Any]:
    inbox = Inbox(job)
    result: dict[str, Any] = {}
    async with _connection(job) as connection, _receiver(connection, job) as receiver:
        meter = Meter()
        async for delivery in receiver:
            inbox.take(delivery.message.body)
            if inbox.is_full:
                result = {**meter.stop(), "times": inbox.times}
                break
    return result


async def _round_trips(job: Job) -> dict[str, Any]:
    bodies = job.bodies()
    micros = []
    async with _connection(job) as connection, _sender(connection, job) as sender:
        for body in bodies:
            begin = time.perf_counter_ns()
            await sender.send(Message(body, durable=job.durable))
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


async def _stall(job: Job, answer: Answer) -> None:
    """A receiver with credit that takes nothing in: its whole process waits for the parent's next line."""
    async with _connection(job) as connection, connection.receiver(job.address, credit=job.count):
        answer({})
        sys.stdin.readline()


async def _connections(job: Job, answer: Answer) -> None:
    """Many connections, until the parent's next line."""
    begin = time.monotonic_ns()
    async with AsyncExitStack() as stack:
        for _ in range(job.count):
            await stack.enter_async_context(_connection(job))
        answer({"begin": begin, "end": time.monotonic_ns()})
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def send(job: Job, answer: Answer) -> dict[str, Any]:
    """Send all messages to a node."""
    return asyncio.run(_send(job))


def fetch(job: Job, answer: Answer) -> dict[str, Any]:
    """Receive all messages from a node."""
    return asyncio.run(_fetch(job))


def round_trips(job: Job, answer: Answer) -> dict[str, Any]:
    """Send one message at a time, each after the outcome of the one before."""
    return asyncio.run(_round_trips(job))


def pace(job: Job, answer: Answer) -> dict[str, Any]:
    """Send all messages to a node, so many a second."""
    return asyncio.run(_pace(job))


def stall(job: Job, answer: Answer) -> dict[str, Any]:
    """Ask for messages, and do not read them."""
    asyncio.run(_stall(job, answer))
    return {}


def connections(job: Job, answer: Answer) -> dict[str, Any]:
    """Open so many connections, and hold them."""
    asyncio.run(_connections(job, answer))
    return {}


def links(job: Job, answer: Answer) -> dict[str, Any]:
    """Memory before and after many links are opened."""
    return asyncio.run(_links(job))


ROLES = {
    "accept": listen,
    "connections": connections,
    "fetch": fetch,
    "joined": joined,
    "links": links,
    "listen": listen,
    "pace": pace,
    "round trips": round_trips,
    "send": send,
    "stall": stall,
}

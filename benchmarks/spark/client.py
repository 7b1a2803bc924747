"""What a program without Spark does: the asyncio client sends messages to a queue, and takes them from it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter

from amqpforge.client import Connection, Message, Opening, connect
from benchmarks.spark.contents import bodies, messages

CREDIT = 5000
WINDOW = 1000
"""What the source and the sink of Spark have without an option."""

PATIENCE = 60.0
"""Seconds for all of a run."""


class WrongMessagesError(Exception):
    """Messages are missing, changed or there twice."""


def _connection(port: int) -> Opening[Connection]:
    return connect(f"amqp://127.0.0.1:{port}", reconnect=None)


def send(port: int, address: str, count: int, size: int) -> dict[str, float]:
    """Send numbered bodies; the time is that from the attach to the last outcome."""
    return asyncio.run(_send(port, address, count, size))


async def _send(port: int, address: str, count: int, size: int) -> dict[str, float]:
    numbered = bodies(count, size)
    async with _connection(port) as connection, connection.sender(address) as sender:
        begin = perf_counter()
        await sender.send_many(map(Message, numbered), window=WINDOW)
        return {"seconds": perf_counter() - begin}


def send_orders(port: int, address: str, count: int) -> dict[str, float]:
    """Send messages that have properties."""
    return asyncio.run(_send_orders(port, address, count))


async def _send_orders(port: int, address: str, count: int) -> dict[str, float]:
    async with _connection(port) as connection, connection.sender(address) as sender:
        await sender.send_many(map(Message.from_octets, messages(count)), window=WINDOW)
    return {}


def take(port: int, address: str, count: int, size: int) -> dict[str, float]:
    """Take and accept all numbered bodies; the time is that from the first one until the last is accepted.

    Raises:
        WrongMessagesError: not each is there once, unchanged, or there are others.
    """
    return asyncio.run(_take(port, address, count, size))


async def _take(port: int, address: str, count: int, size: int) -> dict[str, float]:
    found: list[object] = []
    begin = 0.0
    async with asyncio.timeout(PATIENCE), _connection(port) as connection:
        async with connection.receiver(address, credit=CREDIT) as receiver:
            async for delivery in receiver:
                if not found:
                    begin = perf_counter()
                found.append(delivery.message.body)
                if len(found) == count:
                    break
        seconds = perf_counter() - begin  # closed: the outcomes have gone out
        async with connection.receiver(address, credit=1) as receiver:
            left = await receiver.drain()
    if left:
        raise WrongMessagesError(f"there are more than {count} messages")
    check(found, count, size)
    return {"seconds": seconds}


def check(found: Sequence[object], count: int, size: int) -> None:
    """See that each body is there once, in any order.

    Raises:
        WrongMessagesError: that is not so.
    """
    expected = set(bodies(count, size))
    if len(found) != count or set(found) != expected:
        missing = len(expected.difference(found))
        raise WrongMessagesError(
            f"of {count} messages {missing} are missing, among the {len(found)} that came"
        )

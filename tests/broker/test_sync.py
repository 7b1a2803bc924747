"""Below the process: a durable message is on the disk before the broker says that it has accepted it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import amqpforge
from amqpforge import Connection, Message
from amqpforge_protocol.amqp_1_0 import Accepted, Disposition, FrameReader, Role, decode_frame

from .child import Child, children
from .tracing import strace

COUNT = 40
TRACED = "sendto,write,writev,sendmsg,pwrite64,pwritev,fsync,fdatasync"
CALL = re.compile(
    r'^(?P<thread>\d+) +(?P<call>\w+)\(\d+<(?P<file>[^>]*)>(, "(?P<octets>[^"]*)")?(?P<rest>.*)$'
)
RESUMED = re.compile(r"^(?P<thread>\d+) +<\.\.\. (?P<call>\w+) resumed>(?P<rest>.*)$")
MARK = re.compile(rb"<message (\d+)>")

Use: TypeAlias = Callable[[Connection], Awaitable[None]]


def message(number: int) -> Message:
    return Message(b"<message %d>" % number + bytes(100 * (number % 5)), durable=True)


async def one_by_one(connection: Connection) -> None:
    async with connection.sender("q") as sender:
        for number in range(COUNT):
            await sender.send(message(number))


async def many_at_once(connection: Connection) -> None:
    async with connection.sender("q") as sender:
        await sender.send_many(map(message, range(COUNT)), window=15)


async def in_one_transaction(connection: Connection) -> None:
    async with (
        connection.sender("q") as one,
        connection.sender("other") as other,
        connection.transaction() as transaction,
    ):
        for number in range(COUNT):
            await (one, other)[number % 2].send(message(number), transaction=transaction)


def trace(folder: Path, use: Use, **options: Any) -> list[str]:
    """The calls of a broker that is used over one connection."""

    async def run(url: str) -> None:
        async with amqpforge.connect(url) as connection:
            await use(connection)

    calls = folder / "calls"
    command = (*strace(), "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={TRACED}", "-o", str(calls))
    queues = {"q": {"durable": True}, "other": {"durable": True}}
    with children() as started:
        started.append(Child(folder / "broker.db", tracer=command, queues=queues, **options))
        url = started[-1].url
        assert url is not None
        asyncio.run(run(url))
        assert started[-1].stop() == 0
    return calls.read_text().splitlines()


def unhex(text: str | None) -> bytes:
    return bytes.fromhex((text or "").replace("\\x", ""))


def accepts(items: Iterable[bytes]) -> Iterator[int]:
    """The ids of the deliveries that headers and frames of the broker accept for good."""
    for item in items:
        body = None if item.startswith(b"AMQP") else decode_frame(item)[0].performative
        if isinstance(body, Disposition) and body.role is Role.RECEIVER and isinstance(body.state, Accepted):
            yield from range(body.first, (body.first if body.last is None else body.last) + 1)


def early(calls: list[str], means: Callable[[int], set[int]]) -> tuple[int, int]:
    """How many messages were accepted before the log was synced with them in it, and how many at all.

    Args:
        calls: the trace.
        means: the numbers of the messages that are accepted with a delivery, by its id.
    """
    written: set[int] = set()
    safe: set[int] = set()
    syncing: dict[str, set[int]] = {}
    streams: dict[str, FrameReader] = {}
    too_early = accepted = 0
    for line in calls:
        if match := RESUMED.match(line):
            if match["call"] in ("fsync", "fdatasync") and match["rest"].endswith("= 0"):
                safe |= syncing.pop(match["thread"], set())
            continue
        match = CALL.match(line)
        if match is None:
            continue
        call, file = match["call"], unhex(match["file"]).decode()
        if call.startswith("pwrite") and file.endswith("-wal"):
            written |= {int(number) for number in MARK.findall(unhex(match["octets"]))}
        elif call in ("fsync", "fdatasync") and file.endswith("-wal"):
            if match["rest"].endswith("= 0"):
                safe |= written
            else:
                syncing[match["thread"]] = set(written)
        elif file.startswith("socket:"):
            octets = unhex(match["octets"])
            if octets.startswith(b"AMQP"):  # Other sockets are none of clients.
                streams.setdefault(file, FrameReader(1 << 20))
            items = streams[file].feed(octets) if file in streams else ()
            for id in accepts(items):
                numbers = means(id)
                accepted += len(numbers)
                too_early += len(numbers - safe)
    return too_early, accepted


def the_same(id: int) -> set[int]:
    """Message n is sent with delivery n."""
    return {id}


def all_of_them(_id: int) -> set[int]:
    """Nothing but the end of the transaction is accepted."""
    return set(range(COUNT))


@pytest.mark.parametrize(
    ("use", "means"),
    [(one_by_one, the_same), (many_at_once, the_same), (in_one_transaction, all_of_them)],
)
def test_a_message_is_accepted_only_after_the_log_was_synced(
    tmp_path: Path, use: Use, means: Callable[[int], set[int]]
) -> None:
    assert early(trace(tmp_path, use), means) == (0, COUNT)


def test_without_the_sync_every_message_is_seen_to_be_accepted_early(tmp_path: Path) -> None:
    assert early(trace(tmp_path, many_at_once, synchronous="OFF"), the_same) == (COUNT, COUNT)

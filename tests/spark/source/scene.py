"""What the tests of the source share: options, messages, and what is in a spool."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import amqpforge
from amqpforge import blocking
from amqpforge.spark.source.live import Live
from amqpforge.spark.source.options import ReadOptions
from amqpforge.spark.source.segment import read_segment
from amqpforge.spark.source.spool import Spool
from amqpforge.spark.source.storage import Folder, Storage

__all__ = ["NO_MESSAGE", "bodies", "options", "publish", "publish_no_message", "receiving", "until"]

NO_MESSAGE = b"\x00\x53"

_PATIENCE = 60.0


def options(url: str, spool: Path, **more: object) -> ReadOptions:
    """The options of a stream; ``more`` are those of the data source by their names."""
    given = {"url": url, "address": "q", "spoolLocation": str(spool), "startTimeout": "20"}
    return ReadOptions.for_stream(given | {name: str(value) for name, value in more.items()})


def publish(
    url: str, count: int, *, start: int = 0, address: str = "q", ids: bool = True, durable: bool = False
) -> None:
    """Send messages whose bodies are numbers."""
    messages = [
        amqpforge.Message(b"%d" % number, message_id=f"{address}/{number}" if ids else None, durable=durable)
        for number in range(start, start + count)
    ]
    with blocking.connect(url) as connection, connection.sender(address) as sender:
        sender.send_many(messages)


def publish_no_message(url: str) -> None:
    """Send octets that are no message, to the queue ``q``."""
    with blocking.connect(url) as connection, connection.sender("q") as sender:
        sender.send(amqpforge.Message.from_octets(NO_MESSAGE, 0x7F00))


def bodies(folder: Path | Storage) -> list[int]:
    """The numbers in the segments of a spool that nobody uses, in their order."""
    spool = Spool(Folder(folder) if isinstance(folder, Path) else folder, timeout=5)
    try:
        segments = spool.range(spool.first, spool.next)
        batches = [read_segment(spool.storage, one.name) for one in segments]
    finally:
        spool.close()
    found = []
    for batch in batches:
        for payload in batch["payload"].to_pylist():
            body = amqpforge.Message.from_octets(payload).body
            assert isinstance(body, bytes)
            found.append(int(body))
    return found


@contextmanager
def receiving(given: ReadOptions, *, once: bool = False) -> Iterator[Live]:
    """A receiver at work, for the time of a block."""
    live = Live(given, once=once)
    try:
        yield live
    finally:
        live.stop()


def until(
    predicate: Callable[[], object], what: str, live: Live | None = None, *, patience: float = _PATIENCE
) -> None:
    """Wait until something is true, for so many seconds; an error of the receiver ends the waiting."""
    deadline = time.monotonic() + patience
    while not predicate():
        if live is not None:
            live.check()
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not happen in {patience} s")
        time.sleep(0.01)

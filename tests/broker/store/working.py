"""A process that works with a store until it is killed; it is given the store's path, and options in JSON.

Unit number n is the same in every process: three messages into two queues, and one of those of unit n - 5
leaves.
It says ``open FIRST`` once it has recovered, and ``done N`` once a unit is.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from amqpforge.broker.message import Form, Message
from amqpforge.broker.store import writer
from amqpforge.broker.store.base import Unit
from amqpforge.broker.store.sqlite import SqliteStore

__all__ = ["unit"]


FORM = cast("Form", SimpleNamespace(number=0))


def unit(number: int) -> Unit:
    """The unit with a number, from 1."""
    made = Unit()
    made.define("progress", "unit", {"number": number})
    for message_id in range(3 * number, 3 * number + 3):
        message = Message(FORM, message_id.to_bytes(4, "big") * (message_id % 700), durable=True)
        message.id = message_id
        made.add(message)
        for queue in (1, 2):
            made.enqueue(queue, message_id, None, 0)
    if number > 5:
        leaving = 3 * (number - 5)
        made.dequeue(1, leaving)
        made.dequeue(2, leaving)
        made.forget(leaving)
    made.remember(1, b"%d" % number, number)
    made.outgrow(1, number - 10)
    return made


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _say(text: str) -> None:
    os.write(1, text.encode())


def _prepare(options: dict[str, Any]) -> None:
    """Set what the options name, and die where they say."""
    writer.SYNCHRONOUS = options.get("synchronous", "FULL")
    writer.CHECKPOINT_PAGES = options.get("checkpoint_pages", writer.CHECKPOINT_PAGES)
    left = options.get("transactions", 0)
    point = options.get("die")
    write_changes, write, replace = writer._write_changes, writer.Writer._write, Path.replace

    def die_before_commit(connection: Any, changes: Any) -> None:
        nonlocal left
        write_changes(connection, changes)
        left -= 1
        if left == 0:
            _die()

    def die_after_commit(self: writer.Writer, changes: Any) -> Exception | None:
        nonlocal left
        fault = write(self, changes)
        left -= 1
        if left == 0:
            _die()
        return fault

    def die_before_the_name(_self: Path, _target: Path) -> Path:
        _die()
        raise AssertionError

    def die_after_the_name(self: Path, target: Path) -> Path:
        replace(self, target)
        _die()
        raise AssertionError

    if point == "before commit":
        writer._write_changes = die_before_commit
    elif point == "after commit":
        writer.Writer._write = die_after_commit  # type: ignore[method-assign]
    elif point == "before the name":
        Path.replace = die_before_the_name  # type: ignore[assignment, method-assign]
    elif point == "after the name":
        Path.replace = die_after_the_name  # type: ignore[assignment, method-assign]


async def _work(path: str, options: dict[str, Any]) -> None:
    store = SqliteStore(path)
    found = store.open()
    for place, _ in enumerate(found.messages):
        if place == options.get("die_in_recovery"):
            _die()
    for _ in found.entries:
        pass
    for _ in found.remembered:
        pass
    first = 1 + next((one.data["number"] for one in found.definitions if one.kind == "progress"), 0)
    _say(f"open {first}\n")
    window = asyncio.Semaphore(options.get("window", 20))
    for number in range(first, first + options.get("units", 1_000_000)):
        await window.acquire()

        def done(error: Exception | None, number: int = number) -> None:
            if error is None:
                _say(f"done {number}\n")
            window.release()

        store.commit(unit(number), done)
    await store.close()


if __name__ == "__main__":
    chosen = json.loads(sys.argv[2])
    _prepare(chosen)
    asyncio.run(_work(sys.argv[1], chosen))

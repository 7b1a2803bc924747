"""Units for tests of stores, and what a store should hold after them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from amqpforge.broker.errors import StoreError
from amqpforge.broker.message import Form, Message
from amqpforge.broker.store.base import Store, Unit
from amqpforge.broker.store.sqlite import SqliteStore

__all__ = ["Content", "commit", "message", "publish", "publish_many", "recover", "recovered", "take"]


FORM = cast("Form", SimpleNamespace(number=0))
"""A form whose octets nobody looks into."""


def message(number: int, payload: bytes = b"octets", **settings: Any) -> Message:
    """A stored message."""
    made = Message(FORM, payload, durable=True, **settings)
    made.id = number
    made.is_stored = True
    return made


def publish(number: int, *queues: int, payload: bytes = b"octets") -> Unit:
    """A unit with a new message in some queues."""
    unit = Unit()
    unit.add(message(number, payload))
    for queue in queues:
        unit.enqueue(queue, number, None, 0)
    return unit


def publish_many(first: int, count: int, queue: int, payload: bytes) -> Unit:
    """A unit with many new messages in one queue."""
    unit = Unit()
    for number in range(first, first + count):
        unit.add(message(number, payload))
        unit.enqueue(queue, number, None, 0)
    return unit


def take(number: int, *queues: int) -> Unit:
    """A unit in which a message leaves its last queues."""
    unit = Unit()
    for queue in queues:
        unit.dequeue(queue, number)
    unit.forget(number)
    return unit


async def commit(store: Store, *units: Unit) -> list[StoreError | None]:
    """Commit units at once, and wait until all are done; one outcome a unit, in the order of the commits."""
    loop = asyncio.get_running_loop()
    outcomes: list[asyncio.Future[StoreError | None]] = []
    for unit in units:
        outcome = loop.create_future()
        outcomes.append(outcome)
        store.commit(unit, outcome.set_result)
    return await asyncio.wait_for(asyncio.gather(*outcomes), 60)


class Content:
    """What a store holds, told from the units: the plain way, for comparison."""

    def __init__(self) -> None:
        self.definitions: dict[tuple[str, str], Any] = {}
        self.messages: dict[int, tuple[Any, ...]] = {}
        self.bodies: dict[int, bytes] = {}
        self.entries: dict[tuple[int, int], tuple[float | None, int, bytes | None]] = {}
        self.remembered: dict[tuple[int, int], bytes] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Content) and self.as_lists() == other.as_lists()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.as_lists())

    def as_lists(self) -> tuple[list[Any], ...]:
        """All of it, in the order in which a store gives it back."""
        by_kind = sorted(self.definitions.items(), key=lambda item: item[0][0])
        tables = (self.messages, self.bodies, self.entries, self.remembered)
        return by_kind, *(sorted(table.items()) for table in tables)

    def take(self, unit: Unit) -> None:
        """Do what a unit says, one operation after the other."""
        for name, values in unit.operations:
            getattr(self, name)(*values)

    def add(self, number: int, *facts: Any) -> None:
        *small, payload = facts
        self.messages[number] = (*small, len(payload))
        self.bodies[number] = payload

    def forget(self, number: int) -> None:
        self.messages.pop(number, None)
        self.bodies.pop(number, None)

    def enqueue(self, queue: int, number: int, expires_at: float | None, count: int) -> None:
        if number in self.messages:
            self.entries[queue, number] = expires_at, count, None

    def dequeue(self, queue: int, number: int) -> None:
        self.entries.pop((queue, number), None)

    def change(self, queue: int, number: int, count: int, annotations: bytes | None) -> None:
        if (queue, number) in self.entries:
            self.entries[queue, number] = self.entries[queue, number][0], count, annotations

    def remember(self, queue: int, message_id: bytes, number: int) -> None:
        self.remembered[queue, number] = message_id

    def outgrow(self, queue: int, number: int) -> None:
        self.remembered = {
            key: value for key, value in self.remembered.items() if key[0] != queue or key[1] > number
        }

    def drop_queue(self, queue: int) -> None:
        self.entries = {key: value for key, value in self.entries.items() if key[0] != queue}
        self.remembered = {key: value for key, value in self.remembered.items() if key[0] != queue}

    def define(self, kind: str, name: str, data: str) -> None:
        self.definitions[kind, name] = json.loads(data)

    def undefine(self, kind: str, name: str) -> None:
        self.definitions.pop((kind, name), None)


def recovered(store: SqliteStore) -> Content:
    """Open a store, and take all that it holds, bodies too."""
    content = Content()
    found = store.open()
    for definition in found.definitions:
        content.definitions[definition.kind, definition.name] = definition.data
    messages = list(found.messages)
    assert messages == sorted(messages)
    content.messages = {number: tuple(facts) for number, *facts in messages}
    entries = list(found.entries)
    assert [entry[:2] for entry in entries] == sorted(entry[:2] for entry in entries)
    content.entries = {(queue, number): (at, count, notes) for queue, number, at, count, notes in entries}
    remembered = list(found.remembered)
    assert remembered == sorted(remembered, key=lambda row: (row[0], row[2]))
    content.remembered = {(queue, number): message_id for queue, message_id, number in remembered}
    content.bodies = store.read(content.messages)
    return content


async def recover(path: Path) -> Content:
    """What the store at a path holds; it is closed again."""
    store = SqliteStore(path)
    try:
        return recovered(store)
    finally:
        await store.close()

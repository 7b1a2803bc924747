"""What every store can do: take units of changes, each whole or not at all, and give back what it holds."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from amqpforge.broker.errors import StoreError
    from amqpforge.broker.message import Message

__all__ = ["Definition", "Done", "Recovered", "Store", "StoredEntry", "StoredMessage", "Unit"]

Done: TypeAlias = "Callable[[StoreError | None], None]"
"""Called once a unit is safe, with None, or once it is known that nothing of it was written."""


class Unit:
    """Changes that become true together.

    Queues are named by their numbers, messages by their ids. The methods only note what is to be done.

    Attributes:
        operations: the changes, in order: the name of the method that noted it, and its arguments.
    """

    __slots__ = ("operations",)

    def __init__(self) -> None:
        self.operations: list[tuple[str, tuple[Any, ...]]] = []

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.operations)

    def add(self, message: Message) -> None:
        """A message is new; its payload is at hand."""
        self.operations.append(
            (
                "add",
                (
                    message.id,
                    message.form.number,
                    message.priority,
                    message.expires_at,
                    message.exchange,
                    message.key,
                    message.payload,
                ),
            )
        )

    def forget(self, message: int) -> None:
        """No queue holds a message any more: it has left all of them, in this unit or before."""
        self.operations.append(("forget", (message,)))

    def enqueue(self, queue: int, message: int, expires_at: float | None, delivery_count: int) -> None:
        """A message is in a queue; ``expires_at`` is when it dies there."""
        self.operations.append(("enqueue", (queue, message, expires_at, delivery_count)))

    def dequeue(self, queue: int, message: int) -> None:
        """A message has left a queue."""
        self.operations.append(("dequeue", (queue, message)))

    def change(self, queue: int, message: int, delivery_count: int, annotations: bytes | None) -> None:
        """What a queue knows of a message has changed; ``annotations`` are in the form's own octets."""
        self.operations.append(("change", (queue, message, delivery_count, annotations)))

    def remember(self, queue: int, message_id: bytes, number: int) -> None:
        """A queue has had a message with this message-id; ``number`` rises with each."""
        self.operations.append(("remember", (queue, message_id, number)))

    def outgrow(self, queue: int, number: int) -> None:
        """A queue remembers only message-ids with numbers above this one."""
        self.operations.append(("outgrow", (queue, number)))

    def drop_queue(self, queue: int) -> None:
        """A queue is gone, with its entries and with what it remembers; messages are forgotten one by one."""
        self.operations.append(("drop_queue", (queue,)))

    def define(self, kind: str, name: str, data: Mapping[str, Any]) -> None:
        """There is a thing of a kind, or it has changed.

        Raises:
            TypeError: ``data`` has no JSON form.
            ValueError: it contains itself.
        """
        self.operations.append(("define", (kind, name, json.dumps(data))))

    def undefine(self, kind: str, name: str) -> None:
        """There is no such thing any more."""
        self.operations.append(("undefine", (kind, name)))


@dataclass(frozen=True, slots=True)
class Definition:
    """A thing that was defined: a virtual host, queue, exchange, binding or terminus.

    Attributes:
        kind: which of these.
        name: its name among its kind.
        data: the rest, as JSON values.
    """

    kind: str
    name: str
    data: Mapping[str, Any]


StoredMessage: TypeAlias = "tuple[int, int, int, float | None, str, str, int]"
"""The id of a message, its form, priority, expires_at, exchange, key and size in octets."""

StoredEntry: TypeAlias = "tuple[int, int, float | None, int, bytes | None]"
"""The number of a queue, the id of a message in it, when it dies there, delivery count and annotations."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a store holds when it is opened.

    The iterators are to be used up, each once, before anything is committed. They raise StoreError where the
    store turns out to be damaged; it is to be closed then, and is left as it was.

    Attributes:
        definitions: by kind and in the order in which they were made.
        messages: in the order of their ids.
        entries: in the order of queues, then of messages; only of messages that are there.
        remembered: the number of a queue, a message-id and its number, ordered by queue, then number.
    """

    definitions: Sequence[Definition]
    messages: Iterator[StoredMessage]
    entries: Iterator[StoredEntry]
    remembered: Iterator[tuple[int, bytes, int]]


class Store(ABC):
    """Keeps units of changes. All methods are called in the thread of the broker's event loop."""

    @property
    @abstractmethod
    def is_durable(self) -> bool:
        """Whether what is committed survives the process, and the payloads of messages can be read back."""

    @abstractmethod
    def open(self) -> Recovered:
        """Open it, and say what it holds.

        Raises:
            StoreError: it cannot be opened, is damaged, is in use by another broker, or is not a store. It is
                left as it was.
        """

    @abstractmethod
    def commit(self, unit: Unit, done: Done) -> None:
        """Take a unit.

        ``done`` is called in the loop's thread, for one unit after the other in the order of the commits;
        a store in memory calls it before this method returns. A unit that only removes, and cannot be written
        now, may be tried again: it is done after later ones. The unit belongs to the store now.

        Raises:
            StoreError: the store is not open.
        """

    @abstractmethod
    def read(self, messages: Iterable[int]) -> dict[int, bytes]:
        """The payloads of messages that were committed.

        Raises:
            StoreError: the store cannot be read, or lacks one of them.
        """

    @abstractmethod
    async def close(self) -> None:
        """Finish all units, and close; the calls of ``done`` have been made when this returns."""

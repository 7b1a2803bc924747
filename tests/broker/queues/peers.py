"""What stands around a queue in these tests: consumers, the broker's hooks, and messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from amqpforge.broker.clock import Clock
from amqpforge.broker.message import Facts, Message
from amqpforge.broker.queues import ACCEPTED, Consumer, Death, Entry, Outcome, Queue
from amqpforge.broker.settings import QueueSettings
from amqpforge.broker.store import Unit
from tests.broker.clock import FakeClock

__all__ = ["Chosen", "Hooked", "Taker", "a_queue", "put"]


class _Form:
    number = 0

    def facts(self, payload: bytes) -> Facts:
        return {"body": payload.decode()}.get

    def changed(self, payload: bytes, failures: int, annotations: bytes | None) -> bytes:
        return payload

    def dead_letter(
        self, payload: bytes, failures: int, annotations: bytes | None, queue: str, reason: str
    ) -> bytes:
        return payload

    def headers(self, payload: bytes) -> Mapping[str, Any]:
        return {}


FORM = _Form()


class Hooked:
    """A broker that notes what it is asked for."""

    def __init__(self) -> None:
        self.noted = Unit()
        self.dead: list[tuple[int, Death, int]] = []
        self.forgotten: list[int] = []
        self.unused_queues: list[Queue] = []
        self.looks = 0

    def unit(self) -> Unit:
        return self.noted

    def facts(self, entry: Entry) -> Facts:
        self.looks += 1
        known = {"id": entry.message.id, "annotations": entry.annotations, "entry": entry}
        return known.get

    def dead_letter(self, queue: Queue, entry: Entry, reason: Death, unit: Unit) -> None:
        self.dead.append((entry.message.id, reason, entry.delivery_count))

    def gone(self, message: Message) -> None:
        self.forgotten.append(message.id)

    def unused(self, queue: Queue) -> None:
        self.unused_queues.append(queue)


class Chosen:
    """A selector that is a function of the message's id, and counts how often it is asked for each."""

    def __init__(self, test: Callable[[int], bool]) -> None:
        self._test = test
        self.asked: dict[int, int] = {}

    def admits(self, facts: Facts) -> bool:
        number = facts("id")
        assert isinstance(number, int)
        self.asked[number] = self.asked.get(number, 0) + 1
        return self._test(number)


class Taker(Consumer):
    """A consumer with so much credit, that remembers what it got and holds what it has not settled."""

    def __init__(
        self,
        queue: Queue,
        credit: int = 1_000_000,
        *,
        selector: Any = None,
        is_browser: bool = False,
        owner: object = None,
        at_once: Outcome | None = None,
    ) -> None:
        self.queue = queue
        self.credit = credit
        self.at_once = at_once
        self.entries: list[Entry] = []
        self.got: list[int] = []
        self.withdrawn: list[int] = []
        self.is_cancelled = False
        self._selector = selector
        self._is_browser = is_browser
        self._owner = owner
        queue.attach(self)
        queue.wake(self)

    @property
    def name(self) -> str:
        return "a taker"

    @property
    def owner(self) -> object:
        return self._owner

    @property
    def selector(self) -> Any:
        return self._selector

    @property
    def is_browser(self) -> bool:
        return self._is_browser

    @property
    def has_credit(self) -> bool:
        return self.credit > 0

    def deliver(self, entry: Entry) -> None:
        assert self.credit > 0
        assert self._is_browser or entry.holder is self
        self.credit -= 1
        self.got.append(entry.message.id)
        if self.at_once is not None:
            self.queue.settle((entry,), self, self.at_once)
        else:
            self.entries.append(entry)

    def withdraw(self, entry: Entry) -> None:
        self.entries.remove(entry)
        self.withdrawn.append(entry.message.id)

    def cancel(self) -> None:
        self.is_cancelled = True

    def flow(self, credit: int) -> None:
        """It has so much credit from now on."""
        self.credit = credit
        self.queue.wake(self)

    def settle(self, outcome: Outcome = ACCEPTED, at: int = 0) -> None:
        """Settle one of the messages that it has not settled."""
        self.queue.settle((self.entries.pop(at),), self, outcome)


def a_queue(
    clock: Clock | None = None, hooks: Hooked | None = None, owner: object = None, **settings: Any
) -> Queue:
    """An empty queue."""
    return Queue("q", 1, QueueSettings(**settings), clock or FakeClock(), hooks or Hooked(), owner)


def put(
    queue: Queue, *numbers: int, unit: Unit | None = None, message_id: bytes | None = None, **facts: Any
) -> list[Entry]:
    """Publish messages with these ids."""
    entries = []
    for number in numbers:
        message = Message(FORM, str(number).encode(), **facts)
        message.id = number
        queue.check(message)
        entry = queue.reserve(message, unit if unit is not None else Unit(), message_id)
        queue.confirm(entry)
        entries.append(entry)
    return entries

"""Transactions: messages and outcomes that become true together, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from .errors import BrokerError, PreconditionFailed

if TYPE_CHECKING:
    from .core import Told, Work
    from .message import Message
    from .queues import Consumer, Entry, Outcome, Queue, Settlement
    from .traffic import Traffic

__all__ = ["Transaction"]


def _nothing(_work: Work) -> None:
    """There is nothing else."""


def _taken_back(queue: Queue) -> PreconditionFailed:
    return PreconditionFailed(f"a message of queue {queue.name!r:.80} was taken back: roll back")


class Transaction:
    """Messages and outcomes that become true together, across queues and across a crash.

    Attributes:
        messages: what is published, with the octets that tell each from others.
        outcomes: what is settled: where, which, by whom and how.
    """

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self.messages: list[tuple[Message, bytes | None]] = []
        self.outcomes: list[tuple[Queue, Entry, Consumer, Outcome]] = []
        self._octets = 0

    def publish(self, message: Message, message_id: bytes | None) -> int:
        """Publish a message with the transaction; returns how many queues it is for now.

        Raises:
            BrokerError: it cannot be published.
        """
        queues = self._traffic.takers(message)
        self._count(message.size)
        self.messages.append((message, message_id))
        return len(queues)

    def _count(self, octets: int) -> None:
        """What waits for the end is in memory, although no queue has it."""
        self._octets += octets
        self._traffic.core.bodies.come(octets)

    def settle(self, queue: Queue, entries: Iterable[Entry], consumer: Consumer, outcome: Outcome) -> None:
        """A consumer says with the transaction what became of messages that it holds."""
        self.outcomes += [(queue, entry, consumer, outcome) for entry in entries]

    def check(self) -> None:
        """Whether all of it can become true now.

        Raises:
            BrokerError: it cannot.
        """
        for queue, entry, consumer, _ in self.outcomes:
            if not queue.is_held(entry, consumer):
                raise _taken_back(queue)
        for message, _ in self.messages:
            self._traffic.takers(message)

    def commit(self, told: Told, also: Callable[[Work], None] = _nothing) -> None:
        """Make all of it true; ``told`` gets the reason if nothing of it is.

        ``also`` notes what else is to be safe with it; it is called once nothing but the store can fail.
        """
        core = self._traffic.core
        self._count(-self._octets)
        work = core.work()
        settlements: list[Settlement] = []
        try:
            self._note(work, settlements)
        except BrokerError as error:
            for settlement in settlements:
                settlement.queue.undo(settlement)
            for placed in work.placed:
                placed.take_back(core.bodies)
            told(error)
            return
        also(work)
        work.told.append(partial(_conclude, settlements))
        core.commit(work, told)

    def _note(self, work: Work, settlements: list[Settlement]) -> None:
        for queue, entry, consumer, outcome in self.outcomes:
            settlement = queue.note(entry, consumer, outcome, work)
            if settlement is None:
                raise _taken_back(queue)
            settlements.append(settlement)
        for message, message_id in self.messages:
            queues = self._traffic.takers(message)
            work.placed.append(self._traffic.place(message, message_id, queues, work))

    def rollback(self) -> None:
        """Nothing of it is ever true; consumers hold what they held."""
        self._count(-self._octets)
        self.messages.clear()
        self.outcomes.clear()


def _conclude(settlements: list[Settlement], error: BrokerError | None) -> None:
    for settlement in settlements:
        if error is None:
            settlement.queue.apply(settlement)
        else:
            settlement.queue.undo(settlement)

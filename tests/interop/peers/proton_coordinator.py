"""Local transactions of the Proton server: Proton brings the frames, what they do is said here.

A message sent in a transaction reaches its queue, and an outcome told in one has its effect, when the
transaction is discharged. Rolled back, the messages are dropped, and those acquired are back in their queue.
A coordinator link that goes away rolls back what was declared on it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count as numbers
from typing import Any

from tests.interop.peers.proton_messages import (
    ACCEPTED,
    DECLARED,
    REJECTED,
    TRANSACTIONAL,
    outcome_of,
)
from tests.interop.peers.proton_queue import Outlet, Queue
from tests.interop.peers.proton_wire import proton

DECLARE = (0x31, "amqp:declare:list")
DISCHARGE = (0x32, "amqp:discharge:list")
UNKNOWN_ID = "amqp:transaction:unknown-id"


class Work:
    """What one transaction has to do when it is discharged; each step is told whether it is committed."""

    def __init__(self) -> None:
        self.steps: list[Callable[[bool], None]] = []


class Coordinator:
    """All transactions of a server, by their ids."""

    def __init__(self) -> None:
        self._works: dict[bytes, Work] = {}
        self._numbers = numbers(1)

    def attach(self, link: Any) -> None:
        """Answer the attach of a controller."""
        link.target.copy(link.remote_target)
        link.source.copy(link.remote_source)
        link.declared = set()

    def forget(self, link: Any) -> None:
        """A controller is gone."""
        for identifier in link.declared:
            self._discharge(identifier, False)

    def control(self, link: Any, delivery: Any, message: Any) -> None:
        """Answer a declare or a discharge."""
        kind, fields = message.body.descriptor, message.body.value
        if kind in DECLARE:
            identifier = b"transaction-%d" % next(self._numbers)
            self._works[identifier] = Work()
            link.declared.add(identifier)
            delivery.local.data = [identifier]
            delivery.update(DECLARED)
        elif kind in DISCHARGE and bytes(fields[0]) in link.declared:
            link.declared.discard(bytes(fields[0]))
            self._discharge(bytes(fields[0]), not any(fields[1:2]))
            delivery.update(ACCEPTED)
        else:
            _reject(delivery)
        delivery.settle()

    def post(self, delivery: Any, store: Callable[[], None]) -> None:
        """A message came in a transaction: ``store`` it when that is committed."""
        if (work := self._works.get(_transaction_of(delivery))) is None:
            _reject(delivery)
            return
        work.steps.append(lambda is_committed: store() if is_committed else None)
        delivery.local.data = [_transaction_of(delivery), proton.Described(proton.ulong(ACCEPTED), [])]
        delivery.update(TRANSACTIONAL)

    def retire(self, queue: Queue, outlet: Outlet, delivery: Any) -> None:
        """A receiver told an outcome in a transaction."""
        work = self._works.get(_transaction_of(delivery))
        stored = outlet.unsettled.pop(delivery.number, None)
        if stored is None:
            return
        outcome = outcome_of(delivery)

        def conclude(is_committed: bool) -> None:
            queue.conclude(outlet, delivery, stored, outcome if is_committed else None)

        if work is None:
            conclude(False)
        else:
            work.steps.append(conclude)

    def _discharge(self, identifier: bytes, is_committed: bool) -> None:
        steps = self._works.pop(identifier).steps
        for step in steps if is_committed else reversed(steps):  # messages go back to the head of their queue
            step(is_committed)


def _transaction_of(delivery: Any) -> bytes:
    return bytes(delivery.remote.data[0])


def _reject(delivery: Any) -> None:
    delivery.local.condition = proton.Condition(UNKNOWN_ID, "there is no such transaction")
    delivery.update(REJECTED)

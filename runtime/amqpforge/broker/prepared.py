"""Transactions in two phases: what is prepared can still be committed or rolled back after a restart.

An outside coordinator ties branches of several resource managers together (X/Open's two-phase commit). It
names each branch, has it prepared, and then says what becomes of it. Dialects that have distributed
transactions are served by this; AMQP 1.0 has local ones only.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from amqpforge_protocol.amqp_1_0 import MessageEvent

from .errors import NotFound, PreconditionFailed
from .message import Message
from .queues import RELEASED, Consumer, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .core import Told, Work
    from .errors import BrokerError
    from .host import VirtualHost
    from .message import Form
    from .queues import Entry, Queue
    from .transaction import Transaction

__all__ = ["KIND", "Prepared"]

KIND: Final = "prepared"
"""What the definitions are called in the store."""

Publication = tuple[Message, bytes | None]
Retirement = tuple["Queue", "Entry", Outcome]


class _Branch(Consumer):
    """A branch that is prepared: holds the messages whose outcomes are part of it."""

    def __init__(self, xid: str) -> None:
        self.xid = xid
        self.publications: list[Publication] = []
        self.retirements: list[Retirement] = []

    @property
    def name(self) -> str:
        return f"prepared transaction {self.xid!r:.80}"

    @property
    def has_credit(self) -> bool:
        return False

    def deliver(self, entry: Entry) -> None:
        """It has no credit."""

    def withdraw(self, entry: Entry) -> None:
        self.retirements = [one for one in self.retirements if one[1] is not entry]

    def cancel(self) -> None:
        """Its queue is gone, and with it what it held there."""


class Prepared:
    """The branches of a virtual host that are prepared and not decided, by the names they were given."""

    def __init__(self, host: VirtualHost) -> None:
        self._host = host
        self._branches: dict[str, _Branch] = {}

    @property
    def xids(self) -> list[str]:
        """Which there are, oldest first: what a coordinator asks for after a crash."""
        return list(self._branches)

    def prepare(self, transaction: Transaction, xid: str, told: Told) -> None:
        """Make sure that a transaction can be committed whatever happens, and ``told`` once that is so.

        Nothing of it can be seen yet, and what it settles is held for it alone. The transaction is used up.

        Raises:
            BrokerError: it could not be committed, or there is a branch of this name; nothing has happened.
        """
        if xid in self._branches:
            raise PreconditionFailed(f"a transaction {xid!r:.80} is prepared already: decide that one first")
        transaction.check()
        branch = _Branch(xid)
        for queue, entry, consumer, outcome in transaction.outcomes:
            queue.hand_over(entry, consumer, branch)
            branch.retirements.append((queue, entry, outcome))
        branch.publications += transaction.messages
        transaction.rollback()
        self._branches[xid] = branch
        self._host.define(KIND, xid, _to_data(branch), told)

    def commit(self, xid: str, told: Told) -> None:
        """Make all of a branch true; ``told`` once it is safe, or with the reason why it still is prepared.

        Raises:
            NotFound: there is no such branch.
        """
        branch = self._branch(xid)
        data = self._host.defined(KIND)[xid]
        transaction = self._host.traffic.transaction()
        # Copies: what could not be committed has lost its payload.
        transaction.messages += [(copy(message), message_id) for message, message_id in branch.publications]
        transaction.outcomes += [
            (queue, entry, branch, outcome) for queue, entry, outcome in branch.retirements
        ]

        def forget(work: Work) -> None:
            self._host.undefine(KIND, xid, work)
            del self._branches[xid]

        def ended(error: BrokerError | None) -> None:
            if error is not None and xid not in self._branches:
                self._branches[xid] = branch
                self._host.restore(KIND, xid, data)
            told(error)

        transaction.commit(ended, forget)

    def rollback(self, xid: str, told: Told) -> None:
        """Undo a branch: messages that it has settled can be had again. ``told`` once that is safe.

        Raises:
            NotFound: there is no such branch.
        """
        branch = self._branch(xid)
        del self._branches[xid]
        for queue, entry, _ in list(branch.retirements):
            queue.settle((entry,), branch, RELEASED)
        self._host.undefine(KIND, xid)
        self._host.core.barrier(told)

    def restore(self, forms: Mapping[int, Form]) -> None:
        """Have the branches again that the store holds; the queues are filled, and nobody is served yet."""
        for xid, data in self._host.defined(KIND).items():
            branch = self._branches[xid] = _Branch(xid)
            branch.publications += [_publication(one, forms) for one in data["messages"]]
            for name, id, (event, has_failed, added) in data["outcomes"]:
                queue = self._host.queues.get(name)
                entry = None if queue is None else queue.hold(id, branch)
                if queue is None or entry is None:
                    continue  # It was not durable: the restart has taken it.
                octets = None if added is None else bytes.fromhex(added)
                outcome = Outcome(MessageEvent[event], has_failed, octets)
                branch.retirements.append((queue, entry, outcome))

    def _branch(self, xid: str) -> _Branch:
        branch = self._branches.get(xid)
        if branch is None:
            raise NotFound(f"no transaction {xid!r:.80} is prepared in {self._host.name!r}")
        return branch


def _to_data(branch: _Branch) -> dict[str, Any]:
    return {
        "messages": [_message_to_data(*one) for one in branch.publications],
        "outcomes": [
            [queue.name, entry.message.id, _outcome_to_data(outcome)]
            for queue, entry, outcome in branch.retirements
        ],
    }


def _outcome_to_data(outcome: Outcome) -> list[Any]:
    added = outcome.annotations
    return [outcome.event.name, outcome.has_failed, None if added is None else added.hex()]


def _message_to_data(message: Message, message_id: bytes | None) -> dict[str, Any]:
    return {
        "form": message.form.number,
        "payload": b64encode(message.payload or b"").decode(),
        "exchange": message.exchange,
        "key": message.key,
        "durable": message.durable,
        "priority": message.priority,
        "expires_at": message.expires_at,
        "message_id": None if message_id is None else message_id.hex(),
    }


def _publication(data: Mapping[str, Any], forms: Mapping[int, Form]) -> Publication:
    message = Message(
        forms[data["form"]],
        b64decode(data["payload"]),
        exchange=data["exchange"],
        key=data["key"],
        durable=data["durable"],
        priority=data["priority"],
        expires_at=data["expires_at"],
    )
    message_id = data["message_id"]
    return message, None if message_id is None else bytes.fromhex(message_id)

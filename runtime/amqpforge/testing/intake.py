"""Links over which the node receives: from a client to a queue, or to whatever queue each message names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqpforge.broker.amqp_1_0.incoming import answer, may_reject
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    DecodeError,
    Error,
    Rejected,
    Target,
    TransactionalState,
    TransactionError,
)

from .nodelink import NodeLink
from .stored import StoredMessage

if TYPE_CHECKING:
    from amqpforge.engine.delivery import IncomingDelivery
    from amqpforge.engine.link import Link
    from amqpforge.engine.receiver import Receiver
    from amqpforge_protocol.amqp_1_0.archetypes import AnyOutcome

    from .nodeconnection import NodeConnection
    from .queue import Queue

__all__ = ["Intake", "refuse_transaction"]


_LONGEST: Final = 200  # characters of a description: it has to fit into the smallest frames


def refuse_transaction(link: Link, id: object) -> None:
    """A link names a transaction that is not there: it is closed, unless it is over anyway."""
    if link.is_attached:
        text = f"no transaction {id!r:.80} is open here"
        link.close(Error(condition=TransactionError.UNKNOWN_ID, description=text))


class Intake(NodeLink):
    """The target of a link from a client.

    Attributes:
        queue: where its messages go; None: to the queue that each names in its property ``to``.
        target: what it is, as the node has told it.
    """

    def __init__(
        self, connection: NodeConnection, receiver: Receiver, queue: Queue | None, target: Target
    ) -> None:
        super().__init__(connection, receiver)
        self.queue = queue
        self.target = target

    @property
    def address(self) -> str | None:
        return None if self.queue is None else self.queue.address

    @property
    def settings(self) -> Target:
        return self.target

    def on_deliveries(self, deliveries: list[IncomingDelivery]) -> None:
        """Messages have come."""
        for delivery in deliveries:
            if delivery.link is self.link and not self.is_gone:
                self._take(delivery)

    def _take(self, delivery: IncomingDelivery) -> None:
        stored = StoredMessage(delivery.payload, delivery.message_format, is_relayed=True)
        state = delivery.remote_state
        try:
            queue = self._queue_of(stored) if self.queue is None else self.queue
            outcome: AnyOutcome | None = queue.judge(stored)
            if isinstance(outcome, Accepted) and self.connection.node.memory_only and stored.is_durable:
                outcome = self._refuse_durable()
        except DecodeError as error:
            answer(delivery, _rejected(AmqpError.DECODE_ERROR, str(error)[:_LONGEST]))
            return
        except LookupError as error:
            answer(delivery, _rejected(AmqpError.NOT_FOUND, str(error.args[0])))
            return
        if outcome is None:
            return
        if isinstance(state, TransactionalState):
            self._enlist(delivery, stored, queue, state, outcome)
            return
        answer(delivery, outcome)
        if isinstance(outcome, Accepted):
            queue.add(stored)

    def _queue_of(self, stored: StoredMessage) -> Queue:
        message = stored.message
        address = message.to if message.raw is None else None
        if not isinstance(address, str):
            raise LookupError("the message names no node in its property to")
        return self.connection.node.find_queue(address)

    def _refuse_durable(self) -> AnyOutcome | None:
        """A durable message would be lost with the node: it is rejected, or the link goes (section 3.2.1)."""
        text = "the node keeps messages in memory alone, and the message is durable"
        if may_reject(self.link):
            return _rejected(AmqpError.PRECONDITION_FAILED, text)
        self.link.close(Error(condition=AmqpError.PRECONDITION_FAILED, description=text))
        self.destroy()
        return None

    def _enlist(
        self,
        delivery: IncomingDelivery,
        stored: StoredMessage,
        queue: Queue,
        state: TransactionalState,
        outcome: AnyOutcome,
    ) -> None:
        """The message is part of a transaction: it is there once that is committed."""
        transaction = self.connection.node.transactions.find(state.txn_id)
        if transaction is None:
            refuse_transaction(self.link, state.txn_id)
            return
        if isinstance(outcome, Accepted):
            transaction.enlist(lambda: _add(queue, stored), _nothing)
        answer(delivery, TransactionalState(txn_id=state.txn_id, outcome=outcome))

    def destroyed(self) -> None:
        self.connection.node.link_gone(self)


def _add(queue: Queue, stored: StoredMessage) -> None:
    queue.add(stored)


def _nothing() -> None:
    """A message that was not committed was never there."""


def _rejected(condition: AmqpError, description: str) -> Rejected:
    return Rejected(error=Error(condition=condition, description=description))

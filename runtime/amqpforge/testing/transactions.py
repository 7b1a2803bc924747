"""Local transactions: the coordinator, and what was done in each transaction (section 4)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final

from amqpforge.broker.amqp_1_0.incoming import answer, may_reject
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    DecodeError,
    Discharge,
    Error,
    Rejected,
    TransactionError,
    TransactionId,
    TxnCapability,
    decode_message,
)

from .nodelink import NodeLink

if TYPE_CHECKING:
    from amqpforge.engine.delivery import IncomingDelivery
    from amqpforge.engine.receiver import Receiver
    from amqpforge_protocol.amqp_1_0.archetypes import AnyDeliveryState

    from .nodeconnection import NodeConnection

__all__ = ["Controlled", "Transaction", "Transactions", "coordinator"]

CAPABILITIES: Final = (
    TxnCapability.LOCAL_TRANSACTIONS,
    TxnCapability.MULTI_TXNS_PER_SSN,
    TxnCapability.MULTI_SSNS_PER_TXN,
)
_MOST_OPEN: Final = 1000
_LONGEST: Final = 200  # characters of a description: it has to fit into the smallest frames


class Transaction:
    """What is done if all goes well, and what if not."""

    def __init__(self, id: bytes) -> None:
        self.id = id
        self._work: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def enlist(self, commit: Callable[[], None], rollback: Callable[[], None]) -> None:
        """Add a piece of work: one of the two functions will be called."""
        self._work.append((commit, rollback))

    def end(self, *, failed: bool) -> None:
        """Do all the work, or undo it, in the order in which it came."""
        for commit, rollback in self._work:
            (rollback if failed else commit)()


class Transactions:
    """The transactions of a node that are not discharged yet, by their ids."""

    def __init__(self) -> None:
        self.open: dict[bytes, Transaction] = {}
        self._numbers = count(1)

    def declare(self) -> Transaction:
        """A new transaction."""
        transaction = Transaction(b"txn-%d" % next(self._numbers))
        self.open[transaction.id] = transaction
        return transaction

    def find(self, id: object) -> Transaction | None:
        """The transaction of that id, None if there is none, or none any more."""
        return self.open.get(bytes(id)) if isinstance(id, bytes) else None

    def discharge(self, transaction: Transaction, *, failed: bool) -> None:
        """End a transaction."""
        del self.open[transaction.id]
        transaction.end(failed=failed)


class Controlled(NodeLink):
    """The coordinator at the end of a controller's link; what is open when the link goes is rolled back."""

    def __init__(self, connection: NodeConnection, receiver: Receiver) -> None:
        super().__init__(connection, receiver)
        self._declared: dict[object, Transaction] = {}

    def on_deliveries(self, deliveries: list[IncomingDelivery]) -> None:
        """Requests to declare and to discharge have come."""
        for delivery in deliveries:
            if delivery.link is self.link and not self.is_gone:
                self._answer(delivery, self._take(delivery))

    def _take(self, delivery: IncomingDelivery) -> AnyDeliveryState | Error:
        try:
            body = decode_message(delivery.payload).body
        except DecodeError as error:
            return Error(condition=AmqpError.DECODE_ERROR, description=str(error)[:_LONGEST])
        request = body.value if isinstance(body, AmqpValue) else None
        if isinstance(request, Declare):
            return self._declare(request)
        if isinstance(request, Discharge):
            return self._discharge(request)
        return Error(
            condition=AmqpError.NOT_ALLOWED, description="a coordinator takes declare and discharge only"
        )

    def _declare(self, request: Declare) -> AnyDeliveryState | Error:
        transactions = self.connection.node.transactions
        if request.global_id is not None:
            return Error(condition=AmqpError.NOT_IMPLEMENTED, description="there are local transactions only")
        if len(transactions.open) >= _MOST_OPEN:
            return Error(
                condition=AmqpError.RESOURCE_LIMIT_EXCEEDED,
                description=f"{_MOST_OPEN} transactions are open already",
            )
        transaction = transactions.declare()
        self._declared[transaction.id] = transaction
        return Declared(txn_id=TransactionId(transaction.id))

    def _discharge(self, request: Discharge) -> AnyDeliveryState | Error:
        transaction = self._declared.pop(request.txn_id, None)
        if transaction is None:
            return Error(
                condition=TransactionError.UNKNOWN_ID,
                description=f"no transaction {request.txn_id!r:.80} is open on this link",
            )
        self.connection.node.transactions.discharge(transaction, failed=bool(request.fail))
        return Accepted()

    def _answer(self, delivery: IncomingDelivery, reply: AnyDeliveryState | Error) -> None:
        """An error rejects the request; a controller that does not take that loses its link."""
        if not isinstance(reply, Error):
            answer(delivery, reply)
            return
        if may_reject(self.link):
            answer(delivery, Rejected(error=reply))
        else:
            self.link.close(reply)
            self.destroy()

    def destroyed(self) -> None:
        declared, self._declared = self._declared, {}
        for transaction in declared.values():
            self.connection.node.transactions.discharge(transaction, failed=True)


def coordinator() -> Coordinator:
    """The target that the node tells for a coordinator."""
    return Coordinator(capabilities=list(CAPABILITIES))

"""The end of a link over which a client controls transactions (sections 4.1 to 4.3)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from amqpforge.broker.errors import BrokerError
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

from .conditions import error_of, told
from .incoming import answer, may_reject
from .links import BrokerLink
from .transactions import OpenTransaction

if TYPE_CHECKING:
    from amqpforge.engine.delivery import IncomingDelivery
    from amqpforge.engine.receiver import Receiver
    from amqpforge_protocol.amqp_1_0.archetypes import AnyDeliveryState

    from .head import Head

__all__ = ["CAPABILITIES", "Controlling"]

CAPABILITIES: Final = (
    TxnCapability.LOCAL_TRANSACTIONS,
    TxnCapability.MULTI_TXNS_PER_SSN,
    TxnCapability.MULTI_SSNS_PER_TXN,
)
_LARGEST: Final = 4096  # octets of a request
_CREDIT: Final = 100


class Controlling(BrokerLink):
    """The coordinator. What is declared over the link and still open when it goes is rolled back."""

    def __init__(self, head: Head, receiver: Receiver) -> None:
        super().__init__(head, receiver, None)
        self._declared: dict[bytes, OpenTransaction] = {}
        receiver.max_message_size = _LARGEST
        receiver.prefetch = _CREDIT

    @staticmethod
    def target() -> Coordinator:
        """What the client is told of it."""
        return Coordinator(capabilities=list(CAPABILITIES))

    def on_deliveries(self, deliveries: list[IncomingDelivery]) -> None:
        """Requests to declare and to discharge have come."""
        for delivery in deliveries:
            if delivery.link is self.link and not self.is_gone:
                self._take(delivery)

    def _take(self, delivery: IncomingDelivery) -> None:
        try:
            body = decode_message(delivery.payload).body
        except DecodeError as error:
            self._refuse(delivery, told(AmqpError.DECODE_ERROR, str(error)))
            return
        request = body.value if isinstance(body, AmqpValue) else None
        if isinstance(request, Declare):
            self._declare(delivery, request)
        elif isinstance(request, Discharge):
            self._discharge(delivery, request)
        else:
            self._refuse(
                delivery, told(AmqpError.NOT_ALLOWED, "a coordinator takes declare and discharge only")
            )

    def _declare(self, delivery: IncomingDelivery, request: Declare) -> None:
        if request.global_id is not None:
            self._refuse(delivery, told(AmqpError.NOT_IMPLEMENTED, "there are local transactions only"))
            return
        try:
            transaction = self.head.transactions.declare()
        except BrokerError as error:
            self._refuse(delivery, error_of(error))
            return
        self._declared[transaction.id] = transaction
        self._answer(delivery, Declared(txn_id=TransactionId(transaction.id)))

    def _discharge(self, delivery: IncomingDelivery, request: Discharge) -> None:
        transactions, id = self.head.transactions, bytes(request.txn_id)  # type: ignore[arg-type]
        transaction = self._declared.pop(id, None)
        if transaction is None or id not in transactions.open:
            if transactions.is_expired(id):
                text = f"the transaction {id!r:.80} has taken too long and is rolled back"
                self._refuse(delivery, told(TransactionError.TRANSACTION_TIMEOUT, text))
            else:
                text = f"no transaction {id!r:.80} is open on this link"
                self._refuse(delivery, told(TransactionError.UNKNOWN_ID, text))
        elif request.fail:
            transactions.roll_back(transaction)
            self._answer(delivery, Accepted())
        else:
            transactions.commit(transaction, partial(self._committed, delivery))

    def _committed(self, delivery: IncomingDelivery, refused: BrokerError | None) -> None:
        if refused is None:
            self._answer(delivery, Accepted())
        else:
            self._refuse(delivery, told(TransactionError.TRANSACTION_ROLLBACK, str(refused)))

    def _answer(self, delivery: IncomingDelivery, state: AnyDeliveryState) -> None:
        answer(delivery, state)
        self.head.stir()

    def _refuse(self, delivery: IncomingDelivery, error: Error) -> None:
        """An error rejects the request; a controller that does not take that loses its link (section 4.2)."""
        if may_reject(self.link):
            self._answer(delivery, Rejected(error=error))
        elif error.condition is not None:
            self.close(error.condition, error.description or "")

    def destroyed(self) -> None:
        declared, self._declared = self._declared, {}
        for transaction in declared.values():
            if transaction.id in self.head.transactions.open:
                self.head.transactions.roll_back(transaction)

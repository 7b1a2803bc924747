"""Links over which the broker receives: to a queue, to an exchange, or to whatever each message names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from amqpforge.broker.errors import AccessRefused, BrokerError, InvalidArgument, NotFound
from amqpforge.broker.message import Message
from amqpforge.engine.receiver import Receiver
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    AnyErrorCondition,
    DecodeError,
    ReceiverSettleMode,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
)

from .addresses import Address, parse_address
from .conditions import CONDITIONS, told
from .form import FORM, Arrival, arrive
from .links import BrokerLink

if TYPE_CHECKING:
    from amqpforge.engine.delivery import IncomingDelivery
    from amqpforge.engine.link import Link
    from amqpforge_protocol.amqp_1_0.archetypes import AnyDeliveryState, AnyOutcome

    from .head import Head
    from .nodes import Node
    from .transactions import OpenTransaction

__all__ = ["Incoming", "answer", "may_reject"]

_ACCEPTED: Final = Accepted()
_RELEASED: Final = Released()
_FIRST: Final = ReceiverSettleMode.FIRST


def answer(delivery: IncomingDelivery, state: AnyDeliveryState) -> None:
    """Tell what became of a delivery, and settle it if it is ours to settle: in the mode second the sender
    settles first (section 2.6.12).
    """
    if not delivery.settled:
        delivery.update(state, settled=delivery.remote_settled or delivery.rcv_settle_mode is _FIRST)


def may_reject(link: Link) -> bool:
    """Whether the source of a client lets the broker choose the outcome rejected (section 3.5.3)."""
    remote = link.remote
    source = remote.source if remote is not None else None
    if not isinstance(source, Source):
        return False
    if source.outcomes:
        return Rejected.SYMBOL in source.outcomes
    return isinstance(source.default_outcome, Rejected)


def _route(to: Address) -> tuple[str, str | None]:
    """The exchange that an address stands for, and the key; None: each message brings its own."""
    return to.exchange or "", to.queue if to.exchange is None else to.key


class Incoming(BrokerLink):
    """The target of a link from a client.

    A message is accepted once every queue that it is for has it, and safely so if it is durable. One that no
    queue is for is released: nothing was done with it, and the client may try later. One that the broker
    refuses is rejected with the reason.

    Attributes:
        receiver: its endpoint.
        target: what it is, as the broker has told it.
    """

    def __init__(
        self, head: Head, receiver: Receiver, node: Node | None, target: Target, to: Address | None
    ) -> None:
        """``to``: where its messages go; None: where each says in its property ``to``."""
        super().__init__(head, receiver, node)
        self.receiver = receiver
        self.target = target
        self._route = None if to is None else _route(to)
        limits = head.broker.limits
        self._credit = min(limits.credit_per_link, limits.unsettled_per_link)
        self._checks_user = head.service.checks_user_id
        receiver.max_message_size = limits.message_size
        receiver.prefetch = 0 if head.broker.is_pressed else self._credit

    @property
    def settings(self) -> Target:
        return self.target

    def adopt(self, head: Head, link: Link) -> None:
        super().adopt(head, link)
        if isinstance(link, Receiver):
            self.receiver = link
        self.receiver.forget_unfinished()
        self.receiver.prefetch = 0 if head.broker.is_pressed else self._credit

    def detached(self) -> None:
        if self.receiver.session is None:  # What waits for its rest would wait beyond what is bounded.
            self.receiver.forget_unfinished()

    def on_pressure(self, *, is_pressed: bool) -> None:
        receiver = self.receiver
        receiver.prefetch = 0 if is_pressed else self._credit
        if not receiver.is_attached:
            return
        try:
            if is_pressed:
                receiver.flow(0)
            else:
                receiver.grant()
        except LocalError:  # It is being closed, and there is nobody to tell.
            return
        self.head.stir()

    # --- messages ------------------------------------------------------------------------------------------

    def on_deliveries(self, deliveries: list[IncomingDelivery]) -> None:
        """Messages have come."""
        now = self.actor.host.clock.now()
        for delivery in deliveries:
            if delivery.link is self.link and not self.is_gone:
                self._take(delivery, now)

    def _take(self, delivery: IncomingDelivery, now: float) -> None:
        state = delivery.remote_state
        if type(state) is TransactionalState:
            self._take_in_transaction(delivery, state, now)
            return
        try:
            arrival = arrive(delivery.payload, delivery.message_format)
            message = self._message(arrival, now)
            message_id = arrival.message_id
        except DecodeError as error:
            self._reject(delivery, AmqpError.DECODE_ERROR, str(error))
        except BrokerError as error:
            self._reject(delivery, CONDITIONS[error.reason], str(error))
        else:
            self.actor.publish(message, message_id, partial(self._published, delivery))

    def _message(self, arrival: Arrival, now: float) -> Message:
        """The message that has arrived, with where it goes.

        Raises:
            DecodeError: what has to be read of it is malformed.
            BrokerError: it says of itself what it may not, or goes nowhere.
        """
        if self._checks_user:
            self._check_user(arrival.user_id)
        route = self._route
        exchange, key = _route(self._address(arrival)) if route is None else route
        if key is None:
            properties = arrival.properties
            key = "" if properties is None or properties.subject is None else properties.subject
        return Message(
            FORM,
            arrival.payload,
            exchange=exchange,
            key=key,
            durable=arrival.durable,
            priority=arrival.priority,
            expires_at=arrival.expires_at(now),
        )

    def _check_user(self, user_id: bytes | None) -> None:
        user = self.actor.user
        if user_id is not None and user_id != (user or "").encode():
            raise AccessRefused(f"the user-id of the message is not that of the user {user!r:.80}")

    def _address(self, arrival: Arrival) -> Address:
        """Where a message goes that names its own node."""
        text = arrival.to
        if text is None:
            raise InvalidArgument(
                "the message names no node in its property to, and the target has no address"
            )
        if not isinstance(text, str):
            raise InvalidArgument("the property to is no string; give the address of a node")
        address = parse_address(text)
        if address.is_management:
            raise InvalidArgument("requests to manage go over a link to $management")
        actor = self.actor
        if address.exchange is None:
            queue = address.queue or ""
            actor.check_target("", queue)
            if queue not in actor.host.queues:
                raise NotFound(f"there is no queue {queue!r:.80} in the virtual host {actor.host.name!r:.80}")
        else:
            actor.check_target(address.exchange, address.key)
        return address

    def _published(self, delivery: IncomingDelivery, refused: BrokerError | None, queues: int) -> None:
        """It is known what became of a message."""
        if refused is not None:
            self._reject(delivery, CONDITIONS[refused.reason], str(refused))
            return
        if not delivery.settled:
            delivery.update(
                _ACCEPTED if queues else _RELEASED,
                settled=delivery.remote_settled or delivery.rcv_settle_mode is _FIRST,
            )
        self.head.stir()

    def _reject(self, delivery: IncomingDelivery, condition: AnyErrorCondition, text: str) -> None:
        """A durable message that cannot be kept ends the link of a client that takes no rejected (section
        3.2.1); whatever else is wrong with a message is told with the outcome.
        """
        if condition is AmqpError.PRECONDITION_FAILED and not may_reject(self.link):
            self.close(condition, text)
        else:
            answer(delivery, Rejected(error=told(condition, text)))
        self.head.stir()

    # --- in transactions -----------------------------------------------------------------------------------

    def _take_in_transaction(self, delivery: IncomingDelivery, state: TransactionalState, now: float) -> None:
        """The message is part of a transaction: it is there once that is committed."""
        transaction = self.head.transactions.find(state.txn_id)
        if transaction is None:
            self.head.transactions.refuse(self, state.txn_id)
            return
        outcome = self._outcome_in(transaction, delivery, now)
        answer(delivery, TransactionalState(txn_id=state.txn_id, outcome=outcome))

    def _outcome_in(self, transaction: OpenTransaction, delivery: IncomingDelivery, now: float) -> AnyOutcome:
        told_back: list[AnyOutcome] = []

        def done(refused: BrokerError | None, queues: int) -> None:
            if refused is not None:
                told_back.append(Rejected(error=told(CONDITIONS[refused.reason], str(refused))))
            else:
                told_back.append(_ACCEPTED if queues else _RELEASED)

        try:
            arrival = arrive(delivery.payload, delivery.message_format)
            message = self._message(arrival, now)
            self.head.transactions.charge(transaction, message.size)
            self.actor.publish(message, arrival.message_id, done, transaction.work)
        except DecodeError as error:
            return Rejected(error=told(AmqpError.DECODE_ERROR, str(error)))
        except BrokerError as error:
            return Rejected(error=told(CONDITIONS[error.reason], str(error)))
        return told_back[0]

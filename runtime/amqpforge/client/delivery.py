"""A message that came in, as applications hold it until they have dealt with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from amqpforge.engine.delivery import IncomingDelivery, is_terminal
from amqpforge.errors import LocalError
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    AnyOutcome,
    Error,
    Modified,
    ReceiverSettleMode,
    Rejected,
    Released,
    Symbol,
    TransactionalState,
)

if TYPE_CHECKING:
    from .receiver import Receiver
    from .transactions import Transaction

__all__ = ["Delivery"]

_ACCEPTED: Final = Accepted()
_RELEASED: Final = Released()
_FIRST: Final = ReceiverSettleMode.FIRST


class Delivery:
    """A message, and what is to become of it.

    It gets one outcome, by :meth:`accept`, :meth:`reject`, :meth:`release` or :meth:`modify`. None of them
    waits: the sender is told at the end of the turn of the event loop, many deliveries at once.

    When the connection was lost meanwhile, the outcome is told on the next one if the sender resumes the
    delivery. If it does not, it has forgotten it: the outcome counts for nobody, and the message comes again.
    """

    __slots__ = ("_delivery", "_message", "_receiver")

    def __init__(self, receiver: Receiver, delivery: IncomingDelivery) -> None:
        self._receiver = receiver
        self._delivery = delivery
        self._message: Message | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.tag.hex()} on {self._receiver.name!r}>"

    @property
    def message(self) -> Message:
        """The message; it is decoded when its parts are looked at."""
        message = self._message
        if message is None:
            delivery = self._delivery
            self._message = message = Message.from_octets(delivery.payload, delivery.message_format)
        return message

    @property
    def payload(self) -> bytes:
        """The octets of the message, as they came."""
        return self._delivery.payload

    @property
    def receiver(self) -> Receiver:
        """The receiver that it came in on."""
        return self._receiver

    @property
    def tag(self) -> bytes:
        """The delivery-tag, which the sender chose."""
        return self._delivery.tag

    @property
    def settled(self) -> bool:
        """Whether this end has settled it, or never had to."""
        return self._delivery.settled

    @property
    def outcome(self) -> AnyOutcome | None:
        """What it was given from here, or by the sender; None while it has no outcome."""
        state: Any = self._delivery.state
        if type(state) is TransactionalState:
            state = state.outcome
        return state if is_terminal(state) else None

    @property
    def is_resumed(self) -> bool:
        """Whether the sender took it up again on another connection, so that its outcome still counts."""
        return self._delivery.resumed

    def accept(self, *, transaction: Transaction | None = None) -> None:
        """It is dealt with.

        Raises:
            LocalError: it has another outcome already.
        """
        self._decide(_ACCEPTED, transaction)

    def reject(
        self,
        condition: str | None = None,
        description: str | None = None,
        *,
        info: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """It is invalid, and can never be dealt with.

        Args:
            condition: why, e.g. ``amqp:decode-error``; None: nothing is said, or with a description
                ``amqp:not-allowed``.
            description: why, for people.
            info: more about it.
            transaction: the transaction that this belongs to.

        Raises:
            LocalError: it has another outcome already.
        """
        error = None
        if condition is not None or description is not None or info:
            error = Error(
                condition=Symbol(condition or AmqpError.NOT_ALLOWED),
                description=description,
                info={Symbol(key): value for key, value in info.items()} if info else None,
            )
        self._decide(Rejected(error=error), transaction)

    def release(self, *, transaction: Transaction | None = None) -> None:
        """It was not and will not be dealt with: it may go to any receiver, this one too.

        Raises:
            LocalError: it has another outcome already.
        """
        self._decide(_RELEASED, transaction)

    def modify(
        self,
        *,
        delivery_failed: bool | None = None,
        undeliverable_here: bool | None = None,
        annotations: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """It was not dealt with, and is to be changed at its node before it is delivered again.

        Args:
            delivery_failed: count it as an attempt that failed.
            undeliverable_here: do not send it here again.
            annotations: message annotations to add or replace.
            transaction: the transaction that this belongs to.

        Raises:
            LocalError: it has another outcome already.
        """
        fields: dict[str, Any] | None = (
            {Symbol(key): value for key, value in annotations.items()} if annotations else None
        )
        outcome = Modified(
            delivery_failed=delivery_failed,
            undeliverable_here=undeliverable_here,
            message_annotations=fields,
        )
        self._decide(outcome, transaction)

    # --- for receivers ----------------------------------------------------------------------------------

    @property
    def _is_undecided(self) -> bool:
        """Whether nobody has said yet what becomes of it."""
        return not self._delivery.settled and self._delivery.state is None

    def _accept_undecided(self) -> None:
        """Accept it, if nobody has said yet what becomes of it."""
        delivery = self._delivery
        if not delivery.settled and delivery.state is None:
            self._decide(_ACCEPTED, None)

    def _decide(self, outcome: AnyOutcome, transaction: Transaction | None) -> None:
        delivery = self._delivery
        if delivery.settled:
            came_settled = delivery.state is None and delivery.remote_settled  # Nobody wants to know.
            if came_settled or self.outcome == outcome:
                return
            raise LocalError(f"{self!r} has the outcome {self.outcome!r} already")
        receiver = self._receiver
        if not receiver._takes(outcome):
            name = type(outcome).__name__.lower()
            raise LocalError(f"the source of {receiver!r} does not take the outcome {name}")
        state: Any = outcome
        if transaction is not None:
            state = transaction._retire(receiver, outcome)
        is_first = delivery.rcv_settle_mode is _FIRST
        # What is settled while the link is lost is not in its unsettled map: it would be sent again.
        is_kept = not receiver._is_attached and receiver._is_suspended(delivery)
        delivery.update(state, settled=delivery.remote_settled or (is_first and not is_kept))
        if delivery.context is not None:
            delivery.context._drop_rest()
        receiver._connection._wake()

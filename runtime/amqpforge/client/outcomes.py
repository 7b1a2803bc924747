"""What became of a message that was sent, as applications get to know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from amqpforge.engine.delivery import OutgoingDelivery, is_terminal
from amqpforge.errors import ConnectionLost, NotAccepted
from amqpforge_protocol.amqp_1_0 import Accepted, AnyOutcome, Source, TransactionalState

from .waiting import fresh

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnyDeliveryState

__all__ = ["Outcome", "checked", "is_decided", "outcome_of"]

Outcome: TypeAlias = AnyOutcome | None
"""An outcome that the receiver told; None for a message that was sent settled: nobody tells."""


def is_decided(delivery: OutgoingDelivery) -> bool:
    """Whether it is known what became of a delivery, or that this will never be known."""
    state = delivery.remote_state
    if type(state) is TransactionalState:
        state = state.outcome
    return delivery.remote_settled or delivery.is_lost or is_terminal(state)


def outcome_of(delivery: OutgoingDelivery) -> Outcome:
    """What became of a delivery of which :func:`is_decided` says yes.

    Raises:
        LinkDetached: the peer closed the link with an error.
        ConnectionLost: it was under way when the link was lost, and cannot be sent again.
        NotAccepted: the receiver settled it without a word.
    """
    state: AnyDeliveryState | None = delivery.remote_state
    if type(state) is TransactionalState:
        state = state.outcome
    if is_terminal(state):
        return state  # type: ignore[return-value]
    if delivery.is_lost:
        reason = delivery.link.error
        if reason is not None and reason.error is not None:
            raise fresh(reason)
        raise ConnectionLost(
            "the message was under way when its link was lost: it may be lost too"
        ) from reason
    source = delivery.link.source
    default = source.default_outcome if isinstance(source, Source) else None
    if default is not None:  # Section 3.5.3: it holds where the receiver settles without an outcome.
        return default
    raise NotAccepted(None)


def checked(outcome: Outcome) -> Outcome:
    """An outcome, if the message was accepted, or was sent settled.

    Raises:
        NotAccepted: the message was rejected, released or modified.
    """
    if outcome is None or type(outcome) is Accepted:
        return outcome
    raise NotAccepted(outcome)

"""Dispositions: which deliveries one is about, and what one says (section 2.7.6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    DeliveryNumber,
    Disposition,
    ReceiverSettleMode,
    Released,
    Role,
    SequenceNo,
)

from .flow import distance

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnyDeliveryState

    from .delivery import IncomingDelivery

__all__ = ["between", "decide", "disposition"]

_SECOND: Final = ReceiverSettleMode.SECOND


def between(known: dict[int, Any], first: int, span: int) -> list[Any]:
    """The deliveries with ``span`` ids from ``first`` on: at most as many steps as there are deliveries."""
    if span <= len(known):
        found = [known.get(number & 0xFFFF_FFFF) for number in range(first, first + span)]
        return [delivery for delivery in found if delivery is not None]
    return [delivery for number, delivery in known.items() if 0 <= distance(first, number) < span]


def disposition(
    role: Role, first: int, last: int, state: AnyDeliveryState | None, settled: bool
) -> Disposition:
    """The frame that tells the state of the deliveries from ``first`` to ``last``, both included."""
    return Disposition(
        role=role,
        first=DeliveryNumber(SequenceNo(first)),
        last=None if last == first else DeliveryNumber(SequenceNo(last)),
        settled=settled,
        state=state,
    )


def decide(deliveries: Iterable[IncomingDelivery], outcome: Accepted | Released) -> None:
    """Give deliveries that are not settled an outcome, and settle those that need no answer of the sender. It
    comes to what their ``update`` does, and takes less time where they are many.

    Raises:
        LocalError: one has another outcome.
    """
    first: IncomingDelivery | None = None
    last = 0
    try:
        for delivery in deliveries:
            if delivery.settled:
                continue
            number, is_second = delivery.id, delivery.rcv_settle_mode is _SECOND
            if number is None or delivery.state is not None or delivery.remote_settled or not is_second:
                delivery.update(outcome, settled=delivery.remote_settled or not is_second)
                continue
            delivery.state = outcome
            if first is None or number != (last + 1) & 0xFFFF_FFFF or delivery.link is not first.link:
                if first is not None:
                    first.link.dispose(first, settled=False, last=last)
                first = delivery
            last = number
    finally:
        if first is not None:
            first.link.dispose(first, settled=False, last=last)

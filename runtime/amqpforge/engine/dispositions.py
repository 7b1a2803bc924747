"""Dispositions: which deliveries one is about, and what one says (section 2.7.6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    DeliveryNumber,
    Disposition,
    OutgoingDeliveryState,
    ReceiverSettleMode,
    Released,
    Role,
    SequenceNo,
)

from .flow import distance

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnyDeliveryState, AnyOutcome

    from .delivery import IncomingDelivery, OutgoingDelivery

__all__ = ["between", "decide", "disposition", "settle"]

_SECOND: Final = ReceiverSettleMode.SECOND
_SENT: Final = OutgoingDeliveryState.SENT
_MASK: Final = 0xFFFF_FFFF


def between(known: dict[int, Any], first: int, span: int) -> list[Any]:
    """The deliveries with ``span`` ids from ``first`` on: at most as many steps as there are deliveries."""
    if span <= len(known):
        found = [known.get(number & _MASK) for number in range(first, first + span)]
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
            if first is None or number != (last + 1) & _MASK or delivery.link is not first.link:
                if first is not None:
                    first.link.dispose(first, settled=False, last=last)
                first = delivery
            last = number
    finally:
        if first is not None:
            first.link.dispose(first, settled=False, last=last)


def settle(deliveries: Iterable[OutgoingDelivery], outcome: AnyOutcome) -> None:
    """Settle deliveries that are not settled, and tell the receiver an outcome of those that have none, if it
    fits into a frame. It comes to what their ``update`` does, and takes less time where they are many.

    Raises:
        LocalError: as ``update`` does.
    """
    is_plain = type(outcome) is Accepted or type(outcome) is Released
    run: list[OutgoingDelivery] = []
    last = 0
    for delivery in deliveries:
        if delivery.settled:
            continue
        number = delivery.id
        is_bare = is_plain and delivery.state is None and delivery.progress is _SENT
        if run and (not is_bare or number != (last + 1) & _MASK or delivery.link is not run[0].link):
            _settle_run(run, last)
            run = []
        if is_bare and number is not None:
            delivery.state = outcome
            run.append(delivery)
            last = number
        else:
            told = outcome if delivery.state is None and delivery.link.can_tell(outcome) else None
            delivery.update(told, settled=True)
    if run:
        _settle_run(run, last)


def _settle_run(run: list[OutgoingDelivery], last: int) -> None:
    """Settle neighbours on a link, all in one state; ``last`` is the delivery-id of the last one."""
    link = run[0].link
    link.dispose(run[0], settled=True, last=last)
    for delivery in run:
        link.settle(delivery)

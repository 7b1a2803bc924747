"""Dispositions: which deliveries one is about, and what one says (section 2.7.6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from amqpforge_protocol.amqp_1_0 import DeliveryNumber, Disposition, Role, SequenceNo

from .flow import distance

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnyDeliveryState

__all__ = ["between", "disposition"]


def between(known: dict[int, Any], first: int, span: int) -> Iterable[Any]:
    """The deliveries with ``span`` ids from ``first`` on: at most as many steps as there are deliveries."""
    if span <= len(known):
        for number in range(first, first + span):
            delivery = known.get(number & 0xFFFF_FFFF)
            if delivery is not None:
                yield delivery
    else:
        for number, delivery in known.items():
            if 0 <= distance(first, number) < span:
                yield delivery


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

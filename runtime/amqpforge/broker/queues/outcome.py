"""What a consumer says of a message that it has had (AMQP 1.0, sections 3.4.2 to 3.4.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from amqpforge_protocol.amqp_1_0 import MessageEvent

__all__ = ["ACCEPTED", "REJECTED", "RELEASED", "Outcome", "modified"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One of the four outcomes.

    Attributes:
        event: what it does to the state of the message: ACCEPTED, REJECTED, RELEASED, MODIFIED or
            MODIFIED_UNDELIVERABLE_HERE.
        has_failed: whether it adds to the delivery-count.
        annotations: all annotations that the broker adds to the message from now on, those of earlier
            outcomes among them, in the octets of the message's form; None: as they were.
    """

    event: MessageEvent
    has_failed: bool = False
    annotations: bytes | None = None


ACCEPTED: Final = Outcome(MessageEvent.ACCEPTED)
REJECTED: Final = Outcome(MessageEvent.REJECTED, has_failed=True)
RELEASED: Final = Outcome(MessageEvent.RELEASED)


def modified(
    *, delivery_failed: bool = False, undeliverable_here: bool = False, annotations: bytes | None = None
) -> Outcome:
    """The outcome modified; each of its three parts counts by itself."""
    if undeliverable_here:
        return Outcome(MessageEvent.MODIFIED_UNDELIVERABLE_HERE, delivery_failed, annotations)
    return Outcome(MessageEvent.MODIFIED, delivery_failed, annotations)

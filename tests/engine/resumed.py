"""Deliveries that a link was cut off from, for the tests of what becomes of them."""

from __future__ import annotations

from amqpforge.engine.resume import Incoming, Outgoing
from amqpforge.engine.sections import Sections
from amqpforge_protocol.amqp_1_0 import (
    AnyDeliveryState,
    Data,
    Message,
    Received,
    Symbol,
    encode_message,
)

Remote = AnyDeliveryState | None


def at(number: int, offset: int) -> Received:
    return Received(section_number=number, section_offset=offset)


MESSAGE = encode_message(
    Message(
        delivery_annotations={Symbol("x-opt-a"): bytes(700)},
        message_annotations={Symbol("x-opt-b"): bytes(2500)},
        application_properties={"c": "d"},
        body=[Data(b"body" * 25)],
    )
)
"""Four sections, long enough for every position in the example."""
WHOLE = Sections(MESSAGE)
START, END = at(0, 0), at(4, 0)


def octets_before(position: Received) -> int:
    offset = WHOLE.offset(position)
    assert offset is not None
    return offset


def came(position: Received) -> Incoming:
    """A delivery of which the receiver has all octets before a position."""
    return Incoming(sections=Sections(MESSAGE[: octets_before(position)]))


def sent(held_from: Received = START, outcome: AnyDeliveryState | None = None, **rest: bool) -> Outgoing:
    """A delivery that the sender can send again from a position on."""
    return Outgoing(sections=WHOLE, held_from=octets_before(held_from), outcome=outcome, **rest)


def ended(outcome: AnyDeliveryState) -> Outgoing:
    """A delivery whose outcome at the source leaves nothing to resume."""
    return sent(outcome=outcome, may_resume=False, has_message=False)

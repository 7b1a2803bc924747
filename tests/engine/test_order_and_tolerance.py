"""What is written ahead of what, and how far a sender may go beyond its credit."""

from __future__ import annotations

from typing import Any

from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Coordinator,
    Detach,
    Disposition,
    LinkState,
    Transfer,
)
from tests.engine.joined import BODY, Scripted, a_receiver, a_sender

from . import frames


def arrived(scripted: Scripted, count: int = 1, **options: Any) -> Any:
    """A receiver with as many deliveries as it had credit for."""
    session = scripted.begun()
    receiver = scripted.attached(session, a_receiver(**options))
    receiver.flow(count)
    scripted.feed(*[transfer(n) for n in range(count)])
    return receiver


def transfer(number: int) -> tuple[Any, bytes]:
    return frames.Transfer(handle=0, delivery_id=number, delivery_tag=b"%d" % number, message_format=0), BODY


def kinds(frames: list[Any]) -> list[type]:
    return [type(frame.performative) for frame in frames]


def test_an_outcome_goes_ahead_of_an_attach_that_may_end_the_session() -> None:
    scripted = Scripted().opened()
    receiver = arrived(scripted)
    (delivery,) = receiver.unsettled.values()
    delivery.settle(Accepted())
    receiver.session.attach(a_sender())
    assert kinds(scripted.flush()) == [Disposition, Attach]


def test_an_outcome_within_a_transaction_goes_ahead_of_the_discharge() -> None:
    scripted = Scripted().opened()
    receiver = arrived(scripted)
    controller = scripted.attached(receiver.session, a_sender("controller", target=Coordinator()), handle=1)
    scripted.feed(
        frames.Flow(
            next_incoming_id=0,
            incoming_window=10,
            next_outgoing_id=1,
            outgoing_window=10,
            handle=1,
            link_credit=10,
        )
    )
    (delivery,) = receiver.unsettled.values()
    delivery.settle(Accepted())
    controller.send(BODY)
    assert kinds(scripted.flush()) == [Disposition, Transfer]


def test_a_sender_that_goes_too_far_is_borne_up_to_the_tolerance() -> None:
    scripted = Scripted().opened()
    receiver = arrived(scripted, 2)
    receiver.tolerance = 3
    scripted.feed(*[transfer(n) for n in range(2, 5)])
    assert len(receiver.unsettled) == 5
    assert receiver.is_attached
    scripted.feed(transfer(5))
    assert receiver.state is LinkState.CLOSE_SENT
    (detach,) = scripted.written(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:link:transfer-limit-exceeded"

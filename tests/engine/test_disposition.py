"""What disposition tells, of which deliveries, and what becomes of it (section 2.7.6)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import SessionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    End,
    Error,
    Modified,
    ReceiverSettleMode,
    Rejected,
    Released,
    Role,
    Symbol,
)
from tests.engine.joined import BODY, Joined, Scripted, a_receiver, a_sender
from tests.engine.linked import (
    a_detach,
    a_disposition,
    condition,
    delivered,
    disposition,
    flow,
    kinds,
    receiving,
    scripted,
    sending,
    transfer,
)

SECOND = ReceiverSettleMode.SECOND


def states(link: Sender) -> list[object]:
    return [delivery.remote_state for delivery in link.unsettled.values()]


def waiting(count: int, *, first: int = 0) -> tuple[Scripted, Sender]:
    """A sender that leaves settling to the application, with so many deliveries unsettled."""
    peer, session = scripted(session=SessionSettings(next_delivery_id=first))
    link: Sender = peer.attached(session, a_sender("n", auto_settle=False))
    peer.feed(flow(0, link_credit=count, delivery_count=0))
    for _ in range(count):
        link.send(BODY)
    peer.flush()
    peer.sent.clear()
    return peer, link


@pytest.mark.spec("T-DISP-005")
def test_a_sender_with_an_outcome_keeps_it() -> None:
    peer, link = waiting(1)
    delivery = next(iter(link.unsettled.values()))
    delivery.update(Released())
    peer.feed(disposition(Role.RECEIVER, 0, state=Accepted()))
    assert (delivery.state, delivery.remote_state) == (Released(), Accepted())
    assert len(peer.told(events.Updates)) == 1
    delivery.settle()
    assert peer.flush()[-1].performative == a_disposition(
        role=Role.SENDER, first=0, state=Released(), settled=True
    )


@pytest.mark.spec("T-DISP-013")
def test_a_sender_that_decides_by_itself_waits_for_the_receiver() -> None:
    peer, link = sending(1)
    delivery = link.send(BODY)
    delivery.update(Released())
    assert peer.flush()[1].performative == a_disposition(
        role=Role.SENDER, first=0, state=Released(), settled=False
    )
    assert not delivery.settled
    assert peer.feed(disposition(Role.RECEIVER, 0, state=Released(), settled=True)) == []
    assert (delivery.settled, link.unsettled) == (True, {})


@pytest.mark.spec("T-DISP-014")
@pytest.mark.parametrize("auto", [True, False])
def test_settlement_at_one_end_leads_to_the_other(auto: bool) -> None:
    peer, link = sending(1, mode={"auto_settle": auto})
    delivery = link.send(BODY)
    peer.feed(disposition(Role.RECEIVER, 0, state=Accepted(), settled=True))
    assert delivery.settled is auto
    assert len(link.unsettled) == (not auto)
    peer, receiver = receiving(
        1, mode={"auto_settle": auto, "rcv_settle_mode": SECOND}, rcv_settle_mode=SECOND
    )
    peer.feed((transfer(0), BODY))
    delivered(peer)[0].update(Accepted())
    peer.feed(disposition(Role.SENDER, 0, settled=True))
    assert len(receiver.unsettled) == (not auto)


def test_a_receiver_without_an_outcome_does_not_settle_by_itself() -> None:
    peer, link = receiving(1)
    peer.feed((transfer(0), BODY), disposition(Role.SENDER, 0, settled=True))
    assert len(link.unsettled) == 1
    delivered(peer)[0].settle(Accepted())
    assert (link.unsettled, kinds(peer.flush())) == ({}, [])


@pytest.mark.spec("T-DISP-017", "T-DISP-020")
def test_one_frame_for_the_links_of_one_direction() -> None:
    peer, session = scripted()
    receivers: list[Receiver] = [peer.attached(session, a_receiver(str(n)), handle=n) for n in range(2)]
    sender: Sender = peer.attached(session, a_sender("out", auto_settle=False), handle=2)
    for link in receivers:
        link.flow(5)
    peer.feed(flow(2, link_credit=5, delivery_count=0))
    sent = [sender.send(BODY) for _ in range(4)]
    peer.feed(*[(transfer(id, handle=id % 2), BODY) for id in range(4)])
    peer.sent.clear()
    for delivery in sorted(delivered(peer), key=lambda one: one.id or 0):
        delivery.settle(Accepted())
    for one in sent[:2]:
        one.settle(Accepted())
    told = [frame.performative for frame in peer.flush()]
    assert [(one.role, one.first, one.last) for one in told] == [(Role.RECEIVER, 0, 3), (Role.SENDER, 0, 1)]
    # The same ids both ways: the role says which.
    peer.feed(disposition(Role.RECEIVER, 2, 3, state=Released()))
    assert [one.remote_state for one in sent] == [None, None, Released(), Released()]


@pytest.mark.spec("T-DISP-019", "T-DETACH-003")
def test_deliveries_of_a_link_that_is_detached_are_alive() -> None:
    peer, link = waiting(2)
    link.detach()
    peer.feed(disposition(Role.RECEIVER, 0, state=Accepted()), a_detach(handle=0))
    assert link.state.name == "DETACHED"
    peer.feed(disposition(Role.RECEIVER, 1, state=Released(), settled=True))
    assert states(link) == [Accepted(), Released()]
    next(iter(link.unsettled.values())).settle()
    assert peer.flush()[-1].performative == a_disposition(
        role=Role.SENDER, first=0, state=Accepted(), settled=True
    )
    peer, receiver = receiving(1)
    peer.feed((transfer(0), BODY), a_detach(handle=0))
    delivered(peer)[0].settle(Accepted())
    assert kinds(peer.flush()) == ["Disposition"]
    assert receiver.unsettled == {}


@pytest.mark.parametrize("closed", [True, False])
def test_deliveries_of_a_link_that_is_gone_are_not(closed: bool) -> None:
    peer, link = waiting(2)
    deliveries = list(link.unsettled.values())
    if closed:
        peer.feed(a_detach(handle=0, closed=True))
    else:
        peer.feed(a_detach(handle=0, error=Error(condition="amqp:internal-error")))
    peer.sent.clear()
    peer.feed(disposition(Role.RECEIVER, 0, 1, state=Accepted(), settled=True))
    assert [one.remote_state for one in deliveries] == [None, None]
    if closed:  # They went with the terminus.
        assert all(one.is_lost and one.settled for one in deliveries)
    else:
        deliveries[0].settle(Accepted())
    assert peer.flush() == []
    assert peer.written(End) == []
    peer, _ = receiving(2)
    peer.feed((transfer(0), BODY))
    peer.feed(
        a_detach(handle=0, closed=closed, error=None if closed else Error(condition="amqp:internal-error"))
    )
    peer.sent.clear()
    delivered(peer)[0].settle(Accepted())
    assert peer.flush() == []


@pytest.mark.spec("T-DISP-021", "T-DISP-024")
def test_a_range_goes_from_first_to_last_in_serial_order() -> None:
    peer, link = waiting(5, first=0xFFFF_FFFE)
    peer.feed(disposition(Role.RECEIVER, 0xFFFF_FFFF, 1, state=Released()))
    assert states(link) == [None, Released(), Released(), Released(), None]


def test_a_range_covers_what_is_unsettled_however_wide_it_is() -> None:
    peer, link = waiting(3)
    peer.feed(disposition(Role.RECEIVER, 0xF000_0000, 0x6000_0000, state=Accepted()))
    assert states(link) == [Accepted()] * 3
    peer.feed(disposition(Role.RECEIVER, 2, 1, state=Accepted()))
    assert condition(peer.written(End)[0]) == "amqp:invalid-field"


@pytest.mark.spec("T-DISP-022")
def test_without_last_it_is_one_delivery() -> None:
    peer, link = waiting(5)
    peer.feed(disposition(Role.RECEIVER, 3, state=Released()))
    assert states(link) == [None, None, None, Released(), None]


@pytest.mark.spec("T-DISP-023")
def test_settled_is_false_unless_it_is_told() -> None:
    peer, link = waiting(2)
    peer.feed(disposition(Role.RECEIVER, 0, state=Accepted()), disposition(Role.RECEIVER, 1, settled=True))
    assert [one.remote_settled for one in link.unsettled.values()] == [False, True]


@pytest.mark.spec("T-DISP-025")
def test_a_batchable_disposition_is_answered_with_others() -> None:
    peer, link = sending(5, rcv_settle_mode=SECOND)
    for _ in range(5):
        link.send(BODY)
    peer.flush()
    written = peer.feed(
        *[disposition(Role.RECEIVER, id, state=Accepted(), batchable=True) for id in range(5)]
    )
    told = [frame.performative for frame in written]
    assert [(one.first, one.last, one.settled) for one in told] == [(0, 4, True)]


def test_what_is_told_twice_is_told_once() -> None:
    """A peer that repeats dispositions for what is settled, as rhea does, does no harm."""
    peer, link = sending(2)
    for _ in range(2):
        link.send(BODY)
    again = disposition(Role.RECEIVER, 0, 1, state=Accepted(), settled=True)
    peer.feed(again)
    count = len(peer.told(events.Updates))
    peer.feed(again, again, disposition(Role.RECEIVER, 0, 1, state=Released(), settled=True))
    assert (len(peer.told(events.Updates)), link.unsettled) == (count, {})
    assert peer.written(End) == []


def test_news_of_many_deliveries_is_one_event() -> None:
    peer, link = waiting(50)
    peer.feed(*[disposition(Role.RECEIVER, id, state=Accepted()) for id in range(50)])
    assert [len(event.deliveries) for event in peer.told(events.Updates)] == [50]
    assert peer.told(events.Updates)[0].link is link


def test_neighbours_with_other_news_go_in_frames_of_their_own() -> None:
    peer, _ = receiving(10)
    peer.feed(*[(transfer(id), BODY) for id in range(8)])
    came = delivered(peer)
    outcomes: list[Any] = [Accepted(), Accepted(), Released(), Accepted(), Rejected(), Rejected()]
    for delivery, outcome in zip(came, outcomes, strict=False):
        delivery.settle(outcome)
    came[7].settle(Accepted())
    told = [frame.performative for frame in peer.flush()]
    assert [(one.first, one.last, type(one.state)) for one in told] == [
        (0, 1, Accepted),
        (2, None, Released),
        (3, None, Accepted),
        (4, 5, Rejected),
        (7, None, Accepted),
    ]


# --- outcomes


@pytest.mark.spec("M-OUTCOME-006")
def test_accepted_takes_the_delivery_to_accepted_at_the_source() -> None:
    peer, link = sending(1)
    delivery = link.send(BODY)
    peer.flush()
    told = peer.feed(disposition(Role.RECEIVER, 0, state=Accepted()))[0].performative
    assert told == a_disposition(role=Role.SENDER, first=0, state=Accepted(), settled=True)
    assert (delivery.state, delivery.settled) == (Accepted(), True)


@pytest.mark.spec("M-OUTCOME-008")
@pytest.mark.parametrize("error", [None, Error(condition=Symbol("x:bad"), description="no good")])
def test_rejected_tells_why(error: Error | None) -> None:
    assert outcome_told(Rejected(error=error)) == Rejected(error=error)


@pytest.mark.spec("M-OUTCOME-015", "M-OUTCOME-020")
@pytest.mark.parametrize(
    "outcome",
    [
        Released(),
        Modified(delivery_failed=True, undeliverable_here=True, message_annotations={Symbol("x-opt-a"): 1}),
    ],
)
def test_what_was_not_acted_upon(outcome: Released | Modified) -> None:
    """Messages that were fetched and never handed on are let go by who fetched them."""
    assert outcome_told(outcome) == outcome


def outcome_told(outcome: Released | Modified | Rejected) -> object:
    """What the sender hears when a receiver ends two deliveries of three with an outcome."""
    joined = Joined()
    session = joined.open()
    link = a_receiver(prefetch=3)
    session.attach(link)
    joined.run()
    sender = joined.peer_of(link)
    sent = [sender.send(BODY) for _ in range(3)]
    joined.run()
    came = [one for event in joined.told(joined.client, events.Deliveries) for one in event.deliveries]
    came[0].settle(Accepted())
    for delivery in came[1:]:
        delivery.settle(outcome)
    joined.run()
    assert [one.settled for one in sent] == [True] * 3
    assert sent[0].remote_state == Accepted()
    assert sent[1].state == sent[1].remote_state == sent[2].remote_state
    return sent[1].remote_state


def test_a_state_that_is_too_large_for_a_frame_is_not_told() -> None:
    peer, session = scripted(open={"max_frame_size": 512})
    link: Receiver = peer.attached(session, a_receiver("n"))
    link.flow(2)
    peer.feed((transfer(0), BODY))
    delivery = delivered(peer)[0]
    with pytest.raises(LocalError, match="too large"):
        delivery.settle(Rejected(error=Error(condition="x:y", description="z" * 600)))
    assert (delivery.state, delivery.settled, len(link.unsettled)) == (None, False, 1)
    for wrong in ("accepted", Rejected(error=5)):  # type: ignore[arg-type]
        with pytest.raises(LocalError, match="state"):
            delivery.settle(wrong)  # type: ignore[arg-type]
    delivery.settle(Rejected())
    assert peer.flush()[-1].performative.state == Rejected()


def test_an_outcome_that_the_peer_could_not_take_back_is_settled_without_it() -> None:
    """The receiver told more than it reads itself: we still settle."""
    peer, session = scripted(open={"max_frame_size": 512})
    link: Sender = peer.attached(session, a_sender("n"), rcv_settle_mode=SECOND)
    peer.feed(flow(0, link_credit=2, delivery_count=0))
    delivery = link.send(BODY)
    peer.flush()
    large = Rejected(error=Error(condition="x:y", description="z" * 600))
    told = peer.feed(disposition(Role.RECEIVER, 0, state=large))[0].performative
    assert told == a_disposition(role=Role.SENDER, first=0, settled=True)
    assert (delivery.settled, delivery.remote_state) == (True, large)

"""The figures of section 2.6.12: one delivery from its transfer to its settlement, as each end keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.delivery import IncomingDelivery, OutgoingDelivery
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Received,
    ReceiverSettleMode,
    Rejected,
    Released,
    Role,
    Transfer,
)
from tests.engine.joined import BODY, Scripted
from tests.engine.linked import (
    Severed,
    a_disposition,
    delivered,
    disposition,
    frames,
    kinds,
    receiving,
    sending,
    transfer,
)

DT = b"DT"
S_0 = Released()
"""A state that the sender begins with; any will do."""
SECOND = {"rcv_settle_mode": ReceiverSettleMode.SECOND}


def a_sender_that_sent(**options: Any) -> tuple[Scripted, Sender, OutgoingDelivery]:
    peer, link = sending(1, mode={"auto_settle": False}, rcv_settle_mode=ReceiverSettleMode.SECOND)
    delivery = link.send(BODY, tag=DT, **options)
    return peer, link, delivery


def a_receiver_that_got(**fields: Any) -> tuple[Scripted, Receiver, IncomingDelivery]:
    peer, link = receiving(
        1, mode={**SECOND, "auto_settle": False}, rcv_settle_mode=ReceiverSettleMode.SECOND
    )
    peer.feed((transfer(7, DT, settled=False, **fields), BODY))
    return peer, link, delivered(peer)[0]


@pytest.mark.spec("T-XFER-007", "T-XFER-009")
def test_initial_transfer() -> None:
    peer, link, delivery = a_sender_that_sent(state=S_0)
    assert link.unsettled == {DT: delivery}  # Before a frame of it has left.
    frame = peer.flush()[0]
    assert type(frame.performative) is Transfer
    assert (frame.performative.delivery_tag, frame.performative.settled) == (DT, False)
    assert (frame.performative.state, frame.payload) == (S_0, BODY)
    assert (delivery.state, delivery.remote_state) == (S_0, None)
    assert not delivery.settled


@pytest.mark.spec("T-XFER-010")
def test_initial_receipt() -> None:
    _, link, delivery = a_receiver_that_got(state=S_0)
    assert link.unsettled == {DT: delivery}
    assert (delivery.state, delivery.remote_state, delivery.payload) == (None, S_0, BODY)


@pytest.mark.spec("T-DISP-002", "T-DISP-003")
def test_indication_of_non_terminal_state() -> None:
    peer, link, delivery = a_receiver_that_got(state=S_0)
    s_2 = Received(section_number=0, section_offset=3)
    delivery.update(s_2)
    told = peer.flush()[0].performative
    assert told == a_disposition(role=Role.RECEIVER, first=7, settled=False, state=s_2)
    assert link.unsettled == {DT: delivery}
    assert (delivery.state, delivery.remote_state) == (s_2, S_0)


@pytest.mark.spec("T-DISP-004")
def test_indication_of_presumptive_terminal_state() -> None:
    peer, link, delivery = a_receiver_that_got(state=S_0)
    delivery.update(Accepted())
    assert peer.flush()[0].performative == a_disposition(
        role=Role.RECEIVER, first=7, settled=False, state=Accepted()
    )
    assert link.unsettled == {DT: delivery}
    assert (delivery.state, delivery.remote_state, delivery.settled) == (Accepted(), S_0, False)


@pytest.mark.spec("T-DISP-006", "T-DISP-005")
def test_receipt_of_terminal_state() -> None:
    peer, link, delivery = a_sender_that_sent()
    assert peer.feed(disposition(Role.RECEIVER, 0, state=Accepted()))[1:] == []
    assert link.unsettled == {DT: delivery}
    assert (delivery.state, delivery.remote_state, delivery.remote_settled) == (None, Accepted(), False)
    assert [event.deliveries for event in peer.told(events.Updates)] == [[delivery]]


@pytest.mark.spec("T-DISP-007", "T-DISP-008", "T-DISP-001")
def test_indication_of_settlement() -> None:
    peer, link, delivery = a_sender_that_sent()
    peer.feed(disposition(Role.RECEIVER, 0, state=Accepted()))
    assert link.unsettled == {DT: delivery}
    delivery.settle()
    assert link.unsettled == {}
    assert peer.flush()[0].performative == a_disposition(
        role=Role.SENDER, first=0, settled=True, state=Accepted()
    )
    with pytest.raises(Exception, match="is settled"):
        delivery.settle()
    assert peer.flush() == []


@pytest.mark.spec("T-DISP-009", "T-DISP-010")
def test_receipt_of_settlement() -> None:
    peer, link, delivery = a_receiver_that_got()
    s_2 = Received(section_number=0, section_offset=3)
    delivery.update(s_2)
    peer.feed(disposition(Role.SENDER, 7, state=Accepted(), settled=True))
    assert link.unsettled == {DT: delivery}
    assert (delivery.state, delivery.remote_settled, delivery.settled) == (s_2, True, False)
    assert [event.deliveries for event in peer.told(events.Updates)] == [[delivery]]


@pytest.mark.spec("T-DISP-011", "T-DISP-012")
def test_final_settlement() -> None:
    peer, link, delivery = a_receiver_that_got()
    peer.feed(disposition(Role.SENDER, 7, state=Accepted(), settled=True))
    delivery.settle()
    assert (link.unsettled, delivery.settled) == ({}, True)
    assert peer.flush() == []
    session = link.session
    assert session is not None
    assert session.incoming == {}


@pytest.mark.spec("T-XFER-011", "T-XFER-013")
def test_at_most_once() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    delivery = link.send(BODY, tag=DT, settled=True, state=Accepted())
    assert link.unsettled == {}
    severed.joined.run()
    told = delivered_frames(severed, Transfer)
    assert [(one.delivery_tag, one.settled, one.state) for one in told] == [(DT, True, Accepted())]
    lost = link.send(BODY, tag=b"2", settled=True)
    severed.joined.client.data_to_send(0.0)
    severed.cut()
    severed.resume(link)
    receiver.flow(10)
    severed.joined.run()
    assert [one.tag for one in severed.came] == [DT]
    assert delivered_frames(severed, Transfer) == []
    assert (delivery.settled, lost.settled) == (True, True)


def delivered_frames(severed: Severed, kind: type[Any]) -> list[Any]:
    return [one.performative for one in frames(severed.joined, severed.joined.client, kind)]


@pytest.mark.spec("T-DISP-015", "T-DISP-016", "T-XFER-042")
def test_at_least_once() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    link.send(BODY, tag=DT)
    severed.joined.run()
    came = severed.came[0]
    came.settle(Accepted())
    assert receiver.unsettled == {}
    severed.joined.server.data_to_send(0.0)  # The disposition is lost with the connection.
    severed.cut()
    severed.resume(link)
    receiver.flow(10)
    severed.joined.run()
    assert [one.tag for one in severed.came] == [DT, DT]  # It was sent again.
    assert [one.resume for one in delivered_frames(severed, Transfer)] == [False]
    severed.came[1].settle(Accepted())
    severed.joined.run()
    assert (link.unsettled, receiver.unsettled) == ({}, {})
    peer, _ = receiving(1)
    peer.feed((transfer(3, DT), BODY))
    delivered(peer)[0].settle(Accepted())
    assert peer.flush()[0].performative == a_disposition(
        role=Role.RECEIVER, first=3, settled=True, state=Accepted()
    )


STEPS = ["transfer", "outcome", "settlement", "nothing"]


@pytest.mark.spec("T-XFER-014")
@pytest.mark.parametrize("lost", STEPS)
def test_exactly_once(lost: str) -> None:
    """Receiver terminal, sender settled, receiver settled: whatever is lost, it is processed once."""
    severed = Severed()
    link, receiver = severed.sender(rcv_settle_mode=ReceiverSettleMode.SECOND)
    assert receiver.rcv_settle_mode is ReceiverSettleMode.SECOND
    client, server = severed.joined.client, severed.joined.server
    processed: list[bytes] = []

    def process() -> None:
        for one in severed.came:
            if one.state is None and one.tag not in processed:
                processed.append(one.tag)
                one.update(Accepted())

    link.send(BODY, tag=DT)
    for step in STEPS:
        giver = server if step == "outcome" else client
        if step == "outcome":
            process()
        if step == lost:
            giver.data_to_send(0.0)
            break
        if giver is client:
            severed.joined.carry(client, server)
        else:
            severed.joined.carry(server, client)
    severed.cut()
    severed.resume(link)
    receiver.flow(10)
    severed.joined.run()
    process()
    severed.joined.run()
    assert processed == [DT]
    assert (link.unsettled, receiver.unsettled) == ({}, {})
    assert severed.joined.peer_of(link) is receiver


@pytest.mark.spec("T-XFER-015")
def test_who_settles_early_may_duplicate_or_lose() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    link.send(BODY, tag=b"early receiver")
    link.send(BODY, tag=b"early sender")
    severed.joined.client.data_to_send(0.0)  # Neither arrives.
    link.unsettled[b"early sender"].settle()
    severed.cut()
    severed.resume(link)
    receiver.flow(10)
    severed.joined.run()
    assert [one.tag for one in severed.came] == [b"early receiver"]
    severed.came[0].settle(Accepted())
    severed.joined.server.data_to_send(0.0)
    severed.cut()
    severed.resume(link)
    receiver.flow(10)
    severed.joined.run()
    assert [one.tag for one in severed.came] == [b"early receiver"] * 2


def test_a_sender_that_settles_by_itself_tells_the_receiver() -> None:
    """With auto_settle, which is the default, the sender settles what the receiver has an outcome for."""
    peer, link = sending(1, rcv_settle_mode=ReceiverSettleMode.SECOND)
    delivery = link.send(BODY, tag=DT)
    peer.flush()
    assert kinds(peer.feed(disposition(Role.RECEIVER, 0, state=Rejected()))) == ["Disposition"]
    assert (delivery.settled, delivery.state, link.unsettled) == (True, Rejected(), {})

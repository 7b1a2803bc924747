"""The credit of a link: who counts what, and who may send how much (sections 2.6.7 and 2.7.4)."""

from __future__ import annotations

import pytest

from amqpforge.engine import events
from amqpforge.engine.delivery import IncomingDelivery
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import Detach, End, Flow, OutgoingDeliveryState, Role, Transfer
from tests.engine.joined import BODY, Joined, a_receiver, a_sender
from tests.engine.linked import (
    a_detach,
    attach,
    condition,
    delivered,
    flow,
    kinds,
    receiving,
    scripted,
    sending,
    transfer,
)

WRAPS = 0xFFFF_FFFE


@pytest.mark.spec("T-FLOW-001")
def test_messages_are_counted_and_not_frames() -> None:
    peer, sender = sending(5)
    stream = sender.start_message()
    for _ in range(3):
        stream.write(BODY)
    stream.finish()
    assert len(peer.flush()) == 4
    assert (sender.flow_state.delivery_count, sender.link_credit) == (1, 4)
    peer, receiver = receiving(5)
    peer.feed((transfer(0, more=True), b"1"), (transfer(0, more=True), b"2"), (transfer(0), b"3"))
    assert (receiver.flow_state.delivery_count, receiver.link_credit) == (1, 4)


@pytest.mark.spec("T-FLOW-002")
def test_a_receiver_counts_on_from_what_the_sender_told() -> None:
    peer, link = receiving(20)
    peer.feed(flow(0, delivery_count=10), (transfer(0), BODY), (transfer(1), BODY))
    assert (link.flow_state.delivery_count, link.link_credit) == (12, 8)


@pytest.mark.spec("T-FLOW-003")
@pytest.mark.parametrize("start", [7, WRAPS])
def test_a_sender_stops_at_the_delivery_limit(start: int) -> None:
    peer, link = sending(mode={"initial_delivery_count": start})
    for _ in range(10):
        link.send(BODY)
    peer.feed(flow(0, delivery_count=start, link_credit=5))
    assert len(peer.written(Transfer)) == 5
    assert link.flow_state.delivery_count == (start + 5) & 0xFFFF_FFFF
    assert link.link_credit == 0


@pytest.mark.spec("T-FLOW-004")
def test_a_sender_does_not_decide_on_credit() -> None:
    peer, link = receiving(5)
    peer.feed(flow(0, delivery_count=0, link_credit=99))
    assert link.link_credit == 5
    link.flow()
    assert peer.flush()[0].performative.link_credit == 5


@pytest.mark.spec("T-FLOW-005")
@pytest.mark.parametrize(
    ("ours", "theirs", "told", "credit"), [(15, 10, 8, 3), (2, WRAPS, 8, 4), (15, 10, 5, 0), (15, 10, 2, 0)]
)
def test_credit_is_reckoned_from_where_the_receiver_stands(
    ours: int, theirs: int, told: int, credit: int
) -> None:
    peer, link = sending(mode={"initial_delivery_count": ours})
    peer.feed(flow(0, delivery_count=theirs, link_credit=told))
    assert link.link_credit == credit
    for _ in range(10):
        link.send(BODY)
    peer.flush()
    assert len(peer.written(Transfer)) == credit


@pytest.mark.spec("T-FLOW-006")
def test_a_receiver_that_does_not_know_the_count_means_the_first_one() -> None:
    peer, link = sending(mode={"initial_delivery_count": 100})
    peer.feed(flow(0, link_credit=2))
    link.send(BODY)
    link.send(BODY)
    peer.feed(flow(0, link_credit=5))
    assert link.link_credit == 3


@pytest.mark.spec("T-FLOW-007")
def test_what_the_count_gains_the_credit_loses() -> None:
    peer, link = sending(5)
    link.send(BODY)
    link.send(BODY)
    assert (link.flow_state.delivery_count, link.link_credit) == (2, 3)
    peer.feed(flow(0, delivery_count=2, link_credit=3, drain=True))
    assert (link.flow_state.delivery_count, link.link_credit) == (5, 0)


@pytest.mark.spec("T-FLOW-008")
def test_available_is_what_waits() -> None:
    peer, link = sending()
    for _ in range(7):
        link.send(BODY)
    written = peer.feed(flow(0, delivery_count=0, link_credit=2, echo=True))
    assert kinds(written) == ["Transfer", "Transfer", "Flow"]
    assert written[2].performative.available == 5
    link.backlog = lambda: 30
    link.flow()
    assert peer.flush()[0].performative.available == 35


def test_a_message_under_way_is_not_available_any_more() -> None:
    peer, link = sending(1)
    stream = link.start_message()
    stream.write(BODY)
    link.send(BODY)
    peer.flush()
    link.flow()
    assert peer.flush()[0].performative.available == 1


@pytest.mark.spec("T-FLOW-009")
def test_a_sender_may_send_more_than_it_told() -> None:
    peer, link = sending(5)
    link.flow()
    assert peer.flush()[0].performative.available == 0
    link.send(BODY)
    assert kinds(peer.flush()) == ["Transfer"]


@pytest.mark.spec("T-FLOW-010")
def test_what_is_available_is_never_below_nothing() -> None:
    peer, link = receiving(5)
    peer.feed(flow(0, delivery_count=0, available=1), *[(transfer(id), BODY) for id in range(3)])
    assert link.flow_state.available == 0
    link.flow()
    assert peer.flush()[0].performative.available == 0


@pytest.mark.spec("T-FLOW-013")
def test_without_credit_no_message_is_begun() -> None:
    peer, link = sending(1)
    stream = link.start_message()
    second = link.send(BODY)
    stream.write(b"half")
    peer.feed(flow(0, delivery_count=0, link_credit=0))  # Less than is used already.
    stream.write(b"rest")  # What is begun may be ended.
    stream.finish()
    assert kinds(peer.flush()) == ["Transfer", "Transfer"]
    assert stream.progress is OutgoingDeliveryState.SENT
    assert list(link.queue) == [second]
    peer.feed(flow(0, delivery_count=1, link_credit=1))
    assert second.progress is OutgoingDeliveryState.SENT


@pytest.mark.spec("T-FLOW-014", "T-FLOW-028")
def test_messages_within_credit_that_was_taken_back_are_taken() -> None:
    peer, link = receiving(3)
    link.flow(0)
    peer.feed(*[(transfer(id), BODY) for id in range(3)])
    assert len(delivered(peer)) == 3
    assert link.link_credit == 0
    peer.feed((transfer(3), BODY))
    assert condition(peer.written(Detach)[0]) == "amqp:link:transfer-limit-exceeded"


@pytest.mark.spec("T-FLOW-015")
def test_a_sender_pauses_at_no_credit() -> None:
    joined = Joined()
    session = joined.open()
    link = a_sender()
    session.attach(link)
    joined.run()
    receiver = joined.peer_of(link)
    for _ in range(10):
        link.send(BODY)
    for credit in (3, 2, 5):
        receiver.flow(credit)
        joined.run()
        assert (link.link_credit, receiver.link_credit) == (0, 0)
    came = [len(event.deliveries) for event in joined.told(joined.server, events.Deliveries)]
    assert came == [3, 2, 5]


@pytest.mark.spec("T-FLOW-017")
def test_the_count_wraps() -> None:
    peer, link = sending(mode={"initial_delivery_count": WRAPS})
    peer.feed(flow(0, delivery_count=WRAPS, link_credit=5))
    for _ in range(4):
        link.send(BODY)
    assert len(peer.flush()) == 4
    assert (link.flow_state.delivery_count, link.link_credit) == (2, 1)
    peer.feed(flow(0, delivery_count=0xFFFF_FFFF, link_credit=5))
    assert link.link_credit == 2
    peer, receiver = receiving(5, initial_delivery_count=WRAPS)
    peer.feed(*[(transfer(id), BODY) for id in range(4)], flow(0, delivery_count=3))
    assert (receiver.flow_state.delivery_count, receiver.link_credit) == (3, 0)


@pytest.mark.spec("T-FLOW-018")
def test_a_new_link_has_no_credit() -> None:
    peer, session = scripted()
    sender, receiver = a_sender("out"), a_receiver("in")
    session.attach(sender)
    sender.send(BODY)
    peer.feed(attach("out", 0, Role.RECEIVER))
    peer.attached(session, receiver, handle=1)
    assert peer.written(Transfer) == []
    for state in (sender.flow_state, receiver.flow_state):
        assert (state.link_credit, state.available, state.drain) == (0, 0, False)


@pytest.mark.spec("T-FLOW-019")
def test_a_sender_counts_from_where_it_likes() -> None:
    peer, session = scripted()
    session.attach(a_sender("n", initial_delivery_count=4_294_967_290))
    assert peer.flush()[0].performative.initial_delivery_count == 4_294_967_290


@pytest.mark.spec("T-FLOW-020")
def test_a_receiver_counts_from_the_senders_attach() -> None:
    peer, link = receiving(initial_delivery_count=500)
    link.flow(1)
    assert peer.flush()[0].performative.delivery_count == 500


@pytest.mark.spec("T-FLOW-021")
def test_flow_state_goes_one_way_by_attach_transfer_and_flow_and_back_by_flow() -> None:
    joined = Joined()
    session = joined.open()
    link = a_sender(initial_delivery_count=3)
    session.attach(link)
    joined.run()
    receiver = joined.peer_of(link)
    assert receiver.flow_state.delivery_count == 3  # By attach.
    receiver.flow(5)
    joined.run()
    assert link.link_credit == 5
    link.send(BODY)
    assert (receiver.flow_state.delivery_count, receiver.link_credit) == (3, 5)
    joined.run()
    assert (receiver.flow_state.delivery_count, receiver.link_credit) == (4, 4)  # By transfer.
    link.backlog = lambda: 7
    link.flow_state.delivery_count += 1
    joined.run()
    assert receiver.flow_state.available == 0
    link.flow()
    joined.run()
    assert (receiver.flow_state.delivery_count, receiver.flow_state.available) == (5, 7)  # By flow.
    receiver.flow(9, drain=False)
    assert link.link_credit == 4
    joined.run()
    assert link.link_credit == 9


@pytest.mark.spec("T-FLOW-029", "T-FLOW-042")
def test_an_echo_is_answered_once_and_nothing_else() -> None:
    for peer, link in (sending(3), receiving(3)):
        assert peer.feed(flow(0, delivery_count=0, link_credit=3)) == []
        answer = peer.feed(flow(0, delivery_count=0, link_credit=3, echo=True))
        assert kinds(answer) == ["Flow"]
        told = answer[0].performative
        assert (told.handle, told.link_credit, told.delivery_count, told.echo) == (0, 3, 0, False)
        assert link.link_credit == 3
        link.flow(echo=True)
        assert peer.flush()[0].performative.echo


@pytest.mark.spec("T-FLOW-031")
def test_a_flow_for_no_link_ends_the_session() -> None:
    peer, _ = sending()
    peer.feed(flow(9, link_credit=1))
    assert condition(peer.written(End)[0]) == "amqp:session:unattached-handle"


@pytest.mark.spec("T-FLOW-032", "T-FLOW-037", "T-FLOW-039", "T-FLOW-041")
@pytest.mark.parametrize(
    "field",
    [{"delivery_count": 1}, {"link_credit": 1}, {"available": 1}, {"drain": True}],
    ids=lambda one: next(iter(one)),
)
def test_a_flow_of_the_session_tells_nothing_of_a_link(field: dict[str, int]) -> None:
    peer, _ = sending(3)
    told = peer.feed(flow(None, echo=True))[0].performative
    assert (told.handle, told.delivery_count, told.link_credit, told.available) == (None, None, None, None)
    assert not told.drain
    peer.feed(flow(None, **field))
    assert condition(peer.written(End)[0]) == "amqp:invalid-field"


@pytest.mark.spec("T-FLOW-033", "T-FLOW-036")
def test_what_a_senders_flow_tells() -> None:
    peer, link = sending(5)
    link.flow()
    told = peer.flush()[0].performative
    assert (told.delivery_count, told.link_credit) == (0, 5)
    for _ in range(3):
        link.send(BODY)
    peer.flush()
    link.flow()
    told = peer.flush()[0].performative
    assert (told.delivery_count, told.link_credit, told.next_outgoing_id) == (3, 2, 3)


@pytest.mark.spec("T-FLOW-034", "T-FLOW-038")
def test_what_a_receivers_flow_tells() -> None:
    peer, link = receiving(5)
    peer.feed(flow(0, delivery_count=0, available=6))
    link.flow()
    assert peer.flush()[0].performative.available == 6
    peer.feed(*[(transfer(id), BODY) for id in range(3)])
    link.flow(4)
    told = peer.flush()[0].performative
    assert (told.delivery_count, told.link_credit, told.next_incoming_id) == (3, 4, 3)


@pytest.mark.spec("T-FLOW-035")
def test_a_receiver_that_has_not_seen_the_attach_tells_no_count() -> None:
    peer, session = scripted()
    link = a_receiver("n")
    session.attach(link)
    link.flow(5)
    told = peer.flush()[1].performative
    assert (told.delivery_count, told.link_credit) == (None, 5)
    peer.feed(attach("n", 0, initial_delivery_count=8), *[(transfer(id), BODY) for id in range(5)])
    assert len(delivered(peer)) == 5
    assert link.flow_state.delivery_count == 13
    link.detach()
    peer.feed(a_detach(handle=0))
    session.attach(link)
    link.flow(5)
    assert peer.flush()[-1].performative.delivery_count is None


def test_credit_starts_afresh_when_a_link_is_attached_again() -> None:
    """Both ends have to agree that nothing is granted: else each waits for the other."""
    joined = Joined()
    session = joined.open()
    link = a_receiver(prefetch=10)
    session.attach(link)
    joined.run()
    sender = joined.peer_of(link)
    for _ in range(3):
        sender.send(BODY)
    joined.run()
    link.detach()
    joined.run()
    for _ in range(20):
        sender.send(BODY)
    session.attach(link)
    joined.run()
    assert len(delivered_to(joined)) == 10
    for delivery in delivered_to(joined):
        delivery.settle()
    joined.run()
    assert len(delivered_to(joined)) == 20


def delivered_to(joined: Joined) -> list[IncomingDelivery]:
    return [one for event in joined.told(joined.client, events.Deliveries) for one in event.deliveries]


@pytest.mark.parametrize("credit", [-1, 1 << 31])
def test_a_credit_that_is_none_is_not_told(credit: int) -> None:
    peer, link = receiving()
    with pytest.raises(LocalError, match="link-credit"):
        link.flow(credit, drain=True)
    assert (peer.flush(), link.flow_state.drain, link.link_credit) == ([], False, 0)


def test_no_flow_goes_out_on_a_link_that_is_not_attached() -> None:
    for peer, link in (sending(), receiving()):
        link.detach()
        with pytest.raises(LocalError):
            link.flow()
        assert kinds(peer.flush()) == ["Detach"]
        assert peer.feed(flow(0, delivery_count=0, link_credit=3, echo=True)) == []
        peer.feed(a_detach(handle=0))
        with pytest.raises(LocalError):
            link.flow()


def test_an_event_tells_that_the_flow_state_changed() -> None:
    peer, link = sending()
    peer.feed(flow(0, delivery_count=0, link_credit=3), flow(0, delivery_count=0, link_credit=4))
    assert [event.link for event in peer.told(events.Credit)] == [link]
    assert link.link_credit == 4
    peer.feed(flow(0, delivery_count=0, link_credit=5))
    assert len(peer.told(events.Credit)) == 2
    peer, receiver = receiving()
    peer.feed(flow(0, delivery_count=0, available=3))
    assert [event.link for event in peer.told(events.FlowReceived)] == [receiver]
    assert len(peer.written(Flow)) == 0

"""Deliveries are resumed with their links: credit, order, streams, and who settles when (section 2.6.13)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.container import Container
from amqpforge.engine.delivery import OutgoingDelivery
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    Attach,
    Detach,
    Error,
    LinkState,
    Modified,
    Received,
    ReceiverSettleMode,
    Rejected,
    Released,
    SenderSettleMode,
    Symbol,
    Transfer,
)
from tests.engine.joined import BODY, a_receiver, a_sender
from tests.engine.linked import (
    Severed,
    a_detach,
    attach,
    condition,
    frames,
    kinds,
    scripted,
    sending,
    transfer,
)

SECOND = ReceiverSettleMode.SECOND
STATES = [None, Received(section_number=0, section_offset=3), Accepted(), Rejected(), Released(), Modified()]


def sent(severed: Severed, kind: type[Any]) -> list[Any]:
    """What the client has written on the connection at hand, as performatives."""
    return [one.performative for one in frames(severed.joined, severed.joined.client, kind)]


def test_resumed_deliveries_count_against_credit_and_prefetch() -> None:
    severed = Severed()
    link, receiver = severed.sender(credit=0, rcv_settle_mode=SECOND)
    receiver.prefetch = 4
    receiver.grant()
    severed.joined.run()
    for _ in range(10):
        link.send(BODY)
    severed.joined.run()
    assert len(severed.came) == 4
    severed.cut()
    assert receiver.held == 0
    severed.resume(link)
    assert [one.resume for one in sent(severed, Transfer)] == [True] * 4
    assert (receiver.held, receiver.link_credit, link.link_credit) == (4, 0, 0)
    assert len(severed.came) == 4
    assert link.flow_state.delivery_count == 8
    for delivery in list(severed.came):
        delivery.update(Accepted())
    severed.joined.run()
    assert len(severed.came) == 8
    assert receiver.held + receiver.link_credit == 4


def test_what_waits_is_sent_behind_what_is_resumed_and_what_is_sent_again() -> None:
    severed = Severed()
    link, receiver = severed.sender(credit=4, rcv_settle_mode=SECOND)
    for number in range(6):
        link.send(BODY, tag=b"%d" % number)
    severed.carry_frames(2)  # 0 and 1 arrive, 2 and 3 are lost, 4 and 5 wait.
    severed.cut()
    severed.resume(link)
    receiver.flow(10)
    severed.joined.run()
    assert [(one.delivery_tag, one.resume) for one in sent(severed, Transfer)] == [
        (b"0", True),
        (b"1", True),
        (b"2", False),
        (b"3", False),
        (b"4", False),
        (b"5", False),
    ]
    assert [one.tag for one in severed.came] == [b"%d" % number for number in range(6)]


def test_a_settled_message_that_was_cut_is_lost_and_told_so() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    stream = link.start_message(settled=True)
    stream.write(b"1")
    waits = link.send(BODY, settled=True)
    severed.joined.run()
    severed.cut()
    assert (stream.is_lost, stream.progress.name) == (True, "ABORTED")
    assert severed.joined.told(severed.joined.client, events.Updates)[0].deliveries == [stream]
    severed.resume(link)
    receiver.flow(5)
    severed.joined.run()
    assert [one.payload for one in severed.came] == [BODY]
    assert (waits.progress.name, receiver.unsettled) == ("SENT", {})


def test_an_abort_while_the_link_is_suspended() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    stream = link.start_message(tag=b"1")
    stream.write(BODY)
    severed.joined.run()
    severed.cut()
    stream.abort()
    severed.resume(link)
    assert (sent(severed, Attach)[0].unsettled, receiver.unsettled) == ({}, {})
    receiver.flow(1)
    link.send(BODY, tag=b"1")
    severed.joined.run()
    assert [one.payload for one in severed.came] == [BODY]


def test_an_abort_before_the_delivery_is_resumed() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    stream = link.start_message(tag=b"1")
    stream.write(BODY)
    severed.joined.run()
    severed.cut()
    severed.resume(link)
    stream.abort()
    receiver.flow(5)
    severed.joined.run()
    assert [(one.resume, one.aborted) for one in sent(severed, Transfer)] == [(True, True)]
    assert (link.unsettled, receiver.unsettled, severed.came) == ({}, {}, [])


def test_a_stream_goes_on_after_the_connection_was_lost() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    stream = link.start_message(tag=b"1")
    stream.write(BODY[:3])
    severed.joined.run()
    severed.cut()
    stream.write(BODY[3:])
    stream.finish()
    severed.resume(link)
    receiver.flow(1)
    severed.joined.run()
    assert [one.payload for one in severed.came] == [BODY]
    told = sent(severed, Transfer)[0]
    assert (told.resume, told.state) == (True, Received(section_number=0, section_offset=3))


@pytest.mark.parametrize("payload", [b"", b"\xff\xfe no sections"])
def test_messages_of_another_format_are_resumed(payload: bytes) -> None:
    """Octets that are no sections, or none at all, are not delivered twice either."""
    severed = Severed()
    link, receiver = severed.sender(rcv_settle_mode=SECOND)
    link.send(payload, tag=b"1", message_format=9)
    severed.joined.run()
    severed.cut()
    severed.resume(link)
    receiver.flow(1)
    severed.joined.run()
    assert [one.payload for one in severed.came] == [payload]
    severed.came[0].update(Accepted())
    severed.joined.run()
    assert (link.unsettled, receiver.unsettled) == ({}, {})


def test_a_streamed_message_is_resumed_where_it_was_cut() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    receiver.streams = True
    stream = link.start_message(tag=b"1")
    stream.write(BODY[:4])
    severed.joined.run()
    came = severed.joined.told(severed.joined.server, events.Partial)[0].delivery
    assert came.read() == BODY[:4]
    severed.cut()
    severed.resume(link)
    receiver.flow(1)
    stream.write(BODY[4:])
    stream.finish()
    severed.joined.run()
    assert (came.read(), came.is_complete, came.resumed) == (BODY[4:], True, True)


def test_a_stream_of_which_nothing_came_is_told_to_be_over() -> None:
    peer, session = scripted()
    stream: Receiver = peer.attached(session, a_receiver("n", streams=True))
    stream.flow(1)
    peer.feed((transfer(0, more=True), b""))
    empty = peer.told(events.Partial)[0].delivery
    peer.feed(a_detach(handle=0, error=Error(condition=AmqpError.INTERNAL_ERROR)))
    session.attach(stream)
    assert peer.flush()[-1].performative.unsettled == {}
    peer.feed(attach("n", 0, unsettled={b"0": None}))
    assert (empty.progress.name, stream.unsettled) == ("ABORTED", {})
    assert [event.delivery for event in peer.told(events.Partial)] == [empty, empty]


def test_a_link_is_resumed_by_the_other_end() -> None:
    """The server attaches first, when both have lost the session."""
    severed = Severed()
    link, receiver = severed.sender(rcv_settle_mode=SECOND)
    link.send(BODY, tag=b"1")
    severed.joined.run()
    severed.cut()
    joined = severed.resume()
    theirs = joined.server.sessions[0]
    theirs.attach(receiver)
    joined.run()
    assert link.state is LinkState.ATTACH_RCVD
    link.attach()
    receiver.flow(1)
    joined.run()
    assert frames(joined, joined.client, Attach)[0].performative.unsettled == {b"1": None}
    assert [one.performative.resume for one in frames(joined, joined.client, Transfer)] == [True]


def test_both_ends_resume_at_once() -> None:
    severed = Severed()
    link, receiver = severed.sender(rcv_settle_mode=SECOND)
    link.send(BODY, tag=b"1")
    severed.joined.run()
    severed.cut()
    joined = severed.resume()
    severed.session.attach(link)
    joined.server.sessions[0].attach(receiver)
    joined.run()
    assert (link.state, receiver.state) == (LinkState.ATTACHED, LinkState.ATTACHED)
    receiver.flow(1)
    joined.run()
    severed.came[0].update(Accepted())
    joined.run()
    assert (link.unsettled, receiver.unsettled, len(severed.came)) == ({}, {}, 1)


def test_a_server_that_has_lost_everything_gets_it_again() -> None:
    severed = Severed()
    link, _ = severed.sender()
    for _ in range(3):
        link.send(BODY)
    severed.joined.run()
    severed.cut()
    severed.containers = (severed.containers[0], Container("server"))
    severed.resume(link)
    severed.joined.peer_of(link).flow(5)
    severed.joined.run()
    assert len(severed.came) == 6
    assert not any(one.resume for one in sent(severed, Transfer))


def test_a_client_that_has_lost_everything_settles_all() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    for _ in range(3):
        link.send(BODY)
    severed.joined.run()
    severed.cut()
    fresh = a_sender("n")
    severed.resume(fresh)
    assert all(one.remote_settled for one in severed.came)
    assert kinds(frames(severed.joined, severed.joined.server))[-1] == "Attach"
    assert severed.joined.peer_of(fresh) is receiver
    assert (fresh.state, len(receiver.unsettled)) == (LinkState.ATTACHED, 3)
    for delivery in severed.came:
        delivery.settle(Accepted())
    receiver.flow(1)
    severed.joined.run()
    fresh.send(BODY)
    severed.joined.run()
    assert len(severed.came) == 4


def test_a_delivery_that_came_settled_has_no_number_on_another_session() -> None:
    """What is done with it late concerns no other delivery, whatever its number was."""
    severed = Severed()
    link, receiver = severed.sender()
    link.send(BODY, tag=b"settled", settled=True)
    severed.joined.run()
    severed.cut()
    severed.resume(link)
    receiver.flow(5)
    severed.joined.run()
    link.auto_settle = False
    sent = link.send(BODY, tag=b"other")
    severed.joined.run()
    assert (severed.came[0].id, severed.came[1].id) == (0, 0)
    severed.came[0].settle(Accepted())
    sent.settle()
    severed.joined.run()
    assert severed.came[1].remote_settled


def test_an_outcome_told_while_suspended_is_told_on_resuming() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    sent_one = link.send(BODY, tag=b"1")
    severed.joined.run()
    severed.cut()
    severed.came[0].update(Rejected(error=Error(condition=Symbol("x:y"))))
    severed.resume(link)
    receiver.flow(1)
    severed.joined.run()
    assert (sent_one.settled, severed.came[0].settled) == (True, True)
    assert isinstance(sent_one.state, Rejected)


def waiting(**options: Any) -> tuple[Severed, Sender, OutgoingDelivery, Receiver]:
    """A link that is resumed, with a delivery that the receiver has accepted, and the application not yet."""
    severed = Severed()
    link, receiver = severed.sender(auto_settle=False, rcv_settle_mode=SECOND, **options)
    delivery = link.send(BODY, tag=b"1")
    severed.joined.run()
    severed.came[0].update(Accepted())
    severed.cut()
    severed.resume(link)
    receiver.flow(5)
    severed.joined.run()
    return severed, link, delivery, receiver


def test_a_receiver_hears_of_its_outcome_once_the_application_of_the_sender_has_settled() -> None:
    """It forgets the delivery then: until the outcome is safe at the source, it must not."""
    severed, link, delivery, receiver = waiting()
    assert sent(severed, Transfer) == []
    assert severed.joined.told(severed.joined.client, events.Updates)[0].deliveries == [delivery]
    assert delivery.remote_state == Accepted()
    assert list(receiver.unsettled) == [b"1"]
    link.send(BODY, tag=b"2")  # It does not wait for that.
    severed.joined.run()
    assert [one.delivery_tag for one in sent(severed, Transfer)] == [b"2"]
    delivery.settle()
    severed.joined.run()
    told = sent(severed, Transfer)[1]
    assert (told.delivery_tag, told.resume, told.state, told.settled) == (b"1", True, Accepted(), True)
    assert (list(link.unsettled), list(receiver.unsettled)) == ([b"2"], [b"2"])


def test_in_mode_unsettled_the_late_settlement_follows_the_transfer() -> None:
    severed, link, delivery, receiver = waiting(snd_settle_mode=SenderSettleMode.UNSETTLED)
    delivery.settle()
    severed.joined.run()
    (told,) = sent(severed, Transfer)
    assert (told.state, told.settled) == (Accepted(), False)
    assert (link.unsettled, receiver.unsettled) == ({}, {})


def test_what_waits_for_its_application_is_resumed_again_after_another_loss() -> None:
    severed, link, delivery, receiver = waiting()
    severed.cut()
    severed.resume(link)
    receiver.flow(5)
    severed.joined.run()
    assert (sent(severed, Transfer), list(receiver.unsettled)) == ([], [b"1"])
    severed.cut()
    delivery.settle(Accepted())
    severed.resume(link)
    severed.joined.run()
    assert (link.unsettled, receiver.unsettled, len(severed.came)) == ({}, {}, 1)


def test_a_late_settlement_does_not_go_into_the_middle_of_a_message() -> None:
    severed, link, delivery, receiver = waiting()
    half = link.start_message(tag=b"2")
    half.write(BODY)
    severed.joined.run()
    delivery.settle()
    half.finish()
    severed.joined.run()
    assert [one.delivery_tag for one in sent(severed, Transfer) if one.delivery_tag] == [b"2", b"1"]
    assert list(receiver.unsettled) == [b"2"]


@pytest.mark.spec("M-OUTCOME-004")
def test_what_was_accepted_at_the_source_is_not_sent_again() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    link.send(BODY, tag=b"1").update(Accepted())
    severed.carry_frames(1)
    severed.cut()
    severed.resume(link)
    receiver.flow(1)
    severed.joined.run()
    assert sent(severed, Attach)[0].unsettled == {b"1": Accepted()}
    written = frames(severed.joined, severed.joined.client, Transfer)
    assert [(one.performative.resume, one.performative.aborted, one.payload) for one in written] == [
        (True, True, b"")
    ]
    assert (link.unsettled, receiver.unsettled) == ({}, {})


@pytest.mark.spec("M-OUTCOME-013")
@pytest.mark.parametrize("outcome", [Released(), Modified()])
def test_what_was_let_go_on_the_way_is_not_completed(outcome: Any) -> None:
    severed = Severed()
    link, receiver = severed.sender()
    stream = link.start_message(tag=b"1")
    stream.write(BODY[:3])
    severed.joined.run()
    stream.update(outcome)
    severed.cut()
    severed.resume(link)
    receiver.flow(1)
    severed.joined.run()
    assert sent(severed, Attach)[0].unsettled == {b"1": outcome}
    assert [(one.resume, one.aborted) for one in sent(severed, Transfer)] == [(True, True)]
    assert (link.unsettled, receiver.unsettled, severed.came) == ({}, {}, [])
    assert not stream.is_lost


def test_a_resumed_delivery_that_would_leave_a_gap_closes_the_link() -> None:
    peer, session = scripted()
    link = a_receiver("n")
    link.restore(b"1", BODY[:3], is_complete=False)
    session.attach(link)
    peer.feed(attach("n", 0, unsettled={b"1": None}))
    link.flow(1)
    late = Received(section_number=0, section_offset=5)
    peer.feed((transfer(0, b"1", resume=True, state=late), b"x"))
    assert condition(peer.written(Detach)[0]) == "amqp:invalid-field"


def test_resuming_needs_credit() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    link.send(BODY)
    severed.joined.run()
    severed.cut()
    severed.resume(link)
    assert sent(severed, Transfer) == []
    receiver.flow(1)
    severed.joined.run()
    assert len(sent(severed, Transfer)) == 1
    assert (link.link_credit, receiver.link_credit) == (0, 0)


def test_no_frames_of_a_map_that_tells_nothing() -> None:
    peer, link = sending(1)
    assert (link.unsettled_map, peer.flush()) == ({}, [])

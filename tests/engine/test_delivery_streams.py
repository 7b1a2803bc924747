"""Messages that are written and read piece by piece, at whatever pace each end likes (section 2.6.14)."""

from __future__ import annotations

import pytest

from amqpforge.engine import events
from amqpforge.engine.delivery import IncomingDelivery
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.session import Session
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Disposition,
    Flow,
    IncomingDeliveryState,
    OutgoingDeliveryState,
    Rejected,
    Released,
    Role,
    SenderSettleMode,
    Transfer,
)
from tests.engine.joined import BODY, Joined, Scripted, a_receiver, a_sender
from tests.engine.linked import (
    a_detach,
    a_transfer,
    delivered,
    disposition,
    flow,
    frames,
    kinds,
    receiving,
    scripted,
    sending,
    transfer,
)

WINDOW = SessionSettings(incoming_window=8)


def streaming(credit: int = 5) -> tuple[Scripted, Session, Receiver]:
    """A receiver that streams, on a session with a window of eight frames."""
    peer, session = scripted(session=WINDOW)
    link: Receiver = peer.attached(session, a_receiver("n", streams=True))
    link.flow(credit)
    peer.flush()
    return peer, session, link


def partial(peer: Scripted) -> IncomingDelivery:
    delivery: IncomingDelivery = peer.told(events.Partial)[-1].delivery
    return delivery


def window(peer: Scripted) -> int:
    """The room that our latest flow has told."""
    return peer.written(Flow)[-1].incoming_window


def test_octets_are_handed_out_as_they_come() -> None:
    peer, _, _ = streaming()
    peer.feed((transfer(0, more=True), b"ab"))
    delivery = partial(peer)
    assert (delivery.read(), delivery.is_complete) == (b"ab", False)
    peer.feed((a_transfer(handle=0, more=True), b"c"), (a_transfer(handle=0), b"d"))
    assert (delivery.read(), delivery.read(), delivery.is_complete) == (b"cd", b"", True)
    assert (delivery.payload, peer.told(events.Deliveries)) == (b"", [])


def test_what_is_not_read_fills_the_sessions_window() -> None:
    peer, session, _ = streaming()
    peer.feed(
        (transfer(0, more=True), b"0"), *[(a_transfer(handle=0, more=True), b"%d" % n) for n in range(1, 8)]
    )
    assert [type(frame.performative) for frame in peer.flush()] == []
    assert session.windows.incoming_window == 0
    assert partial(peer).read() == b"01234567"
    peer.flush()
    assert window(peer) == 8
    peer.feed((a_transfer(handle=0), b"8"))
    assert partial(peer).read() == b"8"
    assert peer.told(events.Ended) == []


@pytest.mark.parametrize("end", ["settle", "close", "detach", "fail", "abort"])
def test_what_is_never_read_gives_its_room_back(end: str) -> None:
    """Other links of the session go on when a stream is given up."""
    peer, session, link = streaming()
    other: Receiver = peer.attached(session, a_receiver("m"), handle=1)
    other.flow(100)
    peer.feed((transfer(0, more=True), b"0"), *[(a_transfer(handle=0, more=True), b"1")] * 6)
    if end == "settle":
        partial(peer).settle(Rejected())
    elif end == "close":
        link.close()
        peer.feed(a_detach(handle=0, closed=True))
    elif end == "detach":
        peer.feed(a_detach(handle=0, closed=True))
    elif end == "fail":
        peer.feed((a_transfer(handle=0, delivery_tag=b"0", rcv_settle_mode=1, aborted=True), b""))
    else:
        peer.feed((a_transfer(handle=0, aborted=True), b""))
    peer.flush()
    assert window(peer) == 8
    for id in range(1, 30):
        peer.feed((transfer(id, handle=1), BODY))
    assert len(delivered(peer)) == 29
    assert peer.told(events.Ended) == []


def test_octets_read_after_the_link_is_gone_are_there_but_do_not_count() -> None:
    peer, session, link = streaming()
    peer.feed((transfer(0, more=True), b"abc"))
    delivery = partial(peer)
    link.close()
    peer.feed(a_detach(handle=0, closed=True))
    assert delivery.read() == b"abc"
    peer.flush()
    assert session.flow().incoming_window == 8


def test_what_comes_of_a_stream_that_is_settled_is_dropped() -> None:
    peer, _, link = streaming()
    peer.feed((transfer(0, more=True), b"1"))
    delivery = partial(peer)
    delivery.settle(Rejected())
    count = len(peer.told(events.Partial))
    for _ in range(50):
        peer.feed((a_transfer(handle=0, more=True), b"x"))
    peer.feed((a_transfer(handle=0), b"x"))
    assert (delivery.read(), delivery.is_complete) == (b"1", True)
    assert len(peer.told(events.Partial)) == count
    peer.feed((transfer(1), BODY))
    assert partial(peer).read() == BODY
    assert link.link_credit == 3


def test_a_stream_that_the_sender_settles_is_read_to_its_end() -> None:
    peer, _, link = streaming()
    peer.feed((transfer(0, more=True), b"1"))
    delivery = partial(peer)
    delivery.update(Accepted())
    peer.feed(disposition(Role.SENDER, 0, settled=True), (a_transfer(handle=0, more=True), b"2"))
    assert not delivery.settled
    peer.feed((a_transfer(handle=0), b"3"))
    assert delivery.read() == b"123"
    assert (delivery.settled, link.unsettled) == (True, {})


def test_an_unread_stream_does_not_stall_its_siblings_within_the_window() -> None:
    peer, session, _ = streaming()
    other: Receiver = peer.attached(session, a_receiver("m"), handle=1)
    other.flow(1000)
    peer.feed((transfer(0, more=True), b"0"), *[(a_transfer(handle=0, more=True), b"1")] * 6)
    for id in range(1, 500):
        peer.feed((transfer(id, handle=1), BODY))
        assert session.windows.incoming_window > 0 or peer.flush()
    assert len(delivered(peer)) == 499


def test_an_unread_stream_never_stalls_another_session() -> None:
    joined = Joined(server=ConnectionSettings(session=WINDOW, max_frame_size=512))
    slow_session = joined.open()
    fast_session = joined.client.session()
    fast_session.begin()
    slow, fast = a_sender("slow"), a_sender("fast")
    slow_session.attach(slow)
    fast_session.attach(fast)
    joined.run()
    joined.peer_of(slow).streams = True
    for link in (slow, fast):
        joined.peer_of(link).flow(1000)
    joined.run()
    stream = slow.send(bytes(100_000))
    for _ in range(200):
        fast.send(BODY)
    joined.run()
    assert stream.progress is OutgoingDeliveryState.SENDING
    assert (
        len([one for event in joined.told(joined.server, events.Deliveries) for one in event.deliveries])
        == 200
    )
    came = joined.told(joined.server, events.Partial)[0].delivery
    octets = b""
    while not came.is_complete or came.parts:
        octets += came.read()
        joined.run()
    assert octets == bytes(100_000)


@pytest.mark.spec("M-OUTCOME-005", "T-DISP-018")
@pytest.mark.parametrize("outcome", [Accepted(), Released()])
@pytest.mark.parametrize("settled", [True, False])
def test_a_delivery_with_an_outcome_is_still_sent_to_its_end(
    outcome: Accepted | Released, settled: bool
) -> None:
    """The change goes with the next transfer, which comes anyway."""
    peer, link = sending(5)
    stream = link.start_message()
    stream.write(b"1")
    assert kinds(peer.flush()) == ["Transfer"]
    stream.update(outcome, settled=settled)
    assert peer.flush() == []
    stream.write(b"2")
    stream.finish()
    written = [frame.performative for frame in peer.flush()]
    assert [type(one) for one in written] == [Transfer, Transfer]
    assert (written[0].state, bool(written[0].settled), written[0].more) == (outcome, settled, True)
    assert (written[1].state, bool(written[1].settled), written[1].more) == (None, settled, False)
    assert (stream.progress, len(link.unsettled)) == (OutgoingDeliveryState.SENT, not settled)


@pytest.mark.spec("T-DISP-018")
def test_a_disposition_for_a_delivery_that_is_still_coming_is_applied() -> None:
    peer, _, _ = streaming()
    peer.feed((transfer(0, more=True), b"1"), disposition(Role.SENDER, 0, state=Accepted()))
    assert partial(peer).remote_state == Accepted()
    assert peer.told(events.Updates)[0].deliveries == [partial(peer)]
    peer.feed((a_transfer(handle=0), b"2"))
    assert partial(peer).read() == b"12"


def test_a_receiver_settles_a_message_that_is_still_sent() -> None:
    """It needs no more of it, yet the sender has to end it, or break it off."""
    peer, link = sending(5)
    stream, follower = link.start_message(), link.send(BODY)
    stream.write(b"1")
    peer.feed(disposition(Role.RECEIVER, 0, state=Rejected(), settled=True))
    assert (stream.settled, stream.state, stream.progress.name) == (True, Rejected(), "SENDING")
    stream.write(b"2")
    stream.finish()
    assert (len(link.unsettled), follower.progress) == (1, OutgoingDeliveryState.SENT)
    session = link.session
    assert session is not None
    assert list(session.outgoing) == [1]


def test_a_message_that_is_not_finished_does_not_stall_other_links() -> None:
    peer, session = scripted()
    links = [peer.attached(session, a_sender(str(number)), handle=number) for number in range(2)]
    for number in range(2):
        peer.feed(flow(number, link_credit=50, delivery_count=0))
    links[0].start_message().write(b"1")
    for _ in range(20):
        links[1].send(BODY)
    assert len(peer.flush()) == 21


def test_small_pieces_that_wait_go_out_in_few_frames() -> None:
    peer, link = sending()
    stream = link.start_message()
    for _ in range(1000):
        stream.write(b"ab")
    stream.write(b"")
    assert stream.unsent == 2000
    stream.finish()
    written = peer.feed(flow(0, link_credit=1, delivery_count=0))
    assert [len(frame.payload) for frame in written] == [2000]
    assert stream.unsent == 0


def test_pieces_that_are_no_sections_are_sent_all_the_same() -> None:
    """A message of another format has octets of any kind."""
    joined = Joined()
    session = joined.open()
    link = a_sender()
    session.attach(link)
    joined.run()
    receiver = joined.peer_of(link)
    receiver.streams = True
    receiver.flow(1)
    joined.run()
    stream = link.start_message(message_format=77)
    for octets in (b"\xff\xfe", b"whatever", b"\x00\x53"):
        stream.write(octets)
    stream.finish()
    joined.run()
    came = joined.told(joined.server, events.Partial)[0].delivery
    assert (came.read(), came.message_format, came.is_complete) == (b"\xff\xfewhatever\x00\x53", 77, True)
    assert joined.told(joined.client, events.Closed) == []


def test_a_stream_in_mode_settled() -> None:
    joined = Joined()
    session = joined.open()
    link = a_sender(snd_settle_mode=SenderSettleMode.SETTLED)
    session.attach(link)
    joined.run()
    receiver = joined.peer_of(link)
    receiver.flow(5)
    joined.run()
    stream = link.start_message()
    stream.write(b"1")
    stream.finish()
    broken = link.start_message()
    broken.write(b"2")
    broken.abort()
    joined.run()
    came = [
        one.payload for event in joined.told(joined.server, events.Deliveries) for one in event.deliveries
    ]
    assert came == [b"1"]
    assert (receiver.unsettled, link.unsettled) == ({}, {})
    assert [one.performative.settled for one in frames(joined, joined.client, Transfer)][:2] == [True, True]
    assert frames(joined, joined.server, Disposition) == []


def test_a_message_is_written_after_it_is_complete() -> None:
    peer, link = sending(2)
    whole, stream = link.send(BODY), link.start_message()
    stream.finish()
    for delivery in (whole, stream):
        with pytest.raises(LocalError, match="complete"):
            delivery.write(b"1")
        with pytest.raises(LocalError, match="complete"):
            delivery.finish()
    assert [frame.payload for frame in peer.flush()] == [BODY, b""]


def test_an_abort_in_the_frame_that_begins() -> None:
    peer, _, link = streaming()
    peer.feed((transfer(0, aborted=True, more=True), b"1"))
    assert partial(peer).progress is IncomingDeliveryState.ABORTED
    assert (partial(peer).read(), link.unsettled) == (b"", {})
    assert peer.written(Attach)[0].name == "n"


def test_receiving_whole_messages_is_not_told_in_pieces() -> None:
    peer, _ = receiving(1)
    peer.feed((transfer(0, more=True), b"1"))
    assert (peer.told(events.Partial), delivered(peer)) == ([], [])

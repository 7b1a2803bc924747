"""Messages in transfers: their tags, ids and flags, and how they are cut and put together (sections 2.6.11,
2.6.14 and 2.7.5).
"""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Detach,
    Disposition,
    End,
    IncomingDeliveryState,
    OutgoingDeliveryState,
    Received,
    ReceiverSettleMode,
    Released,
    Role,
    SenderSettleMode,
    Transfer,
)
from tests.engine.joined import BODY, Joined, a_receiver, a_sender
from tests.engine.linked import (
    a_disposition,
    a_transfer,
    attach,
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


def more(handle: int = 0, **fields: Any) -> Transfer:
    """A transfer that continues a delivery."""
    return a_transfer(handle=handle, **fields)


# --- tags and ids


@pytest.mark.spec("T-XFER-001", "T-XFER-005")
def test_each_attempt_has_a_tag_of_its_own() -> None:
    peer, link = sending(3)
    link.send(BODY)
    link.send(BODY)
    link.send(BODY, tag=b"x")
    tags = [frame.performative.delivery_tag for frame in peer.flush()]
    assert len(set(tags)) == 3
    assert tags[2] == b"x"


@pytest.mark.spec("T-XFER-002")
def test_ids_are_those_of_the_session() -> None:
    peer, session = scripted()
    links = [peer.attached(session, a_sender(str(number)), handle=number) for number in range(2)]
    for number in range(2):
        peer.feed(flow(number, link_credit=5, delivery_count=0))
    for _ in range(3):
        for link in links:
            link.send(BODY)
    ids = [frame.performative.delivery_id for frame in peer.flush()]
    assert ids == [0, 1, 2, 3, 4, 5]


@pytest.mark.spec("T-XFER-006")
def test_a_tag_is_free_when_both_ends_have_settled() -> None:
    peer, link = sending(5)
    link.send(BODY, tag=b"x")
    with pytest.raises(LocalError, match="unsettled"):
        link.send(BODY, tag=b"x")
    assert len(peer.flush()) == 1
    peer.feed(disposition(Role.RECEIVER, 0, state=Accepted(), settled=True))
    link.send(BODY, tag=b"x")
    assert len(peer.flush()) == 1


def test_a_tag_that_is_made_is_never_one_in_use() -> None:
    _, link = sending(5)
    link.send(BODY, tag=(1).to_bytes(4, "big"))
    assert [link.send(BODY).tag for _ in range(2)] == [bytes(4), (2).to_bytes(4, "big")]


@pytest.mark.spec("T-XFER-008")
def test_after_its_transfer_a_delivery_goes_by_its_id() -> None:
    peer, _ = receiving(5)
    peer.feed((transfer(40, b"x"), BODY))
    delivered(peer)[0].settle(Accepted())
    assert peer.flush()[0].performative == a_disposition(
        role=Role.RECEIVER, first=40, state=Accepted(), settled=True
    )


@pytest.mark.spec("T-XFER-004")
def test_a_delivery_is_unsettled_at_each_end_until_that_end_settles_it() -> None:
    joined = Joined()
    session = joined.open()
    link = a_sender(auto_settle=False)
    session.attach(link)
    joined.run()
    receiver = joined.peer_of(link)
    receiver.flow(1)
    joined.run()
    sent = link.send(BODY)
    assert len(receiver.unsettled) == 0
    joined.run()
    assert len(link.unsettled) == len(receiver.unsettled) == 1
    receiver.unsettled[sent.tag].settle(Accepted())
    joined.run()
    assert (len(link.unsettled), len(receiver.unsettled)) == (1, 0)
    assert (sent.remote_settled, sent.remote_state) == (True, Accepted())
    sent.settle()
    joined.run()
    assert (link.unsettled, session.outgoing) == ({}, {})
    assert len(joined.told(joined.server, events.Updates)) == 0  # It was settled there.


# --- pieces


@pytest.mark.spec("T-XFER-003", "T-XFER-018")
def test_a_message_beyond_a_frame_is_cut() -> None:
    peer, session = scripted(open={"max_frame_size": 512})
    link = peer.attached(session, a_sender("n"))
    peer.feed(flow(0, link_credit=1, delivery_count=0))
    message = bytes(range(256)) * 7
    link.send(message)
    written = peer.flush()
    assert b"".join(frame.payload for frame in written) == message
    assert [frame.performative.more for frame in written] == [True, True, True, False]
    sizes = [len(frame.payload) + len(frame.performative.encode()) + 8 for frame in written]
    assert sizes[:-1] == [512, 512, 512]
    assert sizes[-1] <= 512


@pytest.mark.spec("T-XFER-031", "T-XFER-034", "T-XFER-035")
def test_the_first_transfer_says_what_the_others_need_not() -> None:
    peer, link = sending(1)
    stream = link.start_message(tag=b"t", message_format=0x1234)
    stream.write(b"1")
    stream.write(b"2")
    stream.finish()
    first, *others = [frame.performative for frame in peer.flush()]
    assert (first.delivery_id, first.delivery_tag, first.message_format) == (0, b"t", 0x1234)
    assert [(one.delivery_id, one.delivery_tag, one.message_format) for one in others] == [
        (None, None, None)
    ] * 2


@pytest.mark.spec("T-XFER-031", "T-XFER-034")
@pytest.mark.parametrize("missing", ["delivery_id", "delivery_tag"])
def test_a_first_transfer_without_id_or_tag_ends_the_session(missing: str) -> None:
    peer, _ = receiving(1)
    frame = transfer(0)
    setattr(frame, missing, None)
    peer.feed((frame, BODY))
    assert condition(peer.written(End)[0]) == "amqp:invalid-field"


@pytest.mark.spec("T-XFER-032")
@pytest.mark.parametrize("repeats", [True, False])
def test_later_transfers_may_repeat_the_id(repeats: bool) -> None:
    peer, _ = receiving(1)
    again: dict[str, Any] = {"delivery_id": 4, "delivery_tag": b"t"} if repeats else {}
    peer.feed((transfer(4, b"t", more=True), b"1"), (more(more=True, **again), b"2"), (more(**again), b"3"))
    assert [one.payload for one in delivered(peer)] == [b"123"]


@pytest.mark.spec("T-XFER-033", "T-XFER-020")
@pytest.mark.parametrize("field", [{"delivery_id": 2}, {"delivery_tag": b"other"}])
def test_a_later_transfer_of_another_delivery_is_a_fault(field: dict[str, Any]) -> None:
    peer, _ = receiving(5)
    peer.feed((transfer(1, more=True), b"1"), (more(**field), b"2"))
    assert condition(peer.written(End)[0]) == "amqp:not-allowed"
    assert delivered(peer) == []


@pytest.mark.spec("T-XFER-019")
def test_messages_of_several_links_come_in_turns() -> None:
    peer, session = scripted()
    links = [peer.attached(session, a_receiver(str(number)), handle=number) for number in range(2)]
    for link in links:
        link.flow(1)
    peer.feed(
        (transfer(0, more=True), b"a"),
        (transfer(1, handle=1, more=True), b"A"),
        (more(0, more=True), b"b"),
        (more(1, more=True), b"B"),
        (more(1), b"C"),
        (more(0), b"c"),
    )
    assert [(one.link, one.payload) for one in delivered(peer)] == [(links[1], b"ABC"), (links[0], b"abc")]


@pytest.mark.spec("T-XFER-020")
def test_one_message_after_the_other_on_a_link() -> None:
    peer, link = sending(5)
    stream = link.start_message()
    stream.write(b"1")
    whole = link.send(b"whole")
    stream.write(b"2")
    assert whole.progress is OutgoingDeliveryState.NOT_SENT
    stream.finish()
    written = [(frame.performative.delivery_id, frame.payload) for frame in peer.flush()]
    assert written == [(0, b"1"), (None, b"2"), (None, b""), (1, b"whole")]


@pytest.mark.spec("T-XFER-021", "T-XFER-050", "T-XFER-052", "T-XFER-051")
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("pieces", [0, 2])
def test_an_abort_throws_away_what_came(pieces: int, streams: bool) -> None:
    peer, link = receiving(5, mode={"streams": streams, "prefetch": 5})
    frames = [(transfer(0, more=True), b"1"), (more(more=True), b"2")][:pieces]
    last = more(aborted=True) if pieces else transfer(0, aborted=True)
    peer.feed(*frames, (last, b"0123456789"))
    assert delivered(peer) == []
    assert (link.unsettled, link.held) == ({}, 0)
    session = link.session
    assert session is not None
    assert session.incoming == {}
    if streams:
        aborted = peer.told(events.Partial)[-1].delivery
        assert (aborted.progress, aborted.read()) == (IncomingDeliveryState.ABORTED, b"")
        assert (aborted.settled, aborted.remote_settled) == (True, True)
    assert peer.written(Disposition) == []
    peer.feed((transfer(1), BODY))
    assert peer.written(Detach) == []


@pytest.mark.spec("T-XFER-051")
def test_an_aborted_message_is_settled_at_the_sender() -> None:
    peer, link = sending(5)
    stream = link.start_message(tag=b"t")
    stream.write(b"1")
    follower = link.send(BODY)
    peer.flush()
    stream.abort()
    written = peer.flush()
    assert [frame.performative.aborted for frame in written] == [True, False]
    assert written[0].payload == b""
    assert (stream.settled, stream.progress) == (True, OutgoingDeliveryState.ABORTED)
    assert list(link.unsettled.values()) == [follower]
    link.send(BODY, tag=b"t")
    with pytest.raises(LocalError, match="aborted"):
        stream.abort()
    with pytest.raises(LocalError, match="settled"):
        stream.update(Accepted())
    with pytest.raises(LocalError, match="complete"):
        stream.write(b"2")


def test_an_abort_waits_for_the_sessions_window() -> None:
    """It is a transfer like any other: one that the peer has no room for would break the session."""
    peer, session = scripted(incoming_window=1)
    link = peer.attached(session, a_sender("n"))
    peer.feed(flow(0, link_credit=5, delivery_count=0, incoming_window=1))
    stream = link.start_message()
    stream.write(b"1")
    follower = link.send(BODY)
    assert kinds(peer.flush()) == ["Transfer"]
    stream.abort()
    assert kinds(peer.flush()) == ["Flow"]  # It asks for the window, and that is all.
    written = peer.feed(flow(None, next_incoming_id=1, incoming_window=1))
    assert [frame.performative.aborted for frame in written] == [True]
    assert stream.tag not in link.unsettled
    written = peer.feed(flow(None, next_incoming_id=2, incoming_window=1))
    assert [frame.performative.aborted for frame in written] == [False]
    assert follower.progress is OutgoingDeliveryState.SENT


def test_an_abort_of_what_was_never_sent_is_not_sent() -> None:
    peer, link = sending()
    first, second = link.send(BODY), link.start_message()
    second.write(b"1")
    first.abort()
    second.abort()
    peer.feed(flow(0, link_credit=5, delivery_count=0))
    assert (peer.written(Transfer), link.unsettled, list(link.queue)) == ([], {}, [])
    with pytest.raises(LocalError):
        link.send(BODY, tag=bytes(4)).abort()  # All of it is out.


def test_an_abort_on_a_link_that_is_detached_is_told_when_it_is_attached_again() -> None:
    joined = Joined()
    session = joined.open()
    link = a_sender()
    session.attach(link)
    joined.run()
    receiver = joined.peer_of(link)
    receiver.flow(5)
    joined.run()
    stream = link.start_message()
    stream.write(b"1")
    joined.run()
    link.detach()
    joined.run()
    stream.abort()
    session.attach(link)
    joined.run()
    receiver.flow(5)
    joined.run()
    link.send(BODY)
    joined.run()
    assert [
        one.payload for event in joined.told(joined.server, events.Deliveries) for one in event.deliveries
    ] == [BODY]
    assert list(receiver.unsettled) == list(link.unsettled)
    assert stream.tag not in link.unsettled


# --- flags


@pytest.mark.spec("T-XFER-036")
def test_settled_that_is_not_told_is_false() -> None:
    peer, link = receiving(1)
    peer.feed((transfer(0, settled=None), BODY))
    assert list(link.unsettled) == [b"0"]
    assert not delivered(peer)[0].remote_settled


@pytest.mark.spec("T-XFER-037")
@pytest.mark.parametrize(
    ("first", "last", "settled"), [(True, None, True), (None, None, False), (None, True, True)]
)
def test_settled_of_a_message_in_pieces(first: bool | None, last: bool | None, settled: bool) -> None:
    peer, _ = receiving(1)
    peer.feed((transfer(0, settled=first, more=True), b"1"), (more(settled=last), b"2"))
    assert delivered(peer)[0].remote_settled is settled


@pytest.mark.spec("T-XFER-038")
def test_mode_settled_says_so() -> None:
    peer, link = sending(2, mode={"snd_settle_mode": SenderSettleMode.SETTLED})
    stream = link.start_message()
    stream.write(b"1")
    stream.finish()
    assert True in [frame.performative.settled for frame in peer.flush()]
    assert (link.unsettled, stream.settled) == ({}, True)
    with pytest.raises(LocalError, match="settled"):
        link.send(BODY, settled=False)


@pytest.mark.spec("T-XFER-039", "T-XFER-056")
def test_mode_unsettled_sends_nothing_settled() -> None:
    peer, link = sending(5, mode={"snd_settle_mode": SenderSettleMode.UNSETTLED})
    with pytest.raises(LocalError, match="unsettled"):
        link.send(BODY, settled=True)
    stream = link.start_message()
    with pytest.raises(LocalError, match="unsettled"):
        stream.settle(Accepted())
    stream.write(b"1")
    stream.settle(Accepted())  # That goes with a disposition.
    stream.write(b"2")
    stream.finish()
    link.send(BODY)
    written = [frame.performative for frame in peer.flush()]
    assert [bool(one.settled) for one in written if type(one) is Transfer] == [False] * 4
    assert [one.settled for one in written if type(one) is Disposition] == [True]
    assert not stream.link.queue
    assert stream.tag not in link.unsettled


@pytest.mark.spec("T-XFER-016", "T-XFER-057")
def test_mode_mixed_sends_both() -> None:
    peer, link = sending(3)
    link.send(BODY, settled=True)
    link.send(BODY, settled=False)
    link.send(BODY)
    assert [frame.performative.settled for frame in peer.flush()] == [True, False, False]
    assert len(link.unsettled) == 2


@pytest.mark.spec("T-XFER-012")
def test_nothing_is_owed_for_what_was_sent_settled() -> None:
    peer, link = receiving(1)
    peer.feed((transfer(0, settled=True), BODY))
    delivered(peer)[0].settle(Accepted())
    assert (peer.written(Disposition), link.unsettled) == ([], {})
    peer, sender = sending(1)
    sent = sender.send(BODY, settled=True)
    peer.feed(disposition(Role.RECEIVER, 0, state=Released(), settled=True))
    assert (sent.remote_state, peer.told(events.Updates)) == (None, [])


@pytest.mark.spec("T-XFER-017")
def test_a_sender_settles_when_it_likes() -> None:
    peer, link = sending(1)
    link.send(BODY).settle()
    told = peer.flush()[1].performative
    assert told == a_disposition(role=Role.SENDER, first=0, settled=True)
    assert link.unsettled == {}


@pytest.mark.spec("T-XFER-043", "T-DISP-026", "T-XFER-044")
def test_mode_second_needs_a_round_trip() -> None:
    peer, link = receiving(1, mode={"rcv_settle_mode": SECOND}, rcv_settle_mode=SECOND)
    peer.feed((transfer(0), BODY))
    delivery = delivered(peer)[0]
    with pytest.raises(LocalError, match="the sender settles first"):
        delivery.settle(Accepted())
    assert delivery.state is None
    delivery.update(Accepted())
    assert [frame.performative.settled for frame in peer.flush()] == [False]
    with pytest.raises(LocalError, match="the sender settles first"):
        delivery.settle()
    assert len(link.unsettled) == 1
    assert peer.feed(disposition(Role.SENDER, 0, state=Accepted(), settled=True)) == []
    assert (link.unsettled, delivery.settled) == ({}, True)


@pytest.mark.spec("T-XFER-045")
def test_a_delivery_cannot_ask_for_more_than_the_link() -> None:
    peer, link = sending(1)
    with pytest.raises(LocalError, match="cannot ask for second"):
        link.send(BODY, rcv_settle_mode=SECOND)
    assert (peer.flush(), link.unsettled) == ([], {})
    peer, _ = receiving(1)
    peer.feed((transfer(0, rcv_settle_mode=SECOND), BODY))
    assert condition(peer.written(Detach)[0]) == "amqp:not-allowed"


def test_a_delivery_may_ask_for_less_than_the_link() -> None:
    peer, link = sending(1, rcv_settle_mode=SECOND)
    link.send(BODY, rcv_settle_mode=ReceiverSettleMode.FIRST)
    assert peer.flush()[0].performative.rcv_settle_mode is ReceiverSettleMode.FIRST
    peer, _ = receiving(1, mode={"rcv_settle_mode": SECOND}, rcv_settle_mode=SECOND)
    peer.feed((transfer(0, rcv_settle_mode=ReceiverSettleMode.FIRST), BODY))
    delivered(peer)[0].settle(Accepted())
    assert peer.flush()[0].performative.settled


@pytest.mark.spec("T-XFER-046")
def test_a_settled_delivery_has_no_mode() -> None:
    peer, _ = receiving(1)
    peer.feed((transfer(0, rcv_settle_mode=SECOND, settled=True), BODY))
    delivered(peer)[0].settle(Accepted())
    assert (peer.written(Detach), peer.written(Disposition)) == ([], [])


@pytest.mark.spec("T-XFER-048")
def test_a_state_on_a_transfer_is_that_of_the_delivery() -> None:
    peer, _ = receiving(1, mode={"streams": True})
    peer.feed((transfer(0, more=True), b"1"))
    delivery = peer.told(events.Partial)[0].delivery
    assert delivery.remote_state is None
    peer.feed((more(state=Accepted(), more=True), b"2"))
    assert delivery.remote_state == Accepted()
    peer.feed((more(), b"3"))
    assert delivery.remote_state == Accepted()


@pytest.mark.spec("T-XFER-049", "M-OUTCOME-001")
def test_an_outcome_of_the_sender_stays() -> None:
    peer, link = sending(1)
    delivery = link.send(BODY)
    delivery.update(Accepted())
    with pytest.raises(LocalError, match="nothing alters"):
        delivery.update(Released())
    delivery.update(Accepted())
    peer, _ = receiving(1)
    peer.feed((transfer(0, state=Accepted()), BODY), disposition(Role.SENDER, 0, state=Released()))
    assert delivered(peer)[0].remote_state == Accepted()


@pytest.mark.spec("M-OUTCOME-001")
def test_an_outcome_of_the_receiver_stays() -> None:
    peer, link = sending(1, mode={"auto_settle": False})
    delivery = link.send(BODY)
    peer.feed(
        disposition(Role.RECEIVER, 0, state=Accepted()), disposition(Role.RECEIVER, 0, state=Released())
    )
    assert delivery.remote_state == Accepted()
    peer, _ = receiving(1)
    peer.feed((transfer(0), BODY))
    came = delivered(peer)[0]
    came.update(Accepted())
    with pytest.raises(LocalError, match="nothing alters"):
        came.settle(Released())
    came.settle()
    assert peer.flush()[0].performative.state == Accepted()


@pytest.mark.spec("M-RESUME-004")
def test_a_sender_does_not_tell_received() -> None:
    peer, link = sending(1)
    delivery = link.send(BODY)
    with pytest.raises(LocalError, match="only when it resumes"):
        delivery.update(Received(section_number=0, section_offset=1))
    with pytest.raises(LocalError, match="only when it resumes"):
        link.send(BODY, state=Received(section_number=0, section_offset=1))
    assert len(peer.flush()) == 1


@pytest.mark.spec("T-XFER-053")
def test_news_of_many_deliveries_goes_in_one_frame() -> None:
    peer, _ = receiving(10)
    peer.feed(*[(transfer(id, batchable=True), BODY) for id in range(5)])
    assert all(one.batchable for one in delivered(peer))
    for delivery in delivered(peer):
        delivery.settle(Accepted())
    told = [frame.performative for frame in peer.flush()]
    assert [(one.first, one.last, one.state, one.settled) for one in told] == [(0, 4, Accepted(), True)]


@pytest.mark.spec("T-XFER-054")
def test_one_transfer_makes_a_delivery_batchable() -> None:
    peer, _ = receiving(1)
    peer.feed((transfer(0, more=True), b"1"), (more(more=True, batchable=True), b"2"), (more(), b"3"))
    assert delivered(peer)[0].batchable


def test_a_state_that_is_none_is_not_told() -> None:
    peer, link = sending(5)
    for wrong in ("accepted", Received(section_number=-1, section_offset=0), 5):
        with pytest.raises(LocalError, match="state"):
            link.send(BODY, state=wrong)  # type: ignore[arg-type]
    for id in (-1, 1 << 32):
        with pytest.raises(LocalError, match="message-format"):
            link.send(BODY, message_format=id)
    assert (peer.flush(), link.unsettled, list(link.queue)) == ([], {}, [])


def test_frames_of_every_size_the_peer_may_have() -> None:
    """However small its frames, messages of all sizes arrive whole."""
    for size in (512, 513, 600, 4096):
        joined = Joined(server=ConnectionSettings(max_frame_size=size))
        session = joined.open()
        link = a_sender()
        session.attach(link)
        joined.run()
        joined.peer_of(link).flow(1000)
        joined.run()
        sizes = [0, 1, *range(size - 60, size + 10), size * 2, size * 3 - 90]
        for length in sizes:
            link.send(bytes([length & 0xFF]) * length)
        joined.run()
        came = [
            one.payload for event in joined.told(joined.server, events.Deliveries) for one in event.deliveries
        ]
        assert [(len(one), set(one)) for one in came] == [
            (length, {length & 0xFF} if length else set()) for length in sizes
        ]


def test_a_link_attached_by_the_receiver_sends_as_well() -> None:
    peer, _ = scripted()
    peer.feed(attach("n", 0, Role.RECEIVER), flow(0, link_credit=1))
    link = peer.told(events.Attached)[0].link
    assert isinstance(link, Sender)
    link.attach()
    link.send(BODY)
    assert kinds(peer.flush()) == ["Attach", "Transfer"]

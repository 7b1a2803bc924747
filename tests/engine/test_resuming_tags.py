"""The fourteen deliveries of section 3.4.6: each is brought into its state, cut off, and resumed on a new
connection. Where our engine never tells what one end tells there, a scripted peer does.
"""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.container import Container
from amqpforge.engine.delivery import OutgoingDelivery
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Disposition,
    Received,
    ReceiverSettleMode,
    Released,
    Role,
    Transfer,
)
from tests.engine.joined import Scripted, a_receiver, a_sender
from tests.engine.linked import Severed, a_transfer, attach, delivered, flow, frames, scripted, transfer
from tests.engine.resumed import END, MESSAGE, at, octets_before

SMALL = ConnectionSettings(max_frame_size=512)
SECOND = ReceiverSettleMode.SECOND


def begun(**options: Any) -> tuple[Severed, Sender, Receiver]:
    """A link between two engines whose frames are small, with credit for one message."""
    severed = Severed(SMALL)
    link, receiver = severed.sender(credit=1, **options)
    return severed, link, receiver


def streamed(link: Sender, octets: int) -> OutgoingDelivery:
    """A message that is written piece by piece, so far up to some octet."""
    delivery = link.start_message(tag=b"t")
    delivery.write(MESSAGE[:octets])
    return delivery


def resumed(severed: Severed, link: Sender, receiver: Receiver) -> list[Any]:
    """Resume the link, with credit for more; returns the transfers that the sender writes then."""
    severed.cut()
    severed.resume(link)
    receiver.flow(5)
    severed.joined.run()
    return frames(severed.joined, severed.joined.client, Transfer)


def maps(severed: Severed) -> tuple[Any, Any]:
    """What each end told to be unsettled when it resumed."""
    joined = severed.joined
    ours, theirs = (
        frames(joined, engine, Attach)[0].performative for engine in (joined.client, joined.server)
    )
    return ours.unsettled, theirs.unsettled


def scripted_receiver(
    state: Any, *, octets: int | None = None, outcome: Any = None
) -> tuple[Scripted, Sender, Any]:
    """A sender whose delivery a scripted peer tells as ``state``; with ``octets``, it was streamed so far."""
    peer, session = scripted()
    link = peer.attached(session, a_sender("n"))
    peer.feed(flow(0, link_credit=1, delivery_count=0))
    delivery = link.send(MESSAGE, tag=b"t") if octets is None else streamed(link, octets)
    peer.flush()
    if outcome is not None:
        delivery.update(outcome)
    again = Scripted(container=peer.engine.container).opened()
    peer.engine.lose()
    again_session = again.begun()
    again_session.attach(link)
    again.feed(
        attach("n", 0, Role.RECEIVER, unsettled={b"t": state}), flow(0, link_credit=5, delivery_count=1)
    )
    return again, link, delivery


@pytest.mark.spec("M-RESUME-012", "M-RESUME-013")
def test_tag_1() -> None:
    severed, link, receiver = begun()
    link.send(MESSAGE, tag=b"t")
    severed.joined.client.data_to_send(0.0)
    written = resumed(severed, link, receiver)
    assert maps(severed) == ({b"t": None}, {})
    assert not any(one.performative.resume for one in written)
    assert written[0].performative.state is None
    assert b"".join(one.payload for one in written) == MESSAGE
    assert [one.payload for one in severed.came] == [MESSAGE]


@pytest.mark.spec("M-RESUME-014")
def test_tag_1_marked_as_resumed_is_ignored() -> None:
    peer, session = scripted()
    link = peer.attached(session, a_receiver("n"))
    link.flow(2)
    peer.feed((transfer(0, b"t", resume=True), MESSAGE))
    assert delivered(peer) == []
    assert peer.written(Disposition) == []


@pytest.mark.spec("M-RESUME-003", "M-RESUME-018", "M-RESUME-004", "M-RESUME-016")
def test_tag_2() -> None:
    severed, link, receiver = begun()
    link.send(MESSAGE, tag=b"t")
    severed.carry_frames(4)
    received = receiver.unsettled[b"t"].size
    written = resumed(severed, link, receiver)
    ours, theirs = maps(severed)
    assert ours == {b"t": None}
    assert octets_before(theirs[b"t"]) == received
    first, *others = [one.performative for one in written]
    assert (first.resume, first.delivery_tag, first.state) == (True, b"t", theirs[b"t"])
    assert first.delivery_id is not None
    assert [one.state for one in others] == [None] * len(others)
    assert b"".join(one.payload for one in written) == MESSAGE[received:]
    assert [one.payload for one in severed.came] == [MESSAGE]


@pytest.mark.spec("M-RESUME-016", "M-RESUME-017")
@pytest.mark.parametrize("state", [None, at(0, 0), at(0, 10), at(1, 0), at(2, 7), at(3, 0)])
def test_tag_2_from_any_earlier_point(state: Received | None) -> None:
    """Another sender may begin where it likes, up to what is missing: the rest is passed over."""
    peer, session = scripted()
    link = a_receiver("n")
    known = link.restore(b"t", MESSAGE[: octets_before(at(3, 0))], is_complete=False)
    session.attach(link)
    peer.feed(attach("n", 0, unsettled={b"t": None}))
    link.flow(1)
    start = 0 if state is None else octets_before(state)
    middle = (start + len(MESSAGE)) // 2
    peer.feed((transfer(0, b"t", resume=True, state=state, more=True), MESSAGE[start:middle]))
    peer.feed((a_transfer(handle=0), MESSAGE[middle:]))
    assert delivered(peer) == [known]
    assert known.payload == MESSAGE


@pytest.mark.spec("M-RESUME-019", "M-RESUME-020", "M-RESUME-021", "M-RESUME-022")
def test_tag_3() -> None:
    severed, link, receiver = begun(rcv_settle_mode=SECOND)
    sent = link.send(MESSAGE, tag=b"t")
    severed.joined.run()
    severed.came[0].update(Accepted())
    severed.joined.server.data_to_send(0.0)
    written = resumed(severed, link, receiver)
    assert maps(severed) == ({b"t": None}, {b"t": Accepted()})
    told = written[0].performative
    assert (told.delivery_tag, told.resume, told.settled, told.more) == (b"t", True, True, False)
    assert (told.state, told.delivery_id, written[0].payload) == (Accepted(), 0, b"")
    assert (link.unsettled, receiver.unsettled, len(severed.came)) == ({}, {}, 1)
    assert (sent.settled, sent.state) == (True, Accepted())
    assert severed.joined.told(severed.joined.client, events.Updates)[0].deliveries == [sent]


@pytest.mark.spec("M-RESUME-023", "M-RESUME-024")
def test_tag_4() -> None:
    peer, link, delivery = scripted_receiver(None)
    written = [frame for frame in peer.sent if type(frame.performative) is Transfer]
    told = written[0].performative
    assert told is not None
    assert (told.resume, told.delivery_tag, told.state) == (True, b"t", None)
    assert b"".join(frame.payload for frame in written) == MESSAGE
    assert link.unsettled == {b"t": delivery}


@pytest.mark.spec("M-RESUME-025", "M-RESUME-009")
def test_tag_4_is_not_told_by_our_receiver() -> None:
    """A delivery of which only an empty first frame came is forgotten, which makes it one like tag 1."""
    peer, session = scripted()
    ours: Receiver = peer.attached(session, a_receiver("n"))
    ours.flow(1)
    peer.feed((transfer(0, b"t", more=True), b""))
    assert list(ours.unsettled) == [b"t"]
    peer.engine.lose()
    again = Scripted(container=peer.engine.container).opened()
    again.begun().attach(ours)
    assert again.flush()[0].performative.unsettled == {}
    again.feed(attach("n", 0, unsettled={b"t": None}))
    ours.flow(1)
    again.feed((transfer(0, b"t"), MESSAGE))
    assert [one.payload for one in delivered(again)] == [MESSAGE]


@pytest.mark.spec("M-RESUME-026")
@pytest.mark.parametrize("state", [None, at(0, 0)])
def test_tag_4_in_both_notations(state: Received | None) -> None:
    peer, session = scripted()
    link = a_receiver("n")
    known = link.restore(b"t", MESSAGE[:10], is_complete=False)
    session.attach(link)
    peer.feed(attach("n", 0, unsettled={b"t": None}))
    link.flow(1)
    peer.feed((transfer(0, b"t", resume=True, state=state), MESSAGE))
    assert known.payload == MESSAGE
    sender_peer, _, _ = scripted_receiver(state)
    payload = b"".join(frame.payload for frame in sender_peer.sent if type(frame.performative) is Transfer)
    assert payload == MESSAGE


@pytest.mark.spec("M-RESUME-029", "M-RESUME-030", "M-RESUME-028")
def test_tag_5_with_the_message_at_hand() -> None:
    """Whoever sends a whole message keeps it: it is sent again, and not as resumed."""
    peer, session = scripted()
    link = a_sender("n")
    link.restore(b"t", MESSAGE)
    session.attach(link)
    written = peer.feed(attach("n", 0, Role.RECEIVER, unsettled={}), flow(0, link_credit=1, delivery_count=0))
    transfers = [frame for frame in written if type(frame.performative) is Transfer]
    assert not any(frame.performative.resume for frame in transfers)
    assert b"".join(frame.payload for frame in transfers) == MESSAGE


@pytest.mark.spec("M-RESUME-031", "M-RESUME-027")
def test_tag_5_without_the_message() -> None:
    severed, link, receiver = begun()
    delivery = streamed(link, 200)
    severed.joined.client.data_to_send(0.0)
    written = resumed(severed, link, receiver)
    assert maps(severed) == ({b"t": at(0, 200)}, {})
    assert written == []
    assert (delivery.is_lost, link.unsettled) == (True, {})
    assert severed.joined.told(severed.joined.client, events.Updates)[0].deliveries == [delivery]


@pytest.mark.spec("M-RESUME-032", "M-RESUME-033")
def test_tag_6() -> None:
    """The receiver has more than the sender knows it to have: what it has is not sent again."""
    severed, link, _ = begun()
    delivery = streamed(link, octets_before(at(1, 150)))
    severed.joined.run()
    severed.cut()
    delivery.write(MESSAGE[octets_before(at(1, 150)) :])
    delivery.finish()
    container = Container("server")
    severed.containers = (severed.containers[0], container)
    receiver = a_receiver("n")
    known = receiver.restore(b"t", MESSAGE[: octets_before(at(2, 0))], is_complete=False)
    severed.resume()
    severed.session.attach(link)
    joined = severed.joined
    joined.server.sessions[0].attach(receiver)
    joined.run()
    receiver.flow(5)
    joined.run()
    written = frames(joined, joined.client, Transfer)
    assert maps(severed) == ({b"t": at(1, 150)}, {b"t": at(2, 0)})
    assert (written[0].performative.resume, written[0].performative.state) == (True, at(2, 0))
    assert b"".join(one.payload for one in written) == MESSAGE[octets_before(at(2, 0)) :]
    assert known.payload == MESSAGE


@pytest.mark.spec("M-RESUME-034", "M-RESUME-035", "M-RESUME-036")
def test_tag_7() -> None:
    severed, link, receiver = begun()
    delivery = streamed(link, 900)
    severed.carry_frames(1)
    received = receiver.unsettled[b"t"].size
    assert received < 900
    written = resumed(severed, link, receiver)
    assert maps(severed) == ({b"t": at(1, 900 - octets_before(at(1, 0)))}, {b"t": at(0, received)})
    assert [(one.performative.resume, one.performative.aborted, one.payload) for one in written] == [
        (True, True, b"")
    ]
    assert (receiver.unsettled, severed.came, link.unsettled) == ({}, [], {})
    assert delivery.is_lost


@pytest.mark.spec("M-RESUME-037")
def test_tag_8() -> None:
    severed, link, receiver = begun(rcv_settle_mode=SECOND)
    delivery = streamed(link, len(MESSAGE))
    delivery.finish()
    severed.joined.run()
    severed.came[0].update(Accepted())
    severed.joined.server.data_to_send(0.0)
    written = resumed(severed, link, receiver)
    assert maps(severed) == ({b"t": END}, {b"t": Accepted()})
    told = written[0].performative
    assert (told.resume, told.settled, told.state, told.more) == (True, True, Accepted(), False)
    assert written[0].payload == b""
    assert (link.unsettled, receiver.unsettled, len(severed.came)) == ({}, {}, 1)


@pytest.mark.spec("M-RESUME-038")
def test_tag_9() -> None:
    peer, link, delivery = scripted_receiver(None, octets=octets_before(at(2, 0)))
    assert peer.written(Attach)[0].unsettled == {b"t": at(2, 0)}
    told = peer.written(Transfer)
    assert [(one.resume, one.aborted, one.delivery_tag) for one in told] == [(True, True, b"t")]
    assert (delivery.is_lost, link.unsettled) == (True, {})


@pytest.mark.spec("M-RESUME-040")
def test_tag_10() -> None:
    severed, link, receiver = begun()
    delivery = link.send(MESSAGE, tag=b"t")
    delivery.update(Accepted())
    severed.joined.client.data_to_send(0.0)
    written = resumed(severed, link, receiver)
    assert maps(severed) == ({b"t": Accepted()}, {})
    assert (written, link.unsettled, severed.came) == ([], {}, [])
    assert (delivery.settled, delivery.is_lost) == (True, False)


@pytest.mark.spec("M-RESUME-041", "M-RESUME-036")
def test_tag_11() -> None:
    severed, link, receiver = begun()
    link.send(MESSAGE, tag=b"t").update(Accepted())
    severed.carry_frames(3)
    assert receiver.unsettled[b"t"].size
    written = resumed(severed, link, receiver)
    assert maps(severed)[0] == {b"t": Accepted()}
    assert [(one.performative.resume, one.performative.aborted, one.payload) for one in written] == [
        (True, True, b"")
    ]
    assert (link.unsettled, receiver.unsettled, severed.came) == ({}, {}, [])


@pytest.mark.spec("M-RESUME-042")
def test_tag_12() -> None:
    severed, link, receiver = begun(rcv_settle_mode=SECOND)
    link.send(MESSAGE, tag=b"t")
    severed.joined.run()
    link.unsettled[b"t"].update(Accepted())
    severed.came[0].update(Accepted())
    written = resumed(severed, link, receiver)
    assert maps(severed) == ({b"t": Accepted()}, {b"t": Accepted()})
    told = [one.performative for one in written]
    assert [(one.resume, one.settled, one.state) for one in told] == [(True, True, Accepted())]
    assert (link.unsettled, receiver.unsettled, len(severed.came)) == ({}, {}, 1)


@pytest.mark.spec("M-RESUME-043", "M-RESUME-044", "M-RESUME-020")
def test_tag_13() -> None:
    severed, link, receiver = begun(rcv_settle_mode=SECOND)
    sent = link.send(MESSAGE, tag=b"t")
    severed.joined.run()
    sent.update(Accepted())
    severed.came[0].update(Released())
    written = resumed(severed, link, receiver)
    assert maps(severed) == ({b"t": Accepted()}, {b"t": Released()})
    told = written[0].performative
    assert (told.resume, told.settled, told.state, written[0].payload) == (True, False, Accepted(), b"")
    echo = frames(severed.joined, severed.joined.server, Disposition)[0].performative
    assert (echo.role, echo.first, echo.state, echo.settled) == (
        Role.RECEIVER,
        told.delivery_id,
        Accepted(),
        True,
    )
    came = severed.came[0]
    assert (came.state, came.settled, sent.settled) == (Accepted(), True, True)
    assert severed.joined.told(severed.joined.server, events.Updates)[-1].deliveries == [came]
    assert (link.unsettled, receiver.unsettled) == ({}, {})


@pytest.mark.spec("M-RESUME-045")
def test_tag_14() -> None:
    peer, link, delivery = scripted_receiver(None, outcome=Accepted())
    assert peer.written(Attach)[0].unsettled == {b"t": Accepted()}
    told = [frame for frame in peer.sent if type(frame.performative) is Transfer]
    assert [(frame.performative.resume, frame.performative.aborted, frame.payload) for frame in told] == [
        (True, True, b"")
    ]
    assert (link.unsettled, delivery.is_lost) == ({}, False)


@pytest.mark.spec("M-RESUME-039")
def test_an_outcome_decided_early_is_not_told_while_data_is_owed() -> None:
    severed, link, receiver = begun()
    delivery = streamed(link, 300)
    severed.joined.run()
    delivery.update(Accepted())
    severed.cut()
    delivery.write(MESSAGE[300:])
    delivery.finish()
    severed.resume(link)
    receiver.flow(5)
    severed.joined.run()
    assert maps(severed)[0] == {b"t": at(0, 300)}
    assert [one.payload for one in severed.came] == [MESSAGE]


def test_all_tags_at_once() -> None:
    """The maps of the example, told by a scripted receiver: each delivery gets what is due to it."""
    peer, session = scripted()
    link = a_sender("n")
    theirs: dict[bytes, Any] = {
        b"2": at(3, 0),
        b"3": Accepted(),
        b"4": None,
        b"11": at(1, 2000),
        b"12": Accepted(),
        b"13": Released(),
        b"14": None,
    }
    for tag in (b"1", b"2", b"3", b"4"):
        link.restore(tag, MESSAGE)
    for tag in (b"10", b"11", b"12", b"13", b"14"):
        link.restore(tag, MESSAGE, state=Accepted())
    session.attach(link)
    written = peer.feed(
        attach("n", 0, Role.RECEIVER, unsettled=theirs), flow(0, link_credit=50, delivery_count=0)
    )
    told = [frame.performative for frame in written if type(frame.performative) is Transfer]
    shown = [(one.delivery_tag, one.resume, one.aborted, one.settled, one.state) for one in told]
    assert shown == [
        (b"2", True, False, False, at(3, 0)),
        (b"3", True, False, True, Accepted()),
        (b"4", True, False, False, None),
        (b"11", True, True, None, None),
        (b"12", True, False, True, Accepted()),
        (b"13", True, False, False, Accepted()),
        (b"14", True, True, None, None),
        (b"1", False, False, False, None),
    ]
    assert list(link.unsettled) == [b"1", b"2", b"4", b"13"]
    assert link.link_credit == 42

"""Links are detached, attached again, and closed; and what crosses on the way (sections 2.6.4 to 2.6.6)."""

from __future__ import annotations

import pytest

from amqpforge.engine import events
from amqpforge.engine.link import Link
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    Attach,
    Detach,
    Error,
    LinkState,
    Rejected,
    Role,
    Source,
    Target,
)
from tests.engine.joined import BODY, Joined, Scripted, a_receiver, a_sender
from tests.engine.linked import (
    Severed,
    a_detach,
    attach,
    flow,
    frames,
    kinds,
    receiving,
    scripted,
    sending,
    transfer,
)

ERROR = Error(condition=AmqpError.INTERNAL_ERROR)
A2, B2 = Source(address="a2"), Target(address="b2")


def joined_link() -> tuple[Joined, Link]:
    joined = Joined()
    session = joined.open()
    link = a_sender("n")
    session.attach(link)
    joined.run()
    return joined, link


@pytest.mark.spec("T-DETACH-001", "T-DETACH-016")
def test_a_detach_tells_our_handle_and_keeps_the_terminus() -> None:
    peer, session = scripted()
    peer.attached(session, a_sender("0"), handle=4)
    link: Sender = peer.attached(session, a_sender("n"), handle=5)
    peer.feed(flow(5, link_credit=1, delivery_count=0))
    delivery = link.send(BODY)
    peer.flush()
    link.detach()
    assert peer.flush()[0].performative == a_detach(handle=1)
    peer.feed(a_detach(handle=5))
    assert (link.state, link.unsettled) == (LinkState.DETACHED, {delivery.tag: delivery})
    assert (link.handle, link.remote_handle) == (None, None)


@pytest.mark.spec("T-DETACH-004")
def test_detaching_a_link() -> None:
    peer, session = scripted()
    link: Sender = peer.attached(session, a_sender("n"), handle=2)
    peer.feed(flow(2, link_credit=1, delivery_count=0))
    link.send(BODY)
    states = [link.state]
    link.detach()
    states.append(link.state)
    assert (link.handle, link.remote_handle) == (0, 2)
    peer.feed(a_detach(handle=2))
    states.append(link.state)
    assert states == [LinkState.ATTACHED, LinkState.DETACH_SENT, LinkState.DETACHED]
    gone = peer.told(events.Detached)
    assert [(one.link, one.error, one.by_peer) for one in gone] == [(link, None, False)]
    peer, session = scripted()  # And as the partner sees it.
    other = peer.attached(session, a_receiver("n"), handle=1)
    assert peer.feed(a_detach(handle=1))[0].performative == a_detach(handle=0)
    assert other.state is LinkState.DETACHED
    assert [one.by_peer for one in peer.told(events.Detached)] == [True]


@pytest.mark.spec("T-DETACH-005")
def test_new_properties_are_told_by_detaching_and_attaching_again() -> None:
    joined, link = joined_link()
    session = link.session
    assert session is not None
    other = joined.peer_of(link)
    link.detach()
    link.source = A2
    joined.run()
    session.attach(link)
    joined.run()
    assert joined.peer_of(link) is other
    assert (other.state, other.source) == (LinkState.ATTACHED, A2)
    assert joined.told(joined.server, events.Attached)[-1].attach.source == A2


@pytest.mark.spec("T-DETACH-006", "T-RESUME-026")
def test_detach_and_attach_in_one_go() -> None:
    peer, session = scripted()
    peer.feed(attach("n", 1))
    link = peer.told(events.Attached)[0].link
    link.attach()
    peer.flush()
    peer.sent.clear()
    peer.feed(a_detach(handle=1), attach("n", 1, source=A2, target=B2))
    assert kinds(peer.sent) == ["Detach"]
    assert peer.told(events.Attached)[1].link is link
    link.attach(target=B2)
    assert kinds(peer.flush()) == ["Attach"]
    told = peer.written(Attach)[0]
    assert (told.source, told.target, told.unsettled) == (A2, B2, None)
    assert (link.state, link.session) == (LinkState.ATTACHED, session)


@pytest.mark.spec("T-RESUME-026")
def test_attaching_again_tells_no_unsettled_deliveries() -> None:
    """Even when the peer resumed the link earlier: what never left the session is not resumed."""
    peer, session = scripted()
    link: Sender = peer.attached(session, a_sender("n"))
    peer.feed(flow(0, link_credit=1, delivery_count=0))
    link.send(BODY)
    for _ in range(2):
        link.detach()
        peer.feed(a_detach(handle=0))
        peer.attached(session, link)
    assert [one.unsettled for one in peer.written(Attach)] == [None] * 3
    assert len(link.unsettled) == 1


@pytest.mark.spec("T-DETACH-017")
@pytest.mark.parametrize("error", [None, ERROR])
@pytest.mark.parametrize("closed", [True, False])
def test_a_detach_tells_why(error: Error | None, closed: bool) -> None:
    peer, link = sending()
    peer.feed(a_detach(handle=0, closed=closed, error=error))
    gone = peer.told(events.Detached)[0]
    assert (gone.error is None) is (error is None)
    if gone.error is not None:
        assert gone.error.error == error
    if closed:
        assert link.state is LinkState.CLOSED
    else:
        assert link.state is (LinkState.DETACHED if error is None else LinkState.SUSPENDED)
    assert peer.written(Detach) == [a_detach(handle=0, closed=closed)]


def test_closing_a_link() -> None:
    joined, link = joined_link()
    other = joined.peer_of(link)
    session = link.session
    assert session is not None
    link.close()
    assert link.state is LinkState.CLOSE_SENT
    joined.run()
    assert (link.state, other.state) == (LinkState.CLOSED, LinkState.CLOSED)
    assert (link.session, other.session, session.links) == (None, None, {})
    assert joined.client.container.links == joined.server.container.links == {}
    assert [one.performative.closed for one in frames(joined, joined.server, Detach)] == [True]


def test_both_ends_close_at_once() -> None:
    joined, link = joined_link()
    other = joined.peer_of(link)
    link.close()
    other.close(ERROR)
    joined.run()
    assert (link.state, other.state) == (LinkState.CLOSED, LinkState.CLOSED)
    assert joined.told(joined.client, events.Ended) == joined.told(joined.server, events.Ended) == []


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_close_crosses_a_plain_detach(who: str) -> None:
    """Whoever only detached shows that it knows of the close: it attaches once more, to close."""
    joined, link = joined_link()
    session = link.session
    assert session is not None
    other = joined.peer_of(link)
    closes, detaches = (link, other) if who == "client" else (other, link)
    closes.close()
    detaches.detach()
    joined.run()
    assert (link.state, other.state) == (LinkState.CLOSED, LinkState.CLOSED)
    engine = joined.server if who == "client" else joined.client
    assert kinds(frames(joined, engine))[-3:] == ["Detach", "Attach", "Detach"]
    assert [one.performative.closed for one in frames(joined, engine, Detach)] == [False, True]
    again = a_sender("n")
    session.attach(again)
    joined.run()
    assert again.state is LinkState.ATTACHED
    assert again.handle == 0


def test_a_close_crosses_a_detach_and_is_answered_by_hand() -> None:
    peer, session = scripted(ConnectionSettings(auto_answer=False))
    link = peer.attached(session, a_sender("n"), handle=3)
    link.detach()
    peer.feed(a_detach(handle=3, closed=True))
    assert (link.state, kinds(peer.flush())) == (LinkState.CLOSE_OWED, [])
    link.attach()
    link.close()
    assert kinds(peer.flush()) == ["Attach", "Detach"]
    assert (link.state, session.links) == (LinkState.CLOSED, {})


def test_an_error_crosses_a_detach() -> None:
    joined, link = joined_link()
    other = joined.peer_of(link)
    link.detach()
    other.detach(ERROR)
    joined.run()
    assert (link.state, other.state) == (LinkState.SUSPENDED, LinkState.FAILED)
    assert link.session is None


def test_a_link_that_failed_is_resumed_on_its_session() -> None:
    joined, link = joined_link()
    session = link.session
    assert session is not None
    other = joined.peer_of(link)
    other.detach(ERROR)
    joined.run()
    assert (link.state, other.state) == (LinkState.SUSPENDED, LinkState.FAILED)
    session.attach(link)
    joined.run()
    assert (link.state, other.state) == (LinkState.ATTACHED, LinkState.ATTACHED)
    assert joined.peer_of(link) is other
    assert [one.performative.unsettled for one in frames(joined, joined.client, Attach)] == [None, {}]


def test_a_link_that_failed_forgets_its_ids_when_the_peer_resumes_it() -> None:
    joined, link = joined_link()
    assert isinstance(link, Sender)
    session = link.session
    assert session is not None
    receiver = joined.peer_of(link)
    receiver.flow(5)
    joined.run()
    stream = link.start_message()
    stream.write(BODY)
    joined.run()
    link.detach(ERROR)
    joined.run()
    assert (link.state, stream.id) == (LinkState.FAILED, 0)
    other = joined.server.sessions[0]
    other.attach(receiver)
    joined.run()
    assert link.state is LinkState.ATTACH_RCVD
    link.attach()
    joined.run()
    assert (stream.id, session.outgoing) == (None, {})
    receiver.flow(5)
    stream.finish()
    joined.run()
    assert (stream.id, stream.progress.name) == (1, "SENT")
    assert [
        one.resumed for event in joined.told(joined.server, events.Deliveries) for one in event.deliveries
    ] == [True]


@pytest.mark.parametrize("closed", [True, False])
def test_a_detach_waits_for_the_peers_attach(closed: bool) -> None:
    peer, session = scripted()
    link = a_sender("n")
    session.attach(link)
    link.detach(closed=closed)
    assert kinds(peer.flush()) == ["Attach"]
    peer.feed(attach("n", 7, Role.RECEIVER))
    assert kinds(peer.sent[-1:]) == ["Detach"]
    assert peer.written(Detach) == [a_detach(handle=0, closed=closed)]
    peer.feed(a_detach(handle=7, closed=closed))
    assert link.state is (LinkState.CLOSED if closed else LinkState.DETACHED)


@pytest.mark.parametrize("closed", [True, False])
def test_a_detach_that_waits_meets_a_refusal(closed: bool) -> None:
    peer, session = scripted()
    link = a_sender("n")
    session.attach(link)
    link.detach(closed=closed)
    peer.feed(attach("n", 7, Role.RECEIVER, target=None), a_detach(handle=7, closed=True, error=ERROR))
    assert kinds(peer.sent) == ["Open", "Begin", "Attach", "Detach"]
    assert peer.written(Detach)[0].closed
    assert (link.state, session.links) == (LinkState.CLOSED, {})


def test_a_detach_that_waits_is_forgotten_with_the_connection() -> None:
    joined = Joined()
    session = joined.open()
    link = a_sender("n")
    session.attach(link)
    link.detach()
    joined.client.lose()
    joined.run()
    again = Joined(containers=(joined.client.container, joined.server.container))
    again.open().attach(link)
    again.run()
    assert link.state is LinkState.ATTACHED


def test_a_link_is_detached_only_when_it_is_attached() -> None:
    peer, session = scripted()
    link = a_sender("n")
    with pytest.raises(LocalError, match="not part of a session"):
        link.detach()
    peer.attached(session, link)
    link.close()
    peer.flush()
    for step in (link.detach, link.close, link.attach):
        with pytest.raises(LocalError):
            step()
    peer.feed(a_detach(handle=0, closed=True))
    for step in (link.detach, link.close, link.attach):
        with pytest.raises(LocalError):
            step()
    with pytest.raises(LocalError):
        session.attach(link)
    assert kinds(peer.flush()) == []


def test_transfers_on_their_way_while_we_detach_are_taken() -> None:
    peer, link = receiving(3)
    peer.feed((transfer(0), BODY))
    link.detach()
    peer.feed((transfer(1), BODY), a_detach(handle=0))
    came = [one.payload for event in peer.told(events.Deliveries) for one in event.deliveries]
    assert came == [BODY, BODY]


def test_a_close_throws_away_what_is_on_its_way() -> None:
    peer, link = receiving(3)
    link.close()
    peer.feed((transfer(0), BODY), flow(0), a_detach(handle=0, closed=True))
    assert peer.told(events.Deliveries) == []
    assert link.state is LinkState.CLOSED


def test_a_message_in_pieces_goes_on_when_the_link_is_attached_again() -> None:
    joined, link = joined_link()
    assert isinstance(link, Sender)
    session = link.session
    assert session is not None
    joined.peer_of(link).flow(5)
    joined.run()
    stream = link.start_message()
    stream.write(b"1")
    joined.run()
    link.detach()
    joined.run()
    stream.write(b"2")
    session.attach(link)
    joined.run()
    stream.finish()
    joined.peer_of(link).flow(5)
    joined.run()
    link.send(b"3")
    joined.run()
    came = [
        one.payload for event in joined.told(joined.server, events.Deliveries) for one in event.deliveries
    ]
    assert came == [b"12", b"3"]


def test_a_session_that_ends_suspends_its_links() -> None:
    joined, link = joined_link()
    other = joined.peer_of(link)
    session = link.session
    assert session is not None
    session.end()
    joined.run()
    assert (link.state, other.state) == (LinkState.SUSPENDED, LinkState.SUSPENDED)
    assert (link.session, link.handle, link.remote_handle) == (None, None, None)
    closing = Scripted().opened()
    ending = closing.begun()
    gone = closing.attached(ending, a_sender("n"))
    gone.close()
    ending.end()
    closing.flush()
    closing.engine.lose()
    assert gone.state is LinkState.CLOSED


def test_a_detach_that_waits_does_not_lose_what_is_resumed() -> None:
    """Both maps were told, and nothing was done with them: they are told again."""
    severed = Severed()
    link, receiver = severed.sender()
    link.send(BODY, tag=b"1")
    severed.joined.run()
    severed.cut()
    severed.resume()
    severed.session.attach(link)
    link.detach()
    severed.joined.run()
    assert (link.state, receiver.state) == (LinkState.DETACHED, LinkState.DETACHED)
    severed.session.attach(link)
    severed.joined.run()
    receiver.flow(1)
    severed.joined.run()
    assert [one.performative.unsettled for one in frames(severed.joined, severed.joined.client, Attach)] == [
        {b"1": None}
    ] * 2
    severed.came[0].settle(Accepted())
    severed.joined.run()
    assert (link.unsettled, receiver.unsettled, len(severed.came)) == ({}, {}, 1)


@pytest.mark.parametrize("cut", [False, True])
def test_a_delivery_is_settled_after_its_link_was_told_and_before_it_is_resumed(cut: bool) -> None:
    """Neither end forgets a delivery of which its attach has told: the other would wait for it."""
    severed = Severed()
    link, receiver = severed.sender(auto_settle=False)
    ours, theirs = link.send(BODY, tag=b"ours"), link.send(BODY, tag=b"theirs")
    severed.joined.run()
    severed.cut()
    severed.resume(link)
    ours.settle(Accepted())
    severed.came[1].settle(Rejected())
    if cut:
        severed.cut()
        severed.resume(link)
    receiver.flow(5)
    severed.joined.run()
    # After the cut the receiver tells its outcome with its attach, and waits until that is settled here.
    assert (theirs.remote_settled, theirs.remote_state) == (not cut, Rejected())
    assert severed.came[0].remote_settled
    if not cut:  # Else the outcome was lost with the connection.
        assert (severed.came[0].settled, severed.came[0].state) == (True, Accepted())
    else:
        severed.came[0].settle()
    theirs.settle()
    severed.joined.run()
    assert (link.unsettled, receiver.unsettled, len(severed.came)) == ({}, {}, 2)

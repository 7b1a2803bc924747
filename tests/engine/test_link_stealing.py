"""A link that is attached again elsewhere is stolen from where it was (section 2.6.1)."""

from __future__ import annotations

import pytest

from amqpforge.engine import events
from amqpforge.engine.container import Container
from amqpforge.engine.link import Link
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Begin,
    Detach,
    Disposition,
    Error,
    LinkState,
    OutgoingDeliveryState,
    Role,
    SequenceNo,
    TransferNumber,
)
from tests.engine.joined import BODY, Scripted
from tests.engine.linked import a_detach, attach, condition, disposition, flow, kinds, transfer

BEGIN = Begin(next_outgoing_id=TransferNumber(SequenceNo(0)), incoming_window=100, outgoing_window=100)


def server(container: Container, *, auto_answer: bool = True, peer_id: str = "peer") -> Scripted:
    """A connection of the container, with a session that the peer began."""
    peer = Scripted(ConnectionSettings(auto_answer=auto_answer), is_server=True, container=container)
    peer.opened(container_id=peer_id)
    peer.feed(BEGIN)
    if not auto_answer:
        peer.told(events.Begun)[-1].session.begin()
    peer.flush()
    peer.sent.clear()
    return peer


def answered(peer: Scripted) -> Link:
    link = peer.told(events.Attached)[-1].link
    link.attach()
    peer.flush()
    return link


@pytest.mark.spec("T-LINK-005", "T-ERR-031")
def test_the_newcomer_wins_and_the_former_attachment_is_closed() -> None:
    container = Container("ours")
    first, second = server(container), server(container)
    woken: list[bool] = []
    first.engine.notify = lambda: woken.append(True)
    first.feed(attach("n", 0, Role.RECEIVER))
    old = answered(first)
    second.feed(attach("n", 0, Role.RECEIVER))
    new = answered(second)
    assert (new.state, woken) == (LinkState.ATTACHED, [True])
    detach = first.flush()[0].performative
    assert (type(detach), detach.closed, condition(detach)) == (Detach, True, "amqp:link:stolen")
    gone = first.told(events.Detached)
    assert [one.error.condition for one in gone if one.error] == ["amqp:link:stolen"]
    first.feed(a_detach(handle=0, closed=True))
    assert old.state is LinkState.CLOSED
    assert len(first.told(events.Detached)) == 1
    assert container.links == {("peer", "n", Role.SENDER): new}


@pytest.mark.spec("T-LINK-005", "T-LINK-002")
def test_a_link_is_stolen_within_its_session() -> None:
    peer = server(Container("ours"))
    peer.feed(attach("n", 0))
    answered(peer)
    peer.sent.clear()
    peer.feed(attach("n", 1))
    assert condition(peer.sent[0].performative) == "amqp:link:stolen"
    new = answered(peer)
    peer.feed(a_detach(handle=0, closed=True))
    session = new.session
    assert session is not None
    assert list(session.links.values()) == [new]


@pytest.mark.spec("T-LINK-006")
def test_a_peer_comes_back_before_its_old_connection_is_known_to_be_dead() -> None:
    container = Container("ours")
    first, second = server(container), server(container)
    first.feed(attach("n", 0, Role.RECEIVER))
    old = answered(first)
    assert isinstance(old, Sender)
    first.feed(flow(link_credit=10, delivery_count=0))
    sent = old.send(BODY)
    waiting = [old.send(BODY) for _ in range(10)]
    assert sent.progress is OutgoingDeliveryState.SENT
    second.feed(attach("n", 0, Role.RECEIVER, unsettled={sent.tag: Accepted()}))
    new = answered(second)
    told = second.written(Attach)[0]
    assert told.unsettled is not None
    assert sent.tag in told.unsettled
    second.feed(flow(link_credit=30, delivery_count=told.initial_delivery_count))
    assert isinstance(new, Sender)
    assert sent.settled
    assert all(delivery.link is new for delivery in waiting)
    assert [one.progress.name for one in waiting] == ["SENT"] * 10
    # What the dead connection still brings changes nothing.
    first.feed(disposition(Role.RECEIVER, 0, 10, state=Accepted(), settled=True))
    assert not any(delivery.settled for delivery in waiting)


def test_what_comes_in_for_the_former_attachment_is_ignored() -> None:
    container = Container("ours")
    first, second = server(container), server(container)
    first.feed(attach("n", 0))
    old = answered(first)
    old.flow(5)  # type: ignore[attr-defined]
    second.feed(attach("n", 0))
    answered(second)
    first.feed((transfer(0), BODY), flow(0), a_detach(handle=0, closed=True))
    assert first.told(events.Deliveries) == []
    assert kinds(first.sent[-1:]) == ["Detach"]
    assert first.told(events.Ended) == []


@pytest.mark.parametrize(
    "state", ["DETACHED", "FAILED", "DETACH_RCVD", "ERROR_RCVD", "DETACH_SENT", "ATTACH_RCVD"]
)
def test_a_link_is_stolen_from_any_state(state: str) -> None:
    container = Container("ours")
    first, second = server(container, auto_answer=False), server(container)
    first.feed(attach("n", 0))
    old = first.told(events.Attached)[-1].link
    if state != "ATTACH_RCVD":
        old.attach()
        if state in ("DETACHED", "DETACH_SENT"):
            old.detach()
        elif state == "FAILED":
            old.detach(Error(condition="amqp:internal-error"))
        if state in ("DETACHED", "FAILED", "DETACH_RCVD"):
            first.feed(a_detach(handle=0))
        elif state == "ERROR_RCVD":
            first.feed(a_detach(handle=0, error=Error(condition="amqp:internal-error")))
    else:  # Only a link that was whole is known elsewhere.
        container.keep("peer", old)
    assert old.state.name == state
    second.feed(attach("n", 0))
    new = answered(second)
    assert new.state is LinkState.ATTACHED
    if state == "ATTACH_RCVD":
        old.attach()
    if state == "DETACH_SENT":
        first.feed(a_detach(handle=0))
    first.flush()
    first.feed(*([a_detach(handle=0, closed=True)] if old.state is LinkState.CLOSE_SENT else []))
    if old.state is LinkState.CLOSE_CROSSED:
        first.feed(attach("n", 0), a_detach(handle=0, closed=True))
    assert old.state is LinkState.CLOSED
    assert container.links == {("peer", "n", Role.RECEIVER): new}
    assert first.told(events.Ended) == []


def test_a_link_that_is_being_closed_is_not_stolen_but_made_anew() -> None:
    container = Container("ours")
    first, second = server(container), server(container)
    first.feed(attach("n", 0, Role.RECEIVER), flow(link_credit=1))
    old = answered(first)
    assert isinstance(old, Sender)
    old.send(BODY)
    old.close()
    first.flush()
    second.feed(attach("n", 0, Role.RECEIVER))
    new = answered(second)
    assert isinstance(new, Sender)
    assert (new.unsettled, len(old.unsettled)) == ({}, 1)
    assert second.written(Attach)[0].unsettled is None


def test_links_are_stolen_twice() -> None:
    container = Container("ours")
    peers = [server(container) for _ in range(3)]
    peers[0].feed(attach("n", 0, Role.RECEIVER), flow(link_credit=1))
    first = answered(peers[0])
    assert isinstance(first, Sender)
    delivery = first.send(BODY)
    peers[1].feed(attach("n", 0, Role.RECEIVER, unsettled={}))  # It waits for its answer.
    peers[2].feed(attach("n", 0, Role.RECEIVER, unsettled={delivery.tag: Accepted()}))
    last = answered(peers[2])
    assert isinstance(last, Sender)
    assert delivery.link is last


def test_other_containers_have_links_of_their_own() -> None:
    container = Container("ours")
    peers = [server(container, peer_id=name) for name in ("a", "b", "")]
    for peer in peers:
        peer.feed(attach("n", 0))
        answered(peer)
    assert [peer.told(events.Detached) for peer in peers] == [[], [], []]
    assert [key[0] for key in container.links] == ["a", "b"]  # Who has no id is not known again.


def test_suspended_links_do_not_fill_a_container() -> None:
    """A peer that leaves links behind, under one name or many, costs a bounded amount of memory."""
    container = Container("ours", most_links=10)
    kept: list[Link] = []
    for number in range(30):
        peer = server(container, peer_id=f"peer {number % 7}")
        peer.feed(attach(f"n{number}", 0))
        kept.append(answered(peer))
        peer.engine.lose()
    assert list(container.links.values()) == kept[-10:]
    assert [link.state for link in kept] == [LinkState.CLOSED] * 20 + [LinkState.SUSPENDED] * 10
    # What is attached is never forgotten, and what is resumed is young again.
    peer = server(container, peer_id="peer 6")
    peer.feed(attach("n20", 0))
    again = answered(peer)
    assert again is kept[20]
    for number in range(10):
        other = server(container, peer_id=f"other {number}")
        other.feed(attach("m", 0))
        answered(other)
        other.engine.lose()
    assert container.find("peer 6", "n20", Role.RECEIVER) is again
    assert again.is_attached


def test_a_terminus_expires_only_while_it_is_attached_to_nothing() -> None:
    container = Container("ours")
    peer = server(container)
    peer.feed(attach("n", 0, Role.RECEIVER), flow(link_credit=1))
    link = answered(peer)
    assert isinstance(link, Sender)
    link.send(BODY)
    with pytest.raises(Exception, match="does not expire"):
        link.expire()
    peer.engine.lose()
    link.expire()
    assert (link.state, link.unsettled, container.links) == (LinkState.CLOSED, {}, {})
    link.expire()


def test_dispositions_that_are_due_go_out_ahead_of_the_theft() -> None:
    container = Container("ours")
    first, second = server(container), server(container)
    first.feed(attach("n", 0))
    answered(first).flow(5)  # type: ignore[attr-defined]
    first.feed((transfer(0), BODY))
    first.told(events.Deliveries)[0].deliveries[0].settle(Accepted())
    second.feed(attach("n", 0))
    first.flush()
    assert kinds(first.sent[-2:]) == ["Disposition", "Detach"]
    assert first.written(Disposition)[0].state == Accepted()

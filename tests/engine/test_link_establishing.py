"""Links are named, attached, refused and recovered (sections 2.6.1 to 2.6.3)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.link import Link
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    AmqpError,
    Attach,
    Detach,
    End,
    Error,
    Flow,
    Handle,
    LinkState,
    ReceiverSettleMode,
    Role,
    SenderSettleMode,
    SessionState,
    Source,
    Symbol,
    Target,
    TerminusDurability,
    Transfer,
)
from tests.engine.joined import BODY, Joined, Scripted, a_receiver, a_sender
from tests.engine.linked import (
    X,
    Y,
    a_detach,
    attach,
    condition,
    flow,
    kinds,
    names,
    receiving,
    scripted,
    sending,
    transfer,
)


def asked(peer: Scripted) -> Link:
    """The link that the peer has just asked for."""
    link = peer.told(events.Attached)[-1].link
    assert link.state is LinkState.ATTACH_RCVD
    return link


@pytest.mark.spec("T-LINK-002")
def test_a_name_is_unique_in_its_direction() -> None:
    peer, session = scripted()
    session.attach(a_sender("n"))
    with pytest.raises(LocalError, match="unique in each direction"):
        session.attach(a_sender("n"))
    assert len(peer.feed()) == 1


@pytest.mark.spec("T-LINK-003")
def test_a_long_name_is_told_in_attach_alone() -> None:
    peer, session = scripted()
    link = peer.attached(session, a_sender("n" * 300), handle=3)
    peer.feed(flow(3, link_credit=1, delivery_count=0))
    link.send(BODY)
    link.close()
    peer.feed(a_detach(handle=3, closed=True))
    written = peer.sent[-3:]
    assert kinds(written) == ["Attach", "Transfer", "Detach"]
    assert written[0].performative.name == "n" * 300
    assert [frame.performative.handle for frame in written] == [0, 0, 0]
    assert link.state is LinkState.CLOSED


@pytest.mark.spec("T-LINK-004")
def test_the_same_name_goes_both_ways() -> None:
    """Proton names its sender and its receiver alike: they are two links."""
    joined = Joined()
    session = joined.open()
    out, back = a_sender("n"), a_receiver("n")
    session.attach(out)
    session.attach(back)
    joined.run()
    joined.peer_of(out).flow(1)
    back.flow(1)
    joined.run()
    out.send(b"out")
    joined.peer_of(back).send(b"back")
    joined.run()
    assert [
        one.payload for event in joined.told(joined.server, events.Deliveries) for one in event.deliveries
    ] == [b"out"]
    assert [
        one.payload for event in joined.told(joined.client, events.Deliveries) for one in event.deliveries
    ] == [b"back"]


@pytest.mark.spec("T-LINK-007", "T-ERR-025")
@pytest.mark.parametrize(
    "frame", [flow(4), transfer(9, handle=4), a_detach(handle=4)], ids=["flow", "transfer", "detach"]
)
def test_a_handle_stands_for_a_link_until_its_detach(frame: Flow | Transfer | Detach) -> None:
    peer, session = scripted()
    link = peer.attached(session, a_receiver(), handle=4)
    link.flow(5)
    peer.feed((transfer(0, handle=4), BODY), a_detach(handle=4))
    assert len(peer.told(events.Deliveries)) == 1
    peer.feed(frame)
    assert condition(peer.written(End)[0]) == "amqp:session:unattached-handle"


@pytest.mark.spec("T-LINK-008")
def test_each_side_picks_its_handle() -> None:
    peer, session = scripted()
    peer.attached(session, a_sender("first"), handle=7)
    link = peer.attached(session, a_receiver("second"), handle=2)
    link.flow(1)
    assert peer.flush()[0].performative.handle == 1
    peer.feed((transfer(0, handle=2), BODY))
    assert peer.told(events.Deliveries)[0].link is link
    peer.feed((transfer(1, handle=1), BODY))
    assert condition(peer.written(End)[0]) == "amqp:session:unattached-handle"


@pytest.mark.spec("T-LINK-010", "T-LINK-017")
def test_establishing_a_link() -> None:
    joined = Joined()
    session = joined.open()
    session.attach(a_sender("other"))
    link = a_sender("n", source=X, target=Y)
    session.attach(link)
    joined.run()
    other = joined.peer_of(link)
    assert (link.state, other.state) == (LinkState.ATTACHED, LinkState.ATTACHED)
    assert (link.role, other.role) == (Role.SENDER, Role.RECEIVER)
    assert (link.source, link.target) == (other.source, other.target) == (X, Y)
    assert (link.handle, link.remote_handle) == (other.remote_handle, other.handle) == (1, 1)
    # The figure has other handles: each end takes the lowest that is free there.
    peer, scripted_session = scripted()
    sender = peer.attached(scripted_session, a_sender("n"), handle=2)
    assert (sender.handle, sender.remote_handle) == (0, 2)


@pytest.mark.spec("T-LINK-011")
@pytest.mark.parametrize("role", [Role.SENDER, Role.RECEIVER])
def test_attach_tells_both_termini_and_the_state(role: Role) -> None:
    peer, session = scripted()
    options: dict[str, Any] = {
        "source": X,
        "target": Y,
        "max_message_size": 5,
        "properties": {Symbol("p"): 1},
    }
    session.attach(
        Sender("n", initial_delivery_count=9, **options) if role is Role.SENDER else Receiver("n", **options)
    )
    told = peer.flush()[0].performative
    assert (told.name, told.handle, told.role) == ("n", 0, role)
    assert (told.source, told.target, told.properties) == (X, Y, {"p": 1})
    assert told.unsettled is None
    assert told.initial_delivery_count == (9 if role is Role.SENDER else None)
    assert told.max_message_size == (None if role is Role.SENDER else 5)


@pytest.mark.spec("T-LINK-012", "T-LINK-014")
@pytest.mark.parametrize("role", [Role.SENDER, Role.RECEIVER])
def test_an_attach_makes_an_endpoint_and_is_told(role: Role) -> None:
    peer, _ = scripted()
    peer.feed(attach("n", 4, role))
    link = asked(peer)
    assert link.name == "n"
    assert link.is_answer
    assert link.role is (Role.RECEIVER if role is Role.SENDER else Role.SENDER)
    assert (link.source, link.target) == (X, Y)
    link.attach()
    told = peer.flush()[0].performative
    assert type(told) is Attach
    assert (told.source, told.target) == (X, Y)
    assert link.state is LinkState.ATTACHED


@pytest.mark.spec("T-LINK-013")
def test_a_terminus_that_is_known_is_used_again() -> None:
    peer, session = scripted()
    link = peer.attached(session, Sender("n", source=X, target=Y))
    link.context = "known"
    link.detach()
    peer.feed(a_detach(handle=0), attach("n", 3, Role.RECEIVER, target=Target(address="z")))
    assert asked(peer) is link
    assert link.context == "known"
    link.attach()
    told = peer.flush()[0].performative
    assert (told.source, told.target) == (X, Target(address="z"))


def test_refusing_a_link() -> None:
    peer, session = scripted()
    peer.feed(attach("n", 1))
    error = Error(condition=AmqpError.NOT_FOUND, description="no such node")
    asked(peer).refuse(error)
    written = peer.flush()
    assert kinds(written) == ["Attach", "Detach"]
    assert written[0].performative.target is None
    assert (written[1].performative.closed, written[1].performative.error) == (True, error)
    peer.feed(a_detach(handle=1, closed=True))
    assert session.links == {}
    peer.feed(attach("n", 1))  # Whoever was refused may try again.
    asked(peer).attach()
    assert kinds(peer.flush()) == ["Attach"]


def test_a_refusal_whose_error_is_too_large_is_not_begun() -> None:
    peer, _ = scripted(open={"max_frame_size": 512})
    peer.feed(attach("n", 1, Role.RECEIVER))
    link = asked(peer)
    with pytest.raises(LocalError, match="octets"):
        link.refuse(Error(condition=AmqpError.NOT_FOUND, description="x" * 600))
    assert peer.flush() == []
    assert link.source == X
    link.refuse(Error(condition=AmqpError.NOT_FOUND))
    assert kinds(peer.flush()) == ["Attach", "Detach"]


@pytest.mark.spec("T-LINK-018")
@pytest.mark.parametrize("link", [a_sender("n"), a_receiver("n", prefetch=10)], ids=["sender", "receiver"])
def test_refusing_a_link_as_its_initiator_sees_it(link: Sender | Receiver) -> None:
    peer, session = scripted()
    session.attach(link)
    if isinstance(link, Sender):
        link.send(BODY)
    role = Role.RECEIVER if link.role is Role.SENDER else Role.SENDER
    nothing = {"target": None} if link.role is Role.SENDER else {"source": None}
    peer.feed(attach("n", 2, role, **nothing))
    told = peer.told(events.Attached)[0]
    assert told.is_refused
    if isinstance(link, Sender):
        peer.feed(flow(2, link_credit=10, delivery_count=0))
        with pytest.raises(LocalError, match="refused"):
            link.send(BODY)
    else:
        with pytest.raises(LocalError, match="no source"):
            link.flow(1)
    peer.feed(a_detach(handle=2, closed=True, error=Error(condition=AmqpError.NOT_FOUND)))
    assert names(peer)[-2:] == ["Attach", "Detach"]
    assert peer.written(Detach)[0].closed
    assert link.state is LinkState.CLOSED
    gone = peer.told(events.Detached)[0]
    assert gone.by_peer
    assert gone.error is not None
    assert gone.error.condition == "amqp:not-found"
    session.attach(
        a_sender("n") if link.role is Role.SENDER else a_receiver("n")
    )  # It may be asked for again.


def test_a_message_that_waits_for_a_link_that_is_refused_is_lost() -> None:
    peer, session = scripted()
    link = a_sender("n")
    session.attach(link)
    delivery = link.send(BODY)
    peer.feed(attach("n", 2, Role.RECEIVER, target=None), a_detach(handle=2, closed=True))
    assert delivery.is_lost
    assert peer.told(events.Updates)[0].deliveries == [delivery]
    with pytest.raises(LocalError, match="is closed"):
        link.send(BODY)


@pytest.mark.spec("T-LINK-019", "T-LINK-021", "T-LINK-020")
def test_a_link_goes_from_the_senders_source_to_the_receivers_target() -> None:
    peer, session = scripted()
    link = peer.attached(
        session,
        Sender("n", source=X, target=Target(address="y", durable=TerminusDurability.UNSETTLED_STATE)),
        source=None,
        target=Y,
    )
    assert (link.source, link.target) == (X, Y)
    peer.feed(attach("m", 5))
    asked(peer).attach(target=Target(address="z"))
    told = peer.flush()[0].performative
    assert (told.source, told.target) == (X, Target(address="z"))
    peer.feed(
        attach("m", 6, Role.RECEIVER, source=Source(address="x", durable=TerminusDurability.CONFIGURATION))
    )
    asked(peer).attach(source=Source(address="x", durable=TerminusDurability.NONE))
    told = peer.flush()[0].performative
    assert (told.source.durable, told.target) == (0, Y)


@pytest.mark.spec("T-LINK-022", "T-LINK-023")
def test_who_does_not_like_the_other_terminus_detaches() -> None:
    peer, session = scripted()
    link = peer.attached(session, a_sender("n"), target=Target(address="lesser"))
    told = peer.told(events.Attached)[0]
    assert not told.is_refused
    assert (told.attach.target, link.target) == (Target(address="lesser"), Target(address="lesser"))
    link.close(Error(condition=AmqpError.PRECONDITION_FAILED))
    assert condition(peer.flush()[0].performative) == "amqp:precondition-failed"


@pytest.mark.spec("T-LINK-024", "T-LINK-026")
def test_recovering_a_link() -> None:
    peer, session = scripted()
    link = peer.attached(session, Sender("n", source=X), handle=2, source=X, target=Y)
    assert peer.written(Attach)[0].target is None
    assert (link.source, link.target) == (X, Y)
    back = peer.attached(session, Receiver("n", target=Y), handle=3, source=X, target=Y)
    assert peer.written(Attach)[1].source is None
    assert (back.source, back.target) == (X, Y)
    # And the end that still knows the link fills in what the other has lost.
    link.detach()
    peer.feed(a_detach(handle=2), attach("n", 2, Role.RECEIVER, source=None))
    asked(peer).attach()
    assert peer.flush()[0].performative.source == X


@pytest.mark.spec("T-LINK-025")
def test_recovering_a_link_that_nobody_knows() -> None:
    peer, _ = scripted()
    peer.feed(attach("n", 1, target=None))
    link = asked(peer)
    assert link.target is None
    link.refuse(Error(condition=AmqpError.NOT_FOUND))
    written = peer.flush()
    assert kinds(written) == ["Attach", "Detach"]
    assert written[0].performative.target is None


@pytest.mark.spec("T-LINK-032")
def test_settle_modes_that_are_not_told() -> None:
    peer, _ = scripted()
    peer.feed(Attach(name="n", handle=Handle(0), role=Role.RECEIVER, source=X, target=Y))
    link = asked(peer)
    assert (link.snd_settle_mode, link.rcv_settle_mode) == (SenderSettleMode.MIXED, ReceiverSettleMode.FIRST)


@pytest.mark.spec("T-LINK-033")
def test_the_sender_decides_on_snd_settle_mode() -> None:
    _, receiver = receiving(
        mode={"snd_settle_mode": SenderSettleMode.SETTLED}, snd_settle_mode=SenderSettleMode.MIXED
    )
    assert receiver.snd_settle_mode is SenderSettleMode.MIXED
    _, sender = sending(
        mode={"snd_settle_mode": SenderSettleMode.MIXED}, snd_settle_mode=SenderSettleMode.SETTLED
    )
    assert sender.snd_settle_mode is SenderSettleMode.MIXED


@pytest.mark.spec("T-LINK-034")
def test_the_receiver_decides_on_rcv_settle_mode() -> None:
    _, sender = sending(
        mode={"rcv_settle_mode": ReceiverSettleMode.SECOND}, rcv_settle_mode=ReceiverSettleMode.FIRST
    )
    assert sender.rcv_settle_mode is ReceiverSettleMode.FIRST
    _, receiver = receiving(
        mode={"rcv_settle_mode": ReceiverSettleMode.FIRST}, rcv_settle_mode=ReceiverSettleMode.SECOND
    )
    assert receiver.rcv_settle_mode is ReceiverSettleMode.FIRST


@pytest.mark.spec("T-LINK-035")
def test_a_link_without_a_source_sends_nothing() -> None:
    peer, session = scripted()
    link = Sender("n", target=Y)
    session.attach(link)
    with pytest.raises(LocalError, match="no source"):
        link.send(BODY)
    peer.feed(attach("n", 0, Role.RECEIVER, source=None), flow(link_credit=5, delivery_count=0))
    with pytest.raises(LocalError, match="no source"):
        link.send(BODY)
    assert names(peer) == ["Open", "Begin", "Attach"]


@pytest.mark.spec("T-LINK-036")
def test_a_link_without_a_target_takes_nothing() -> None:
    peer, session = scripted()
    link = peer.attached(session, Receiver("n", source=X, prefetch=10), target=None)
    assert names(peer) == ["Open", "Begin", "Attach"]
    with pytest.raises(LocalError, match="no target"):
        link.flow(1)
    peer.feed((transfer(0), BODY))
    assert condition(peer.written(Detach)[0]) == "amqp:not-allowed"
    assert peer.told(events.Deliveries) == []


@pytest.mark.spec("T-LINK-037")
def test_a_sender_tells_where_it_counts_from() -> None:
    peer, session = scripted()
    session.attach(a_sender("n"))
    assert peer.flush()[0].performative.initial_delivery_count == 0
    peer.feed(attach("m", 1, initial_delivery_count=None))
    assert condition(peer.written(End)[0]) == "amqp:invalid-field"


@pytest.mark.spec("T-LINK-038")
def test_a_receiver_does_not_count() -> None:
    _, link = sending(mode={"initial_delivery_count": 5}, initial_delivery_count=99)
    assert link.flow_state.delivery_count == 5


@pytest.mark.spec("T-LINK-041")
def test_what_is_wished_for_is_used_only_if_it_is_offered() -> None:
    peer, session = scripted()
    link = a_sender("n", desired_capabilities=(Symbol("a"), Symbol("b")), offered_capabilities=(Symbol("c"),))
    peer.attached(session, link, offered_capabilities=[Symbol("b"), Symbol("d")])
    told = peer.written(Attach)[0]
    assert (told.desired_capabilities, told.offered_capabilities) == (["a", "b"], ["c"])
    assert link.common_capabilities == {"b"}
    other = peer.attached(session, a_sender("m", desired_capabilities=(Symbol("a"),)), handle=1)
    assert other.common_capabilities == frozenset()


def test_frames_that_come_ahead_of_our_attach_count() -> None:
    """A receiver may give credit behind its attach, without waiting for ours."""
    peer, session = scripted()
    peer.feed(attach("n", 0, Role.RECEIVER), flow(link_credit=2, echo=True))
    link = asked(peer)
    assert isinstance(link, Sender)
    link.send(BODY)
    link.attach()
    written = peer.flush()
    assert kinds(written) == ["Attach", "Transfer", "Flow"]
    assert link.link_credit == 1
    assert session.state is SessionState.MAPPED


def test_a_transfer_that_comes_ahead_of_our_attach_breaks_the_link_alone() -> None:
    peer, session = scripted()
    peer.feed(attach("n", 0), (transfer(0), BODY))
    written = peer.flush() or peer.sent[-2:]
    assert kinds(written) == ["Attach", "Detach"]
    assert condition(written[1].performative) == "amqp:link:transfer-limit-exceeded"
    assert session.state is SessionState.MAPPED


def test_an_attach_that_is_answered_by_hand_holds_what_follows() -> None:
    peer, _ = scripted(ConnectionSettings(auto_answer=False))
    peer.feed(attach("n", 0, Role.RECEIVER), a_detach(handle=0), attach("n", 0, Role.RECEIVER))
    link = asked(peer)
    link.attach()
    assert kinds(peer.flush()) == ["Attach"]
    assert link.state is LinkState.DETACH_RCVD
    link.detach()
    assert kinds(peer.flush()) == ["Detach"]
    assert asked(peer) is link
    link.attach()
    assert kinds(peer.flush()) == ["Attach"]
    assert link.is_attached


def test_an_attach_behind_our_end_is_not_told() -> None:
    """Nobody could answer it any more, nor give credit on a link that it makes whole."""
    peer, session = scripted()
    ours = a_receiver("ours", prefetch=5)
    session.attach(ours)
    session.end()
    peer.flush()
    assert peer.feed(attach("ours", 0), attach("theirs", 1)) == []
    assert peer.told(events.Attached) == []
    peer.feed(End())
    assert (ours.state, session.state) == (LinkState.SUSPENDED, SessionState.UNMAPPED)
    assert peer.engine.error is None

"""How a session begins and ends, by either end or both (section 2.5)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import LocalError, SessionEnded
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    ConnectionState,
    Frame,
    Role,
    SessionState,
    Source,
    Symbol,
    Target,
    encode_frame,
)
from tests.engine.frames import Attach, Begin, Close, Detach, Disposition, End, Error, Flow, Open, Transfer
from tests.engine.joined import BODY, HEADER, Joined, Scripted, a_receiver, a_sender, state_of

BEGIN = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)
FLOW = Flow(next_incoming_id=0, incoming_window=5, next_outgoing_id=0, outgoing_window=5)
WRONG = Error(condition="amqp:internal-error", description="on fire")
BY_HAND = ConnectionSettings(auto_answer=False)


def kinds(frames: list[Frame]) -> list[type]:
    return [type(frame.performative) for frame in frames]


def condition(frame: Any) -> str | None:
    return None if frame.error is None else str(frame.error.condition)


def attach(name: str = "x", handle: int = 0) -> Any:
    return Attach(name=name, handle=handle, role=Role.RECEIVER, source=Source(), target=Target())


# --- the figures ---


@pytest.mark.spec("T-SESS-009", "T-SESS-007", "T-SESS-004")
def test_establishing_a_session() -> None:
    peer = Scripted().opened()
    for channel in range(3):
        peer.begun(channel=channel)
    session = peer.engine.session()
    session.begin()
    [begin] = peer.flush()
    assert begin.channel == 3
    assert begin.performative.remote_channel is None
    peer.feed(Begin(remote_channel=3, next_outgoing_id=0, incoming_window=9, outgoing_window=9), channel=7)
    assert session.state is SessionState.MAPPED
    assert (session.channel, session.remote_channel) == (3, 7)
    [answer] = peer.feed(Flow(**{**vars_of(FLOW), "echo": True}), channel=7)
    assert answer.channel == 3


def vars_of(flow: Any) -> dict[str, Any]:
    names = ("next_incoming_id", "incoming_window", "next_outgoing_id", "outgoing_window")
    return {name: getattr(flow, name) for name in names}


@pytest.mark.spec("T-SESS-012", "T-SESS-030", "T-SESS-033")
def test_ending_a_session() -> None:
    """Figure, from B: after (1) the incoming channel is free, after (2) the outgoing one."""
    peer = Scripted(BY_HAND).opened()
    session = peer.begun(channel=7)
    peer.feed(End(error=WRONG), channel=7)
    assert session.state is SessionState.END_RCVD
    assert peer.engine.sessions == {0: session}
    other = peer.begun(channel=7)  # The incoming channel is free, the outgoing one is not.
    assert other.channel == 1
    session.end()
    assert kinds(peer.flush()) == [End]
    assert state_of(session) is SessionState.UNMAPPED
    assert peer.engine.sessions == {1: other}
    [ended] = peer.told(events.Ended)
    assert (ended.session, ended.by_peer) == (session, True)


@pytest.mark.spec("T-SESS-012", "T-SESS-011")
def test_ending_a_session_from_the_other_end() -> None:
    """Figure, from A: the outgoing channel is free at once, the incoming one with the answer."""
    peer = Scripted().opened()
    session = peer.begun(channel=7)
    session.end()
    [end] = peer.flush()
    assert (end.channel, end.performative.error) == (0, None)
    assert peer.engine.sessions == {}
    assert peer.begun(channel=8).channel == 0
    peer.feed(FLOW, channel=7)  # The session is still there for what comes in.
    assert session.windows.remote_outgoing_window == 5
    peer.feed(End(), channel=7)
    assert session.state is SessionState.UNMAPPED
    assert peer.begun(channel=7).remote_channel == 7
    [ended] = peer.told(events.Ended)
    assert (ended.session, ended.error, ended.by_peer) == (session, None, False)


@pytest.mark.spec("T-SESS-013")
@pytest.mark.parametrize("errors", [(None, None), (WRONG, None), (None, WRONG), (WRONG, WRONG)])
def test_simultaneous_end(errors: tuple[Any, Any]) -> None:
    joined = Joined()
    session = joined.open()
    [other] = joined.server.sessions.values()
    joined.octets.clear()
    session.end(errors[0])
    other.end(errors[1])
    joined.run()
    assert [octets.count(b"\x00\x53\x17") for _, octets in joined.octets] == [1, 1]
    assert session.state is other.state is SessionState.UNMAPPED
    assert joined.client.sessions == joined.server.sessions == {}
    again = joined.client.session()
    again.begin()
    joined.run()
    assert (again.channel, again.remote_channel) == (0, 0)


@pytest.mark.spec("T-SESS-014", "T-SESS-015", "T-SESS-016")
def test_session_errors() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    link = peer.attached(session, a_receiver())
    link.flow(10)
    frame_1 = (Transfer(handle=0, delivery_id=0, delivery_tag=b"1"), BODY)
    frame_2 = (Transfer(handle=5, delivery_id=1, delivery_tag=b"2"), BODY)
    frame_3 = (Transfer(handle=0, delivery_id=2, delivery_tag=b"3"), BODY)
    peer.feed(frame_1, frame_2, frame_3)
    assert condition(peer.written(End)[0]) == "amqp:session:unattached-handle"
    assert session.state is SessionState.DISCARDING
    [deliveries] = peer.told(events.Deliveries)
    assert [delivery.tag for delivery in deliveries.deliveries] == [b"1"]
    told, written = len(peer.events), len(peer.sent)
    peer.feed(frame_3, FLOW, attach("y", 9), Detach(handle=77), BEGIN)
    assert (len(peer.events), len(peer.sent)) == (told, written)
    peer.feed(End())
    assert state_of(session) is SessionState.UNMAPPED
    assert (len(peer.events), len(peer.sent)) == (told, written)
    assert peer.engine.state is ConnectionState.OPENED
    [ended] = peer.told(events.Ended)
    assert isinstance(ended.error, SessionEnded)
    assert ended.error.condition == "amqp:session:unattached-handle"
    assert not ended.by_peer


# --- begin ---


@pytest.mark.spec("T-SESS-005", "T-SESS-008")
def test_a_session_of_the_peer_is_answered() -> None:
    peer = Scripted().opened()
    peer.begun(channel=0)
    [answer] = peer.feed(BEGIN, channel=9)
    assert answer.channel == 1
    assert isinstance(answer.performative, Begin)
    assert answer.performative.remote_channel == 9
    begun = peer.told(events.Begun)[-1]
    assert (begun.session.is_remote, begun.session.state) == (True, SessionState.MAPPED)


def test_begin_is_sent_once() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    with pytest.raises(LocalError):
        session.begin()
    assert peer.flush() == []


@pytest.mark.spec("T-SESS-018", "T-WIN-021")
def test_a_session_may_send_before_it_is_answered() -> None:
    peer = Scripted().opened()
    session = peer.engine.session()
    session.begin()
    session.attach(a_sender())
    session.write(session.flow())
    assert kinds(peer.flush()) == [Begin, Attach, Flow]
    assert session.state is SessionState.BEGIN_SENT
    assert peer.written(Flow)[0].next_incoming_id is None
    peer.feed(Begin(remote_channel=0, next_outgoing_id=7, incoming_window=9, outgoing_window=9))
    session.write(session.flow())
    peer.flush()
    assert peer.written(Flow)[1].next_incoming_id == 7


@pytest.mark.spec("T-SESS-019", "T-SESS-025", "T-SESS-027")
def test_a_session_answered_by_hand() -> None:
    peer = Scripted(BY_HAND).opened()
    assert peer.feed(BEGIN, attach(), FLOW) == []
    [begun] = peer.told(events.Begun)
    [attached] = peer.told(events.Attached)
    session = begun.session
    assert session.state is SessionState.BEGIN_RCVD
    with pytest.raises(LocalError):
        attached.link.attach()
    with pytest.raises(LocalError):
        session.end()
    assert peer.flush() == []
    session.begin()
    attached.link.attach()
    assert kinds(peer.flush()) == [Begin, Attach]
    assert state_of(session) is SessionState.MAPPED


@pytest.mark.spec("T-SESS-019")
def test_an_end_waits_for_our_begin() -> None:
    peer = Scripted(BY_HAND).opened()
    peer.feed(BEGIN, End(), BEGIN)
    [begun] = peer.told(events.Begun)
    assert not peer.engine.wants_input
    begun.session.begin()
    assert begun.session.state is SessionState.END_RCVD
    begun.session.end()
    peer.flush()
    assert state_of(begun.session) is SessionState.UNMAPPED
    assert len(peer.told(events.Begun)) == 2
    assert peer.engine.wants_input


def test_a_fault_in_a_session_that_is_not_answered_yet() -> None:
    peer = Scripted(BY_HAND).opened()
    assert kinds(peer.feed(BEGIN, Detach(handle=3))) == [Begin, End]
    assert condition(peer.written(End)[0]) == "amqp:session:unattached-handle"


@pytest.mark.spec("T-ERR-015")
@pytest.mark.parametrize("frames", [(BEGIN,), (FLOW, BEGIN)])
def test_a_second_begin_ends_the_session(frames: tuple[Any, ...]) -> None:
    peer = Scripted().opened()
    session = peer.begun()
    peer.feed(*frames)
    assert condition(peer.written(End)[0]) == "amqp:illegal-state"
    assert session.state is SessionState.DISCARDING
    assert peer.engine.state is ConnectionState.OPENED


@pytest.mark.spec("T-SESS-035")
@pytest.mark.parametrize("offered", [None, [Symbol("Y")], [Symbol("X")]])
def test_what_a_session_desires_and_is_offered(offered: list[Symbol] | None) -> None:
    peer = Scripted().opened()
    session = peer.begun(SessionSettings(desired_capabilities=(Symbol("X"),)), offered_capabilities=offered)
    assert peer.written(Begin)[0].desired_capabilities == [Symbol("X")]
    assert session.capabilities == ({Symbol("X")} if offered == [Symbol("X")] else set())


def test_what_a_session_tells_of_itself() -> None:
    peer = Scripted().opened()
    settings = SessionSettings(
        incoming_window=7,
        outgoing_window=8,
        handle_max=9,
        next_outgoing_id=10,
        offered_capabilities=(Symbol("X"),),
        properties={"p": 1},
    )
    peer.engine.session(settings).begin()
    [begin] = peer.flush()
    told = begin.performative
    assert (told.incoming_window, told.outgoing_window, told.handle_max) == (7, 8, 9)
    assert (told.next_outgoing_id, told.offered_capabilities) == (10, [Symbol("X")])
    assert told.properties == {"p": 1}


# --- end ---


@pytest.mark.spec("T-SESS-011")
def test_an_end_with_an_error() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    session.end(WRONG)
    peer.flush()
    assert peer.written(End)[0].error == WRONG
    assert peer.engine.sessions == {}
    assert session.state is SessionState.DISCARDING
    peer.feed(attach("wild", 1_000_000), End())
    assert state_of(session) is SessionState.UNMAPPED
    assert kinds(peer.sent) == [Open, Begin, End]


@pytest.mark.spec("T-SESS-036")
@pytest.mark.parametrize("error", [None, WRONG])
def test_an_end_tells_an_error_or_none(error: Any) -> None:
    peer = Scripted().opened()
    session = peer.begun()
    link = peer.attached(session, a_sender())
    assert kinds(peer.feed(End(error=error))) == [End]
    [ended] = peer.told(events.Ended)
    assert ended.by_peer
    if error is None:
        assert ended.error is None
    else:
        assert isinstance(ended.error, SessionEnded)
        assert ended.error.error == error
    assert link.session is None
    assert peer.written(End)[0].error is None


def test_an_end_before_the_answer_to_begin_waits_for_it() -> None:
    peer = Scripted().opened()
    session = peer.engine.session()
    session.begin()
    session.end(WRONG)
    assert kinds(peer.flush()) == [Begin]
    peer.feed(Begin(remote_channel=0, next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    assert kinds(peer.sent) == [Open, Begin, End]
    assert peer.written(End)[0].error == WRONG
    assert session.state is SessionState.DISCARDING


@pytest.mark.spec("T-SESS-021")
def test_between_our_end_and_the_peers_frames_still_count() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    link = peer.attached(session, a_receiver())
    link.flow(10)
    peer.flush()
    session.end()
    assert kinds(peer.flush()) == [End]
    peer.feed((Transfer(handle=0, delivery_id=0, delivery_tag=b"x"), BODY))
    [deliveries] = peer.told(events.Deliveries)
    assert session.state is SessionState.END_SENT
    deliveries.deliveries[0].settle(Accepted())
    assert peer.flush() == []
    for attempt in (session.end, session.begin, lambda: session.attach(a_sender("other"))):
        with pytest.raises(LocalError):
            attempt()
    assert peer.flush() == []


@pytest.mark.spec("T-SESS-021")
def test_what_would_need_an_answer_behind_our_end_is_not_missed() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    peer.attached(session, a_sender("x"))
    session.end()
    # A detach that we cannot answer, and the link attached again behind it; then a fault that we cannot tell.
    peer.feed(Detach(handle=0), attach("x"), FLOW, Detach(handle=44), Detach(handle=44))
    assert peer.engine.wants_input
    assert peer.engine.state is ConnectionState.OPENED
    peer.feed(End())
    assert session.state is SessionState.UNMAPPED
    assert kinds(peer.sent)[-1] is End
    assert peer.written(Close) == []


@pytest.mark.spec("T-SESS-022")
def test_between_the_peers_end_and_ours_frames_may_be_sent() -> None:
    peer = Scripted(BY_HAND).opened()
    session = peer.begun()
    link = peer.attached(session, a_receiver())
    link.flow(10)
    peer.feed((Transfer(handle=0, delivery_id=0, delivery_tag=b"x"), BODY))
    [deliveries] = peer.told(events.Deliveries)
    peer.feed(End())
    deliveries.deliveries[0].settle(Accepted())
    session.end()
    assert kinds(peer.flush()) == [Disposition, End]
    assert session.state is SessionState.UNMAPPED
    peer.feed(FLOW)  # Nothing more can come in.
    assert condition(peer.written(Close)[0]) == "amqp:illegal-state"


@pytest.mark.spec("T-SESS-034")
def test_nothing_is_left_of_an_ended_session() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    link = peer.attached(session, a_receiver())
    link.flow(10)
    peer.feed((Transfer(handle=0, delivery_id=0, delivery_tag=b"x"), BODY))
    session.end()
    peer.feed(End())
    assert session.state is SessionState.UNMAPPED
    assert session.channel is None
    assert (session.links, session.incoming, session.outgoing) == ({}, {}, {})
    assert peer.engine.sessions == {}
    assert peer.begun().channel == 0


def test_a_held_frame_does_not_outlive_our_end() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    peer.feed(attach(), Detach(handle=0, closed=True), End())
    assert not peer.engine.wants_input
    session.end()
    peer.flush()
    assert peer.engine.wants_input
    assert session.state is SessionState.UNMAPPED
    assert peer.engine.state is ConnectionState.OPENED


# --- links of a session ---


@pytest.mark.spec("T-SESS-001")
def test_a_link_is_on_one_session_at_most() -> None:
    peer = Scripted().opened()
    first, second = peer.begun(channel=0), peer.begun(channel=1)
    link, other = a_sender("a"), a_sender("b")
    peer.attached(first, link, handle=0)
    peer.attached(first, other, handle=1)
    with pytest.raises(LocalError, match="another session"):
        second.attach(link)
    assert set(first.links.values()) == {link, other}
    assert second.links == {}
    assert len(peer.written(Attach)) == 2


@pytest.mark.spec("T-SESS-002")
def test_links_of_either_direction_share_a_session() -> None:
    """Figure: A and B are attached, C is not."""
    joined = Joined()
    session = joined.open()
    a, b, c = a_sender("A"), a_receiver("B"), a_sender("C")
    for link in (a, b, c):
        session.attach(link)
    joined.run()
    joined.peer_of(a).flow(5)
    joined.peer_of(c).flow(5)
    b.flow(5)
    joined.run()
    c.detach()
    joined.run()
    a.send(BODY)
    c.send(BODY)
    joined.peer_of(b).send(BODY)
    joined.run()
    assert [event.link.name for event in joined.told(joined.server, events.Deliveries)] == ["A"]
    assert [event.link.name for event in joined.told(joined.client, events.Deliveries)] == ["B"]


@pytest.mark.spec("T-SESS-003", "T-DISP-021")
def test_links_share_one_sequence_of_delivery_ids() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    links = [peer.attached(session, a_sender(name), handle=handle) for handle, name in enumerate("ab")]
    for handle in (0, 1):
        peer.feed(Flow(**vars_of(FLOW), handle=handle, delivery_count=0, link_credit=10))
    deliveries = [links[number % 2].send(BODY) for number in range(4)]
    peer.flush()
    assert [transfer.delivery_id for transfer in peer.written(Transfer)] == [0, 1, 2, 3]
    peer.feed(Disposition(role=Role.RECEIVER, first=0, last=2, settled=True, state=Accepted()))
    assert [delivery.settled for delivery in deliveries] == [True, True, True, False]


def test_deliveries_of_a_link_on_its_next_session_come_behind_the_end() -> None:
    peer = Scripted().opened()
    first = peer.begun(channel=0)
    link = peer.attached(first, a_receiver(), channel=0)
    link.flow(10)
    second = peer.begun(channel=1)
    peer.flush()
    peer.events.clear()
    transfer = (Transfer(handle=0, delivery_id=0, delivery_tag=b"x", settled=True), BODY)
    octets = b"".join(
        (
            encoded(*transfer, channel=0),
            encoded(End(), channel=0),
        )
    )
    peer.engine.receive(octets, 0.0)
    second.attach(link)
    answer = Attach(
        name=link.name,
        handle=0,
        role=Role.SENDER,
        source=Source(address="q"),
        target=Target(),
        initial_delivery_count=0,
        unsettled={},
    )
    peer.engine.receive(encoded(answer, channel=1), 0.0)
    link.flow(10)
    peer.engine.receive(encoded(*transfer, channel=1), 0.0)
    assert [type(event) for event in peer.engine.events()] == [
        events.Deliveries,
        events.Ended,
        events.Attached,
        events.Deliveries,
    ]


def encoded(performative: Any, payload: bytes = b"", *, channel: int) -> bytes:
    return encode_frame(performative, channel, payload)


def test_a_session_cannot_begin_before_open() -> None:
    peer = Scripted()
    with pytest.raises(LocalError):
        peer.engine.session().begin()
    peer.engine.send_header()
    with pytest.raises(LocalError):
        peer.engine.session().begin()
    assert peer.flush() == []
    assert peer.headers == [HEADER]

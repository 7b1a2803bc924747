"""Channels: the numbers of each direction, their sessions, and their limits (sections 2.4 and 2.5.1)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    ConnectionState,
    SessionState,
)
from tests.engine.frames import Begin, Close, End, Error, Flow, Transfer
from tests.engine.joined import BODY, Joined, Scripted, a_receiver, a_sender

BEGIN = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)
ECHO = Flow(next_incoming_id=0, incoming_window=5, next_outgoing_id=0, outgoing_window=5, echo=True)


def condition(frame: Any) -> str | None:
    return None if frame.error is None else str(frame.error.condition)


@pytest.mark.spec("T-CONN-001")
def test_sessions_of_a_connection_are_independent() -> None:
    joined = Joined()
    joined.client.open()
    sessions = [joined.client.session() for _ in range(3)]
    links = [a_sender(str(number)) for number in range(3)]
    for session, link in zip(sessions, links, strict=True):
        session.begin()
        session.attach(link)
    joined.run()
    for link in links:
        joined.peer_of(link).flow(10)
    joined.run()
    sessions[1].end()
    joined.run()
    assert [session.state for session in sessions] == [
        SessionState.MAPPED,
        SessionState.UNMAPPED,
        SessionState.MAPPED,
    ]
    for link in (links[0], links[2]):
        link.send(BODY)
    joined.run()
    told = joined.told(joined.server, events.Deliveries)
    assert [event.link.name for event in told] == ["0", "2"]


@pytest.mark.spec("T-CONN-002", "T-CONN-005")
def test_session_and_connection_endpoints() -> None:
    """Figure: one session is channel 3 one way and 2 the other, and another has the same numbers swapped."""
    peer = Scripted().opened()
    sessions = [peer.begun(channel=channel) for channel in (9, 8, 3, 2)]
    assert [(session.channel, session.remote_channel) for session in sessions[2:]] == [(2, 3), (3, 2)]
    for session, incoming, outgoing in ((sessions[2], 3, 2), (sessions[3], 2, 3)):
        before = session.windows.remote_outgoing_window
        [answer] = peer.feed(ECHO, channel=incoming)
        assert answer.channel == outgoing
        assert before != session.windows.remote_outgoing_window == 5
    assert sessions[0].windows.remote_outgoing_window == 1000


@pytest.mark.spec("T-CONN-003")
def test_frames_go_to_the_session_of_their_channel() -> None:
    peer = Scripted().opened()
    sessions = [peer.begun(channel=channel) for channel in (0, 1)]
    links = [
        peer.attached(session, a_receiver(f"in-{channel}"), channel=channel)
        for channel, session in enumerate(sessions)
    ]
    for link in links:
        link.flow(10)
    for channel, tag in ((1, b"a"), (0, b"b"), (1, b"c")):
        number = 0 if tag != b"c" else 1
        peer.feed((Transfer(handle=0, delivery_id=number, delivery_tag=tag), BODY), channel=channel)
    assert [
        (event.link.name, [delivery.tag for delivery in event.deliveries])
        for event in peer.told(events.Deliveries)
    ] == [("in-1", [b"a"]), ("in-0", [b"b"]), ("in-1", [b"c"])]


@pytest.mark.spec("T-CONN-003", "T-SESS-017")
@pytest.mark.parametrize("frame", [ECHO, End(), Transfer(handle=0)], ids=lambda frame: type(frame).__name__)
def test_a_frame_on_a_channel_without_a_session_is_refused(frame: object) -> None:
    peer = Scripted().opened()
    peer.begun(channel=1)
    peer.feed(frame, channel=0)
    assert condition(peer.written(Close)[0]) == "amqp:illegal-state"


@pytest.mark.spec("T-CONN-004")
def test_the_two_maps_are_separate() -> None:
    """Figure: 1 and 7 go out, 0 and 1 come in."""
    peer = Scripted().opened()
    sessions = [peer.begun(channel=100 + number) for number in range(8)]
    for number in (0, 2, 3, 4, 5, 6):
        sessions[number].end()
        peer.feed(End(), channel=100 + number)
    assert sorted(peer.engine.sessions) == [1, 7]
    peer.feed(Begin(next_outgoing_id=0, incoming_window=9, outgoing_window=9), channel=1)
    assert sorted(peer.engine.sessions) == [0, 1, 7]
    assert peer.engine.sessions[1] is sessions[1]
    [answer] = peer.feed(ECHO, channel=1)
    assert answer.channel == 0
    peer.feed(End(), channel=1)
    assert sorted(peer.engine.sessions) == [1, 7]


@pytest.mark.spec("T-FRAME-004", "T-SESS-005")
def test_begin_and_end_change_the_channel_map() -> None:
    peer = Scripted().opened()
    [answer] = peer.feed(BEGIN, channel=3)
    assert isinstance(answer.performative, Begin)
    [begun] = peer.told(events.Begun)
    assert begun.session.is_remote
    assert begun.session.remote_channel == 3
    [echo] = peer.feed(ECHO, channel=3)
    assert isinstance(echo.performative, Flow)
    peer.feed(End(), channel=3)
    [ended] = peer.told(events.Ended)
    assert ended.session is begun.session
    assert peer.engine.sessions == {}
    peer.feed(ECHO, channel=3)
    assert condition(peer.written(Close)[0]) == "amqp:illegal-state"


@pytest.mark.spec("T-FRAME-005")
def test_frames_of_links_pass_through_their_session() -> None:
    peer = Scripted().opened()
    session = peer.begun(next_outgoing_id=10, outgoing_window=7)
    link = peer.attached(session, a_receiver())
    link.flow(5)
    peer.feed((Transfer(handle=0, delivery_id=0, delivery_tag=b"x"), BODY))
    assert session.windows.next_incoming_id == 11
    assert session.windows.remote_outgoing_window == 6
    [deliveries] = peer.told(events.Deliveries)
    assert deliveries.link is link


@pytest.mark.spec("T-SESS-006", "T-SESS-004")
def test_the_lowest_free_channel_is_taken() -> None:
    peer = Scripted().opened()
    sessions = [peer.begun(channel=number) for number in range(3)]
    assert [frame.channel for frame in peer.sent if type(frame.performative) is Begin] == [0, 1, 2]
    sessions[1].end()
    peer.feed(End(), channel=1)
    assert peer.begun(channel=1).channel == 1
    assert peer.begun(channel=5).channel == 3


@pytest.mark.spec("T-CONN-066", "T-CONN-067", "T-CONN-007")
@pytest.mark.parametrize("channel_max", [0, 1, 4])
def test_there_are_as_many_sessions_as_the_peer_allows(channel_max: int) -> None:
    peer = Scripted().opened(channel_max=channel_max)
    for channel in range(channel_max + 1):
        peer.begun(channel=channel)
    extra = peer.engine.session()
    with pytest.raises(LocalError, match="channel-max"):
        extra.begin()
    assert peer.flush() == []
    assert max(frame.channel or 0 for frame in peer.sent) == channel_max
    peer.engine.sessions[0].end()
    peer.feed(End())
    extra.begin()
    assert extra.channel == 0


def test_our_own_channel_max_bounds_the_sessions_that_we_begin() -> None:
    peer = Scripted(ConnectionSettings(channel_max=0))
    peer.engine.open()
    peer.engine.session().begin()
    with pytest.raises(LocalError, match="channel-max"):
        peer.engine.session().begin()  # The peer would have no channel for the answer.


@pytest.mark.spec("T-CONN-068")
@pytest.mark.parametrize("frame", [BEGIN, Close(), b"\x00\x00\x00\x08\x02\x00\x00\x04"])
def test_a_channel_beyond_ours_closes(frame: object) -> None:
    peer = Scripted(ConnectionSettings(channel_max=3)).opened()
    peer.feed(BEGIN, channel=3)
    assert peer.written(Close) == []
    peer.feed(frame, channel=4)
    assert condition(peer.written(Close)[0]) == "amqp:connection:framing-error"


@pytest.mark.spec("T-ERR-008")
def test_more_sessions_than_can_be_answered() -> None:
    peer = Scripted().opened(channel_max=1)
    for channel in range(3):
        peer.feed(BEGIN, channel=channel)
    assert [begin.remote_channel for begin in peer.written(Begin)] == [0, 1]
    assert condition(peer.written(Close)[0]) == "amqp:resource-limit-exceeded"


@pytest.mark.spec("T-SESS-008", "T-CONN-003")
@pytest.mark.parametrize("remote_channel", [1, 0])
def test_a_begin_that_answers_nothing_is_refused(remote_channel: int) -> None:
    peer = Scripted().opened()
    peer.begun(channel=0)  # Channel 0 is answered, 1 was never begun.
    peer.feed(
        Begin(remote_channel=remote_channel, next_outgoing_id=0, incoming_window=1, outgoing_window=1),
        channel=5,
    )
    assert condition(peer.written(Close)[0]) == "amqp:not-allowed"


def test_many_sessions_begun_and_ended_leave_nothing() -> None:
    peer = Scripted(ConnectionSettings(channel_max=3)).opened()
    for _ in range(200):
        peer.feed(BEGIN, BEGIN, End(), channel=2)  # The second begin is a fault of the session.
        peer.feed(BEGIN, End(), channel=1)
    assert peer.engine.sessions == {}
    assert peer.engine.state is ConnectionState.OPENED
    assert len(peer.told(events.Ended)) == 400


def test_batches_of_frames_and_single_ones_come_to_the_same() -> None:
    """What one engine does with a whole conversation at once, another does octet by octet."""
    script = Joined()
    session = script.open()
    link = a_sender()
    session.attach(link)
    script.run()
    script.peer_of(link).flow(5)
    script.run()
    for _ in range(5):
        link.send(BODY)
    script.run()
    session.end(Error(condition="amqp:internal-error"))
    script.client.close()
    script.run()
    octets = b"".join(part for sender, part in script.octets if sender is script.client)
    results = []
    for chunk in (1, 3, len(octets)):
        joined = Joined()
        answer = b""
        for start in range(0, len(octets), chunk):
            joined.server.receive(octets[start : start + chunk], 0.0)
            for _ in range(4):  # Each answer may let more be read.
                joined.react(joined.server)
            answer += joined.server.data_to_send(0.0)
        told = joined.events[joined.server]
        names = [type(event).__name__ for event in told if not isinstance(event, events.Deliveries)]
        count = sum(len(event.deliveries) for event in joined.told(joined.server, events.Deliveries))
        results.append((names, count, answer.count(b"\x00\x53\x18"), joined.server.state))
    assert results[0] == results[1] == results[2]
    assert results[0][1:] == (0, 1, ConnectionState.END)

"""How a connection is closed, by either end or both, in order or not (section 2.4.3)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import ConnectionClosed, ConnectionLost, LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    ConnectionState,
    Frame,
    Role,
    SessionState,
    Source,
    Target,
)
from tests.engine.frames import Attach, Begin, Close, Detach, Disposition, End, Error, Flow, Open, Transfer
from tests.engine.joined import BODY, HEADER, Joined, Scripted, a_receiver, a_sender, state_of

PEER = Open(container_id="peer")
EMPTY = b"\x00\x00\x00\x08\x02\x00\x00\x00"
MALFORMED = b"\x00\x00\x00\x04\x02\x00\x00\x00"
UNDECODABLE = b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x10\x01"
BEGIN = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)
REFUSED = Error(condition="amqp:internal-error", description="on fire")


def kinds(frames: list[Frame]) -> list[type]:
    return [type(frame.performative) for frame in frames]


def condition(close: Any) -> str | None:
    return None if close.error is None else str(close.error.condition)


def transfer(number: int) -> tuple[Any, bytes]:
    return Transfer(handle=0, delivery_id=number, delivery_tag=bytes([number]), settled=True), BODY


# --- the figures ---


@pytest.mark.spec("T-CONN-013", "T-CONN-018", "T-CONN-020")
def test_closing_a_connection() -> None:
    joined = Joined()
    joined.open()
    joined.octets.clear()
    joined.client.close()
    assert joined.client.state is ConnectionState.CLOSE_SENT
    assert not joined.client.is_over
    joined.run()
    close = b"\x00\x53\x18"
    assert [(sender, octets.count(close)) for sender, octets in joined.octets] == [
        (joined.client, 1),
        (joined.server, 1),
    ]
    for engine in (joined.client, joined.server):
        assert engine.state is ConnectionState.END
        assert engine.is_over
        [closed] = joined.told(engine, events.Closed)
        assert closed.error is None
        assert closed.by_peer is (engine is joined.server)


@pytest.mark.spec("T-CONN-023")
def test_simultaneous_close() -> None:
    joined = Joined()
    joined.open()
    joined.client.close()
    joined.server.close(REFUSED)
    joined.octets.clear()
    joined.run()
    assert [sender for sender, _ in joined.octets] == [joined.client, joined.server]
    for engine in (joined.client, joined.server):
        assert engine.state is ConnectionState.END
        assert len(joined.told(engine, events.Closed)) == 1
    [closed] = joined.told(joined.client, events.Closed)
    assert closed.error is not None
    assert closed.error.condition == "amqp:internal-error"


@pytest.mark.spec("T-CONN-019", "T-CONN-033", "T-CONN-057")
def test_open_and_close_in_one_batch() -> None:
    client = Scripted()
    client.engine.open()
    client.engine.close()
    assert [(frame.channel, type(frame.performative)) for frame in client.flush()] == [(0, Open), (0, Close)]
    assert client.engine.state is ConnectionState.OC_PIPE
    assert client.engine.output_closed
    client.feed(HEADER)
    assert state_of(client.engine) is ConnectionState.CLOSE_PIPE
    client.feed(PEER)
    assert state_of(client.engine) is ConnectionState.CLOSE_SENT
    client.feed(Close())
    assert client.engine.is_over
    assert kinds(client.sent) == [Open, Close]


# --- our close ---


@pytest.mark.spec("T-CONN-018")
def test_close_goes_out_on_channel_0() -> None:
    peer = Scripted().opened()
    for channel in range(3):
        peer.begun(channel=channel)
    peer.engine.close()
    assert [(frame.channel, type(frame.performative)) for frame in peer.flush()] == [(0, Close)]


@pytest.mark.spec("T-CONN-014")
@pytest.mark.parametrize("error", [None, REFUSED])
def test_nothing_goes_out_behind_close(error: Any) -> None:
    peer = Scripted(ConnectionSettings(idle_time_out=1000.0)).opened(idle_time_out=1000)
    session = peer.begun()
    link = peer.attached(session, a_sender())
    peer.engine.close(error)
    peer.flush()
    for attempt in (
        peer.engine.close,
        peer.engine.open,
        peer.engine.send_header,
        session.end,
        link.close,
        link.flow,
        peer.engine.session().begin,
    ):
        with pytest.raises(LocalError):
            attempt()
    assert peer.feed(EMPTY, BEGIN, channel=3) == []
    assert peer.feed(Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1, echo=True)) == []
    assert peer.feed(Detach(handle=0, closed=True)) == []
    assert peer.feed(End()) == []
    peer.now = 5.0
    assert peer.flush() == []


@pytest.mark.spec("T-CONN-015", "T-CONN-060")
def test_frames_still_count_between_our_close_and_the_peers() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    link = peer.attached(session, a_receiver())
    link.flow(10)
    peer.engine.close()
    peer.feed(transfer(0))
    assert len(peer.told(events.Deliveries)) == 1
    assert peer.engine.state is ConnectionState.CLOSE_SENT
    peer.feed(Close())
    assert state_of(peer.engine) is ConnectionState.END


def test_a_peer_that_ends_sessions_behind_our_close_does_no_wrong() -> None:
    """Neither its ends, nor its new sessions, nor frames that would need an answer of ours first."""
    peer = Scripted().opened()
    session = peer.begun()
    link = peer.attached(session, a_sender())
    peer.begun(channel=1)
    peer.engine.close()
    peer.feed(Detach(handle=0), Detach(handle=0))  # The second would be for a link attached again.
    peer.feed(End())
    peer.feed(BEGIN, End(), BEGIN, channel=7)
    peer.feed(End(), channel=1)
    assert peer.engine.wants_input
    assert peer.engine.state is ConnectionState.CLOSE_SENT
    assert session.state is SessionState.UNMAPPED
    assert link.session is None
    peer.feed(Close())
    assert state_of(peer.engine) is ConnectionState.END
    assert peer.engine.error is None


@pytest.mark.spec("T-CONN-016")
def test_the_wait_for_the_answer_is_limited() -> None:
    peer = Scripted(ConnectionSettings(close_time_out=10.0)).opened()
    peer.begun()
    peer.now = 50.0
    peer.engine.close()
    peer.flush()
    assert peer.engine.next_deadline() == 60.0
    peer.now = 59.9
    peer.feed(EMPTY)  # That it lives is no answer.
    assert not peer.engine.is_over
    peer.now = 60.0
    assert peer.flush() == []
    assert peer.engine.is_over
    assert peer.engine.next_deadline() is None
    [closed] = peer.told(events.Closed)
    assert isinstance(closed.error, ConnectionLost)
    assert closed.by_peer


@pytest.mark.spec("T-CONN-024", "T-CONN-025", "T-CONN-061")
def test_after_an_error_everything_is_dropped_until_the_peers_close() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    peer.attached(session, a_receiver()).flow(10)
    peer.feed(UNDECODABLE)
    assert condition(peer.written(Close)[0]) == "amqp:decode-error"
    assert peer.engine.state is ConnectionState.DISCARDING
    told, written = list(peer.events), list(peer.sent)
    peer.feed(BEGIN, channel=4)
    peer.feed(BEGIN, channel=60_000)
    peer.feed(transfer(0), UNDECODABLE, PEER, HEADER, End())
    assert peer.engine.state is ConnectionState.DISCARDING
    peer.feed(Close(error=REFUSED))
    assert state_of(peer.engine) is ConnectionState.END
    assert (peer.events, peer.sent) == (told, written)


@pytest.mark.spec("T-CONN-024")
def test_octets_behind_a_malformed_frame_take_no_memory() -> None:
    peer = Scripted(ConnectionSettings(close_time_out=10.0)).opened()
    peer.feed(MALFORMED)
    assert condition(peer.written(Close)[0]) == "amqp:connection:framing-error"
    for _ in range(100):
        peer.feed(MALFORMED + bytes(10_000))
    reader = peer.engine._input._reader
    assert reader.pending <= len(MALFORMED)
    assert len(peer.sent) == 2
    peer.now = 10.0
    peer.flush()
    assert peer.engine.is_over


@pytest.mark.spec("T-CONN-044", "T-CONN-056")
@pytest.mark.parametrize(
    ("error", "expected"), [(None, ConnectionState.CLOSE_SENT), (REFUSED, ConnectionState.DISCARDING)]
)
def test_the_peers_open_behind_our_close(error: Any, expected: ConnectionState) -> None:
    client = Scripted()
    client.engine.open()
    client.feed(HEADER)
    client.engine.close(error)
    client.flush()
    assert client.engine.state is ConnectionState.CLOSE_PIPE
    assert client.feed(Open(container_id="peer", idle_time_out=1)) == []
    assert client.engine.state is expected
    assert client.feed(Close()) == []
    assert state_of(client.engine) is ConnectionState.END
    assert [type(event) for event in client.events] == [events.Opened, events.Closed]


def test_after_a_fault_before_the_open_the_open_is_no_news() -> None:
    client = Scripted()
    client.engine.open()
    client.feed(HEADER, BEGIN)
    assert [type(event) for event in client.events] == [events.Closed]
    client.feed(PEER, Close())
    assert [type(event) for event in client.events] == [events.Closed]
    assert client.engine.state is ConnectionState.END


def test_close_before_open_gives_the_transport_up() -> None:
    for octets in (b"", HEADER, HEADER):
        server = Scripted(is_server=True)
        server.feed(octets)
        server.engine.close(REFUSED)
        server.flush()
        assert server.sent == []
        assert server.engine.is_over
        [closed] = server.told(events.Closed)
        assert (closed.error, closed.by_peer) == (None, False)


def test_an_error_too_large_to_be_told_changes_nothing() -> None:
    peer = Scripted().opened(max_frame_size=512)
    session = peer.begun()
    error = Error(condition="amqp:internal-error", description="x" * 600)
    for attempt in (peer.engine.close, session.end):
        with pytest.raises(LocalError, match="frame-size-too-small"):
            attempt(error)
    assert peer.flush() == []
    assert peer.engine.state is ConnectionState.OPENED
    assert session.state is SessionState.MAPPED


# --- the peer's close ---


@pytest.mark.spec("T-CONN-017")
@pytest.mark.parametrize("channel", [0, 5, 10])
def test_close_may_come_on_any_channel(channel: int) -> None:
    peer = Scripted(ConnectionSettings(channel_max=10)).opened()
    peer.feed(Close(), channel=channel)
    assert [(frame.channel, type(frame.performative)) for frame in peer.sent] == [(0, Open), (0, Close)]
    assert peer.written(Close)[0].error is None
    assert peer.engine.state is ConnectionState.END


@pytest.mark.spec("T-CONN-077")
@pytest.mark.parametrize("error", [None, REFUSED])
def test_a_close_tells_an_error_or_none(error: Any) -> None:
    peer = Scripted().opened()
    session = peer.begun()
    peer.feed(Close(error=error))
    [closed] = peer.told(events.Closed)
    [ended] = peer.told(events.Ended)
    assert closed.by_peer
    if error is None:
        assert (closed.error, ended.error) == (None, None)
    else:
        assert isinstance(closed.error, ConnectionClosed)
        assert closed.error.error == error
        assert "on fire" in str(closed.error)
        assert ended.error is not None
        assert ended.error.__cause__ is closed.error
    assert session.state is SessionState.UNMAPPED


@pytest.mark.spec("T-CONN-021", "T-CONN-022")
def test_what_follows_close_has_no_effect() -> None:
    peer = Scripted().opened()
    peer.feed(Close(), Close(error=REFUSED), PEER, b"\xff" * 50)
    peer.feed(HEADER, PEER, b"\xff" * 50)
    peer.engine.end_of_input(0.0)
    assert peer.flush() == []
    assert kinds(peer.sent) == [Open, Close]
    assert [type(event) for event in peer.events] == [events.Opened, events.Closed]
    assert peer.engine.error is None
    assert len(peer.headers) == 1
    with pytest.raises(LocalError):
        peer.engine.open()


@pytest.mark.spec("T-CONN-042", "T-CONN-045", "T-CONN-059")
def test_a_close_answered_by_hand() -> None:
    peer = Scripted(ConnectionSettings(auto_answer=False)).opened()
    session = peer.begun()
    peer.attached(session, a_receiver()).flow(10)
    peer.feed((Transfer(handle=0, delivery_id=0, delivery_tag=b"x"), BODY))
    [deliveries] = peer.told(events.Deliveries)
    peer.feed(Close(), BEGIN, MALFORMED)
    assert peer.engine.state is ConnectionState.CLOSE_RCVD
    assert [type(event) for event in peer.events[-1:]] == [events.Closed]
    deliveries.deliveries[0].settle(Accepted())
    assert kinds(peer.flush()) == [Disposition]
    peer.engine.end_of_input(0.0)
    peer.engine.close()
    assert kinds(peer.flush()) == [Close]
    assert state_of(peer.engine) is ConnectionState.END
    assert peer.engine.is_over
    assert len(peer.told(events.Closed)) == 1
    assert len(peer.told(events.Ended)) == 1


# --- the transport ---


def starts() -> list[Any]:
    """An engine in each state, ready to lose its input."""

    def opened(peer: Scripted) -> None:
        peer.engine.open()
        peer.feed(HEADER, PEER)

    def start(peer: Scripted) -> None:
        pass

    def hdr_sent(peer: Scripted) -> None:
        peer.engine.send_header()

    def hdr_exch(peer: Scripted) -> None:
        peer.engine.send_header()
        peer.feed(HEADER)

    def open_pipe(peer: Scripted) -> None:
        peer.engine.open()

    def open_sent(peer: Scripted) -> None:
        peer.engine.open()
        peer.feed(HEADER)

    def oc_pipe(peer: Scripted) -> None:
        peer.engine.open()
        peer.engine.close()

    def close_pipe(peer: Scripted) -> None:
        open_sent(peer)
        peer.engine.close()

    def open_rcvd(peer: Scripted) -> None:
        hdr_exch(peer)
        peer.feed(PEER)

    def close_sent(peer: Scripted) -> None:
        opened(peer)
        peer.engine.close()

    def discarding(peer: Scripted) -> None:
        opened(peer)
        peer.engine.close(REFUSED)

    steps = (start, hdr_sent, hdr_exch, open_pipe, open_sent, oc_pipe, close_pipe)
    return [*steps, open_rcvd, opened, close_sent, discarding]


@pytest.mark.parametrize("lead", starts(), ids=lambda lead: lead.__name__.upper())
@pytest.mark.parametrize("is_lost", [True, False])
def test_the_transport_ends_in_any_state(lead: Any, is_lost: bool) -> None:
    peer = Scripted()
    lead(peer)
    assert peer.engine.state is ConnectionState[lead.__name__.upper()] or lead.__name__ == "opened"
    if is_lost:
        peer.engine.lose()
    else:
        peer.engine.end_of_input(0.0)
    peer.flush()
    assert peer.engine.state is ConnectionState.END
    assert peer.engine.is_over
    assert peer.engine.next_deadline() is None
    [closed] = peer.told(events.Closed)
    assert isinstance(closed.error, ConnectionLost)
    peer.feed(HEADER, PEER)
    peer.engine.end_of_input(0.0)
    peer.engine.lose()
    assert peer.flush() == []
    assert len(peer.told(events.Closed)) == 1


@pytest.mark.spec("T-SESS-010")
def test_sessions_are_over_with_the_transport() -> None:
    peer = Scripted().opened()
    sessions = [peer.begun(channel=channel) for channel in (4, 2, 7)]
    peer.feed(BEGIN, channel=1)
    written = len(peer.sent)
    peer.engine.end_of_input(0.0)
    peer.flush()
    assert len(peer.sent) == written
    ended = peer.told(events.Ended)
    assert [event.session for event in ended[:3]] == sessions  # In the order of our channels.
    assert len(ended) == 4
    assert all(event.session.state is SessionState.UNMAPPED for event in ended)
    assert isinstance(peer.events[-1], events.Closed)


def test_what_came_ahead_of_the_end_of_input_counts() -> None:
    server = Scripted(is_server=True)
    server.feed(HEADER, PEER, BEGIN, Close())
    server.engine.end_of_input(0.0)
    server.flush()
    assert [type(event) for event in server.events] == [events.Opened]
    assert not server.engine.is_over
    server.engine.open()
    server.flush()
    assert kinds(server.sent) == [Open, Begin, Close]
    [closed] = server.told(events.Closed)
    assert (closed.error, closed.by_peer) == (None, True)
    assert server.engine.is_over


def test_a_malformed_frame_is_told_behind_what_is_held() -> None:
    server = Scripted(is_server=True)
    server.feed(HEADER, PEER, BEGIN, MALFORMED)
    server.engine.open()
    server.flush()
    assert kinds(server.sent) == [Open, Begin, Close]
    assert condition(server.written(Close)[0]) == "amqp:connection:framing-error"


def test_our_close_lets_go_what_was_held() -> None:
    peer = Scripted().opened()
    peer.begun()
    attach = Attach(name="x", handle=0, role=Role.RECEIVER, source=Source(), target=Target())
    peer.feed(attach, Detach(handle=0, closed=True), End(), Close())
    assert not peer.engine.wants_input  # The detach waits for our attach.
    peer.engine.close()
    peer.flush()
    assert peer.engine.wants_input
    assert peer.engine.state is ConnectionState.END

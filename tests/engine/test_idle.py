"""Silence on a connection: empty frames out, and giving up on who sends none (section 2.4.5)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.idle import IdleClock, Timer
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import ConnectionLost
from amqpforge_protocol.amqp_1_0 import (
    ConnectionState,
    Role,
    Source,
    Target,
)
from tests.engine.frames import Attach, Begin, Close, Detach, Error, Flow, Open
from tests.engine.joined import HEADER, Joined, Scripted

EMPTY = b"\x00\x00\x00\x08\x02\x00\x00\x00"
PEER = Open(container_id="peer")
DAY = 86_400.0


def condition(close: Any) -> str | None:
    return None if close.error is None else str(close.error.condition)


def at(peer: Scripted, now: float) -> bytes:
    """The octets that the engine writes at a time when nothing else happens."""
    peer.now = now
    octets: bytes = peer.engine.data_to_send(now)
    peer.events += peer.engine.events()
    return octets


# --- the peer is silent ---


@pytest.mark.spec("T-IDLE-001", "T-IDLE-003")
def test_silence_beyond_the_threshold_closes_with_an_error() -> None:
    peer = Scripted(ConnectionSettings(idle_time_out=30.0)).opened()
    session = peer.begun()
    assert peer.engine.next_deadline() == 30.0
    assert at(peer, 29.999) == b""
    peer.now = 30.0
    peer.flush()
    [close] = peer.written(Close)
    assert condition(close) == "amqp:resource-limit-exceeded"
    assert close.error is not None
    assert "30.0 s" in str(close.error.description)
    [closed] = peer.told(events.Closed)
    assert isinstance(closed.error, ConnectionLost)
    assert closed.by_peer
    assert peer.told(events.Ended)[0].session is session


@pytest.mark.spec("T-IDLE-004")
def test_a_silent_peer_is_dropped_if_it_does_not_answer_the_close() -> None:
    peer = Scripted(ConnectionSettings(idle_time_out=30.0, close_time_out=7.0)).opened()
    at(peer, 30.0)
    assert not peer.engine.is_over
    assert peer.engine.next_deadline() == 60.0
    assert at(peer, 59.999) == b""
    assert not peer.engine.is_over
    at(peer, 60.0)
    assert peer.engine.is_over
    assert len(peer.told(events.Closed)) == 1


@pytest.mark.spec("T-IDLE-002")
@pytest.mark.parametrize("frame", [EMPTY, Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1)])
def test_any_frame_starts_the_time_anew(frame: object) -> None:
    peer = Scripted(ConnectionSettings(idle_time_out=30.0)).opened()
    peer.begun()
    for now in (29.0, 58.0, 87.9):
        peer.now = now
        peer.feed(frame)
        assert peer.engine.next_deadline() == now + 30.0
    assert peer.written(Close) == []
    peer.now = 117.9
    peer.flush()
    assert len(peer.written(Close)) == 1


@pytest.mark.spec("T-IDLE-018")
def test_a_flow_keeps_the_connection_alive() -> None:
    peer = Scripted(ConnectionSettings(idle_time_out=10.0)).opened()
    peer.begun()
    peer.now = 9.0
    peer.feed(Flow(next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=1))
    assert at(peer, 18.9) == b""
    assert peer.engine.state is ConnectionState.OPENED


@pytest.mark.spec("T-IDLE-010")
def test_only_whole_frames_are_activity() -> None:
    peer = Scripted(ConnectionSettings(idle_time_out=30.0)).opened()
    for now, octet in ((10.0, EMPTY[:3]), (29.0, EMPTY[3:6])):
        peer.now = now
        peer.feed(octet)
    peer.now = 30.0
    peer.flush()
    assert len(peer.written(Close)) == 1


@pytest.mark.spec("T-IDLE-005", "T-IDLE-007", "T-IDLE-006")
def test_each_direction_has_its_own_time() -> None:
    peer = Scripted(ConnectionSettings(idle_time_out=2.0)).opened(idle_time_out=60_000)
    assert peer.written(Open)[0].idle_time_out == 1000
    for now in (1.5, 3.0, 4.5, 6.0):
        peer.now = now
        assert peer.feed(EMPTY) == []  # Nothing is due on our side for 30 s.
    for now in range(7, 30):
        peer.now = now
        assert peer.feed(EMPTY) == []
    assert at(peer, 30.0) == EMPTY
    assert peer.engine.state is ConnectionState.OPENED


@pytest.mark.spec("T-IDLE-007")
@pytest.mark.parametrize(
    ("threshold", "announced"), [(30.0, 15_000), (0.001, 1), (None, None), (1e9, 0xFFFF_FFFF)]
)
def test_half_of_the_threshold_is_announced(threshold: float | None, announced: int | None) -> None:
    peer = Scripted(ConnectionSettings(idle_time_out=threshold)).opened()
    assert peer.written(Open)[0].idle_time_out == announced


def test_a_silent_peer_without_a_header_is_dropped() -> None:
    for is_server in (True, False):
        peer = Scripted(ConnectionSettings(idle_time_out=5.0), is_server=is_server)
        if not is_server:
            peer.engine.open()
        at(peer, 100.0)
        assert peer.engine.next_deadline() == 105.0
        assert at(peer, 105.0) == b""
        assert peer.engine.is_over
        assert peer.told(events.Closed)[0].by_peer


def test_a_silent_peer_without_an_open_is_closed() -> None:
    server = Scripted(ConnectionSettings(idle_time_out=5.0), is_server=True)
    server.feed(HEADER)
    server.now = 5.0
    assert [type(frame.performative) for frame in server.flush()] == [Open, Close]
    at(server, 10.0)
    assert server.engine.is_over


def test_a_peer_that_waits_for_us_is_not_silent() -> None:
    server = Scripted(ConnectionSettings(idle_time_out=5.0), is_server=True)
    server.feed(HEADER, PEER)
    assert server.engine.next_deadline() is None
    assert at(server, 100.0) == b""
    server.engine.open()
    server.flush()
    assert server.engine.state is ConnectionState.OPENED
    assert server.engine.next_deadline() == 105.0


def test_a_peer_that_we_do_not_listen_to_is_not_silent() -> None:
    peer = Scripted(ConnectionSettings(idle_time_out=5.0)).opened()
    peer.begun()
    attach = Attach(name="x", handle=0, role=Role.RECEIVER, source=Source(), target=Target())
    peer.feed(attach, Detach(handle=0, closed=True))
    assert not peer.engine.wants_input
    assert peer.engine.next_deadline() is None
    assert at(peer, 100.0) == b""
    [attached] = peer.told(events.Attached)
    peer.now = 200.0
    attached.link.attach()
    peer.flush()
    assert peer.engine.wants_input
    assert peer.written(Close) == []
    assert peer.engine.next_deadline() == 205.0
    at(peer, 205.0)
    assert len(peer.told(events.Closed)) == 1


# --- we are silent ---


@pytest.mark.spec("T-IDLE-006", "T-IDLE-011", "T-IDLE-013")
def test_an_empty_frame_goes_out_at_half_of_the_time() -> None:
    peer = Scripted().opened(idle_time_out=1000)
    peer.begun(channel=3)
    peer.begun(channel=4)
    sent = [0.0]
    for millisecond in range(0, 5000, 10):
        octets = at(peer, millisecond / 1000)
        if octets:
            assert octets == EMPTY
            sent.append(peer.now)
    assert max(late - early for early, late in pairwise(sent)) <= 0.5
    assert len(sent) == 10
    assert peer.engine.next_deadline() == sent[-1] + 0.5


@pytest.mark.spec("T-IDLE-011")
def test_a_frame_of_ours_stands_for_an_empty_one() -> None:
    peer = Scripted().opened(idle_time_out=1000)
    session = peer.begun()
    peer.now = 0.4
    session.write(session.flow())
    peer.flush()
    assert at(peer, 0.8) == b""
    assert at(peer, 0.9) == EMPTY


@pytest.mark.spec("T-IDLE-014")
def test_an_empty_frame_before_the_peers_open_is_on_channel_0() -> None:
    client = Scripted(ConnectionSettings(assumed_idle_time_out=10.0))
    client.engine.open()
    client.engine.session().begin()
    client.engine.session().begin()
    client.feed(HEADER)
    assert client.engine.state is ConnectionState.OPEN_SENT
    assert client.engine.next_deadline() == 5.0
    assert at(client, 5.0) == EMPTY


@pytest.mark.spec("T-IDLE-016")
@pytest.mark.parametrize("octets", [b"", HEADER, HEADER + b"\x00\x00\x00"])
def test_no_empty_frame_goes_out_before_open(octets: bytes) -> None:
    for is_server in (True, False):
        peer = Scripted(ConnectionSettings(assumed_idle_time_out=1.0), is_server=is_server)
        if not is_server:
            peer.engine.send_header()
        peer.feed(octets)
        peer.headers.clear()
        assert peer.engine.next_deadline() is None
        assert at(peer, DAY) == b""
    server = Scripted(is_server=True)
    server.feed(HEADER, Open(container_id="peer", idle_time_out=1000))
    assert server.engine.next_deadline() is None
    assert at(server, DAY) == b""


@pytest.mark.spec("T-IDLE-017")
@pytest.mark.parametrize("error", [None, Error(condition="amqp:internal-error")])
def test_no_empty_frame_goes_out_behind_close(error: Any) -> None:
    peer = Scripted(ConnectionSettings(close_time_out=100.0)).opened(idle_time_out=1000)
    peer.engine.close(error)
    peer.flush()
    assert peer.engine.next_deadline() == 100.0
    assert [at(peer, now) for now in (0.5, 1.0, 50.0, 100.0, 200.0)] == [b""] * 5


def test_empty_frames_go_out_while_a_close_waits_for_our_answer() -> None:
    peer = Scripted(ConnectionSettings(auto_answer=False)).opened(idle_time_out=1000)
    peer.feed(Close())
    assert at(peer, 0.5) == EMPTY


@pytest.mark.spec("T-IDLE-008")
@pytest.mark.parametrize("is_server", [True, False])
def test_a_time_too_short_to_be_kept_is_refused(is_server: bool) -> None:
    peer = Scripted(is_server=is_server).opened(idle_time_out=1)
    [close] = peer.written(Close)
    assert condition(close) == "amqp:not-allowed"
    assert close.error is not None
    assert "1 ms" in str(close.error.description)


@pytest.mark.spec("T-IDLE-009")
@pytest.mark.parametrize(("milliseconds", "is_kept"), [(1, False), (10, True), (0xFFFF_FFFF, True)])
def test_extreme_times_are_kept_or_refused(milliseconds: int, is_kept: bool) -> None:
    peer = Scripted().opened(idle_time_out=milliseconds)
    assert bool(peer.written(Close)) is not is_kept
    if is_kept:
        assert peer.engine.next_deadline() == milliseconds / 2000
        assert at(peer, milliseconds / 2000) == EMPTY


@pytest.mark.spec("T-IDLE-019")
def test_who_was_silent_for_too_long_says_so() -> None:
    peer = Scripted().opened(idle_time_out=1000)
    peer.now = 2.001
    peer.flush()
    [close] = peer.written(Close)
    assert condition(close) == "amqp:resource-limit-exceeded"
    assert close.error is not None
    assert "silent" in str(close.error.description)
    [closed] = peer.told(events.Closed)
    assert not closed.by_peer


def test_silence_before_the_peers_open_was_no_fault() -> None:
    client = Scripted()
    client.engine.open()
    client.flush()
    client.now = 60.0
    client.feed(HEADER, Open(container_id="peer", idle_time_out=1000))
    assert client.written(Close) == []
    assert client.engine.next_deadline() == 60.5
    assert at(client, 60.5) == EMPTY


@pytest.mark.spec("T-IDLE-020", "T-IDLE-021")
@pytest.mark.parametrize("announced", [None, 0])
def test_without_a_time_there_is_no_duty(announced: int | None) -> None:
    peer = Scripted().opened(idle_time_out=announced)
    assert peer.engine.next_deadline() is None
    assert at(peer, DAY) == b""
    assert peer.engine.state is ConnectionState.OPENED


@pytest.mark.spec("T-IDLE-022")
@pytest.mark.parametrize(("announced", "expected"), [(None, 10.0), (0, 10.0), (1000, 0.5)])
def test_a_time_may_be_assumed(announced: int | None, expected: float) -> None:
    peer = Scripted(ConnectionSettings(assumed_idle_time_out=20.0)).opened(idle_time_out=announced)
    assert peer.engine.next_deadline() == expected
    assert at(peer, expected) == EMPTY


# --- empty frames of the peer ---


@pytest.mark.spec("T-IDLE-012", "T-IDLE-015")
@pytest.mark.parametrize("channel", [0, 1, 9])
def test_an_empty_frame_only_shows_that_the_peer_lives(channel: int) -> None:
    peer = Scripted(ConnectionSettings(idle_time_out=30.0, channel_max=9)).opened()
    session = peer.begun()
    told = list(peer.events)
    peer.now = 10.0
    assert peer.feed(EMPTY[:6] + channel.to_bytes(2, "big")) == []
    assert peer.events == told
    assert session.windows.next_incoming_id == 0
    assert peer.engine.next_deadline() == 40.0


@pytest.mark.spec("T-FRAME-016")
def test_an_empty_frame_may_have_an_extended_header() -> None:
    peer = Scripted().opened()
    assert peer.feed(b"\x00\x00\x00\x0c\x03\x00\x00\x00wild") == []
    assert peer.engine.state is ConnectionState.OPENED


def test_two_engines_keep_each_other_alive() -> None:
    joined = Joined(ConnectionSettings(idle_time_out=1.0), ConnectionSettings(idle_time_out=3.0))
    joined.open()
    joined.octets.clear()
    for tenth in range(1, 600):
        joined.now = tenth / 10
        joined.run()
    assert joined.client.state is joined.server.state is ConnectionState.OPENED
    assert {octets for _, octets in joined.octets} == {EMPTY}


# --- the clocks by themselves ---


def test_a_timer_begins_with_the_first_look() -> None:
    timer = Timer()
    assert not timer.is_running
    assert not timer.is_due(1e9)
    timer.start(5.0)
    assert (timer.is_running, timer.deadline) == (True, None)
    assert not timer.is_due(100.0)
    assert timer.deadline == 105.0
    assert not timer.is_due(104.0)
    assert timer.is_due(105.0)
    timer.start(1.0)
    assert not timer.is_due(200.0)
    timer.stop()
    assert not timer.is_running
    assert not timer.is_due(1e9)


def test_an_idle_clock_without_times_never_asks() -> None:
    clock = IdleClock(None, None)
    clock.look(5.0)
    assert (clock.input_deadline(), clock.output_deadline()) == (None, None)
    assert not clock.has_expired(DAY)
    assert not clock.has_overrun(DAY)
    assert not clock.is_output_due(DAY)


def test_begin_frames_are_activity_of_ours() -> None:
    peer = Scripted().opened(idle_time_out=1000)
    peer.now = 0.4
    peer.feed(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    assert peer.engine.next_deadline() == 0.9

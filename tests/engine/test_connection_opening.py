"""How a connection is opened: limits, pipelining, what the opens agree on (sections 2.4.1, 2.4.2, 2.7.1)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import LocalError, SessionEnded
from amqpforge_protocol.amqp_1_0 import (
    ConnectionState,
    EncodeError,
    Frame,
    IetfLanguageTag,
    SessionState,
    Symbol,
    encode_frame,
)
from tests.engine.frames import Attach, Begin, Close, End, Flow, Open
from tests.engine.joined import BODY, HEADER, Joined, Scripted, a_sender

PEER = Open(container_id="peer")
BEGIN = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)


def kinds(frames: list[Frame]) -> list[type]:
    return [type(frame.performative) for frame in frames]


def flow(**fields: Any) -> Any:
    return Flow(next_incoming_id=0, incoming_window=1000, next_outgoing_id=0, outgoing_window=1000, **fields)


def condition(close: Any) -> str | None:
    return None if close.error is None else str(close.error.condition)


# --- the figures ---


@pytest.mark.spec("T-CONN-008")
def test_opening_a_connection() -> None:
    joined = Joined()
    joined.client.open()
    joined.server.open()  # Neither waits for the other.
    first, second = joined.client.data_to_send(0.0), joined.server.data_to_send(0.0)
    assert first.startswith(HEADER)
    assert second.startswith(HEADER)
    joined.server.receive(first, 0.0)
    joined.client.receive(second, 0.0)
    for engine in (joined.client, joined.server):
        assert engine.state is ConnectionState.OPENED
        assert [type(event) for event in engine.events()] == [events.Opened]
        assert engine.data_to_send(0.0) == b""


@pytest.mark.spec("T-CONN-009", "T-CONN-011")
def test_pipelined_open() -> None:
    joined = Joined()
    sessions = []
    for engine in (joined.client, joined.server):
        engine.open()
        sessions.append(engine.session())
        sessions[-1].begin()
        assert engine.state is ConnectionState.OPEN_PIPE
    pipelined = [engine.data_to_send(0.0) for engine in (joined.client, joined.server)]
    joined.server.receive(pipelined[0], 0.0)
    joined.client.receive(pipelined[1], 0.0)
    answers = [engine.data_to_send(0.0) for engine in (joined.client, joined.server)]
    joined.server.receive(answers[0], 0.0)
    joined.client.receive(answers[1], 0.0)
    assert joined.client.state is joined.server.state is ConnectionState.OPENED
    assert [session.state for session in sessions] == [SessionState.MAPPED] * 2
    assert len(joined.client.sessions) == len(joined.server.sessions) == 2


@pytest.mark.spec("T-CONN-012")
@pytest.mark.parametrize("auto_answer", [True, False])
def test_pipelined_frames_are_as_good_as_later_ones(auto_answer: bool) -> None:
    told = []
    for cuts in ((3,), (1, 2), (1, 1, 1)):
        server = Scripted(ConnectionSettings(auto_answer=auto_answer), is_server=True)
        frames: list[Any] = [HEADER, PEER, BEGIN]
        for cut in cuts:
            server.feed(*frames[:cut])
            del frames[:cut]
        server.engine.open()
        server.flush()
        told.append([type(event) for event in server.events])
    assert told == [[events.Opened, events.Begun]] * 3


# --- open ---


@pytest.mark.spec("T-CONN-006", "T-CONN-063")
def test_open_is_the_first_frame_and_on_channel_0() -> None:
    for is_server in (True, False):
        peer = Scripted(is_server=is_server).opened()
        assert kinds(peer.sent) == [Open]
        assert peer.sent[0].channel == 0


@pytest.mark.spec("T-CONN-006")
def test_an_open_on_another_channel_is_refused() -> None:
    peer = Scripted()
    peer.engine.open()
    peer.feed(HEADER)
    peer.feed(PEER, channel=1)
    assert condition(peer.written(Close)[0]) == "amqp:not-allowed"
    assert peer.told(events.Opened) == []


@pytest.mark.spec("T-CONN-063", "T-HDR-022")
@pytest.mark.parametrize("is_server", [True, False])
def test_another_first_frame_is_refused(is_server: bool) -> None:
    peer = Scripted(is_server=is_server)
    if not is_server:
        peer.engine.open()
    peer.feed(HEADER, BEGIN)
    assert kinds(peer.sent) == [Open, Close]
    assert condition(peer.written(Close)[0]) == "amqp:not-allowed"
    assert peer.told(events.Begun) == []


@pytest.mark.spec("T-ERR-009")
def test_a_second_open_is_refused() -> None:
    peer = Scripted().opened()
    peer.feed(PEER)
    assert condition(peer.written(Close)[0]) == "amqp:not-allowed"
    assert len(peer.told(events.Opened)) == 1


def test_a_second_open_behind_our_close_changes_nothing() -> None:
    peer = Scripted().opened()
    peer.engine.close()
    peer.feed(Open(container_id="other"), Close())
    assert peer.engine.remote is not None
    assert peer.engine.remote.container_id == "peer"
    assert len(peer.told(events.Opened)) == 1
    assert peer.engine.state is ConnectionState.END


@pytest.mark.spec("T-CONN-053")
def test_what_comes_behind_open_waits_for_ours() -> None:
    server = Scripted(is_server=True)
    server.feed(HEADER, PEER, BEGIN, Close())
    assert [type(event) for event in server.events] == [events.Opened]
    assert not server.engine.wants_input
    server.engine.open()
    server.flush()
    assert [type(event) for event in server.events] == [
        events.Opened,
        events.Begun,
        events.Ended,
        events.Closed,
    ]
    assert kinds(server.sent) == [Open, Begin, Close]
    assert server.engine.wants_input
    assert server.engine.state is ConnectionState.END


def test_an_open_that_cannot_be_told_is_refused_before_anything_is_written() -> None:
    class Strange:
        pass

    peer = Scripted(ConnectionSettings(properties={"x": Strange()}))
    with pytest.raises(EncodeError):
        peer.engine.open()
    peer.flush()
    assert (peer.headers, peer.sent) == ([], [])
    assert peer.engine.state is ConnectionState.START


# --- limits ---


@pytest.mark.spec("T-FRAME-017", "T-CONN-010")
def test_what_not_every_peer_takes_waits_for_the_open() -> None:
    client = Scripted()
    client.engine.open()
    large = client.engine.session(SessionSettings(properties={"x": "y" * 600}))
    large.begin()
    assert kinds(client.flush()) == [Open]
    client.feed(HEADER)
    assert client.engine.state is ConnectionState.OPEN_SENT
    second = client.engine.session()
    second.begin()
    assert (large.channel, second.channel) == (0, 1)
    assert client.flush() == []
    client.feed(PEER)
    assert [(frame.channel, type(frame.performative)) for frame in client.sent[1:]] == [
        (0, Begin),
        (1, Begin),
    ]


@pytest.mark.spec("T-FRAME-017", "T-CONN-010")
def test_frames_that_every_peer_takes_do_not_wait() -> None:
    client = Scripted()
    client.engine.open()
    session = client.engine.session()
    session.begin()
    session.attach(a_sender("x" * 400))
    assert kinds(client.flush()) == [Open, Begin, Attach]
    session.write(flow(properties={"x": "y" * 500}))
    session.write(flow())  # It waits with the other, and goes down with it.
    assert client.flush() == []
    client.feed(HEADER, Open(container_id="peer", max_frame_size=512))
    assert kinds(client.sent) == [Open, Begin, Attach]
    client.feed(Begin(remote_channel=0, next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    assert condition(client.written(End)[0]) == "amqp:frame-size-too-small"
    [ended] = client.told(events.Ended)
    assert isinstance(ended.error, SessionEnded)
    assert "frame-size-too-small" in str(ended.error.__cause__)


def test_an_open_beyond_what_every_peer_takes_is_refused() -> None:
    settings = ConnectionSettings(properties={"x": "y" * 600})
    client = Scripted(settings)
    with pytest.raises(LocalError, match="frame-size-too-small"):
        client.engine.open()
    client.flush()
    assert client.headers == []
    server = Scripted(settings, is_server=True)
    server.feed(HEADER, PEER)
    server.engine.open()  # Here the peer's limit is known.
    assert kinds(server.flush()) == [Open]


@pytest.mark.spec("T-CONN-010", "T-CONN-067")
def test_a_session_that_waited_is_given_up_if_there_is_no_channel_for_it() -> None:
    client = Scripted()
    client.engine.open()
    sessions = [client.engine.session() for _ in range(3)]
    for session in sessions:
        session.begin()
    client.feed(HEADER, Open(container_id="peer", channel_max=1))
    assert [frame.channel for frame in client.sent if type(frame.performative) is Begin] == [0, 1]
    assert sessions[2].state is SessionState.UNMAPPED
    [ended] = client.told(events.Ended)
    assert ended.session is sessions[2]
    assert isinstance(ended.error, SessionEnded)
    assert isinstance(ended.error.__cause__, LocalError)


@pytest.mark.spec("T-FRAME-019", "T-CONN-007")
@pytest.mark.parametrize(("ours", "theirs"), [(65_536, 512), (600, 4096), (512, 4_294_967_295)])
def test_frames_stay_within_what_both_ends_allow(ours: int, theirs: int) -> None:
    peer = Scripted(ConnectionSettings(max_frame_size=ours)).opened(max_frame_size=theirs)
    session = peer.begun()
    link = peer.attached(session, a_sender())
    peer.feed(flow(handle=0, delivery_count=0, link_credit=10))
    message = b"\x00\x53\x75\xb0\x00\x00\x07\xd0" + bytes(2000)
    link.send(message)
    frames = peer.flush()
    sizes = [len(encode_frame(frame.performative, 0, frame.payload)) for frame in frames]
    assert max(sizes) == min(ours, theirs)
    assert b"".join(frame.payload for frame in frames) == message


@pytest.mark.spec("T-ERR-016")
def test_a_performative_that_no_frame_can_hold_is_refused() -> None:
    peer = Scripted().opened(max_frame_size=512)
    large = peer.engine.session(SessionSettings(properties={"x": "y" * 600}))
    with pytest.raises(LocalError, match="amqp:frame-size-too-small: begin takes a frame of"):
        large.begin()
    assert peer.flush() == []
    assert (large.state, large.channel) == (SessionState.UNMAPPED, None)
    assert peer.begun().channel == 0


@pytest.mark.spec("T-FRAME-020")
def test_a_frame_above_our_limit_closes() -> None:
    peer = Scripted(ConnectionSettings(max_frame_size=1024)).opened()
    peer.feed((1024).to_bytes(4, "big") + b"\x02\x00\x00\x00")
    assert peer.written(Close) == []
    peer = Scripted(ConnectionSettings(max_frame_size=1024)).opened()
    peer.feed((1025).to_bytes(4, "big") + b"\x02\x00\x00\x00")
    assert condition(peer.written(Close)[0]) == "amqp:connection:framing-error"


@pytest.mark.spec("T-FRAME-022")
def test_a_frame_size_below_the_least_is_no_setting() -> None:
    with pytest.raises(ValueError, match="max_frame_size is 512 to"):
        ConnectionSettings(max_frame_size=511)


@pytest.mark.spec("T-FRAME-022")
@pytest.mark.parametrize("is_server", [True, False])
def test_an_open_with_a_frame_size_below_the_least_is_refused(is_server: bool) -> None:
    peer = Scripted(is_server=is_server)
    if not is_server:
        peer.engine.open()
    peer.feed(HEADER, Open(container_id="peer", max_frame_size=511))
    assert kinds(peer.sent) == [Open, Close]
    assert condition(peer.written(Close)[0]) == "amqp:invalid-field"
    assert peer.told(events.Opened) == []
    assert peer.engine.peer_max_frame_size == 512


@pytest.mark.spec("T-FRAME-018", "T-CONN-066")
def test_an_open_without_limits_sets_none() -> None:
    peer = Scripted(ConnectionSettings(max_frame_size=4_294_967_295, channel_max=65_535)).opened()
    assert peer.engine.peer_max_frame_size == 4_294_967_295
    assert peer.engine.channel_max == 65_535


# --- settings ---


@pytest.mark.parametrize(
    "setting",
    [
        {"max_frame_size": 1 << 32},
        {"channel_max": -1},
        {"channel_max": 65_536},
        {"idle_time_out": 0},
        {"assumed_idle_time_out": -1.0},
        {"close_time_out": -1},
        {"versions": ()},
    ],
)
def test_settings_of_a_connection_out_of_range(setting: dict[str, Any]) -> None:
    [name] = setting
    with pytest.raises(ValueError, match=name):
        ConnectionSettings(**setting)


@pytest.mark.parametrize(
    "setting",
    [
        {"incoming_window": 0},
        {"incoming_window": 1 << 31},
        {"outgoing_window": 0},
        {"handle_max": -1},
        {"handle_max": 1 << 32},
        {"next_outgoing_id": 1 << 32},
        {"next_delivery_id": -1},
    ],
)
def test_settings_of_a_session_out_of_range(setting: dict[str, Any]) -> None:
    [name] = setting
    with pytest.raises(ValueError, match=name):
        SessionSettings(**setting)


# --- what the opens agree on ---


@pytest.mark.spec("T-CONN-064")
@pytest.mark.parametrize(("asked", "expected"), [(None, "default"), ("wanted", "wanted")])
def test_a_server_has_a_host_for_who_names_none(asked: str | None, expected: str) -> None:
    server = Scripted(ConnectionSettings(hostname="default"), is_server=True).opened(hostname=asked)
    assert server.engine.agreement.hostname == expected


def tags(*names: str) -> list[IetfLanguageTag]:
    return [IetfLanguageTag(name) for name in names]


@pytest.mark.spec("T-CONN-069", "T-CONN-073")
@pytest.mark.parametrize("wanted", [None, []])
def test_texts_are_in_american_english_unless_asked_otherwise(wanted: list[IetfLanguageTag] | None) -> None:
    peer = Scripted(ConnectionSettings(locales=("fr",))).opened(incoming_locales=wanted)
    assert peer.engine.agreement.locale == "en-US"


@pytest.mark.spec("T-CONN-070")
@pytest.mark.parametrize("offered", [None, []])
def test_a_peer_that_offers_no_language_speaks_american_english(
    offered: list[IetfLanguageTag] | None,
) -> None:
    peer = Scripted(ConnectionSettings(locales=("fr", "de"))).opened(outgoing_locales=offered)
    assert peer.engine.agreement.remote_locale == "en-US"


@pytest.mark.spec("T-CONN-071")
@pytest.mark.parametrize(
    ("wanted", "expected"), [(["de", "fr"], "fr"), (["de"], "en-US"), (["de", "en-us", "fr"], "en-us")]
)
def test_texts_are_in_the_first_language_that_we_have(wanted: list[str], expected: str) -> None:
    peer = Scripted(ConnectionSettings(locales=("fr",))).opened(incoming_locales=tags(*wanted))
    assert peer.engine.agreement.locale == expected


@pytest.mark.spec("T-CONN-072")
@pytest.mark.parametrize(
    ("ours", "theirs"), [(("fr", "de"), ("de", "fr")), (("fr",), ("de",)), ((), ("de",)), (("fr",), ("fr",))]
)
def test_each_end_knows_the_language_of_the_other(ours: tuple[str, ...], theirs: tuple[str, ...]) -> None:
    joined = Joined(ConnectionSettings(locales=ours), ConnectionSettings(locales=theirs))
    joined.open()
    client, server = joined.client.agreement, joined.server.agreement
    assert client.remote_locale == server.locale
    assert server.remote_locale == client.locale


X, Y = Symbol("X"), Symbol("Y")


@pytest.mark.spec("T-CONN-074", "T-ERR-011")
@pytest.mark.parametrize("is_server", [True, False])
def test_a_peer_without_what_we_require_is_refused(is_server: bool) -> None:
    settings = ConnectionSettings(required_capabilities=(X,))
    peer = Scripted(settings, is_server=is_server).opened(offered_capabilities=[Y])
    assert condition(peer.written(Close)[0]) == "amqp:not-implemented"
    assert peer.written(Open)[0].desired_capabilities == [X]
    good = Scripted(settings, is_server=is_server).opened(offered_capabilities=[Y, X])
    assert good.written(Close) == []


@pytest.mark.spec("T-CONN-074")
def test_a_peer_with_two_faults_is_told_one() -> None:
    settings = ConnectionSettings(required_capabilities=(X,))
    peer = Scripted(settings, is_server=True).opened(idle_time_out=1)
    assert kinds(peer.sent) == [Open, Close]
    assert peer.engine.state is ConnectionState.DISCARDING  # Its close is still awaited.
    assert len(peer.told(events.Closed)) == 1


@pytest.mark.spec("T-CONN-075")
@pytest.mark.parametrize("offered", [None, [X]])
def test_an_extension_is_used_if_it_is_offered(offered: list[Symbol] | None) -> None:
    peer = Scripted(ConnectionSettings(desired_capabilities=(X, Y))).opened(offered_capabilities=offered)
    assert peer.engine.agreement.capabilities == set(offered or ())


@pytest.mark.spec("T-CONN-076")
def test_an_extension_that_nobody_desires_is_not_used() -> None:
    peer = Scripted(ConnectionSettings(offered_capabilities=(X, Y))).opened(desired_capabilities=[X])
    assert peer.engine.agreement.capabilities == {X}


# --- who handles which frame ---


@pytest.mark.spec("T-FRAME-003")
def test_open_and_close_stay_with_the_connection() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    before = list(peer.events)
    peer.feed(Close(), channel=0)
    assert [type(event) for event in peer.events[len(before) :]] == [events.Ended, events.Closed]
    assert session.remote is not None
    fresh = Scripted().opened()
    fresh.feed(Close())
    assert [type(event) for event in fresh.events] == [events.Opened, events.Closed]


@pytest.mark.spec("T-FRAME-001")
@pytest.mark.parametrize("chunk", [1, 7, 64, 100_000])
def test_frames_come_in_in_the_order_they_were_sent(chunk: int) -> None:
    joined = Joined()
    session = joined.open()
    link = a_sender()
    session.attach(link)
    joined.run()
    other = joined.peer_of(link)
    other.flow(50)
    joined.run()
    for number in range(50):
        link.send(BODY, tag=bytes([number]))
    octets = joined.client.data_to_send(0.0)
    got = []
    for start in range(0, len(octets), chunk):
        joined.server.receive(octets[start : start + chunk], 0.0)
        for event in joined.server.events():
            assert isinstance(event, events.Deliveries)
            got += [delivery.tag for delivery in event.deliveries]
    assert got == [bytes([number]) for number in range(50)]

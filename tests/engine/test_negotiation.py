"""The exchange of protocol headers by the engine (section 2.2)."""

from __future__ import annotations

import pytest

from amqpforge.engine import events
from amqpforge.engine.headers import HeaderRefused
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import ConnectionLost, LocalError, NegotiationFailed
from amqpforge_protocol.amqp_1_0 import (
    ConnectionState,
    ProtocolHeader,
)
from tests.engine.frames import Begin, Close, Open
from tests.engine.joined import HEADER, Joined, Scripted, state_of

V_1_1 = ProtocolHeader(0, 1, 1, 0)
V_1_2 = ProtocolHeader(0, 1, 2, 0)
TWO = ConnectionSettings(versions=(ProtocolHeader(), V_1_2))


def a_server(settings: ConnectionSettings | None = None) -> Scripted:
    return Scripted(settings, is_server=True)


def assert_rejected(server: Scripted, header: bytes) -> None:
    """The server has written nothing but this header, and lets the transport go once the peer has."""
    assert server.headers == [header]
    assert server.sent == []
    assert server.engine.state is ConnectionState.END
    assert server.engine.output_closed
    server.engine.end_of_input(server.now)
    assert server.engine.is_over
    assert server.flush() == []
    [closed] = server.told(events.Closed)
    assert isinstance(closed.error, NegotiationFailed)


@pytest.mark.spec("T-HDR-015")
def test_version_negotiation_example_1() -> None:
    joined = Joined()
    joined.client.open()
    joined.run()
    assert [octets[:8] for _, octets in joined.octets[:2]] == [HEADER, HEADER]
    assert joined.client.state is joined.server.state is ConnectionState.OPENED
    assert not joined.client.output_closed
    assert not joined.server.output_closed


@pytest.mark.spec("T-HDR-010", "T-HDR-016")
def test_version_negotiation_example_2() -> None:
    server = a_server()
    server.feed(b"AMQP\x00\x01\x01\x00")
    assert_rejected(server, b"AMQP\x00\x01\x00\x00")


@pytest.mark.spec("T-HDR-017")
def test_version_negotiation_example_3() -> None:
    server = a_server()
    server.feed(b"HTTP")
    assert_rejected(server, b"AMQP\x00\x01\x00\x00")
    assert "HTTP" in str(server.engine.error)


@pytest.mark.spec("T-HDR-013")
@pytest.mark.parametrize(
    "octets", [b"\x93\x1f\x00\xff\x07\x21\x60\x0a", b"A", b"AMqP", b"AMQQ\x00\x01\x00\x00", b"\x00"]
)
def test_what_is_no_header_gets_one(octets: bytes) -> None:
    server = a_server()
    server.feed(octets)
    if octets == b"A":  # That may become a header yet.
        assert server.headers == []
        server.feed(b"B")
    assert_rejected(server, HEADER)


@pytest.mark.spec("T-HDR-009")
@pytest.mark.parametrize("header", [ProtocolHeader(), V_1_2])
def test_a_supported_version_is_answered_with_itself(header: ProtocolHeader) -> None:
    server = a_server(TWO)
    server.feed(header.encode())
    assert server.headers == [header.encode()]
    assert server.engine.state is ConnectionState.HDR_EXCH
    server.feed(Open(container_id="peer"))
    assert len(server.told(events.Opened)) == 1


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        pytest.param(V_1_1, ProtocolHeader(), marks=pytest.mark.spec("T-HDR-011")),
        pytest.param(ProtocolHeader(0, 0, 9, 1), V_1_2, marks=pytest.mark.spec("T-HDR-012")),
        pytest.param(ProtocolHeader(0, 9, 9, 9), V_1_2, marks=pytest.mark.spec("T-HDR-010")),
    ],
)
def test_the_version_in_the_answer(asked: ProtocolHeader, answered: ProtocolHeader) -> None:
    server = a_server(TWO)
    server.feed(asked.encode())
    assert_rejected(server, answered.encode())


@pytest.mark.spec("T-HDR-006", "T-HDR-008")
def test_a_client_sends_the_version_it_prefers_at_once() -> None:
    client = Scripted(ConnectionSettings(versions=(V_1_2, ProtocolHeader())))
    client.engine.send_header()
    assert client.engine.data_to_send(0.0) == V_1_2.encode()
    with pytest.raises(LocalError):
        client.engine.send_header()
    assert client.engine.data_to_send(0.0) == b""


@pytest.mark.spec("T-HDR-004", "T-HDR-014")
def test_a_client_learns_which_version_to_ask_for() -> None:
    client = Scripted(ConnectionSettings(versions=(V_1_2,)))
    client.engine.open()
    client.flush()
    client.feed(HEADER, Open(container_id="peer"))
    assert client.engine.output_closed
    assert client.engine.data_to_send(0.0) == b""
    [closed] = client.told(events.Closed)
    assert closed.by_peer
    assert isinstance(closed.error, HeaderRefused)
    assert closed.error.sent == V_1_2
    assert closed.error.received == ProtocolHeader()
    for attempt in (client.engine.open, client.engine.close, client.engine.session().begin):
        with pytest.raises(LocalError):
            attempt()
    assert client.engine.data_to_send(0.0) == b""


@pytest.mark.spec("T-HDR-005")
def test_input_is_drained_behind_headers_that_differ() -> None:
    client = Scripted()
    client.engine.open()
    client.feed(V_1_1.encode(), Open(container_id="peer"), Close())
    told = list(client.events)
    assert not client.engine.is_over
    assert client.engine.wants_input
    client.feed(b"\xff" * 100_000)
    client.feed(Close())
    assert client.events == told
    client.engine.end_of_input(client.now)
    client.flush()
    assert client.engine.is_over
    assert client.events == told
    assert client.engine.next_deadline() is None


def test_draining_is_limited_in_time() -> None:
    client = Scripted(ConnectionSettings(close_time_out=5.0))
    client.engine.open()
    client.now = 100.0
    client.feed(V_1_1.encode(), Close())
    assert client.engine.next_deadline() == 105.0
    client.now = 104.9
    client.flush()
    assert not client.engine.is_over
    client.now = 105.0
    client.flush()
    assert client.engine.is_over
    assert client.engine.next_deadline() is None
    assert len(client.told(events.Closed)) == 1


@pytest.mark.spec("T-HDR-003")
def test_behind_the_headers_everything_is_in_their_version() -> None:
    peer = Scripted().opened()
    peer.feed(b"GET / HTTP/1.1\r\n\r\n")
    [close] = peer.written(Close)
    assert close.error is not None
    assert close.error.condition == "amqp:connection:framing-error"


@pytest.mark.spec("T-HDR-003")
@pytest.mark.parametrize(
    "header", [HEADER, b"AMQP\x03\x01\x00\x00", b"AMQP\x02\x00\x00\x00", b"AMQP\x00\x00\x09\x01"]
)
def test_a_second_header_is_no_frame(header: bytes) -> None:
    peer = Scripted().opened()
    peer.feed(header)
    [close] = peer.written(Close)
    assert close.error is not None
    assert close.error.condition == "amqp:connection:framing-error"


@pytest.mark.spec("T-HDR-007")
@pytest.mark.parametrize("is_early", [True, False])
def test_a_server_may_send_its_header_early(is_early: bool) -> None:
    server = a_server()
    if is_early:
        server.engine.send_header()
    server.flush()
    assert server.headers == [HEADER] * is_early
    server.feed(HEADER)
    assert server.headers == [HEADER]
    assert server.engine.state is ConnectionState.HDR_EXCH


def test_an_early_header_stands_for_the_answer() -> None:
    server = a_server()
    server.engine.send_header()
    server.feed(V_1_1.encode())
    assert_rejected(server, HEADER)


@pytest.mark.parametrize("is_server", [True, False])
@pytest.mark.parametrize("cut", range(9))
def test_a_header_may_be_cut_anywhere(cut: int, is_server: bool) -> None:
    peer = Scripted(is_server=is_server)
    if not is_server:
        peer.engine.open()
    peer.feed(HEADER[:cut])
    assert peer.engine.wants_input
    peer.feed(HEADER[cut:], Open(container_id="peer"))
    if is_server:
        peer.engine.open()
        peer.flush()
    assert peer.headers == [HEADER]
    assert peer.engine.state is ConnectionState.OPENED


@pytest.mark.parametrize("octets", [b"", b"AMQ", b"AMQP\x00\x01\x00"])
@pytest.mark.parametrize("is_server", [True, False])
def test_input_that_ends_inside_the_header(octets: bytes, is_server: bool) -> None:
    peer = Scripted(is_server=is_server)
    if not is_server:
        peer.engine.open()
    peer.feed(octets)
    peer.engine.end_of_input(0.0)
    peer.flush()
    [closed] = peer.told(events.Closed)
    assert isinstance(closed.error, ConnectionLost)
    assert "protocol header" in str(closed.error)
    assert peer.engine.is_over


def test_a_server_that_answers_by_hand_holds_the_open_until_its_header_is_out() -> None:
    server = a_server(ConnectionSettings(auto_answer=False))
    server.feed(HEADER, Open(container_id="peer"))
    assert server.headers == []
    assert server.engine.state is ConnectionState.HDR_RCVD
    assert not server.engine.wants_input
    assert server.told(events.Opened) == []
    server.engine.send_header()
    server.engine.read_on()
    server.flush()
    assert server.headers == [HEADER]
    assert len(server.told(events.Opened)) == 1
    server.engine.open()
    server.flush()
    assert state_of(server.engine) is ConnectionState.OPENED


def test_a_frame_other_than_open_cannot_wait_for_our_header() -> None:
    server = a_server(ConnectionSettings(auto_answer=False))
    server.feed(HEADER, Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    assert server.headers == [HEADER]
    assert [type(frame.performative) for frame in server.sent] == [Open, Close]


def test_a_server_that_answers_by_hand_refuses_a_version() -> None:
    server = a_server(ConnectionSettings(auto_answer=False))
    server.feed(V_1_1.encode(), Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    assert_rejected(server, HEADER)

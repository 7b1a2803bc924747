"""What an engine makes of faults, its own and a peer's, and of the errors that it is told (section 2.8)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import ConnectionClosed, ConnectionLost, EndpointClosed, LocalError, Redirect
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    ConnectionState,
    Frame,
    Limits,
    Rejected,
    Role,
    Source,
    Symbol,
    Target,
)
from tests.engine.frames import Attach, Begin, Close, Detach, Disposition, End, Error, Flow, Open, Transfer
from tests.engine.joined import BODY, HEADER, Scripted, a_receiver, a_sender

BEGIN = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)
EMPTY = b"\x00\x00\x00\x08\x02\x00\x00\x00"


def kinds(frames: list[Frame]) -> list[type]:
    return [type(frame.performative) for frame in frames]


def condition(frame: Any) -> str | None:
    return None if frame.error is None else str(frame.error.condition)


def frame(body: str, channel: int = 0) -> bytes:
    octets = bytes.fromhex(body)
    return (len(octets) + 8).to_bytes(4, "big") + b"\x02\x00" + channel.to_bytes(2, "big") + octets


# --- octets ---


@pytest.mark.spec("T-ERR-019")
@pytest.mark.parametrize(
    "octets",
    [
        b"\x00\x00\x00\x04\x02\x00\x00\x00",
        b"\x00\x00\x00\x00\x02\x00\x00\x00",
        b"\x00\x00\x00\x08\x01\x00\x00\x00",
        b"\x00\x00\x00\x08\x00\x00\x00\x00",
        b"\x00\x00\x00\x08\x03\x00\x00\x00",
        b"\x00\x00\x00\x08\x02\x01\x00\x00",
        b"\xff\xff\xff\xff\x02\x00\x00\x00",
    ],
)
def test_octets_that_are_no_frame(octets: bytes) -> None:
    peer = Scripted().opened()
    peer.feed(BEGIN, octets, EMPTY)
    assert len(peer.told(events.Begun)) == 1  # What came ahead of it counts.
    assert kinds(peer.sent) == [Open, Begin, Close]
    assert condition(peer.written(Close)[0]) == "amqp:connection:framing-error"


@pytest.mark.spec("T-ERR-007")
@pytest.mark.parametrize(
    "body",
    [
        "0053",  # Cut inside the descriptor.
        "005311",  # No fields.
        "005311c0ff04",  # Fewer fields than said.
        "005311c00401404040ff",
        "0053194040",  # No performative.
        "a10178",
        "40",
    ],
)
def test_a_frame_that_cannot_be_decoded(body: str) -> None:
    peer = Scripted().opened()
    peer.feed(BEGIN, frame(body), EMPTY)
    assert kinds(peer.sent) == [Open, Begin, Close]
    assert condition(peer.written(Close)[0]) == "amqp:decode-error"
    [closed] = peer.told(events.Closed)
    assert isinstance(closed.error, ConnectionClosed)
    assert not closed.by_peer


def test_a_frame_beyond_the_bounds_of_decoding() -> None:
    peer = Scripted(ConnectionSettings(limits=Limits(elements=3))).opened()
    peer.feed(Open(container_id="x", offered_capabilities=[Symbol("y")] * 50))
    assert condition(peer.written(Close)[0]) == "amqp:decode-error"


def test_a_frame_of_sasl_is_out_of_place() -> None:
    peer = Scripted().opened()
    peer.feed(b"\x00\x00\x00\x10\x02\x01\x00\x00\x00\x53\x44\xc0\x03\x01\x50\x00")
    assert condition(peer.written(Close)[0]) == "amqp:connection:framing-error"


@pytest.mark.parametrize("length", [0, 1, 299, 300, 5000])
@pytest.mark.parametrize("letter", ["x", "ü", "\U0001f407"])
def test_what_a_peer_is_told_fits_into_any_frame(length: int, letter: str) -> None:
    peer = Scripted(ConnectionSettings(max_frame_size=65_536)).opened(max_frame_size=512)
    peer.begun()
    attach = Attach(name=letter * length, handle=0, role=Role.RECEIVER, source=Source(), target=Target())
    peer.feed(attach)
    peer.feed(Attach(name="other", handle=0, role=Role.RECEIVER, source=Source(), target=Target()))
    [close] = peer.written(Close)
    assert condition(close) == "amqp:session:handle-in-use"
    assert len(close.encode()) <= 504


# --- our own faults ---


@pytest.mark.spec("T-ERR-004")
def test_an_answer_that_cannot_be_given_closes_with_an_internal_error() -> None:
    settings = ConnectionSettings(session=SessionSettings(properties={"x": "y" * 600}))
    peer = Scripted(settings).opened(max_frame_size=512)
    peer.feed(BEGIN, BEGIN)
    assert kinds(peer.sent) == [Open, Close]
    assert condition(peer.written(Close)[0]) == "amqp:internal-error"
    [closed] = peer.told(events.Closed)
    assert isinstance(closed.error, ConnectionClosed)
    assert isinstance(closed.error.__cause__, LocalError)
    assert peer.engine.state is ConnectionState.DISCARDING


@pytest.mark.spec("T-ERR-004")
def test_an_answer_that_cannot_be_encoded_closes_with_an_internal_error() -> None:
    settings = ConnectionSettings(session=SessionSettings(properties={"x": object()}))
    peer = Scripted(settings).opened()
    peer.feed(BEGIN)
    assert kinds(peer.sent) == [Open, Close]
    assert condition(peer.written(Close)[0]) == "amqp:internal-error"


def test_a_fault_of_a_peer_that_cannot_be_told_drops_the_transport() -> None:
    server = Scripted(ConnectionSettings(properties={"x": "y" * 600}), is_server=True)
    server.feed(HEADER, BEGIN)  # Our open does not fit before the peer's is known.
    assert server.headers == [HEADER]
    assert server.sent == []
    assert server.engine.is_over
    assert len(server.told(events.Closed)) == 1


def test_news_of_neighbours_goes_in_one_frame() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    peer.attached(session, a_receiver()).flow(10)
    for number in range(6):
        peer.feed((Transfer(handle=0, delivery_id=number, delivery_tag=bytes([number])), BODY))
    deliveries = [one for event in peer.told(events.Deliveries) for one in event.deliveries]
    for number in (0, 1, 2, 4, 5):
        deliveries[number].settle(Accepted())
    deliveries[3].settle(Rejected())
    told = [one.performative for one in peer.flush() if isinstance(one.performative, Disposition)]
    assert [(one.first, one.last) for one in told] == [(0, 2), (4, 5), (3, None)]


# --- what a peer tells ---


@pytest.mark.spec("T-ERR-018")
@pytest.mark.parametrize(
    ("error", "may_retry"),
    [
        (Error(condition="amqp:connection:forced"), True),
        (Error(condition="amqp:not-allowed"), False),
        (None, False),
    ],
)
def test_an_operator_who_closes_lets_us_come_again(error: Any, may_retry: bool) -> None:
    peer = Scripted().opened()
    peer.begun()
    peer.feed(Close(error=error))
    [closed], [ended] = peer.told(events.Closed), peer.told(events.Ended)
    assert (closed.error is None) is (error is None)
    if closed.error is not None:
        assert closed.error.may_retry is may_retry
        assert ended.error is not None
        assert ended.error.may_retry is may_retry  # Because that of the connection is.


@pytest.mark.spec("T-ERR-018")
def test_a_lost_transport_lets_us_come_again() -> None:
    peer = Scripted().opened()
    peer.engine.end_of_input(0.0)
    error = peer.engine.error
    assert isinstance(error, ConnectionLost)
    assert error.may_retry
    assert EndpointClosed("x", Error(condition="amqp:link:detach-forced")).may_retry
    assert not EndpointClosed("x").may_retry


@pytest.mark.spec("T-ERR-020")
def test_a_redirect_of_a_connection_is_offered() -> None:
    peer = Scripted().opened()
    info = {
        Symbol("hostname"): "broker.example",
        Symbol("network-host"): "10.0.0.7",
        Symbol("port"): 5673,
    }
    peer.feed(Close(error=Error(condition="amqp:connection:redirect", info=info)))
    [closed] = peer.told(events.Closed)
    assert closed.error is not None
    assert closed.error.redirect == Redirect("broker.example", "10.0.0.7", 5673)
    assert not closed.error.may_retry


@pytest.mark.spec("T-ERR-029")
def test_a_redirect_of_a_link_is_offered() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    link = peer.attached(session, a_sender())
    info = {
        Symbol("hostname"): "broker.example",
        Symbol("network-host"): "10.0.0.7",
        Symbol("port"): 5673,
        Symbol("address"): "queue",
    }
    peer.feed(Detach(handle=0, closed=True, error=Error(condition="amqp:link:redirect", info=info)))
    assert link.error is not None
    assert link.error.redirect == Redirect("broker.example", "10.0.0.7", 5673, "queue")


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (None, Redirect()),
        ({}, Redirect()),
        ({Symbol("port"): 0, Symbol("hostname"): "", Symbol("network-host"): 7}, Redirect()),
        ({Symbol("port"): 65_536}, Redirect()),
        ({Symbol("port"): True, Symbol("address"): b"x"}, Redirect()),
        ({Symbol("port"): "5672", Symbol("address"): "x"}, Redirect(address="x")),
    ],
)
def test_what_a_redirect_says_wrongly_is_not_said(info: Any, expected: Redirect) -> None:
    assert Redirect.of(Error(condition="amqp:connection:redirect", info=info)) == expected


def test_another_error_is_no_redirect() -> None:
    info = {Symbol("hostname"): "broker.example"}
    assert Redirect.of(Error(condition="amqp:not-found", info=info)) is None
    assert Redirect.of(None) is None
    assert EndpointClosed("x").redirect is None


@pytest.mark.spec("T-ERR-010")
def test_a_field_with_a_wrong_value_ends_the_session() -> None:
    peer = Scripted().opened()
    session = peer.begun()
    peer.feed(Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1, link_credit=5))
    assert condition(peer.written(End)[0]) == "amqp:invalid-field"
    assert session.error is not None
    assert session.error.condition == "amqp:invalid-field"


def test_a_handle_beyond_ours_closes_the_connection() -> None:
    peer = Scripted().opened()
    peer.begun(SessionSettings(handle_max=3))
    peer.feed(Attach(name="a", handle=3, role=Role.RECEIVER, source=Source(), target=Target()))
    assert peer.written(Close) == []
    peer.feed(Attach(name="b", handle=4, role=Role.RECEIVER, source=Source(), target=Target()))
    assert condition(peer.written(Close)[0]) == "amqp:connection:framing-error"


@pytest.mark.spec("T-ERR-002")
def test_a_condition_that_nobody_knows_is_passed_on() -> None:
    peer = Scripted().opened()
    peer.begun()
    peer.feed(
        End(error=Error(condition="example:out-of-coffee")), Close(error=Error(condition="example:closed"))
    )
    [ended], [closed] = peer.told(events.Ended), peer.told(events.Closed)
    assert ended.error is not None
    assert ended.error.condition == "example:out-of-coffee"
    assert closed.error is not None
    assert closed.error.condition == "example:closed"


@pytest.mark.spec("T-ERR-003")
def test_nothing_hangs_on_a_description() -> None:
    outcomes = []
    for text in (None, "", "amqp:connection:redirect", "x" * 5000):
        peer = Scripted().opened()
        peer.begun()
        error = Error(condition="amqp:connection:forced", description=text)
        peer.feed(End(error=error), Close(error=error))
        told = [type(event) for event in peer.events]
        closed = peer.engine.error
        assert closed is not None
        outcomes.append((told, kinds(peer.sent), closed.condition, closed.may_retry, closed.redirect))
    assert all(outcome == outcomes[0] for outcome in outcomes)

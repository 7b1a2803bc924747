"""The stack of layers: protocol headers, SASL, TLS by header, and the way to AMQP (sections 2.2 and 5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge.engine import sasl_layer
from amqpforge.engine.connection import Connection
from amqpforge.engine.container import Container
from amqpforge.engine.events import Opened
from amqpforge.engine.headers import HeaderRefused
from amqpforge.engine.layers import (
    MOST_HELD,
    ClientSecurity,
    ClientStack,
    ServerSecurity,
    ServerStack,
    Stack,
)
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import AuthenticationFailed, LocalError, NegotiationFailed
from amqpforge.sasl import Authenticator, ClientMechanism, Credentials, SystemFailure, UserStore
from amqpforge_protocol.amqp_1_0 import ConnectionState, Open, ProtocolHeader, SaslCode, encode_frame
from tests.engine.layer_peers import (
    AMQP,
    SASL,
    TLS,
    USERS,
    Recorder,
    challenge,
    failures,
    init,
    join,
    mechanisms,
    outcome,
    performatives,
    response,
    work_off,
)

OPEN = encode_frame(Open(container_id="x"))
PLAIN = b"\0u\0p"
USER = Credentials(username="u", password="p")


def client(
    credentials: Credentials | None = USER, *, is_private: bool = True, **security: Any
) -> ClientStack[Recorder]:
    return ClientStack(Recorder(), ClientSecurity(credentials=credentials, **security), is_private=is_private)


def server(
    authenticator: Authenticator | None = USERS,
    *,
    is_private: bool = True,
    peer_name: str | None = None,
    **security: Any,
) -> ServerStack[Recorder]:
    wanted = ServerSecurity(authenticator=authenticator, **security)
    return ServerStack(Recorder(), wanted, is_private=is_private, peer_name=peer_name)


def is_passed_through(stack: Stack[Recorder]) -> bool:
    upper = stack.connection
    return (stack.receive, stack.events, stack.data_to_send, stack.next_deadline, stack.end_of_input) == (
        upper.receive,
        upper.events,
        upper.data_to_send,
        upper.next_deadline,
        upper.end_of_input,
    )


def assert_refused(stack: Stack[Recorder], kind: type[Exception], text: str) -> None:
    """The failure is told once, nothing more is written, and input is thrown away until its end."""
    error = stack.error
    assert isinstance(error, kind)
    assert text in str(error)
    assert failures(stack) == [error]
    assert failures(stack) == []
    assert stack.work is None
    assert not stack.wants_tls
    stack.data_to_send(0.0)
    assert stack.output_closed
    assert not stack.is_over
    stack.receive(AMQP + OPEN, 0.0)
    assert stack.data_to_send(0.0) == b""
    assert stack.connection.received == b""
    stack.end_of_input(0.0)
    assert stack.is_over
    assert failures(stack) == []


# ---- a client ----


@pytest.mark.spec("T-HDR-006")
@pytest.mark.parametrize(
    ("stack", "header"),
    [(client(), SASL), (client(tls="header"), TLS), (client(None, tls="header"), TLS)],
)
def test_the_clients_first_header_goes_out_at_once_and_nothing_with_it(
    stack: ClientStack[Recorder], header: bytes
) -> None:
    stack.connection.sending = AMQP
    assert stack.data_to_send(0.0) == header
    assert stack.data_to_send(0.0) == b""
    assert stack.next_deadline() is None
    assert not stack.output_closed
    assert not stack.is_over
    assert stack.wants_input
    assert stack.events() == []


def test_a_client_without_layers_speaks_to_the_connection() -> None:
    stack = client(None)
    assert is_passed_through(stack)
    stack.end_of_input(0.0)
    assert stack.connection.has_ended


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_client_authenticates_and_hands_over(size: int) -> None:
    stack = client(hostname="example.org")
    stack.data_to_send(0.0)
    stream = SASL + mechanisms("ANONYMOUS", "PLAIN")
    for start in range(0, len(stream), size):
        stack.receive(stream[start : start + size], 0.0)
    (sent,) = performatives(stack.data_to_send(0.0))
    assert (sent.mechanism, sent.initial_response, sent.hostname) == ("PLAIN", PLAIN, "example.org")
    assert not is_passed_through(stack)
    stack.connection.sending = AMQP + OPEN
    assert stack.data_to_send(0.0) == b""
    stream = outcome() + AMQP + OPEN
    for start in range(0, len(stream), size):
        stack.receive(stream[start : start + size], 5.0)
    assert stack.connection.received == AMQP + OPEN
    assert set(stack.connection.times) == {5.0}
    assert is_passed_through(stack)
    assert stack.data_to_send(0.0) == AMQP + OPEN
    assert stack.next_deadline() == 7.0
    assert stack.sasl is not None
    assert stack.sasl.mechanism == "PLAIN"
    for name in ("output_closed", "is_over"):
        assert getattr(stack, name) is False
        setattr(stack.connection, name, True)
        assert getattr(stack, name) is True
    stack.connection.wants_input = False
    assert not stack.wants_input


@pytest.mark.spec("T-HDR-004", "T-HDR-005")
@pytest.mark.parametrize(
    ("answered", "text"),
    [
        (AMQP, "SASL 1.0.0 was asked for, but the peer is an AMQP 1.0 peer without a security layer"),
        (TLS, "an AMQP 1.0 peer that wants TLS first"),
        (b"AMQP\x00\x00\x09\x01", "an AMQP 0-9-1 peer"),
        (b"HTTP/1.1 400 Bad Request\r\n", "an HTTP server"),
        (b"HT", "does not speak AMQP: it begins with the octets 48 54"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "a TLS peer"),
    ],
)
def test_another_header_is_the_end(answered: bytes, text: str) -> None:
    stack = client()
    stack.receive(answered, 0.0)
    assert_refused(stack, HeaderRefused, text)


@pytest.mark.spec("T-HDR-014")
def test_a_refused_client_learns_which_version_to_ask_for_next() -> None:
    stack = client()
    stack.receive(b"AMQP\x03\x00\x09\x02", 0.0)
    assert isinstance(stack.error, HeaderRefused)
    assert stack.error.received == ProtocolHeader(3, 0, 9, 2)


@pytest.mark.parametrize(
    ("octets", "kind", "text"),
    [
        (b"", NegotiationFailed, "one that sends nothing"),
        (b"AMQP\x03", NegotiationFailed, "stopped inside its protocol header"),
        (SASL, AuthenticationFailed, "ended the connection inside the SASL exchange"),
        (
            SASL + mechanisms("PLAIN"),
            AuthenticationFailed,
            "exchange with PLAIN: the credentials may be wrong",
        ),
    ],
)
def test_a_server_that_goes_away(octets: bytes, kind: type[Exception], text: str) -> None:
    stack = client()
    stack.receive(octets, 0.0)
    stack.end_of_input(0.0)
    assert isinstance(stack.error, kind)
    assert text in str(stack.error)
    assert failures(stack) == [stack.error]
    assert stack.is_over


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (SaslCode.AUTH, "the server refused the credentials (mechanism PLAIN)"),
        (SaslCode.SYS, "system failed"),
        (SaslCode.SYS_PERM, "until somebody mends"),
        (SaslCode.SYS_TEMP, "try again later"),
    ],
)
def test_an_outcome_without_success(code: SaslCode, text: str) -> None:
    stack = client()
    stack.receive(SASL + mechanisms("PLAIN") + outcome(code) + AMQP, 0.0)
    assert getattr(stack.error, "code", None) is code
    assert_refused(stack, AuthenticationFailed, text)


def test_plain_is_not_sent_where_others_can_read_it() -> None:
    stack = client(is_private=False)
    stack.receive(SASL + mechanisms("PLAIN"), 0.0)
    assert stack.data_to_send(0.0) == SASL
    assert_refused(stack, LocalError, "use TLS (amqps), or set allow_insecure_plain")


MALFORMED = [
    (OPEN, "a frame of type 0 came inside the SASL exchange"),
    (AMQP, "a protocol header inside the SASL exchange"),
    (b"\0\0\2\1\2\1\0\0", "a SASL frame of 513 octets; at most 512"),
    (b"\0\0\0\4\2\1\0\0", "malformed: a frame of 4 octets"),
    (b"\0\0\0\x08\1\1\0\0", "malformed: a DOFF of 1"),
    (b"\0\0\0\x08\2\1\0\0", "SASL frame of the peer is malformed"),
    (b"\0\0\0\x0c\2\1\0\0\0\x53\x10\x45", "SASL frame of the peer is malformed"),
    (b"\0\0\0\x0c\2\7\0\0\0\x53\x40\x45", "a frame of type 7"),
    (encode_frame(None), "a frame of type 0"),
]


@pytest.mark.parametrize(("octets", "text"), MALFORMED)
@pytest.mark.parametrize("front", [SASL, SASL + mechanisms("PLAIN")])
def test_a_server_that_breaks_the_exchange(front: bytes, octets: bytes, text: str) -> None:
    stack = client()
    stack.receive(front + octets, 0.0)
    assert_refused(stack, AuthenticationFailed, text)


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (challenge(b""), "the server sent sasl-challenge where it must not"),
        (outcome(), "the server sent sasl-outcome where it must not"),
        (outcome(SaslCode.SYS_TEMP), "try again later"),
        (response(b""), "the server sent sasl-response where it must not"),
        (mechanisms("PLAIN") + mechanisms("PLAIN"), "the server sent sasl-mechanisms where it must not"),
        (mechanisms("PLAIN") + challenge(b"why"), "a challenge of 3 octets, and PLAIN has none"),
        (mechanisms("PLAIN") + init("PLAIN"), "the server sent sasl-init where it must not"),
        (mechanisms("GSSAPI"), "no SASL mechanism in common; the server offers GSSAPI"),
        (mechanisms("SCRAM-SHA-1") + outcome(), "without the proof that SCRAM-SHA-1 asks of it"),
    ],
)
def test_a_server_that_sends_the_wrong_frame(octets: bytes, text: str) -> None:
    stack = client()
    stack.receive(SASL + octets, 0.0)
    assert_refused(stack, AuthenticationFailed, text)


def test_the_number_of_challenges_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(ClientMechanism):
        name = "ENDLESS"

        def start(self) -> bytes:
            return b""

        def step(self, challenge: bytes) -> bytes:
            return challenge

    monkeypatch.setattr(sasl_layer, "choose", lambda *_, **__: Endless())
    stack = client()
    stack.receive(SASL + mechanisms("ENDLESS"), 0.0)
    for _ in range(16):
        assert stack.error is None
        stack.receive(challenge(b""), 0.0)
    assert_refused(stack, AuthenticationFailed, "does not end the SASL exchange after 16 frames")


def scram_challenge(stack: ClientStack[Recorder], iterations: int = 4096) -> bytes:
    (sent,) = performatives(stack.data_to_send(0.0))
    nonce = sent.initial_response.rpartition(b"r=")[2]
    return challenge(b"r=" + nonce + b"xyz,s=QSXC,i=%d" % iterations)


def test_heavy_work_is_for_the_driver() -> None:
    stack = client()
    stack.data_to_send(0.0)
    stack.receive(SASL + mechanisms("SCRAM-SHA-256", "PLAIN"), 0.0)
    stack.receive(scram_challenge(stack) + outcome()[:5], 0.0)
    work = stack.work
    assert work is not None
    assert stack.data_to_send(0.0) == b""
    assert not stack.wants_input
    stack.resume(work.run(), 0.0)
    assert stack.work is None
    assert stack.wants_input
    (sent,) = performatives(stack.data_to_send(0.0))
    assert sent.response.startswith(b"c=biws,r=")
    stack.receive(outcome()[5:], 0.0)
    assert_refused(stack, AuthenticationFailed, "it may not know the password")


def test_work_that_ends_after_the_layer_does_nothing() -> None:
    stack = client()
    stack.data_to_send(0.0)
    stack.receive(SASL + mechanisms("SCRAM-SHA-256"), 0.0)
    stack.receive(scram_challenge(stack), 0.0)
    work = stack.work
    assert work is not None
    stack.end_of_input(0.0)
    assert stack.work is None
    stack.resume(work.run(), 0.0)
    assert stack.data_to_send(0.0) == b""
    assert failures(stack) == [stack.error]


def test_too_many_iterations_fail_before_any_work() -> None:
    stack = client()
    stack.data_to_send(0.0)
    stack.receive(SASL + mechanisms("SCRAM-SHA-256"), 0.0)
    stack.receive(scram_challenge(stack, 2_000_000_000), 0.0)
    assert stack.work is None
    assert_refused(stack, AuthenticationFailed, "2000000000 iterations")


def test_a_sasl_frame_is_not_larger_than_the_peer_has_to_take() -> None:
    token = Credentials(token=lambda: "t" * 600)
    stack = client(token)
    stack.data_to_send(0.0)
    stack.receive(SASL + mechanisms("OAUTHBEARER"), 0.0)
    work_off(stack)
    assert stack.data_to_send(0.0) == b""
    assert_refused(
        stack, LocalError, "and SASL frames have at most 512 (section 5.3.1): set max_sasl_frame_size"
    )
    stack = client(token, max_sasl_frame_size=4096)
    stack.data_to_send(0.0)
    stack.receive(SASL + mechanisms("OAUTHBEARER"), 0.0)
    work_off(stack)
    assert len(stack.data_to_send(0.0)) > 600


# ---- a server ----


def test_a_server_without_layers_speaks_to_the_connection() -> None:
    assert is_passed_through(server(None))


def test_a_server_waits_for_the_clients_header() -> None:
    stack = server()
    assert stack.data_to_send(0.0) == b""
    stack.receive(SASL, 0.0)
    octets = stack.data_to_send(0.0)
    assert octets.startswith(SASL)
    (sent,) = performatives(octets[8:])
    assert sent.sasl_server_mechanisms == ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"]


@pytest.mark.spec("T-HDR-019", "T-HDR-021")
def test_plain_amqp_is_answered_with_sasl_where_that_is_compulsory() -> None:
    stack = server()
    stack.receive(AMQP, 0.0)
    assert stack.output_closed
    assert stack.data_to_send(0.0) == SASL
    assert_refused(stack, NegotiationFailed, "without a security layer, and accepted is only SASL")


@pytest.mark.spec("T-HDR-019", "T-HDR-020")
def test_where_sasl_or_tls_would_do_one_of_them_is_named() -> None:
    stack = server(tls="offered")
    stack.receive(AMQP, 0.0)
    assert stack.data_to_send(0.0) == SASL
    assert_refused(stack, NegotiationFailed, "accepted is only SASL, TLS")


@pytest.mark.spec("T-HDR-010")
def test_a_version_of_sasl_that_is_not_supported() -> None:
    stack = server()
    stack.receive(b"AMQP\x03\x09\x09\x09", 0.0)
    assert stack.data_to_send(0.0) == SASL
    assert_refused(stack, NegotiationFailed, "protocol id 3, version 9.9.9")


@pytest.mark.spec("T-HDR-013")
@pytest.mark.parametrize(
    "octets", [b"HTTP", b"G", b"\x16\x03\x01\x02\x00\x01\x00\x01", b"\x93\x11\x07\xff\0\0\0\0"]
)
def test_garbage_is_answered_with_a_header_at_its_first_octets(octets: bytes) -> None:
    stack = server()
    stack.receive(octets, 0.0)
    assert stack.data_to_send(0.0) == SASL
    assert_refused(stack, NegotiationFailed, "the client is ")


def test_a_client_that_goes_away_inside_its_header() -> None:
    stack = server()
    stack.receive(SASL[:5], 0.0)
    stack.end_of_input(0.0)
    assert isinstance(stack.error, NegotiationFailed)
    assert stack.is_over


@pytest.mark.parametrize("header", [AMQP, b"AMQP\x00\x00\x09\x01"])
def test_plain_amqp_of_any_version_is_the_connections_concern(header: bytes) -> None:
    stack = server(sasl_required=False)
    stack.receive(header[:6], 1.0)
    assert not is_passed_through(stack)
    stack.receive(header[6:] + OPEN, 2.0)
    assert is_passed_through(stack)
    assert stack.connection.received == header + OPEN
    assert stack.sasl is None


def test_sasl_may_be_used_where_it_is_not_required() -> None:
    stack = server(sasl_required=False)
    stack.receive(SASL, 0.0)
    assert stack.data_to_send(0.0).startswith(SASL)


@pytest.mark.parametrize("size", [1, 1000])
def test_a_client_that_does_not_wait_is_served(size: int) -> None:
    stack = server()
    stream = SASL + init("PLAIN", PLAIN, "example.org") + AMQP + OPEN
    for start in range(0, len(stream), size):
        stack.receive(stream[start : start + size], 3.0)
    assert stack.work is not None
    assert stack.connection.received == b""
    work_off(stack)
    assert stack.connection.received == AMQP + OPEN
    stack.connection.sending = AMQP
    octets = stack.data_to_send(0.0)
    assert octets.startswith(SASL)
    assert octets.endswith(AMQP)
    assert [type(said).__name__ for said in performatives(octets[8:-8])] == ["SaslMechanisms", "SaslOutcome"]
    assert is_passed_through(stack)
    assert stack.sasl is not None
    assert stack.sasl.mechanism == "PLAIN"
    assert getattr(stack.sasl, "identity", None) == "u"
    assert getattr(stack.sasl, "hostname", None) == "example.org"


def test_a_mechanism_without_an_initial_response_is_asked_for_one() -> None:
    stack = server()
    stack.receive(SASL, 0.0)
    stack.data_to_send(0.0)
    stack.receive(init("PLAIN"), 0.0)
    (asked,) = performatives(stack.data_to_send(0.0))
    assert asked.challenge == b""
    stack.receive(response(PLAIN), 0.0)
    work_off(stack)
    (told,) = performatives(stack.data_to_send(0.0))
    assert told.code is SaslCode.OK


def outcome_of(stack: ServerStack[Recorder], octets: bytes) -> SaslCode:
    stack.receive(SASL, 0.0)
    stack.data_to_send(0.0)
    stack.receive(octets, 0.0)
    work_off(stack)
    (told,) = performatives(stack.data_to_send(0.0))
    assert told.additional_data is None
    code = told.code
    assert isinstance(code, SaslCode)
    return code


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (init("PLAIN", b"\0u\0wrong"), "the user does not exist, or what proves it is wrong"),
        (init("PLAIN", b"\0nobody\0p"), "the user does not exist, or what proves it is wrong"),
        (init("PLAIN", b"junk"), "the PLAIN message is not three parts"),
        (init("GSSAPI", b""), "the client chose 'GSSAPI', which was not offered"),
        (init("X" * 300, b""), f"the client chose '{'X' * 32}', which"),
        (response(b""), "the client sent sasl-response where it must not"),
        (outcome(), "the client sent sasl-outcome where it must not"),
        (init("SCRAM-SHA-1", b"n,,n=u,r=" + b"x" * 450), "sasl-challenge takes a frame of"),
        *MALFORMED,
    ],
)
def test_a_client_that_fails_is_told_so_and_no_more(octets: bytes, text: str) -> None:
    stack = server()
    assert outcome_of(stack, octets) is SaslCode.AUTH
    assert_refused(stack, Exception, text)


def test_a_client_cannot_choose_twice() -> None:
    stack = server(UserStore({"u": "p"}, iterations=4096, mechanisms=["SCRAM-SHA-1"]))
    stack.receive(SASL + init("SCRAM-SHA-1", b"n,,n=u,r=abc"), 0.0)
    work_off(stack)
    stack.receive(init("SCRAM-SHA-1", b"n,,n=u,r=abc"), 0.0)
    assert_refused(stack, AuthenticationFailed, "the client sent sasl-init where it must not")


@pytest.mark.parametrize(
    ("is_temporary", "code"), [(None, SaslCode.SYS), (True, SaslCode.SYS_TEMP), (False, SaslCode.SYS_PERM)]
)
def test_a_system_that_fails_does_not_speak_of_credentials(is_temporary: bool | None, code: SaslCode) -> None:
    class Away(Authenticator):
        mechanisms = ("PLAIN",)

        def check_password(self, username: str, password: str) -> str | None:
            raise SystemFailure("the directory is away", is_temporary)

    stack = server(Away())
    assert outcome_of(stack, init("PLAIN", PLAIN)) is code
    assert_refused(stack, SystemFailure, "the directory is away")


def test_an_error_of_the_authenticator_fails_the_exchange_only() -> None:
    class Broken(Authenticator):
        mechanisms = ("PLAIN",)

        def check_password(self, username: str, password: str) -> str | None:
            raise KeyError(password)

    stack = server(Broken())
    assert outcome_of(stack, init("PLAIN", b"\0u\0tiptopsecret")) is SaslCode.SYS
    assert "tiptopsecret" not in str(stack.error)
    assert_refused(stack, AuthenticationFailed, "the check of a password failed with KeyError")


def test_what_is_sent_ahead_of_the_outcome_is_bounded() -> None:
    stack = server()
    stack.receive(SASL + init("PLAIN", PLAIN), 0.0)
    assert stack.work is not None
    stack.receive(bytes(MOST_HELD), 0.0)
    assert stack.error is None
    stack.receive(b"\0", 0.0)
    assert_refused(stack, NegotiationFailed, "more than 65536 octets ahead")


def test_large_octets_behind_the_outcome_are_no_matter() -> None:
    stack = client()
    stack.receive(SASL + mechanisms("PLAIN") + outcome() + bytes(3 * MOST_HELD), 0.0)
    assert len(stack.connection.received) == 3 * MOST_HELD


@pytest.mark.parametrize(
    ("is_private", "peer_name", "names"),
    [
        (False, None, ["SCRAM-SHA-1"]),
        (True, None, ["PLAIN", "SCRAM-SHA-1"]),
        (True, "u", ["EXTERNAL", "PLAIN"]),
    ],
)
def test_what_is_offered_depends_on_the_transport(
    is_private: bool, peer_name: str | None, names: list[str]
) -> None:
    users = UserStore(mechanisms=["EXTERNAL", "PLAIN", "SCRAM-SHA-1"])
    stack = server(users, is_private=is_private, peer_name=peer_name)
    stack.receive(SASL, 0.0)
    (sent,) = performatives(stack.data_to_send(0.0)[8:])
    assert sent.sasl_server_mechanisms[: len(names)] == names


def test_a_client_to_whom_nothing_can_be_offered() -> None:
    stack = server(UserStore(mechanisms=["EXTERNAL"]), is_private=True)
    assert_refused(
        stack, AuthenticationFailed, "those of the authenticator ask for TLS, or for a certificate"
    )


def test_external_by_the_certificate() -> None:
    stack = server(UserStore({"u": "p"}, iterations=4096, mechanisms=["EXTERNAL"]), peer_name="u")
    assert outcome_of(stack, init("EXTERNAL", b"")) is SaslCode.OK
    assert getattr(stack.sasl, "identity", None) == "u"


# ---- TLS by a protocol header ----


def test_tls_then_sasl_then_amqp() -> None:
    one, other = client(is_private=False, tls="header"), server(is_private=False, tls="required")
    join(one, other)
    assert one.wants_tls
    assert other.wants_tls
    assert not one.wants_input
    assert not other.wants_input
    one.tls_established()
    other.tls_established()
    assert one.is_private
    assert other.is_private
    join(one, other)
    assert is_passed_through(one)
    assert is_passed_through(other)
    assert other.sasl is not None
    assert getattr(other.sasl, "identity", None) == "u"


def test_tls_then_amqp() -> None:
    one, other = client(None, tls="header"), server(None, tls="required")
    join(one, other)
    other.tls_established()
    one.tls_established()
    assert is_passed_through(one)
    assert is_passed_through(other)


@pytest.mark.spec("T-HDR-019")
@pytest.mark.parametrize("header", [AMQP, SASL])
def test_another_layer_is_answered_with_tls_where_that_is_compulsory(header: bytes) -> None:
    stack = server(tls="required")
    stack.receive(header, 0.0)
    assert stack.data_to_send(0.0) == TLS
    assert_refused(stack, NegotiationFailed, "accepted is only TLS")


def test_tls_can_be_offered_beside_plain_amqp() -> None:
    stack = server(None, tls="offered")
    stack.receive(AMQP, 0.0)
    assert is_passed_through(stack)
    stack = server(None, tls="offered")
    stack.receive(TLS, 0.0)
    assert stack.wants_tls


def test_a_second_layer_of_tls_is_refused() -> None:
    stack = server(tls="required")
    stack.receive(TLS, 0.0)
    stack.data_to_send(0.0)
    stack.tls_established()
    stack.receive(TLS, 0.0)
    assert stack.data_to_send(0.0) == SASL
    assert_refused(stack, NegotiationFailed, "wants TLS first, and accepted is only SASL")


def test_the_certificate_counts_once_tls_is_there() -> None:
    users = UserStore({"u": "p"}, iterations=4096, mechanisms=["EXTERNAL"])
    stack = server(users, is_private=False, tls="required")
    stack.receive(TLS, 0.0)
    stack.data_to_send(0.0)
    stack.tls_established("u")
    assert outcome_of(stack, init("EXTERNAL", b"")) is SaslCode.OK


@pytest.mark.parametrize("stack", [client(tls="header"), server(tls="required")])
def test_octets_behind_the_tls_header_never_become_amqp(stack: Stack[Recorder]) -> None:
    stack.receive(TLS + SASL, 0.0)
    assert stack.wants_tls
    with pytest.raises(LocalError, match="8 octets belong to TLS"):
        stack.tls_established()
    stack.receive(b"more", 0.0)
    assert stack.octets_for_tls() == SASL + b"more"
    assert stack.octets_for_tls() == b""
    stack.data_to_send(0.0)
    stack.tls_established()
    assert stack.error is None
    assert stack.sasl is None
    with pytest.raises(LocalError, match="not asked for"):
        stack.tls_established()


def test_octets_for_tls_are_bounded() -> None:
    stack = server(tls="required")
    stack.receive(TLS + bytes(MOST_HELD), 0.0)
    stack.receive(b"\0", 0.0)
    assert_refused(stack, NegotiationFailed, "octets ahead of our answer")


def test_a_peer_that_goes_away_before_tls() -> None:
    stack = client(tls="header")
    stack.receive(TLS, 0.0)
    stack.end_of_input(0.0)
    assert isinstance(stack.error, NegotiationFailed)
    assert "where TLS was to begin" in str(stack.error)
    assert not stack.wants_tls


# ---- two stacks ----


def connections() -> tuple[Connection, Connection]:
    one = Connection(ConnectionSettings(), Container("client"))
    other = Connection(ConnectionSettings(), Container("server"), is_server=True)
    one.open()
    return one, other


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
@pytest.mark.parametrize(
    "mechanism",
    ["ANONYMOUS", "PLAIN", "EXTERNAL", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512", "XOAUTH2"],
)
def test_two_connections_open_through_their_layers(mechanism: str, size: int) -> None:
    class Users(UserStore):
        def check_token(self, token: str, username: str) -> str | None:
            return username if token == "good" else None

    users = Users({"u": "p"}, iterations=4096, mechanisms=[mechanism])
    given = Credentials(
        username="u", password="p", token=lambda: "good", external=True, mechanisms=(mechanism,)
    )
    upper, lower = connections()
    one = ClientStack(upper, ClientSecurity(credentials=given), is_private=True)
    other = ServerStack(lower, ServerSecurity(authenticator=users), is_private=True, peer_name="u")
    join(one, other, size)
    assert [type(event) for event in other.events()] == [Opened]
    lower.open()
    join(one, other, size)
    assert [type(event) for event in one.events()] == [Opened]
    assert upper.state is lower.state is ConnectionState.OPENED
    assert one.error is other.error is None
    assert getattr(other.sasl, "identity", None) == ("anonymous" if mechanism == "ANONYMOUS" else "u")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_wrong_credentials_fail_on_both_sides(mechanism: str) -> None:
    users = UserStore({"u": "p"}, iterations=4096, mechanisms=[mechanism])
    given = Credentials(username="u", password="x", token=lambda: "bad", mechanisms=(mechanism,))
    one = ClientStack(Recorder(), ClientSecurity(credentials=given), is_private=True)
    other = ServerStack(Recorder(), ServerSecurity(authenticator=users), is_private=True)
    join(one, other)
    assert getattr(one.error, "code", None) is SaslCode.AUTH
    assert str(one.error).startswith(f"the server refused the credentials (mechanism {mechanism})")
    assert ("status invalid_token" in str(one.error)) == (mechanism == "OAUTHBEARER")
    assert isinstance(other.error, AuthenticationFailed)
    assert one.connection.received == other.connection.received == b""


pieces = st.one_of(
    st.binary(max_size=24),
    st.sampled_from(
        [
            AMQP,
            SASL,
            TLS,
            OPEN,
            mechanisms("PLAIN", "SCRAM-SHA-256"),
            mechanisms("SCRAM-SHA-256"),
            init("PLAIN", PLAIN),
            init("PLAIN"),
            init("SCRAM-SHA-256", b"n,,n=u,r=abc"),
            challenge(b"r=abc,s=QSXC,i=4096"),
            response(PLAIN),
            response(b"c=biws,r=abc,p=QSXC"),
            outcome(),
            outcome(SaslCode.AUTH),
            bytes(700),
        ]
    ),
)


@given(st.sampled_from(["client", "server"]), st.lists(pieces, max_size=8), st.booleans())
def test_any_octets_lead_to_a_connection_or_to_one_failure(
    side: str, chunks: list[bytes], with_tls: bool
) -> None:
    stack: Stack[Recorder] = (
        client(tls="header" if with_tls else None)
        if side == "client"
        else server(tls="offered" if with_tls else None)
    )
    told: list[object] = []
    for chunk in chunks:
        stack.receive(chunk, 0.0)
        work_off(stack)
        if stack.wants_tls:
            stack.octets_for_tls()
            stack.tls_established()
        stack.data_to_send(0.0)
        told += failures(stack)
    if not is_passed_through(stack):
        assert stack.connection.received == b""
        stack.end_of_input(0.0)
        told += failures(stack)
        assert told == [stack.error]
        assert stack.error is not None
        assert stack.is_over
    else:
        assert told == []
        assert stack.error is None

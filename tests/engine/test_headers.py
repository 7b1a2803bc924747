"""Which protocol header to answer with, and what a foreign one says about the peer (section 2.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge.engine.headers import (
    AMQP_HEADER,
    SASL_HEADER,
    TLS_HEADER,
    answer,
    could_begin_header,
    describe,
    refusal,
)
from amqpforge_protocol.amqp_1_0 import ProtocolHeader

SEVERAL = [ProtocolHeader(0, 1, 2, 0), AMQP_HEADER, ProtocolHeader(0, 1, 0, 3)]

headers = st.builds(ProtocolHeader, *[st.integers(0, 255)] * 4)


def version(header: ProtocolHeader) -> tuple[int, int, int]:
    return header.major, header.minor, header.revision


# ---- the answer ----


@pytest.mark.parametrize("header", SEVERAL)
def test_a_supported_version_is_answered_with_itself(header: ProtocolHeader) -> None:
    assert answer(header, SEVERAL) == header


@pytest.mark.spec("T-HDR-011")
def test_the_answer_is_the_greatest_version_not_above_the_one_asked_for() -> None:
    assert answer(ProtocolHeader(0, 1, 1, 0), [ProtocolHeader(0, 1, 2, 0), AMQP_HEADER]) == AMQP_HEADER
    assert answer(ProtocolHeader(0, 1, 1, 0), SEVERAL) == ProtocolHeader(0, 1, 0, 3)
    assert answer(ProtocolHeader(0, 9, 9, 9), SEVERAL) == ProtocolHeader(0, 1, 2, 0)


@pytest.mark.spec("T-HDR-012")
def test_a_version_below_all_is_answered_with_the_greatest() -> None:
    assert answer(ProtocolHeader(0, 0, 9, 1), SEVERAL) == ProtocolHeader(0, 1, 2, 0)
    assert answer(ProtocolHeader(0, 1, 0, 0), [ProtocolHeader(0, 2, 0, 0)]) == ProtocolHeader(0, 2, 0, 0)


def test_what_is_no_header_is_answered_with_the_greatest_version() -> None:
    assert answer(None, SEVERAL) == ProtocolHeader(0, 1, 2, 0)
    assert answer(None, [SASL_HEADER, *SEVERAL]) == SASL_HEADER


@pytest.mark.spec("T-HDR-018")
def test_the_rule_of_the_nearest_version_is_not_for_protocol_ids() -> None:
    assert answer(AMQP_HEADER, [SASL_HEADER]) == SASL_HEADER
    assert answer(ProtocolHeader(3, 1, 0, 0), [AMQP_HEADER]) == AMQP_HEADER
    newer = ProtocolHeader(3, 2, 0, 0)
    assert answer(AMQP_HEADER, [SASL_HEADER, newer]) == newer, "versions of two protocols do not compare"


@pytest.mark.spec("T-HDR-020")
def test_where_several_protocol_ids_would_do_the_first_is_named() -> None:
    assert answer(AMQP_HEADER, [TLS_HEADER, SASL_HEADER]) == TLS_HEADER
    assert answer(AMQP_HEADER, [SASL_HEADER, TLS_HEADER]) == SASL_HEADER


@given(headers, st.lists(headers, min_size=1, max_size=6))
def test_the_answer_is_supported_and_equal_only_if_it_is_accepted(
    received: ProtocolHeader, supported: list[ProtocolHeader]
) -> None:
    answered = answer(received, supported)
    assert answered in supported
    assert (answered == received) == (received in supported)
    same = [header for header in supported if header.protocol_id == received.protocol_id]
    if same:
        assert answered in same
        nearer = [h for h in same if version(answered) < version(h) <= version(received)]
        assert not nearer


# ---- what could be a header ----


@pytest.mark.parametrize("cut", range(9))
def test_every_start_of_a_header_could_begin_one(cut: int) -> None:
    assert could_begin_header(AMQP_HEADER.encode()[:cut])
    assert could_begin_header(bytearray(ProtocolHeader(9, 8, 7, 6).encode()[:cut]))


@pytest.mark.parametrize("octets", [b"H", b"HTTP", b"a", b"AMQX", b"AMq", b"\x16\x03", b"\x00", b" AMQP"])
def test_other_octets_are_known_at_the_first_that_is_wrong(octets: bytes) -> None:
    assert not could_begin_header(octets)


# ---- what they say ----


@pytest.mark.parametrize(
    ("octets", "phrase"),
    [
        (b"AMQP\x00\x00\x09\x01", "an AMQP 0-9-1 peer"),
        (b"AMQP\x01\x01\x00\x0a", "an AMQP 0-10 peer"),
        (b"AMQP\x01\x01\x00\x09", "an AMQP 0-9 peer"),
        (b"AMQP\x01\x01\x08\x00", "an AMQP 0-8 peer"),
        (b"AMQP\x00\x01\x00\x00", "an AMQP 1.0 peer without a security layer"),
        (b"AMQP\x02\x01\x00\x00", "an AMQP 1.0 peer that wants TLS first"),
        (b"AMQP\x03\x01\x00\x00", "an AMQP 1.0 peer that wants SASL first"),
        (b"AMQP\x00\x01\x01\x00", "an AMQP 1.1.0 peer"),
        (b"AMQP\x07\x01\x02\x03", "an AMQP peer of protocol id 7, version 1.2.3"),
        (b"AMQP\x00\x01", "an AMQP peer that stopped inside its protocol header"),
        (b"HTTP/1.1 400 Bad Request", "an HTTP server"),
        (b"GET / HTTP/1.1", "an HTTP client"),
        (b"PRI * HTTP/2.0", "an HTTP/2 client"),
        (b"\x15\x03\x01\x00\x02\x02\x0a", "a TLS peer, which sends an alert"),
        (b"\x16\x03\x01\x02\x00", "a TLS peer, which begins a handshake"),
        (b"SSH-2.0-OpenSSH_9.2", "an SSH peer"),
        (b"", "one that sends nothing"),
        (
            b"\x01secret-secret-secret",
            "one that does not speak AMQP: it begins with the octets 01 73 65 63 72 65 74 2d",
        ),
    ],
)
def test_who_the_peer_is(octets: bytes, phrase: str) -> None:
    assert describe(octets) == phrase
    assert describe(bytearray(octets)) == phrase


@given(st.one_of(st.binary(max_size=16), st.binary(max_size=12).map(lambda rest: b"AMQP" + rest)))
def test_any_octets_are_described_in_one_line(octets: bytes) -> None:
    assert describe(octets).isprintable()


def test_a_refused_client_learns_which_version_to_ask_for_next() -> None:
    error = refusal(ProtocolHeader(0, 1, 1, 0), AMQP_HEADER.encode())
    assert error.sent == ProtocolHeader(0, 1, 1, 0)
    assert error.received == AMQP_HEADER
    assert str(error).startswith("AMQP 1.1.0 was asked for, but the peer is an AMQP 1.0 peer")


def test_a_server_that_sent_no_header_names_no_version() -> None:
    error = refusal(SASL_HEADER, b"HTTP/1.1 400")
    assert error.received is None
    assert str(error) == "SASL 1.0.0 was asked for, but the peer is an HTTP server"

"""What is agreed on ahead of any work: the protocol, then who the client is."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from amqpforge.testing import ScriptedBroker
from amqpforge_protocol.amqp_1_0 import (
    Open,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    decode_frame,
    encode_frame,
)

AMQP = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"
OLDER = b"AMQP\x00\x00\x09\x01"
OTHER = b"HTTP/1.1"
PLAIN = b"\x00me\x00secret"


def exactly(wire: socket.socket, count: int) -> bytes:
    octets = b""
    while len(octets) < count and (more := wire.recv(count - len(octets))):
        octets += more
    return octets


def a_frame(wire: socket.socket) -> object:
    size = exactly(wire, 4)
    return decode_frame(size + exactly(wire, int.from_bytes(size, "big") - 4))[0].performative


@pytest.mark.spec("A-NEGOT-002")
def test_one_port_serves_two_protocols_and_turns_others_away(caplog: pytest.LogCaptureFixture) -> None:
    """AMQP alone, and SASL ahead of it; older versions and other protocols are told what is spoken."""
    with ScriptedBroker.threaded() as broker:
        where = ("127.0.0.1", int(broker.url.rsplit(":", 1)[1].strip("/")))
        for header, answer in ((AMQP, AMQP), (SASL, SASL), (OLDER, AMQP), (OTHER, SASL)):
            with closing(socket.create_connection(where, timeout=10)) as wire:
                wire.sendall(header)
                assert exactly(wire, 8) == answer
                if header in (OLDER, OTHER):
                    assert wire.recv(1) == b""
                elif header == SASL:
                    assert isinstance(a_frame(wire), SaslMechanisms)
                else:
                    wire.sendall(encode_frame(Open(container_id="c"), 0))
                    assert isinstance(a_frame(wire), Open)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.spec("A-NEGOT-001")
@pytest.mark.parametrize("chosen", ["PLAIN", "SCRAM-SHA-256", "X-OTHER"])
def test_a_connection_goes_on_only_with_what_was_proposed(chosen: str) -> None:
    """Of several mechanisms the one that is chosen is in force; another one is the end, ahead of any open."""
    with ScriptedBroker.threaded(passwords={"me": "secret"}) as broker:
        where = ("127.0.0.1", int(broker.url.rsplit(":", 1)[1].strip("/")))
        with closing(socket.create_connection(where, timeout=10)) as wire:
            wire.sendall(SASL)
            assert exactly(wire, 8) == SASL
            proposal = a_frame(wire)
            assert isinstance(proposal, SaslMechanisms)
            offered = set(map(str, proposal.sasl_server_mechanisms))
            assert offered >= {"PLAIN", "SCRAM-SHA-256"}
            response = PLAIN if chosen != "SCRAM-SHA-256" else b"n,,n=me,r=abcdefgh"
            wire.sendall(encode_frame(SaslInit(mechanism=chosen, initial_response=response), 0))
            answer = a_frame(wire)
            if chosen == "SCRAM-SHA-256":
                assert type(answer).__name__ == "SaslChallenge"  # It asks on: a name alone proves nothing.
            elif chosen == "PLAIN":
                assert isinstance(answer, SaslOutcome)
                assert answer.code is SaslCode.OK
                wire.sendall(AMQP)
                assert exactly(wire, 8) == AMQP
            else:
                assert isinstance(answer, SaslOutcome)
                assert answer.code is SaslCode.AUTH
                assert exactly(wire, 1) == b""
        assert not broker.sent(Open)

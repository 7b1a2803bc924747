"""What tests of layers share: a connection that records, frames in short, and two stacks joined in memory."""

from __future__ import annotations

from typing import Any

from amqpforge.engine.events import Event
from amqpforge.engine.layers import LayerFailed, Stack
from amqpforge.sasl import UserStore
from amqpforge_protocol.amqp_1_0 import (
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Symbol,
    decode_frame,
    encode_frame,
)

AMQP = b"AMQP\x00\x01\x00\x00"
TLS = b"AMQP\x02\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"

USERS = UserStore({"u": "p"}, iterations=4096)

MOST_ROUNDS = 40


class Recorder:
    """A connection that does nothing but remember."""

    def __init__(self) -> None:
        self.received = b""
        self.times: list[float] = []
        self.sending = b""
        self.has_ended = False
        self.output_closed = False
        self.is_over = False
        self.wants_input = True

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> None:
        self.received += data
        self.times.append(now)

    def events(self) -> list[Event]:
        return []

    def data_to_send(self, now: float) -> bytes:
        octets, self.sending = self.sending, b""
        return octets

    def next_deadline(self) -> float | None:
        return 7.0

    def end_of_input(self, now: float) -> None:
        self.has_ended = True


def mechanisms(*names: str) -> bytes:
    return encode_frame(SaslMechanisms(sasl_server_mechanisms=[Symbol(name) for name in names]))


def init(mechanism: str, response: bytes | None = None, hostname: str | None = None) -> bytes:
    return encode_frame(SaslInit(mechanism=Symbol(mechanism), initial_response=response, hostname=hostname))


def challenge(octets: bytes) -> bytes:
    return encode_frame(SaslChallenge(challenge=octets))


def response(octets: bytes) -> bytes:
    return encode_frame(SaslResponse(response=octets))


def outcome(code: SaslCode = SaslCode.OK, additional: bytes | None = None) -> bytes:
    return encode_frame(SaslOutcome(code=code, additional_data=additional))


def performatives(octets: bytes) -> list[Any]:
    """What the frames in ``octets`` say."""
    found, pos = [], 0
    while pos < len(octets):
        frame, pos = decode_frame(octets, pos)
        found.append(frame.performative)
    return found


def work_off(stack: Stack[Any]) -> None:
    """Do the work that a stack has, at once."""
    while stack.work is not None:
        stack.resume(stack.work.run(), 0.0)


def failures(stack: Stack[Any]) -> list[object]:
    """The errors of the failures that a stack tells now."""
    return [event.error for event in stack.events() if isinstance(event, LayerFailed)]


def join(client: Stack[Any], server: Stack[Any], size: int = 1 << 16) -> None:
    """Carry octets, in pieces of ``size``, between two stacks until both are silent."""
    for _ in range(MOST_ROUNDS):
        moved = False
        for sender, receiver in ((client, server), (server, client)):
            work_off(sender)
            octets = sender.data_to_send(0.0)
            for start in range(0, len(octets), size):
                receiver.receive(octets[start : start + size], 0.0)
                work_off(receiver)
            moved = moved or bool(octets)
        if not moved:
            return
    raise AssertionError(f"not silent after {MOST_ROUNDS} rounds")

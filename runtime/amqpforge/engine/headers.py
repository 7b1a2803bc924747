"""Protocol headers: which one to answer with, and what a foreign one says about the peer (section 2.2).

Pure functions. The version rule looks at headers of one protocol id only, because the id is no part of the
version: a server that cannot accept the id of a client names one that it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amqpforge.errors import NegotiationFailed
from amqpforge_protocol.amqp_1_0 import (
    PROTOCOL_HEADER_SIZE,
    SASL_MAJOR,
    SASL_MINOR,
    SASL_REVISION,
    TLS_MAJOR,
    TLS_MINOR,
    TLS_REVISION,
    ProtocolHeader,
    ProtocolId,
)

__all__ = [
    "AMQP_HEADER",
    "SASL_HEADER",
    "TLS_HEADER",
    "HeaderRefused",
    "answer",
    "could_begin_header",
    "describe",
    "refusal",
]

AMQP_HEADER: Final = ProtocolHeader()
"""AMQP 1.0 itself."""

TLS_HEADER: Final = ProtocolHeader(ProtocolId.TLS, TLS_MAJOR, TLS_MINOR, TLS_REVISION)
"""TLS comes next (section 5.2)."""

SASL_HEADER: Final = ProtocolHeader(ProtocolId.SASL, SASL_MAJOR, SASL_MINOR, SASL_REVISION)
"""SASL comes next (section 5.3)."""

_MAGIC: Final = b"AMQP"
_SHOWN: Final = 8  # octets of garbage that a message shows


class HeaderRefused(NegotiationFailed):
    """A server answered our protocol header with another one, or with something else.

    Attributes:
        sent: our header.
        received: the server's header, which names what to ask for on a new connection; None if it sent none.
    """

    def __init__(self, sent: ProtocolHeader, received: ProtocolHeader | None, peer: str) -> None:
        super().__init__(f"{_asked(sent)} was asked for, but the peer is {peer}")
        self.sent = sent
        self.received = received


def refusal(sent: ProtocolHeader, octets: bytes) -> HeaderRefused:
    """The error for a server whose first octets, ``octets``, are not the header that we sent."""
    received = ProtocolHeader(*octets[4:8]) if _is_header(octets) else None
    return HeaderRefused(sent, received, describe(octets))


def answer(received: ProtocolHeader | None, supported: Sequence[ProtocolHeader]) -> ProtocolHeader:
    """The header with which a server answers.

    It equals ``received`` if and only if that is supported; with any other the server closes.

    Args:
        received: the client's header; None if what the client sent is no header.
        supported: what the server accepts, at least one. Where it cannot accept the client's protocol id, it
            names that of the first.

    Returns:
        Of the headers with the right id, the greatest version that is not above the one received; if there is
        none, the greatest.
    """
    ids = [header.protocol_id for header in supported]
    if received is None or received.protocol_id not in ids:
        return max((header for header in supported if header.protocol_id == ids[0]), key=_version)
    same = [header for header in supported if header.protocol_id == received.protocol_id]
    fitting = [header for header in same if _version(header) <= _version(received)]
    return max(fitting or same, key=_version)


def could_begin_header(octets: bytes | bytearray) -> bool:
    """Whether the first octets of a stream, as many as there are, may be those of a protocol header."""
    return octets[:4] == _MAGIC[: len(octets)]


def describe(octets: bytes | bytearray) -> str:
    """Who it is that begins with ``octets``, as a phrase for people: "an AMQP 0-9-1 peer".

    The more octets there are, up to about 13, the more can be told.
    """
    octets = bytes(octets)
    if _is_header(octets):
        return _describe_header(octets[4:8])
    for start, phrase in _FOREIGN:
        if octets.startswith(start):
            return phrase
    if not octets:
        return "one that sends nothing"
    return f"one that does not speak AMQP: it begins with the octets {octets[:_SHOWN].hex(' ')}"


def _is_header(octets: bytes) -> bool:
    return octets.startswith(_MAGIC) and len(octets) >= PROTOCOL_HEADER_SIZE


def _version(header: ProtocolHeader) -> tuple[int, int, int]:
    return header.major, header.minor, header.revision


def _asked(header: ProtocolHeader) -> str:
    return f"{ProtocolId(header.protocol_id).name} {header.major}.{header.minor}.{header.revision}"


def _describe_header(octets: bytes) -> str:
    known = _HEADERS.get(octets)
    if known is not None:
        return known
    protocol_id, *version = octets
    number = ".".join(map(str, version))
    if protocol_id == ProtocolId.AMQP:
        return f"an AMQP {number} peer"
    return f"an AMQP peer of protocol id {protocol_id}, version {number}"


_HEADERS: Final = {
    AMQP_HEADER.encode()[4:]: "an AMQP 1.0 peer without a security layer",
    TLS_HEADER.encode()[4:]: "an AMQP 1.0 peer that wants TLS first",
    SASL_HEADER.encode()[4:]: "an AMQP 1.0 peer that wants SASL first",
    bytes((0, 0, 9, 1)): "an AMQP 0-9-1 peer",
    bytes((1, 1, 0, 10)): "an AMQP 0-10 peer",
    bytes((1, 1, 0, 9)): "an AMQP 0-9 peer",
    bytes((1, 1, 8, 0)): "an AMQP 0-8 peer",
}

_FOREIGN: Final = (
    (b"HTTP", "an HTTP server"),
    *(
        (method, "an HTTP client")
        for method in (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ", b"CONNECT ")
    ),
    (b"PRI * HTTP", "an HTTP/2 client"),
    (b"\x15\x03", "a TLS peer, which sends an alert"),
    (b"\x16\x03", "a TLS peer, which begins a handshake"),
    (b"SSH-", "an SSH peer"),
    (_MAGIC, "an AMQP peer that stopped inside its protocol header"),
)
"""First octets of other protocols."""

"""The exchange of protocol headers ahead of all frames (section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amqpforge.errors import NegotiationFailed
from amqpforge_protocol.amqp_1_0 import (
    PROTOCOL_HEADER_SIZE,
    ConnectionEvent,
    ProtocolHeader,
    decode_protocol_header,
)

from . import headers

__all__ = ["Negotiation"]

_KEPT: Final = 16  # octets of garbage that are enough to say what it is


class Negotiation:
    """The protocol headers of one connection: what goes out, what comes in, and what that comes to.

    It keeps no state of the connection: it names the events that are to be taken to its table.

    Attributes:
        sent: our header; None before it is out.
        received: the peer's header; None before it is in, and if what came in is none.
    """

    __slots__ = ("_is_server", "_octets", "_versions", "received", "sent")

    def __init__(self, versions: Sequence[ProtocolHeader], *, is_server: bool) -> None:
        self.sent: ProtocolHeader | None = None
        self.received: ProtocolHeader | None = None
        self._versions = versions
        self._is_server = is_server
        self._octets = bytearray()

    def read(self, data: bytes | bytearray | memoryview) -> tuple[ConnectionEvent | None, bytes]:
        """Take the next octets of the peer, up to its header.

        Returns:
            What they come to: RECEIVE_HEADER, RECEIVE_OTHER_HEADER or RECEIVE_MALFORMED, None if it takes
            more of them to tell; and the octets behind the header.
        """
        octets = self._octets
        octets += data
        if not headers.could_begin_header(octets):
            del octets[_KEPT:]
            return ConnectionEvent.RECEIVE_MALFORMED, b""
        if len(octets) < PROTOCOL_HEADER_SIZE:
            return None, b""
        rest = bytes(octets[PROTOCOL_HEADER_SIZE:])
        del octets[PROTOCOL_HEADER_SIZE:]
        self.received, _ = decode_protocol_header(bytes(octets))
        if self.sent in (None, self.received):
            return ConnectionEvent.RECEIVE_HEADER, rest
        return ConnectionEvent.RECEIVE_OTHER_HEADER, b""

    def choose(self) -> tuple[ConnectionEvent, ProtocolHeader]:
        """The header to send, and what sending it is: the preferred one if nothing is in, else the answer."""
        if self.received is None and headers.could_begin_header(self._octets):
            return ConnectionEvent.SEND_HEADER, self._versions[0]
        header = headers.answer(self.received, self._versions)
        if header == self.received:
            return ConnectionEvent.SEND_HEADER, header
        return ConnectionEvent.SEND_OTHER_HEADER, header

    def failure(self) -> NegotiationFailed:
        """Why there is no connection, after headers that differ."""
        octets = bytes(self._octets)
        if self.sent is None or self._is_server:
            return NegotiationFailed(f"the peer is {headers.describe(octets)}, which is not spoken here")
        return headers.refusal(self.sent, octets)

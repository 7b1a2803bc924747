"""Frames as a stand sees them pass, in either direction; and the cutting of streams into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from amqpforge_protocol.amqp_1_0 import (
    DecodeError,
    FrameReader,
    ProtocolHeader,
    Transfer,
    decode_frame,
    decode_protocol_header,
    encode_frame,
)
from amqpforge_protocol.amqp_1_0.archetypes import AnyFrame, AnySaslFrame

if TYPE_CHECKING:
    from .served import ServedConnection

__all__ = ["AnySeen", "Cutter", "GivenFrame", "Performative", "SeenFrame", "encode_given", "look_at"]

Kind = TypeVar("Kind", covariant=True)

Performative: TypeAlias = AnyFrame | AnySaslFrame | ProtocolHeader
"""What rules are made for: a performative, or a protocol header."""

GivenFrame: TypeAlias = Performative | tuple[Transfer, bytes] | bytes | None
"""A frame that a script sends: a performative, a transfer with its payload, a protocol header, None for a
frame without a body, or any octets as they are.
"""


@dataclass(frozen=True, slots=True)
class SeenFrame(Generic[Kind]):
    """A frame, or a protocol header, that came in or goes out.

    Attributes:
        connection: the connection that it is on.
        is_sent: whether the stand sends it; else a client has.
        channel: its channel; None for a protocol header, a SASL frame and what cannot be decoded.
        performative: what is in it; None for a frame without a body and for octets that cannot be decoded.
        payload: what follows a transfer.
        octets: the whole of it.
    """

    connection: ServedConnection
    is_sent: bool
    channel: int | None
    performative: Kind
    payload: bytes
    octets: bytes


AnySeen: TypeAlias = SeenFrame[Any]
"""A frame of any kind."""


def look_at(connection: ServedConnection, octets: bytes, *, is_sent: bool) -> AnySeen:
    """What a piece of a stream is, as a :class:`Cutter` gives it."""
    try:
        if octets.startswith(b"AMQP"):
            header, _ = decode_protocol_header(octets)
            return SeenFrame(connection, is_sent, None, header, b"", octets)
        frame, _ = decode_frame(octets)
    except DecodeError:
        return SeenFrame(connection, is_sent, None, None, b"", octets)
    return SeenFrame(connection, is_sent, frame.channel, frame.performative, frame.payload, octets)


def encode_given(frame: GivenFrame, channel: int) -> bytes:
    """The octets of a frame that a script sends.

    Raises:
        EncodeError: a field lacks or has a value that is not of its type.
    """
    if isinstance(frame, bytes):
        return frame
    if isinstance(frame, ProtocolHeader):
        return frame.encode()
    if isinstance(frame, tuple):
        return encode_frame(frame[0], channel, frame[1])
    return encode_frame(frame, channel)


class Cutter:
    """Cuts a stream into protocol headers and frames; what is neither passes as it is, with all behind it."""

    __slots__ = ("_held", "_is_raw", "_reader")

    def __init__(self, max_frame_size: int) -> None:
        """``max_frame_size``: a frame that is larger is taken for no frame."""
        self._reader = FrameReader(max_frame_size)
        self._held = bytearray()
        self._is_raw = False

    def feed(self, octets: bytes) -> list[bytes]:
        """The pieces that are whole with these octets."""
        if self._is_raw:
            return [octets] if octets else []
        self._held += octets
        pieces: list[bytes] = []
        try:
            pieces = self._reader.feed(octets)
            del self._held[: sum(map(len, pieces))]
            self._reader.feed(b"")  # What follows a malformed frame is told only now.
        except DecodeError:
            self._is_raw = True
            pieces.append(self.rest())
        return pieces

    def rest(self) -> bytes:
        """The octets of a piece that is not whole; hands them out once, and nothing is cut any more."""
        self._is_raw = True
        rest = bytes(self._held)
        self._held.clear()
        return rest

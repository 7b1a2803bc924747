"""What waits to be written: octets of whole frames, in order, and nothing behind a close."""

from __future__ import annotations

from struct import Struct
from typing import Final

from amqpforge_protocol.amqp_1_0 import FRAME_HEADER_SIZE

__all__ = ["HIGH_WATER", "Output"]

HIGH_WATER: Final = 262_144
"""Octets waiting from which on transfers stay in the queues of their links."""

_EMPTY: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"
_pack_header: Final = Struct(">IBBH").pack


class Output:
    """The octets of one connection that are not handed to its transport yet.

    Attributes:
        size: how many there are.
        frames: frames put here so far.
        octets: octets handed over so far.
    """

    __slots__ = ("_parts", "frames", "octets", "size")

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = []
        self.size = 0
        self.frames = 0
        self.octets = 0

    def add(self, octets: bytes) -> None:
        """Octets that are no frame: a protocol header."""
        self._parts.append(octets)
        self.size += len(octets)

    def add_frame(self, channel: int, body: bytes, payload: bytes | memoryview = b"") -> None:
        """An AMQP frame around an encoded performative and its payload."""
        size = FRAME_HEADER_SIZE + len(body) + len(payload)
        self._parts += (_pack_header(size, 2, 0, channel), body, payload)
        self.size += size
        self.frames += 1

    def add_empty(self) -> None:
        """A frame without a body, on channel 0."""
        self.add(_EMPTY)
        self.frames += 1

    def drain(self) -> bytes:
        """All that waits; then nothing does."""
        octets = b"".join(self._parts)
        self._parts.clear()
        self.octets += self.size
        self.size = 0
        return octets

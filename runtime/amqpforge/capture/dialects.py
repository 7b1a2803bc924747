"""Which protocol a stream speaks: from the header a connection opens with to what decodes the frames after
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from amqpforge.capture.record import Header, Record
from amqpforge.capture.tcp import Direction

__all__ = [
    "HEADER_SIZE",
    "MAGIC",
    "Dialect",
    "FrameDecoder",
    "MakeDecoder",
    "dialect_of",
    "fallback",
    "parse_header",
]

MAGIC = b"AMQP"
HEADER_SIZE = 8


class FrameDecoder(Protocol):
    """Decodes the frames of one direction. Every method returns the records that became known, in order."""

    def data(self, offset: int, time: int | None, data: bytes) -> list[Record]:
        """The next octets of the direction."""
        ...

    def gap(self, offset: int, time: int | None, length: int) -> list[Record]:
        """The next `length` octets are missing from the capture."""
        ...

    def end(self, offset: int, time: int | None, closed: bool) -> list[Record]:
        """No more octets: the connection was closed, or else the capture is over."""
        ...


MakeDecoder = Callable[[int, Direction, bool], FrameDecoder]
"""From the stream's number, the direction, and whether the first frame has to be searched for."""


class Dialect(NamedTuple):
    """A protocol by name, and what makes its decoders; None where there is none."""

    name: str
    decoder: MakeDecoder | None = None


def _amqp_1_0(stream: int, direction: Direction, searching: bool) -> FrameDecoder:
    from amqpforge.capture.amqp_1_0 import Decoder  # the protocol package loads when its header arrives

    return Decoder(stream, direction, searching=searching)


_AMQP_1_0 = Dialect("AMQP 1.0", _amqp_1_0)
_DIALECTS = {
    Header(0, 1, 0, 0): _AMQP_1_0,
    Header(2, 1, 0, 0): _AMQP_1_0,
    Header(3, 1, 0, 0): _AMQP_1_0,
    Header(0, 0, 9, 1): Dialect("AMQP 0-9-1"),
    Header(1, 1, 0, 9): Dialect("AMQP 0-9"),
    Header(1, 1, 0, 10): Dialect("AMQP 0-10"),
    Header(1, 1, 8, 0): Dialect("AMQP 0-8"),
}


def parse_header(data: bytes, position: int = 0) -> Header:
    """The protocol header of HEADER_SIZE octets at `position`; the caller has seen MAGIC there."""
    return Header(*data[position + len(MAGIC) : position + HEADER_SIZE])


def dialect_of(header: Header) -> Dialect:
    """The protocol that a header announces; one without a decoder if it is not known."""
    known = _DIALECTS.get(header)
    return known or Dialect("the protocol AMQP {}.{}.{}.{}".format(*header))


def fallback() -> MakeDecoder:
    """The decoder to try on a stream whose beginning was not captured."""
    return _amqp_1_0

"""Which protocol a stream speaks: from the header a connection opens with to what decodes the frames after
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import NamedTuple, Protocol

import amqpforge_protocol._dialects as marks
from amqpforge.capture.record import Header, Record
from amqpforge.capture.tcp import Direction

__all__ = [
    "GUESS_LOOK",
    "HEADER_SIZE",
    "MAGIC",
    "Dialect",
    "FrameDecoder",
    "dialect_of",
    "dialects",
    "guess",
    "parse_header",
]

MAGIC = b"AMQP"
HEADER_SIZE = 8
GUESS_LOOK = 13
"""Octets that `guess` looks at."""


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


class Dialect(NamedTuple):
    """A protocol by name; `package` is the generated package that decodes it, empty where there is none."""

    name: str
    package: str = ""
    grammar: str = ""

    def decoder(self, stream: int, direction: Direction, *, searching: bool) -> FrameDecoder:
        """What decodes one direction of a stream; `searching`: the first frame has to be looked for.

        The generated package loads here, when its protocol header arrives.
        """
        protocol = import_module(f"amqpforge_protocol.{self.package}")
        family = import_module(f"amqpforge.capture.{_FAMILIES[self.grammar]}")
        made: FrameDecoder = family.Decoder(protocol, stream, direction, searching=searching)
        return made

    def names(self) -> tuple[str, ...]:
        """What its frames can hold, by the specification's names."""
        protocol = import_module(f"amqpforge_protocol.{self.package}")
        family = import_module(f"amqpforge.capture.{_FAMILIES[self.grammar]}")
        found: tuple[str, ...] = family.names(protocol)
        return found


_FAMILIES = {
    "amqp-1.0": "amqp_1_0",
    "class-method": "class_method",
    "control-command": "control_command",
}
_USUAL = "amqp_1_0"
#: A method frame on channel 0 with connection.start (class 10, method 10), and its first two arguments.
_CONNECTION_START = re.compile(rb"\x01\x00\x00....\x00\x0a\x00\x0a(..)", re.DOTALL)
_VERSIONS = {b"\x00\x09": "amqp_0_9_1", b"\x63\x00": "amqp_0_10_preview"}
#: Protocols that are recognised, to say their names, and not decoded.
_FOREIGN = {
    b"AMQP\x01\x01\x00\x09": "AMQP 0-9",
    b"AMQP\x01\x01\x00\x0a": "AMQP 0-10",
    b"AMQP\x01\x01\x08\x00": "AMQP 0-8",
}


@cache
def dialects() -> Mapping[str, Dialect]:
    """The dialects that are decoded, by the names of their packages."""
    return {name: Dialect(mark.NAME, name, mark.GRAMMAR) for name, mark in _marks().items()}


@cache
def _marks() -> Mapping[str, ModuleType]:
    """What the generated dialects say of themselves without being loaded."""
    names = sorted(module.name for module in iter_modules(marks.__path__))
    return {name: import_module(f"{marks.__name__}.{name}") for name in names}


def parse_header(data: bytes, position: int = 0) -> Header:
    """The protocol header of HEADER_SIZE octets at `position`; the caller has seen MAGIC there."""
    return Header(*data[position + len(MAGIC) : position + HEADER_SIZE])


def dialect_of(header: Header) -> Dialect:
    """The protocol that a header announces; one without a package if it is not known."""
    octets = MAGIC + bytes(header)
    for name, mark in _marks().items():
        if octets.startswith(mark.PROTOCOL_HEADERS):
            return dialects()[name]
    known = _FOREIGN.get(octets)
    return Dialect(known or "the protocol AMQP {}.{}.{}.{}".format(*header))


def guess(first: bytes) -> Dialect:
    """The dialect of a direction without a protocol header, from its first octets.

    A server of a class/method dialect begins with connection.start, which names the version; anything else
    is taken for AMQP 1.0.
    """
    start = _CONNECTION_START.match(first)
    return dialects()[_VERSIONS.get(start[1], _USUAL) if start else _USUAL]

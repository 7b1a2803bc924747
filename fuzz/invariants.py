"""Garbage gives a value or a DecodeError, nothing else; and what decodes encodes, and decodes to the same
again.

What the checks of all dialects share. A check is a function for one entry point of a codec; it takes any
octets, and raises what broke the rule. The fuzzer calls them, and so do the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from amqpforge_protocol._support.errors import DecodeError
from amqpforge_protocol._support.limits import Limits
from tests.codec.sameness import same

# Ten octets may claim a million elements; the fuzzer has better things to do than to count them.
LIMITS = Limits(elements=10_000)
LARGEST_FRAME = 1 << 16

Check = Callable[[bytes], None]
Decode = Callable[[bytes, Limits], Any]
Encode = Callable[[Any], bytes]


class Reader(Protocol):
    """What cuts a stream into items: the frame reader of a dialect."""

    def feed(self, data: bytes) -> list[bytes]: ...

    @property
    def pending(self) -> int: ...


def check_pair(data: bytes, decode: Decode, encode: Encode) -> None:
    """Hold a decoder and an encoder to the rule, where nothing is forgiven and each value has one form: as
    many octets are written as were read.
    """
    try:
        value, behind = decode(data, LIMITS)
    except DecodeError as error:
        check_error(error, data)
        return
    assert 0 < behind <= len(data)
    octets = encode(value)
    assert len(octets) == behind
    again, end = decode(octets, Limits())
    assert end == len(octets)
    assert same(again, value)
    assert encode(again) == octets


def check_error(error: DecodeError, data: bytes) -> None:
    """An error says where it is, and that is in the data or just behind it."""
    assert error.offset is not None, str(error)
    assert 0 <= error.offset <= len(data), str(error)
    assert error.reason


def check_headers(data: bytes, *decoders: Callable[[bytes], object]) -> None:
    """Decode the headers that a stream may start with."""
    for decode in decoders:
        try:
            decode(data)
        except DecodeError as error:
            check_error(error, data)


def check_reader(data: bytes, make: Callable[[], Reader]) -> None:
    """A stream gives the same items, and the same error, whether it comes whole or in pieces."""
    whole = _items(data, len(data) or 1, make())
    assert _items(data, 3, make()) == whole


def _items(data: bytes, chunk: int, reader: Reader) -> tuple[bytes, str | None]:
    """The octets that a reader hands out, and its error if it came to one."""
    found = b""
    for start in (*range(0, len(data), chunk), len(data)):  # the last, empty feed brings an error that is due
        try:
            found += b"".join(reader.feed(data[start : start + chunk]))
        except DecodeError as error:
            check_error(error, data)
            return found, str(error)
    assert len(found) + reader.pending == len(data)
    return found, None

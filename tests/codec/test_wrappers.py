"""The types that keep wire types apart: their ranges, how they print, compare and travel."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge_protocol.amqp_1_0 import (
    AmqpError,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    DecodeError,
    EncodeError,
    Float,
    Int,
    SenderSettleMode,
    Short,
    StdDistMode,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    decode_value,
    encode_value,
)
from tests.codec.strategies import INTEGERS

RANGES = [(kind, low, high) for kind, low, high in INTEGERS.values() if kind is not int]


@pytest.mark.parametrize(("kind", "low", "high"), RANGES)
def test_the_range_of_an_integer(kind: Any, low: int, high: int) -> None:
    for value in (low, high, 0):
        assert kind(value) == value
        assert isinstance(kind(value), int)
        assert encode_value(kind(value)) == encode_value(decode_value(encode_value(kind(value)))[0])
    for value in (low - 1, high + 1):
        with pytest.raises(ValueError, match=f"{kind.__name__} holds {low} to {high}, not {value}"):
            kind(value)
    assert kind() == 0


@pytest.mark.parametrize(("kind", "low", "high"), RANGES)
def test_how_an_integer_prints_compares_and_computes(kind: Any, low: int, high: int) -> None:
    value = kind(high)
    assert (repr(value), str(value), f"{value}") == (f"{kind.__name__}({high})", str(high), str(high))
    assert value == high
    assert hash(value) == hash(high)
    assert {high: 1}[value] == 1
    assert type(value - 1) is int


WRAPPED: list[Any] = [
    *(UByte(1), UShort(1), UInt(1), ULong(1), Byte(-1), Short(-1), Int(-1), Timestamp(1), Float(1.5)),
    *(Decimal32("1.5"), Decimal64("1.5"), Char("c"), Symbol("s")),
]


@pytest.mark.parametrize("value", WRAPPED, ids=repr)
def test_wrappers_survive_copying_and_pickling(value: Any) -> None:
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert type(again) is type(value)
        assert again == value
    with pytest.raises(AttributeError):
        value.anything = 1


def test_equal_values_of_different_types_are_encoded_differently() -> None:
    ones: list[Any] = [
        True,
        1,
        1.0,
        Decimal(1),
        UByte(1),
        UShort(1),
        UInt(1),
        ULong(1),
        Byte(1),
        Short(1),
        Int(1),
    ]
    ones += [Timestamp(1), Float(1), Decimal32(1), Decimal64(1)]
    assert len({encode_value(one) for one in ones}) == len(ones)
    assert len({encode_value(one) for one in ("a", Symbol("a"), Char("a"), b"a")}) == 4


def test_how_texts_print() -> None:
    assert (repr(Symbol("a'b")), str(Symbol("a"))) == ('Symbol("a\'b")', "a")
    assert (repr(Char("é")), str(Char("é"))) == ("Char('é')", "é")
    assert Symbol("a") == "a"
    assert hash(Symbol("a")) == hash("a")


@pytest.mark.parametrize("value", ["", "ab", chr(0xD800), chr(0xDFFF)])
def test_a_char_is_one_scalar_value(value: str) -> None:
    with pytest.raises(ValueError, match="Char holds one Unicode scalar value"):
        Char(value)


@pytest.mark.parametrize("point", [0xD800, 0xDFFF, 0x110000, 0xFFFFFFFF])
def test_octets_of_a_char_that_is_none(point: int) -> None:
    with pytest.raises(DecodeError, match="is not a Unicode scalar value") as caught:
        decode_value(b"\x73" + point.to_bytes(4, "big"))
    assert (caught.value.type, caught.value.offset) == ("char", 1)


@pytest.mark.parametrize("point", [0, 0x41, 0xD7FF, 0xE000, 0xFFFF, 0x10FFFF])
def test_chars_at_the_edges(point: int) -> None:
    octets = b"\x73" + point.to_bytes(4, "big")
    assert decode_value(octets)[0] == Char(chr(point))
    assert encode_value(Char(chr(point))) == octets


@pytest.mark.parametrize("octets", [b"\xa3\x02a\x80", b"\xb3\x00\x00\x00\x01\xff"])
def test_a_symbol_is_ascii(octets: bytes) -> None:
    with pytest.raises(DecodeError, match="is not ASCII") as caught:
        decode_value(octets)
    assert (caught.value.type, caught.value.offset) == ("symbol", 2 if octets[0] == 0xA3 else 5)
    with pytest.raises(EncodeError):
        encode_value(Symbol("é"))


@pytest.mark.parametrize("octets", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\xe2\x82"])
def test_a_string_is_utf_8(octets: bytes) -> None:
    with pytest.raises(DecodeError, match="is not UTF-8") as caught:
        decode_value(b"\xa1" + bytes((len(octets),)) + octets)
    assert caught.value.type == "string"
    assert caught.value.offset == (3 if octets.startswith(b"a") else 2)


@pytest.mark.parametrize("octet", [2, 0x41, 0xFF])
def test_a_boolean_octet_is_nought_or_one(octet: int) -> None:
    with pytest.raises(DecodeError, match="its octet is 0x00 or 0x01") as caught:
        decode_value(bytes((0x56, octet)))
    assert (caught.value.type, caught.value.offset) == ("boolean", 1)


def test_a_string_without_utf_8_is_refused() -> None:
    for value in ("\ud800", ["\udfff"]):
        with pytest.raises(EncodeError):
            encode_value(value)


# ---- time ----


def test_timestamps_and_datetimes() -> None:
    moment = datetime(2024, 2, 29, 12, 0, 0, 123_456, tzinfo=UTC)
    stamp = Timestamp.from_datetime(moment)
    assert stamp.to_datetime() == moment.replace(microsecond=123_000)
    assert Timestamp(0).to_datetime() == datetime(1970, 1, 1, tzinfo=UTC)
    assert Timestamp.from_datetime(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    assert decode_value(encode_value(moment))[0] == stamp
    east = moment.astimezone(timezone(timedelta(hours=5)))
    assert Timestamp.from_datetime(east) == stamp


def test_a_datetime_without_a_time_zone_means_no_moment() -> None:
    naive = datetime(2024, 1, 1)
    with pytest.raises(ValueError, match="needs a datetime with a time zone"):
        Timestamp.from_datetime(naive)
    with pytest.raises(EncodeError, match="timestamp"):
        encode_value([naive])


def test_a_timestamp_outside_of_the_calendar() -> None:
    with pytest.raises(OverflowError):
        Timestamp((1 << 63) - 1).to_datetime()


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_datetime_has_its_timestamp(moment: datetime) -> None:
    again = Timestamp.from_datetime(moment).to_datetime()
    assert timedelta(0) <= moment - again < timedelta(milliseconds=1)


# ---- floats ----


def test_a_float_is_rounded_on_the_wire_only() -> None:
    value = Float(0.1)
    assert value == 0.1
    assert (repr(value), str(value)) == ("Float(0.1)", "0.1")
    assert decode_value(encode_value(value))[0] == 0.10000000149011612
    with pytest.raises(EncodeError):
        encode_value(Float(1e300))


# ---- what has no AMQP type ----


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    "value",
    [object(), 1j, {1, 2}, 1 << 63, -(1 << 63) - 1, range(3), [object()], {"k": object()}, len],
    ids=str,
)
def test_what_has_no_type_is_refused(value: object) -> None:
    with pytest.raises(EncodeError):
        encode_value(value)


def test_what_stands_for_a_value() -> None:
    cases: list[tuple[object, object]] = [
        ((1, "a"), [1, "a"]),
        (bytearray(b"b"), b"b"),
        (memoryview(b"b"), b"b"),
        (Colour.RED, "red"),
        (AmqpError.NOT_FOUND, Symbol("amqp:not-found")),
        (SenderSettleMode.MIXED, UByte(2)),
        (StdDistMode.COPY, Symbol("copy")),
        (type("Text", (str,), {})("t"), "t"),
        (type("Number", (int,), {})(5), 5),
    ]
    for given_value, plain in cases:
        assert encode_value(given_value) == encode_value(plain)


def test_members_of_enumerations_are_their_values() -> None:
    member: Any = AmqpError.NOT_FOUND
    assert member == "amqp:not-found"
    assert str(member) == "amqp:not-found"
    assert repr(member) == "AmqpError.NOT_FOUND"
    assert {member: 1}[Symbol("amqp:not-found")] == 1


# ---- what octets may come in ----


def strided(octets: bytes) -> memoryview:
    """The same octets with others between them: a view that is not contiguous."""
    return memoryview(bytes(one for octet in octets for one in (octet, 0xEE)))[::2]


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, strided])
def test_any_bytes_like_object_is_read(wrap: Callable[[bytes], Any]) -> None:
    octets = encode_value([b"octets", "text", Symbol("s")])
    assert decode_value(wrap(octets)) == ([b"octets", "text", "s"], len(octets))


def test_values_own_their_octets() -> None:
    data = bytearray(encode_value([b"octets", {"k": b"v"}]))
    value, _ = decode_value(data)
    held = value[0]
    data[:] = bytes(len(data))
    assert value == [b"octets", {"k": b"v"}]
    assert type(held) is bytes


@pytest.mark.parametrize("offset", [-1, 1, 100])
def test_an_offset_lies_in_the_data(offset: int) -> None:
    with pytest.raises(DecodeError, match="nothing to decode"):
        decode_value(b"\x40", offset)
    with pytest.raises(DecodeError, match="nothing to decode"):
        decode_value(b"")

"""Which type code a Python value takes, and values that no type code stands for."""

from __future__ import annotations

import copy
import pickle
import struct
from collections import ChainMap, OrderedDict
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from enum import IntEnum
from typing import Any

import pytest

from amqpforge_protocol import amqp_0_9_1, amqp_0_10_preview, amqp_1_0_draft
from amqpforge_protocol._support.containers import Array, Map, Opaque, UnknownStruct
from amqpforge_protocol._support.errors import EncodeError
from amqpforge_protocol._support.scaled import from_scaled, to_scaled
from amqpforge_protocol._support.wrappers import (
    Bit,
    Char,
    CodedBytes,
    CodedDecimal,
    CodedInt,
    CodedStr,
    Decimal32,
    Int,
    Long,
    PosixTime,
    Symbol,
    Timestamp,
    ULong,
)

DIALECTS: list[Any] = [amqp_0_9_1, amqp_0_10_preview, amqp_1_0_draft]


class Colour(IntEnum):
    RED = 5


class Text(str):
    """A subclass that says nothing about its code."""


def first(dialect: Any, value: Any) -> int:
    octets: bytes = dialect.encode_value(value)
    return octets[0]


@pytest.mark.parametrize(
    ("value", "letter", "preview", "draft"),
    [
        (True, "t", 0x08, 0x08),
        (1, "I", 0x21, 0x21),
        (2**31 - 1, "I", 0x21, 0x21),
        (-(2**31), "I", 0x21, 0x21),
        (2**31, "l", 0x31, 0x31),
        (-(2**31) - 1, "l", 0x31, 0x31),
        (Int(1), "I", 0x21, 0x21),
        (Long(1), "l", 0x31, 0x31),
        (Colour.RED, "I", 0x21, 0x21),
        (1.5, "d", 0x33, 0x33),
        ("a", "S", 0x85, 0x85),
        ("é" * 127, "S", 0x85, 0x85),
        ("é" * 128, "S", 0x95, 0x95),
        (Text("a"), "S", 0x85, 0x85),
        (b"a", "x", 0x80, 0x80),
        (bytes(256), "x", 0x90, 0x90),
        (bytes(65536), "x", 0xA0, 0xA0),
        (bytearray(b"a"), "x", 0x80, 0x80),
        (memoryview(b"a"), "x", 0x80, 0x80),
        (None, "V", 0xF0, 0xF0),
        (Decimal("1.5"), "D", 0xC8, 0xC8),
        (datetime(2024, 1, 1, tzinfo=UTC), "T", 0x38, 0x38),
        ({}, "F", 0xA8, 0xA8),
        (OrderedDict(a=1), "F", 0xA8, 0xA8),
        (ChainMap({"a": 1}), "F", 0xA8, 0xA8),
        ([], "A", 0xA9, 0xA9),
        ((1, "a"), "A", 0xA9, 0xA9),
    ],
)
def test_the_code_of_a_python_value(value: Any, letter: str, preview: int, draft: int) -> None:
    assert first(amqp_0_9_1, value) == ord(letter)
    assert first(amqp_0_10_preview, value) == preview
    assert first(amqp_1_0_draft, value) == draft
    assert amqp_0_9_1.encode_value([value]) == (
        b"A" + struct.pack(">I", len(amqp_0_9_1.encode_value(value))) + amqp_0_9_1.encode_value(value)
    )


def test_what_only_some_dialects_have_a_code_for() -> None:
    assert first(amqp_0_10_preview, 2**63) == first(amqp_1_0_draft, ULong(1)) == 0x32
    assert first(amqp_0_10_preview, Decimal(2**31)) == first(amqp_1_0_draft, Decimal(-(2**31) - 1)) == 0xD8
    assert amqp_1_0_draft.encode_value(amqp_1_0_draft.SerialNumber(7)) == b"\x28\x00\x00\x00\x07"
    refused: list[tuple[Any, Any]] = [
        (amqp_0_9_1, 2**63), (amqp_0_9_1, ULong(1)), (amqp_0_9_1, Char("a")), (amqp_0_9_1, Decimal(2**31)),
        (amqp_0_9_1, Opaque(0x0F, b"a")), (amqp_0_9_1, Array([], "x")), (amqp_0_9_1, Bit()),
        (amqp_0_9_1, Symbol("a")), (amqp_0_9_1, Timestamp(1)), (amqp_0_9_1, Decimal32(1)),
        (amqp_0_10_preview, Opaque(0x0F, b"a")), (amqp_0_10_preview, UnknownStruct(1, b"")),
        (amqp_0_10_preview, amqp_1_0_draft.SerialNumber(7)), (amqp_1_0_draft, PosixTime(1)),
    ]  # fmt: skip
    for dialect, value in refused:
        with pytest.raises(EncodeError):
            dialect.encode_value(value)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda module: module.__name__)
@pytest.mark.parametrize(
    "value",
    [
        object(), 1j, {1, 2}, range(3), len, 2**64, -(2**63) - 1, "\ud800", [object()], {"k": object()},
        {1: 2}, {"k": "\udfff"}, datetime(2024, 1, 1), Map([("a", 1)]), Array([object()], "int32"),
        Array([1], "no-type"), Array([1], "int32", descriptor=1), Decimal("nan"), Decimal("inf"),
        Decimal("1E-256"), Decimal("1E+19"), CodedInt(1, 0xE0), CodedStr("a", 0x99), CodedBytes(b"a", 0xE0),
        CodedDecimal(1, 0x01), Opaque(0xE0, b""),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_code_stands_for_is_refused(dialect: Any, value: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        dialect.encode_value(value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (CodedStr("ab", 0x04), "is not a value of type char"),
        (CodedStr("x" * 256, 0x84), "holds at most 255"),
        (CodedStr("☃", 0x84), "is not a value of type str8-latin"),
        (CodedBytes(b"abc", 0x10), "is not a value of type bin16"),
        (CodedBytes(bytes(256), 0x80), "holds at most 255"),
        (CodedBytes(b"a", 0x85), "0x85 is not the code of octets"),
        (CodedDecimal(2**31, 0xC8), "is not a value of type dec32"),
        (Opaque(0x25, b"abc"), "takes 4 octets, not 3"),
        (Opaque(0x81, bytes(256)), "holds at most 255"),
        (Opaque(0x21, b"abcd"), "is not a value of type 0x21"),
        (Array([1.5], "uint8"), "is not a value of type uint8"),
        (Array([256], "uint8"), "is not a value of type uint8"),
        (Array([b"a"], "0x25"), "is not a value of type 0x25"),
        (Array([Opaque(0x26, b"abcd")], "0x25"), "is not a value of type 0x25"),
        (Array([], "0x21"), "no type that elements can have"),
        (Array([1], "boolean"), "is not a value of type boolean"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_its_own_code(value: Any, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        amqp_1_0_draft.encode_value(value)


def test_octets_for_the_code_of_a_text() -> None:
    assert amqp_0_9_1.encode_value(CodedBytes(b"\xff", 0x53)) == b"S\x00\x00\x00\x01\xff"
    assert amqp_0_10_preview.encode_value(CodedBytes(b"\xff", 0x84)) == b"\x84\x01\xff"
    with pytest.raises(EncodeError, match="at most 255"):
        amqp_0_10_preview.encode_value(CodedBytes(bytes(256), 0x84))
    with pytest.raises(EncodeError, match="0x27 is not the code of octets or of a text"):
        amqp_0_10_preview.encode_value(CodedBytes(b"abcd", 0x27))


# ---- the wrappers themselves ----

WRAPPED: list[Any] = [
    Long(-1), Bit(), PosixTime(1), CodedInt(5, 0x4C), CodedStr("a'b", 0x84), CodedBytes(b"ab", 0x90),
    CodedDecimal("1.50", 0xD8),
]  # fmt: skip


@pytest.mark.parametrize("value", WRAPPED, ids=repr)
def test_wrappers_survive_copying_and_pickling(value: Any) -> None:
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert type(again) is type(value)
        assert repr(again) == repr(value)
        assert again == value
        assert hash(again) == hash(value)


def test_how_wrappers_print_compare_and_compute() -> None:
    assert [repr(value) for value in WRAPPED] == [
        "Long(-1)", "Bit(1)", "PosixTime(1)", "CodedInt(5, 0x4c)", """CodedStr("a'b", 0x84)""",
        "CodedBytes(b'ab', 0x90)", "CodedDecimal('1.50', 0xd8)",
    ]  # fmt: skip
    assert [str(value) for value in WRAPPED if not isinstance(value, bytes)] == [
        "-1",
        "1",
        "1",
        "5",
        "a'b",
        "1.50",
    ]
    assert {5: "five"}[CodedInt(5, 0x4C)] == "five"
    assert CodedStr("a", 0x84) == "a"
    assert f"{CodedStr('a', 0x84)}b" == "ab"
    assert CodedBytes(b"a", 0x90) + b"b" == b"ab"
    assert CodedDecimal("1.5", 0xD8) * 2 == 3
    assert CodedInt(5, 0x4C) + 1 == 6
    assert Bit()


@pytest.mark.parametrize(
    ("kind", "wrong"), [(Long, 2**63), (Long, -(2**63) - 1), (Bit, 0), (PosixTime, -1), (PosixTime, 2**64)]
)
def test_the_range_of_a_wrapper(kind: Any, wrong: int) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__} holds"):
        kind(wrong)


def test_seconds_and_datetimes() -> None:
    assert PosixTime.from_datetime(datetime(2024, 1, 1, 0, 0, 0, 999_999, UTC)) == 1704067200
    assert PosixTime(0).to_datetime() == datetime(1970, 1, 1, tzinfo=UTC)
    for wrong in (datetime(2024, 1, 1), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)):
        with pytest.raises(ValueError, match="PosixTime"):
            PosixTime.from_datetime(wrong)
    with pytest.raises(OverflowError):
        PosixTime(2**64 - 1).to_datetime()


def test_scaled_decimals_do_not_depend_on_the_context() -> None:
    with localcontext() as context:
        context.prec = 3
        assert from_scaled(123456789, 4).as_tuple() == Decimal("12345.6789").as_tuple()
        assert to_scaled(Decimal("12345.6789")) == (123456789, 4)
    assert to_scaled(Decimal("1E+3")) == (1000, 0)
    assert to_scaled(Decimal("-0.00")) == (0, 2)
    assert from_scaled(-15, 1).as_tuple() == Decimal("-1.5").as_tuple()
    wrong: list[Any] = [1, "1", Decimal("snan"), Decimal(10**19), Decimal("1E+400000"), Decimal("0E-256")]
    for value in wrong:
        with pytest.raises(EncodeError):
            to_scaled(value)

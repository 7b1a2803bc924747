"""Any value goes over the wire and comes back as it was: by type and value, whatever it is nested in."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge_protocol import amqp_0_9_1, amqp_0_10_preview, amqp_1_0_draft
from amqpforge_protocol._support.containers import Array, Opaque, UnknownStruct
from amqpforge_protocol._support.serial import SerialNumber
from amqpforge_protocol._support.wrappers import (
    Bit,
    Byte,
    Char,
    CodedBytes,
    CodedDecimal,
    CodedInt,
    CodedStr,
    Float,
    Long,
    PosixTime,
    Short,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LATIN = st.binary(max_size=20).map(lambda octets: octets.decode("iso-8859-15"))
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def whole(kind: Any, bits: int, *, signed: bool) -> st.SearchStrategy[Any]:
    """Whole numbers of so many bits, in a wrapper."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.integers(low, high).map(kind)


def coded(kind: Any, code: int, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values.map(lambda value: kind(value, code))


def decimals(bits: int) -> st.SearchStrategy[Decimal]:
    numbers = st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    return st.builds(lambda number, places: Decimal(f"{number}E-{places}"), numbers, st.integers(0, 255))


def outside(bits: int, numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The numbers that do not fit into so many bits with a sign."""
    return numbers.filter(lambda number: not -(1 << bits - 1) <= number < 1 << bits - 1)


SMALL = [
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.floats(width=32, allow_nan=False).map(Float),
    TEXT,
    st.binary(max_size=20),
    whole(Byte, 8, signed=True),
    whole(UByte, 8, signed=False),
    whole(Short, 16, signed=True),
    whole(UShort, 16, signed=False),
    whole(UInt, 32, signed=False),
    whole(Long, 32, signed=True),
    decimals(32),
]

LETTERS = st.one_of(
    *SMALL,
    whole(PosixTime, 64, signed=False),
    coded(CodedInt, 0x4C, st.integers(-(2**63), 2**63 - 1)),
    coded(CodedBytes, 0x53, st.just(b"\xff\xfe")),
)

SHARED = [
    *SMALL,
    st.uuids(),
    whole(ULong, 63, signed=False),
    st.integers(2**63, 2**64 - 1),
    st.characters(exclude_categories=["Cs"]).map(Char),
    coded(CodedStr, 0x04, st.sampled_from("€é x")),
    coded(CodedStr, 0x84, LATIN),
    coded(CodedStr, 0x86, TEXT),
    coded(CodedStr, 0x94, LATIN),
    coded(CodedStr, 0x95, TEXT),
    coded(CodedStr, 0x96, TEXT),
    coded(CodedBytes, 0x10, st.binary(min_size=2, max_size=2)),
    coded(CodedBytes, 0x90, st.binary(max_size=20)),
    coded(CodedBytes, 0xA0, st.binary(max_size=20)),
    coded(CodedDecimal, 0xD8, decimals(32)),
    outside(32, st.integers(-(2**63), 2**63 - 1)).map(lambda number: Decimal(f"{number}E-3")),
]

CODES = st.one_of(
    *SHARED,
    whole(PosixTime, 64, signed=False),
    coded(CodedStr, 0xA5, TEXT),
    coded(CodedStr, 0xA7, TEXT),
    st.lists(st.integers(-(2**31), 2**31 - 1)).map(lambda items: Array(items, "field-table-signed-int")),
)

TYPES = st.one_of(
    *SHARED,
    whole(Timestamp, 64, signed=True),
    whole(SerialNumber, 32, signed=False),
    st.just(Bit()),
    st.builds(Opaque, st.just(0x91), st.binary(max_size=20)),
    st.builds(Opaque, st.just(0x25), st.binary(min_size=4, max_size=4)),
    st.builds(UnknownStruct, st.integers(0xFE00, 0xFEFF), st.binary(max_size=20)),
    st.lists(whole(UByte, 8, signed=False)).map(lambda items: Array(items, "uint8")),
    st.lists(st.lists(st.booleans(), max_size=2), max_size=3).map(lambda items: Array(items, "list")),
)


def inside(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The values, and lists and maps of them."""
    return st.recursive(
        values,
        lambda some: st.lists(some, max_size=4) | st.dictionaries(KEYS, some, max_size=4),
        max_leaves=12,
    )


PER_DIALECT: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (amqp_0_9_1, inside(LETTERS)),
    (amqp_0_10_preview, inside(CODES)),
    (amqp_1_0_draft, inside(TYPES)),
]


@pytest.mark.parametrize(
    ("dialect", "values"), PER_DIALECT, ids=lambda one: getattr(one, "__name__", "values")
)
def test_a_value_comes_back_as_it_was(dialect: Any, values: st.SearchStrategy[Any]) -> None:
    @given(values)
    def round_trip(value: Any) -> None:
        octets = dialect.encode_value(value)
        again, behind = dialect.decode_value(octets)
        assert behind == len(octets)
        assert repr(again) == repr(value)
        assert dialect.encode_value(again) == octets

    round_trip()


ENCODERS: list[tuple[Any, Any, st.SearchStrategy[Any]]] = [
    (amqp_0_9_1.encode_table, amqp_0_9_1.decode_table, LETTERS),
    (amqp_0_10_preview.encode_table, amqp_0_10_preview.decode_table, CODES),
    (amqp_1_0_draft.encode_map, amqp_1_0_draft.decode_map, TYPES),
]


@pytest.mark.parametrize(
    ("encode", "decode", "values"), ENCODERS, ids=lambda one: getattr(one, "__module__", "v")
)
def test_a_map_comes_back_as_it_was(encode: Any, decode: Any, values: st.SearchStrategy[Any]) -> None:
    @given(st.dictionaries(KEYS, values, max_size=6), st.binary(max_size=3))
    def round_trip(entries: dict[str, Any], behind: bytes) -> None:
        octets = encode(entries)
        again, end = decode(behind + octets + behind, len(behind))
        assert end == len(behind) + len(octets)
        assert repr(again) == repr(entries)

    round_trip()

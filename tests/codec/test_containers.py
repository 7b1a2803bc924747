"""Maps that a dict cannot hold, arrays, described values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge_protocol._support.containers import identity
from amqpforge_protocol.amqp_1_0 import (
    Array,
    DecodeError,
    Described,
    EncodeError,
    Float,
    Int,
    Map,
    Symbol,
    UByte,
    UInt,
    ULong,
    decode_value,
    encode_value,
)
from tests.codec import strategies
from tests.codec.objects import amqp
from tests.codec.sameness import same

ONES: list[Any] = [1, True, 1.0, UByte(1), UInt(1), ULong(1), Int(1), Float(1), Decimal(1), Decimal("1.0")]
ODD_KEYS: list[Any] = [[1], [UInt(1)], [], {"a": 1}, {}, Array([1], "long"), Described(ULong(2**40), 1), None]
ODD_KEYS += [float("nan"), 0.0, -0.0, "a", Symbol("a"), b"a", amqp.Char("a"), UUID(int=1), amqp.Accepted()]


def test_keys_are_told_apart_by_type_and_value() -> None:
    keys = ONES + ODD_KEYS
    entries = Map([(key, at) for at, key in enumerate(keys)])
    assert len(entries) == len(keys)
    for at, key in enumerate(keys):
        assert entries[key] == at
        assert key in entries
    assert list(entries.values()) == list(range(len(keys)))
    assert same(list(entries), keys)
    again = decode_value(encode_value(entries))[0]
    assert type(again) is Map
    assert same(again, entries)


@pytest.mark.parametrize("key", ONES + ODD_KEYS, ids=repr)
def test_a_key_that_occurs_twice_is_refused(key: Any) -> None:
    pair = encode_value(key) + b"\x40"
    for octets in (pair + pair, pair + b"\xa1\x01z\x41" + pair):
        count = 4 if octets == pair * 2 else 6
        with pytest.raises(DecodeError, match="a key occurs twice") as caught:
            decode_value(b"\xd1" + (len(octets) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + octets)
        assert caught.value.type == "map"


def test_the_same_key_in_two_forms_occurs_twice() -> None:
    for first, second in (
        (b"\x43", b"\x52\x00"),
        (b"\x41", b"\x56\x01"),
        (b"\xa1\x01k", b"\xb1\x00\x00\x00\x01k"),
    ):
        body = first + b"\x40" + second + b"\x40"
        with pytest.raises(DecodeError, match="a key occurs twice"):
            decode_value(b"\xc1" + bytes((len(body) + 1, 4)) + body)


def test_a_map_is_a_dict_where_a_dict_says_the_same() -> None:
    for entries in (
        {"a": 1, Symbol("b"): 2},
        {1: "a", UInt(2): "b"},
        {None: 1},
        {b"a": 1, ULong(1): 2},
        {},
    ):
        assert type(decode_value(encode_value(entries))[0]) is dict
    odd: list[Any] = [[1], {}, Described(ULong(2**40), 1)]
    for key in odd:
        assert type(decode_value(encode_value(Map([(key, 1)])))[0]) is Map
    for keys in ((1, 1.0), (0.0, -0.0), (Decimal(1), Decimal("1.0"))):
        assert type(decode_value(encode_value(Map([(key, 1) for key in keys])))[0]) is Map
    assert type(decode_value(encode_value(Map([("a", 1), (Symbol("a"), 2)])))[0]) is Map


def test_keys_that_a_peer_can_make_collide_are_not_put_into_a_dict() -> None:
    """The hash of an int, and with it that of a UUID and of a Decimal, is its remainder by 2^61 - 1."""
    modulus = (1 << 61) - 1
    uuids = [UUID(int=1 + modulus * at) for at in range(100)]
    decimals = [Decimal(1 + modulus * at) for at in range(100)]
    for keys in (uuids, decimals):
        assert len(set(map(hash, keys))) == 1
        assert len({hash(identity(key)) for key in keys}) == 100
        again = decode_value(encode_value(Map([(key, None) for key in keys])))[0]
        assert type(again) is Map
        assert list(again) == keys


def test_the_order_of_a_map_is_kept() -> None:
    for keys in (["b", "a", "c"], [3, 1, 2], [[2], [1], "x"]):
        pairs = [(key, at) for at, key in enumerate(keys)]
        assert same(list(decode_value(encode_value(Map(pairs)))[0]), keys)


def test_a_map_with_an_odd_number_of_elements_is_refused() -> None:
    with pytest.raises(DecodeError, match="a key lacks its value"):
        decode_value(b"\xc1\x02\x01\x40")


def test_a_map_is_like_a_dict() -> None:
    entries = Map([("a", 1), (ULong(1), 2)])
    assert entries.get("a") == 1
    assert entries.get("z") is None
    assert entries.get("z", 5) == 5
    assert entries.get(1) is None
    assert 1 not in entries
    assert list(entries.keys()) == ["a", 1]
    assert list(entries.items()) == [("a", 1), (1, 2)]
    entries["a"] = 3
    entries[1] = 4
    assert list(entries.items()) == [("a", 3), (1, 2), (1, 4)]
    del entries[ULong(1)]
    assert list(entries.items()) == [("a", 3), (1, 4)]
    for absent in ("z", UInt(1)):
        with pytest.raises(KeyError):
            entries[absent]
        with pytest.raises(KeyError):
            del entries[absent]
    assert repr(entries) == "Map([('a', 3), (1, 4)])"
    assert not Map()
    assert len(Map()) == 0


def test_when_maps_are_equal() -> None:
    assert Map([("a", 1), ("b", 2)]) == Map([("b", 2), ("a", 1)])
    assert Map([("a", 1)]) == {"a": 1}
    assert Map([("a", 1)]) == {"a": 1}
    assert Map([("a", 1)]) != {"a": 2}
    assert Map([("a", 1)]) != {"a": 1, "b": 2}
    assert Map([(1, 1)]) != Map([(UInt(1), 1)])
    assert Map([("a", 1)]) != [("a", 1)]
    with pytest.raises(TypeError, match="unhashable"):
        hash(Map())


@given(st.lists(st.tuples(strategies.values, strategies.simple), max_size=6))
def test_a_map_holds_the_last_value_of_each_key_in_the_order_of_the_first(
    pairs: list[tuple[Any, Any]],
) -> None:
    found: list[list[Any]] = []
    for key, value in pairs:
        place = next((at for at, (held, _) in enumerate(found) if same(held, key)), None)
        if place is None:
            found.append([key, value])
        else:
            found[place][1] = value
    assert same([list(pair) for pair in Map(pairs).items()], found)


# ---- arrays ----


def test_an_array_is_like_a_sequence() -> None:
    array = Array([UInt(1), UInt(2)], "uint")
    assert list(array) == [1, 2]
    assert len(array) == 2
    assert array[1] == 2
    assert array == Array([1, 2], "uint")
    assert array != Array([1, 2], "ulong")
    assert array != Array([1, 2], "uint", ULong(1))


@pytest.mark.parametrize(
    ("items", "element", "octets"),
    [
        ([0, 255], "uint", "e0 04 02 52 00ff"),
        ([0, 256], "uint", "e0 0a 02 70 00000000 00000100"),
        ([-128, 127], "long", "e0 04 02 55 80 7f"),
        ([-1, 128], "int", "e0 0a 02 71 ffffffff 00000080"),
        ([0, 0], "ulong", "e0 04 02 53 00 00"),
        ([True, False], "boolean", "e0 04 02 56 01 00"),
        ([None, None], "null", "e0 02 02 40"),
        (["a", ""], "string", "e0 05 02 a1 0161 00"),
        ([[], [1]], "list", "e0 08 02 c0 01 00 03 01 5501"),
        ([{}, {}], "map", "e0 06 02 c1 0100 0100"),
        ([Array([], "null")], "array", "e0 05 01 e0 02 00 40"),
        ([], "symbol", "e0 02 00 a3"),
    ],
)
def test_elements_share_the_narrowest_form(items: list[Any], element: str, octets: str) -> None:
    expected = bytes.fromhex(octets.replace(" ", ""))
    assert encode_value(Array(items, element)) == expected
    again = decode_value(expected)[0]
    assert again == Array(items, element)


def test_long_elements_take_the_long_form_together() -> None:
    array = Array(["a", "b" * 256], "string")
    octets = encode_value(array)
    assert octets[9] == 0xB1
    assert decode_value(octets)[0] == array
    nested = Array([[1], list(range(300))], "list")
    assert decode_value(encode_value(nested))[0] == nested
    signed = Array([Int(-1), Int(-129), Int(5)], "int")
    assert same(decode_value(encode_value(signed))[0], signed)


@pytest.mark.parametrize("size", [251, 252, 253, 254, 255, 256])
def test_the_form_of_an_array_follows_from_its_size(size: int) -> None:
    octets = encode_value(Array([UByte(0)] * size, "ubyte"))
    assert octets[0] == (0xE0 if size + 2 < 256 else 0xF0)
    assert len(decode_value(octets)[0]) == size


@pytest.mark.parametrize(
    "array",
    [
        Array([1], "nothing"),
        Array([1], ""),
        Array(["a"], "uint"),
        Array([1, "a"], "long"),
        Array([1], "described"),
        Array([Described(ULong(1), 1), Described(ULong(2), 1)], "described"),
        Array([Described(ULong(1), 1), 1], "described"),
        Array([Described(ULong(2**40), 1), Described(ULong(2**40), "a")], "described"),
        Array([-1], "ulong"),
        Array([object()], "null"),
    ],
    ids=repr,
)
def test_elements_of_another_type_are_refused(array: Array) -> None:
    with pytest.raises(EncodeError):
        encode_value(array)


def test_elements_under_descriptors() -> None:
    one = Array([1, 2], "long", Symbol("example:a"))
    assert encode_value(one) == b"\xe0\x10\x02\x00\xa3\x09example:a\x55\x01\x02"
    two = Array([Described(ULong(2**40), 1), Described(ULong(2**40), 2)], "described", Symbol("example:a"))
    three = Array([Described(ULong(2**41), item) for item in two.items], "described", Symbol("example:b"))
    for array in (one, two, three):
        assert same(decode_value(encode_value(array))[0], array)


def test_an_empty_array_under_two_descriptors_stays_encodable() -> None:
    octets = bytes.fromhex("e008000053010053 0240".replace(" ", ""))
    array = decode_value(octets)[0]
    assert array == Array([], "null", ULong(1))
    assert decode_value(encode_value(array))[0] == array


def test_an_array_of_booleans_in_each_form() -> None:
    assert decode_value(bytes.fromhex("e0020341"))[0] == Array([True] * 3, "boolean")
    assert decode_value(bytes.fromhex("e0020342"))[0] == Array([False] * 3, "boolean")
    assert decode_value(bytes.fromhex("e004025600 01".replace(" ", "")))[0] == Array([False, True], "boolean")


# ---- described values ----


def test_a_known_descriptor_gives_its_class() -> None:
    assert decode_value(encode_value(Described(ULong(0x24), [])))[0] == amqp.Accepted()
    assert decode_value(encode_value(Described(Symbol("amqp:accepted:list"), [])))[0] == amqp.Accepted()
    assert encode_value(amqp.Accepted()) == b"\x00\x53\x24\x45"
    for unknown in (UInt(0x24), 0x24, "amqp:accepted:list", UByte(0x24)):
        value = Described(unknown, [])
        assert same(decode_value(encode_value(value))[0], value)

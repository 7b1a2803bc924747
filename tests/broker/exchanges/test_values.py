"""What is equal when values, bindings and settings are compared, and what is kept of them in a store."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amqpforge_protocol.amqp_1_0 as amqp
from amqpforge.broker.errors import InvalidArgument, LimitExceeded
from amqpforge.broker.exchanges import (
    Binding,
    Chain,
    Destination,
    Step,
    settings_from_data,
    settings_to_data,
)
from amqpforge.broker.exchanges.values import MAX_DEPTH, canonical, check_arguments, check_key, check_name
from amqpforge.broker.settings import ExchangeSettings
from amqpforge_protocol.amqp_1_0 import (
    Array,
    Char,
    Decimal64,
    Described,
    Float,
    Map,
    Symbol,
    TerminusDurability,
    Timestamp,
    UByte,
    ULong,
)

FAMILIES: list[list[Any]] = [
    [None],
    [True],
    [False],
    [1, UByte(1), ULong(1), 1.0, Float(1), Decimal(1), Decimal("1.000"), TerminusDurability(1)],
    [0, -0.0, Decimal("-0.00")],
    [0.5, Decimal("0.5"), Decimal64("0.50")],
    [0.1],
    [Float(0.1), Float(0.10000000149), struct.unpack(">f", struct.pack(">f", 0.1))[0]],
    [Decimal("0.1"), Decimal("0.10")],
    [10**30, Decimal("1E+30"), Decimal("10E+29")],
    [10**22, 1e22],
    [float("nan"), Decimal("NaN"), Decimal("sNaN"), Decimal("-sNaN7"), Float("nan")],
    [float("inf"), Decimal("Infinity")],
    [Timestamp(1)],
    ["1", Symbol("1")],
    [Char("1")],
    [b"1"],
    [""],
    [UUID(int=1)],
    [[1, "a"], [1.0, Symbol("a")]],
    [[True, "a"]],
    [["1", "a"]],
    [Array([1], "long"), Array([UByte(1)], "ubyte")],
    [Array([1], "long", Symbol("x"))],
    [{"a": 1, "b": None}, {"b": None, "a": UByte(1)}, Map([("b", None), ("a", 1)])],
    [{"a": True, "b": None}],
    [Described(Symbol("x"), 1), Described("x", 1.0)],
]
"""Within one of these all values are equal; between them none are."""


def test_values_are_equal_within_their_family_alone() -> None:
    members = [(number, value) for number, family in enumerate(FAMILIES) for value in family]
    for number, value in members:
        for other_number, other in members:
            equal = canonical(value) == canonical(other)
            assert equal == (number == other_number), (value, other)
            assert not equal or hash(canonical(value)) == hash(canonical(other))


def test_no_one_can_choose_values_that_share_a_hash() -> None:
    """Python's hash of a number is its remainder by 2^61 - 1."""
    prime = (1 << 61) - 1
    decimals = [Decimal(prime * factor + 5) for factor in range(10, 1010)]
    nested = [[0, 0, prime * factor] for factor in range(4)]
    assert len({hash(number) for number in decimals}) == 1
    assert len({hash(canonical(number)) for number in decimals}) == len(decimals)
    assert len({hash(canonical(value)) for value in nested}) == len(nested)
    uuids = [UUID(int=prime * factor) for factor in range(1000)]
    assert len({hash(canonical(value)) for value in uuids}) == len(uuids)


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, (1, 2), amqp.Accepted()], ids=lambda value: str(type(value))
)
def test_what_is_no_amqp_value_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="argument 'a'"):
        Binding("x", Destination.queue("q"), "", {"a": value})


def test_values_are_compared_to_a_certain_depth() -> None:
    deep: list[Any] = []
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]
    canonical(deep)
    with pytest.raises(InvalidArgument, match="nested"):
        canonical([deep])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({str(number): 1 for number in range(257)}, LimitExceeded),
        ({"a": "x" * 70_000}, LimitExceeded),
        ({"": 1}, InvalidArgument),
        ({"n" * 256: 1}, InvalidArgument),
        ({"a": 1 << 70}, InvalidArgument),
        ({"a": Float(1e300)}, InvalidArgument),
    ],
    ids=["many", "large", "nameless", "long name", "no AMQP number", "no float"],
)
def test_arguments_are_bounded(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        check_arguments(arguments)


def test_names_and_keys_are_bounded_in_octets() -> None:
    check_name("a queue", "é" * 127)
    check_key("é" * 127 + "x")
    check_key("")
    for name in ("", "é" * 128, "a\nb", "a\x7f"):
        with pytest.raises(InvalidArgument, match="a queue"):
            check_name("a queue", name)
    with pytest.raises(InvalidArgument, match="256"):
        check_key("é" * 128)


def a_binding(**other: Any) -> Binding:
    given: dict[str, Any] = {"source": "x", "destination": Destination.queue("q"), "key": "k"}
    return Binding(**{**given, "arguments": {"a": 1, "b": "c"}, **other})


def test_bindings_are_equal_by_all_that_they_say() -> None:
    same = a_binding(arguments={"b": Symbol("c"), "a": 1.0})
    others = [
        a_binding(source="y"),
        a_binding(destination=Destination.queue("r")),
        a_binding(destination=Destination.exchange("q")),
        a_binding(key="l"),
        a_binding(arguments={"a": True, "b": "c"}),
        a_binding(arguments={"a": 1}),
    ]
    assert a_binding() == same
    assert hash(a_binding()) == hash(same)
    assert a_binding() != "k"
    assert len({a_binding(), same, *others}) == 1 + len(others)


def test_a_binding_keeps_its_arguments() -> None:
    arguments = {"a": 1}
    binding = Binding("x", Destination.queue("q"), "", arguments)
    arguments["a"] = 2
    assert binding.arguments == {"a": 1}
    with pytest.raises(TypeError):
        binding.arguments["a"] = 2  # type: ignore[index]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.integers(0, 255).map(UByte)
    | st.integers(0, 1 << 40).map(Timestamp)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([Symbol("s"), Char("c"), Decimal("0.10"), Decimal64("7")])
    | st.binary(max_size=5)
    | st.uuids(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(min_size=1, max_size=5), VALUES, max_size=4)


def as_stored(data: dict[str, Any]) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(json.dumps(data))
    return stored


@given(ARGUMENTS, st.text(max_size=5))
def test_what_is_stored_comes_back(arguments: dict[str, Any], key: str) -> None:
    binding = Binding("x", Destination.exchange("y"), key, arguments)
    restored = Binding.from_data(as_stored(binding.to_data()))
    assert restored == binding
    assert [type(value) for value in restored.arguments.values() if type(value) is not Map] == [
        type(value) for value in arguments.values() if type(value) is not dict
    ]
    chain = Chain("q", [Step("x", key, arguments), Step("y", key)])
    assert Chain.from_data(as_stored(chain.to_data())) == chain
    settings = ExchangeSettings(type="topic", durable=True, internal=True, arguments={"limit": 7})
    assert settings_from_data(as_stored(settings_to_data(settings))) == settings


@pytest.mark.parametrize(
    "damage",
    [
        {"source": 1},
        {"kind": "star"},
        {"destination": None},
        {"arguments": []},
        {"arguments": {"a": {"type": "uint"}}},
    ],
    ids=str,
)
def test_a_binding_that_was_not_written_so_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Binding.from_data({**a_binding().to_data(), **damage})


@pytest.mark.parametrize("steps", [None, [], [1, 2], [{"exchange": "x", "key": "k"}] * 2], ids=str)
def test_a_chain_that_was_not_written_so_is_refused(steps: object) -> None:
    with pytest.raises(InvalidArgument):
        Chain.from_data({"queue": "q", "steps": steps})


def test_settings_that_were_not_written_so_are_refused() -> None:
    data = settings_to_data(ExchangeSettings())
    for name in data:
        with pytest.raises(InvalidArgument, match=name):
            settings_from_data({key: value for key, value in data.items() if key != name})

"""Hypothesis strategies for everything that the dialect can say: values of every type, every composite,
messages.

Composites are drawn from the facts that their classes carry (``FIELDS``), so a class that is added to the
definitions is covered without a line here.
"""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any

from hypothesis import strategies as st

from amqpforge_protocol import amqp_1_0 as amqp
from amqpforge_protocol.amqp_1_0 import (
    AmqpSequence,
    AmqpValue,
    Array,
    Char,
    Data,
    Decimal32,
    Decimal64,
    Described,
    FieldInfo,
    Float,
    Map,
    Message,
    Symbol,
    messaging,
    registry,
    transport,
)
from tests.codec.vectors import classes

Strategy = st.SearchStrategy[Any]

INTEGERS: dict[str, tuple[type[int], int, int]] = {
    "ubyte": (amqp.UByte, 0, 0xFF),
    "ushort": (amqp.UShort, 0, 0xFFFF),
    "uint": (amqp.UInt, 0, 0xFFFF_FFFF),
    "ulong": (amqp.ULong, 0, 0xFFFF_FFFF_FFFF_FFFF),
    "byte": (amqp.Byte, -0x80, 0x7F),
    "short": (amqp.Short, -0x8000, 0x7FFF),
    "int": (amqp.Int, -0x8000_0000, 0x7FFF_FFFF),
    "long": (int, -(1 << 63), (1 << 63) - 1),
    "timestamp": (amqp.Timestamp, -(1 << 63), (1 << 63) - 1),
}


def integers(name: str) -> Strategy:
    """Integers of one wire type, its bounds and the bounds of its short forms among them."""
    kind, low, high = INTEGERS[name]
    edges = [one for one in (low, -129, -128, -1, 0, 1, 127, 128, 255, 256, high) if low <= one <= high]
    return (st.sampled_from(edges) | st.integers(low, high)).map(kind)


def decimals(kind: type[Decimal], digits: int, low: int, high: int) -> Strategy:
    """Numbers that a decimal format holds exactly, and the values that are not numbers."""
    finite = st.builds(
        lambda sign, coefficient, exponent: kind(f"{sign}{coefficient}E{exponent}"),
        st.sampled_from("+-"),
        st.integers(0, 10**digits - 1) | st.just(10**digits - 1),
        st.integers(low, high) | st.sampled_from((low, high)),
    )
    payload = st.integers(0, 10 ** (digits - 1) - 1).map(lambda number: str(number or ""))
    not_numbers = st.builds(lambda name, text: kind(name + text), st.sampled_from(NANS), payload)
    return finite | not_numbers | st.sampled_from(("Infinity", "-Infinity")).map(kind)


NANS = ("NaN", "-NaN", "sNaN", "-sNaN")
ASCII = st.text(st.characters(max_codepoint=127), max_size=8)

SIMPLE: dict[str, Strategy] = {
    "null": st.none(),
    "boolean": st.booleans(),
    **{name: integers(name) for name in INTEGERS},
    "float": (st.floats(allow_nan=False, width=32) | st.just(float("nan"))).map(Float),
    "double": st.floats(),
    "decimal32": decimals(Decimal32, 7, -101, 90),
    "decimal64": decimals(Decimal64, 16, -398, 369),
    "decimal128": decimals(Decimal, 34, -6176, 6111),
    "char": st.characters(exclude_categories=["Cs"]).map(Char),
    "uuid": st.uuids(),
    "binary": st.binary(max_size=8) | st.integers(250, 260).map(bytes),
    "string": st.text(max_size=8) | st.integers(250, 260).map(lambda size: "é" * size),
    "symbol": (ASCII | st.integers(250, 260).map(lambda size: "s" * size)).map(Symbol),
}

# Descriptors that no class has: numbers above those of the specification, names of a domain that is not its
# own.
DESCRIPTORS: Strategy = st.integers(0x1_0000_0000, 1 << 63).map(amqp.ULong) | ASCII.map(
    lambda text: Symbol("example:" + text)
)
simple = st.one_of(*SIMPLE.values())


@st.composite
def maps(draw: st.DrawFn, keys: Strategy, items: Strategy) -> Map:
    """Maps without a key twice."""
    return Map(draw(st.lists(st.tuples(keys, items), max_size=4)))


@st.composite
def arrays(draw: st.DrawFn, inner: Strategy) -> Array:
    """Arrays of every element type: described ones, of compound elements, and of no elements among them."""
    element = draw(st.sampled_from([*SIMPLE, "list", "map", "array", "described"]))
    descriptor = draw(st.none() | DESCRIPTORS)
    if element == "described":
        shared, plain = draw(DESCRIPTORS), draw(st.sampled_from([*SIMPLE]))
        items = draw(st.lists(SIMPLE[plain], min_size=1, max_size=4))
        outer = draw(DESCRIPTORS)
        return Array([Described(shared, item) for item in items], "described", outer)
    elements = {
        "list": st.lists(inner, max_size=3),
        "map": maps(inner, inner),
        "array": arrays(inner),
        **SIMPLE,
    }
    return Array(draw(st.lists(elements[element], max_size=5)), element, descriptor)


def _compound(inner: Strategy) -> Strategy:
    return st.one_of(
        st.lists(inner, max_size=4),
        maps(inner, inner),
        st.dictionaries(SIMPLE["string"], inner, max_size=4),
        arrays(inner),
        st.builds(Described, DESCRIPTORS, inner),
    )


values: Strategy = st.recursive(simple, _compound, max_leaves=12)
"""Free-standing values of any type."""


# ---- composites, from the facts of their fields ----

PROVIDERS = {one.name: one for one in vars(registry).values() if isinstance(one, registry.Providers)}
RULES = {
    one.name: one
    for module in (transport, messaging)
    for one in vars(module).values()
    if isinstance(one, registry.MapRule)
}


def _kebab(name: str) -> str:
    return "".join("-" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("-")


CHOICES = {
    _kebab(name): list(member)
    for name in amqp.__all__
    if isinstance(member := getattr(amqp, name), type) and issubclass(member, Enum)
}
_PLAIN = {amqp.ULong: "ulong", bytes: "binary", str: "string"}


def _provider(kind: type) -> Strategy:
    if hasattr(kind, "XML_NAME"):
        return composites(kind.XML_NAME)
    return SIMPLE[_PLAIN.get(kind, kind.__name__.lower())]


def is_free(archetype: str) -> bool:
    """Whether nothing is known that provides an archetype: it is left to extensions altogether."""
    return archetype not in PROVIDERS or not PROVIDERS[archetype].encoders


def provided(name: str) -> Strategy:
    """What may stand where an archetype is required: every provider, and what this dialect does not know."""
    if is_free(name):
        return values
    providers = PROVIDERS[name]
    return st.one_of(*map(_provider, providers.encoders), st.builds(Described, DESCRIPTORS, values))


def keyed_maps(name: str) -> Strategy:
    """Maps of a restricted type, with and without its reserved keys."""
    rule = RULES[name]
    keys = st.one_of(*[SIMPLE[key] for key in rule.keys])
    described = st.none() | st.builds(Described, DESCRIPTORS, values)
    items = {"any": values, "simple": simple, "described-or-null": described}[rule.values]
    entries = st.dictionaries(keys, items, max_size=3)
    if not rule.entries:
        return entries
    reserved = st.fixed_dictionaries(
        {}, optional={Symbol(key): _entry(entry) for key, entry in rule.entries.items()}
    )
    return st.builds(lambda one, other: {**one, **other}, entries, reserved)


def _entry(entry: registry.Entry) -> Strategy:
    if not entry.is_symbol:
        return composites("error") if entry.providers.name == "error" else provided(entry.providers.name)
    array = st.lists(SIMPLE["symbol"], min_size=1, max_size=3).map(lambda items: Array(items, "symbol"))
    return SIMPLE["symbol"] | array


def _one(info: FieldInfo) -> Strategy:
    if info.type in CHOICES:
        return st.sampled_from(CHOICES[info.type])
    if info.type in classes():
        return composites(info.type)
    if info.requires and info.primitive == "symbol":
        return _open_choice(info.requires)
    if info.requires:
        return provided(info.requires)
    if info.type in RULES:
        return keyed_maps(info.type)
    if info.type == "delivery-tag":
        return st.binary(max_size=32)
    if info.primitive == "map":
        return maps(simple, values).map(_plain_if_possible)
    if info.name == "outcomes":
        return st.sampled_from([Symbol(one) for one in _outcomes()]) | ASCII.map(
            lambda text: Symbol(f"example:{text}")
        )
    drawn = SIMPLE[info.primitive]
    return drawn.map(int) if info.primitive in INTEGERS and info.primitive != "timestamp" else drawn


def _outcomes() -> list[str]:
    return [kind.SYMBOL for kind in PROVIDERS["outcome"].encoders if hasattr(kind, "SYMBOL")]


def _open_choice(archetype: str) -> Strategy:
    known = list(PROVIDERS[archetype].symbols.values())
    return st.sampled_from(known) | ASCII.map(lambda text: Symbol(f"x-{text}"))


def _plain_if_possible(entries: Map) -> Any:
    try:
        plain = dict(entries.items())
    except TypeError:
        return entries
    return plain if len(plain) == len(entries) else entries


@cache
def fields(name: str) -> dict[str, tuple[Strategy, bool]]:
    """For every field of a composite, by attribute: its values, and whether it may be left out."""
    found: dict[str, tuple[Strategy, bool]] = {}
    for info in classes()[name].FIELDS:
        one = _one(info)
        drawn = st.lists(one, max_size=3) if info.multiple else one
        found[info.attribute] = (drawn, not info.mandatory)
    return found


@cache
def composites(name: str) -> Strategy:
    """Objects of the class with one of the specification's names."""
    return st.deferred(lambda: _composite(name))


@cache
def _composite(name: str) -> Strategy:
    kind = classes()[name]
    if kind.FIELDS or "value" not in kind.__annotations__:
        must = {attribute: drawn for attribute, (drawn, optional) in fields(name).items() if not optional}
        may = {attribute: drawn for attribute, (drawn, optional) in fields(name).items() if optional}
        return st.fixed_dictionaries(must, optional=may).map(lambda arguments: kind(**arguments))
    if name in RULES:
        return keyed_maps(name).map(kind)
    inner = {"data": SIMPLE["binary"], "amqp-sequence": st.lists(values, max_size=4), "amqp-value": values}
    return inner[name].map(kind)


def _optional(name: str) -> Strategy:
    return st.none() | composites(name)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Whole messages, with and without each of the optional sections."""
    body = draw(
        st.lists(st.builds(Data, SIMPLE["binary"]), min_size=1, max_size=3)
        | st.lists(st.builds(AmqpSequence, st.lists(values, max_size=3)), min_size=1, max_size=3)
        | st.builds(AmqpValue, values)
    )
    properties = draw(_optional("properties"))
    if properties is not None:
        properties.content_encoding = (
            Symbol("gzip") if isinstance(body, list) and type(body[0]) is Data else None
        )
    return Message(
        header=draw(_optional("header")),
        delivery_annotations=draw(keyed_maps("delivery-annotations")),
        message_annotations=draw(keyed_maps("message-annotations")),
        properties=properties,
        application_properties=draw(keyed_maps("application-properties")),
        footer=draw(keyed_maps("footer")),
        body=body,
    )

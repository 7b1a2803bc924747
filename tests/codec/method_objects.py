"""What the class/method dialects can say, for tests: methods, properties and structs.

They are drawn from the facts that their classes carry (``FIELDS``), so what is added to the definitions is
covered without a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from amqpforge_protocol import amqp_0_9_1, amqp_0_10_preview
from amqpforge_protocol._support.containers import Array
from amqpforge_protocol._support.wrappers import PosixTime

Strategy = st.SearchStrategy[Any]

#: Dialects of the grammar. What one of them lacks is looked up by name, so both are untyped here.
v091: Any = amqp_0_9_1
preview: Any = amqp_0_10_preview
DIALECTS = [v091, preview]

NUMBERS = {"octet": 8, "short": 16, "long": 32, "longlong": 64}
CHARACTERS = st.characters(exclude_categories=["Cs"])
KEYS = st.text(CHARACTERS, max_size=8)


def dialect_name(dialect: Any) -> str:
    """The folder of a dialect, for the ids of tests."""
    return str(dialect.__name__).rpartition(".")[2]


def method_classes(dialect: Any) -> list[Any]:
    """Every method of a dialect."""
    return list(dialect.RULES)


def content_classes(dialect: Any) -> list[Any]:
    """Every class that describes contents, with properties or with structs."""
    members = [getattr(dialect, name) for name in dialect.__all__]
    return [member for member in members if hasattr(member, "CLASS_ID") and not hasattr(member, "METHOD_ID")]


def struct_classes(dialect: Any) -> dict[str, Any]:
    """Every struct of a dialect by the specification's name."""
    members = [getattr(dialect, name) for name in dialect.__all__]
    return {
        member.XML_NAME: member
        for member in members
        if hasattr(member, "XML_NAME") and not hasattr(member, "CLASS_ID")
    }


def every(of: Any) -> list[Any]:
    """What ``of`` says of each dialect, as parameters of a test: a dialect and a class each."""
    return [(dialect, kind) for dialect in DIALECTS for kind in of(dialect)]


def name_of(value: Any) -> str:
    """The id of a parameter: a dialect or a class."""
    return dialect_name(value) if hasattr(value, "RULES") else str(value.XML_NAME)


def whole_numbers(bits: int, lowest: int = 0) -> Strategy:
    """Unsigned numbers of so many bits, from ``lowest`` on, the bounds among them."""
    highest = (1 << bits) - 1
    return st.sampled_from((lowest, 1, 0x7F, 0x80, highest)) | st.integers(lowest, highest)


def short_texts(least: int = 0) -> Strategy:
    """Texts of at most 255 octets in UTF-8."""
    longest = st.sampled_from(("x" * 255, "é" * 127))
    return st.text(CHARACTERS, min_size=least, max_size=12) | longest


@cache
def tables(dialect: Any) -> Strategy:
    """Field tables of common values; the tests of values know every type."""
    values = st.recursive(
        st.none() | st.booleans() | st.text(CHARACTERS, max_size=8) | st.integers(-(1 << 31), (1 << 31) - 1),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=6,
    )
    return st.dictionaries(KEYS, values, max_size=4)


#: The preview asserts something of nearly all fields: what its domains allow, and nothing that is empty.
ASSERTED = {
    "access-ticket": whole_numbers(16, 1),
    "delivery-tag": whole_numbers(64, 1),
    "exchange-name": st.from_regex("[a-zA-Z0-9_]{1,127}", fullmatch=True),
    "queue-name": st.from_regex("[a-zA-Z0-9_][a-z .é]{0,100}", fullmatch=True),
    "path": st.sampled_from(("/", "/a", "/a/b9", "/" + "a" * 120)),
}
ASSERTED_OF = {
    ("connection.open", "virtual-host"): st.sampled_from(("/", "/a", "/a/b9")),
    ("exchange.declare", "type"): st.from_regex("[a-zA-Z0-9_.:-]{1,60}", fullmatch=True),
}


def values(dialect: Any, owner: str, info: Any) -> Strategy:
    """Values of a field, as they come out of a decoder."""
    careful = dialect is preview
    if careful and (owner, info.name) in ASSERTED_OF:
        return ASSERTED_OF[owner, info.name]
    if careful and info.type in ASSERTED:
        return ASSERTED[info.type]
    structs = struct_classes(dialect)
    if info.type in structs:
        return objects(dialect, structs[info.type])
    one = _primitive(dialect, info.primitive, int(careful))
    return st.lists(one, max_size=3) if info.multiple else one


def _primitive(dialect: Any, primitive: str, least: int) -> Strategy:
    if primitive in NUMBERS:
        return whole_numbers(NUMBERS[primitive])
    coded = [kind for kind in struct_classes(dialect).values() if hasattr(kind, "CODE")]
    pairs = st.tuples(whole_numbers(32), whole_numbers(32))
    made: dict[str, Callable[[], Strategy]] = {
        "bit": st.booleans,
        "shortstr": lambda: short_texts(least),
        "longstr": lambda: st.binary(min_size=least, max_size=20),
        "timestamp": lambda: whole_numbers(64).map(PosixTime),
        "table": lambda: tables(dialect),
        "uuid": st.uuids,
        "array": lambda: st.lists(st.binary(max_size=5), min_size=1, max_size=3).map(
            lambda items: Array(items, "field-table-long-binary")
        ),
        "rfc1982-long-set": lambda: st.lists(pairs, max_size=3).map(tuple),
        "long-struct": lambda: st.one_of([objects(dialect, kind) for kind in coded]),
    }
    return made[primitive]()


@cache
def objects(dialect: Any, kind: Any) -> Strategy:
    """Objects of a class: a method, properties, or a struct. What may be absent is, now and then."""
    drawn = {}
    for info in kind.FIELDS:
        found = values(dialect, kind.XML_NAME, info)
        is_required = info.mandatory or info.primitive == "bit" or info.multiple
        drawn[info.attribute] = found if is_required else st.none() | found
    return st.builds(kind, **drawn)


def example_of(dialect: Any, kind: Any) -> Any:
    """One object of a class with every field set, always the same one."""
    return kind(**{info.attribute: _one(dialect, kind.XML_NAME, info) for info in kind.FIELDS})


def _one(dialect: Any, owner: str, info: Any) -> Any:
    structs = struct_classes(dialect)
    if info.type in structs:
        return example_of(dialect, structs[info.type])
    if (owner, info.name) == ("exchange.declare", "type"):
        return "direct"
    coded = [kind for kind in structs.values() if hasattr(kind, "CODE")]
    one: Any = {
        "bit": True,
        "octet": 0x12,
        "short": 0x1234,
        "long": 0x12345678,
        "longlong": 0x123456789ABCDEF0,
        "shortstr": "/four" if info.name == "virtual-host" else "four",
        "longstr": b"eleven",
        "timestamp": PosixTime(1_700_000_000),
        "table": {"key": "value", "number": 7},
        "uuid": UUID("00112233-4455-6677-8899-aabbccddeeff"),
        "array": Array([b"one", b"two"], "field-table-long-binary"),
        "rfc1982-long-set": ((1, 3), (6, 6)),
        "long-struct": example_of(dialect, coded[0]) if coded and info.primitive == "long-struct" else None,
    }[info.primitive]
    return [one, one] if info.multiple else one

"""Comparison of generated objects with their description in the typed notation."""

from __future__ import annotations

from enum import Enum
from typing import Any
from uuid import UUID

from amqpforge_protocol.amqp_1_0 import Array, FieldInfo, Map, Symbol, Timestamp
from tests.codec.sameness import same
from tests.codec.vectors import Typed, build, classes

PLAIN: dict[str, type] = {
    "boolean": bool,
    **dict.fromkeys(("ubyte", "ushort", "uint", "ulong"), int),
    "string": str,
    "symbol": Symbol,
    "binary": bytes,
    "timestamp": Timestamp,
    "uuid": UUID,
    "map": dict,
}
"""The Python type in which a field of one wire type holds its value."""


def assert_described(value: Any, typed: Typed) -> None:
    """Check an object against ``{"composite": name, "fields": ...}``, or a plain value against its typed
    form.
    """
    if "composite" not in typed:
        assert same(value, build(typed)) or _same_map(value, typed), f"{value!r} is not {typed}"
        return
    kind = classes()[typed["composite"]]
    assert type(value) is kind
    infos = {info.name: info for info in kind.FIELDS}
    assert set(typed["fields"]) <= set(infos)
    for name, info in infos.items():
        held = getattr(value, info.attribute)
        if name in typed["fields"]:
            _assert_field(held, info, typed["fields"][name])
        else:
            assert held == info.default
            assert type(held) is type(info.default)


def _assert_field(held: Any, info: FieldInfo, typed: Typed) -> None:
    if info.multiple:
        items = typed["value"]["items"] if typed["type"] == "array" else [typed]
        assert isinstance(held, list)
        assert len(held) == len(items)
        for one, item in zip(held, items, strict=True):
            _assert_one(one, info, item)
    else:
        _assert_one(held, info, typed)


def _assert_one(held: Any, info: FieldInfo, typed: Typed) -> None:
    if "composite" in typed or info.primitive == "*":
        assert_described(held, typed)
        return
    if info.primitive == "map":
        assert _same_map(held, typed)
        return
    plain = held.value if isinstance(held, Enum) and not isinstance(held, Symbol) else held
    assert isinstance(plain, PLAIN[info.primitive])
    assert type(held) is PLAIN[info.primitive] or isinstance(held, Enum)
    assert plain == build(typed)
    if not isinstance(held, Enum):
        assert type(held) is not bool or info.primitive == "boolean"


def _same_map(value: Any, typed: Typed) -> bool:
    """Whether a map holds the described entries in their order; composites among the values are looked
    into.
    """
    if not isinstance(value, dict | Map) or typed["type"] != "map":
        return False
    if len(value) != len(typed["value"]):
        return False
    for (key, item), (typed_key, typed_item) in zip(value.items(), typed["value"], strict=True):
        assert same(key, build(typed_key))
        assert_described(item, typed_item)
    return True


def is_array(value: object) -> bool:
    """Whether a free-standing value is an array."""
    return isinstance(value, Array)

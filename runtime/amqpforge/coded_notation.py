"""Values of the class/method and control/command dialects as JSON, in the style of `amqpforge.notation`.

The fields of a method, control, command or struct have their types from the definitions: there, null,
booleans, strings and integers up to 2^53 stand for themselves. Every other value, and every value inside a
table, map or list, is an object that names its type:

- `{"type": name, "value": ...}`, where the name is that of the field's elementary type, or that of the form
under which a table holds the value (`field-table-signed-int`); octets are in hexadecimal, large integers and
timestamps are decimal strings, float and double are `"0x"` and their bit pattern, decimals and UUIDs their
usual text;
- the value of a table or map is an object of typed values by name, in the order of the wire; that of a list
an array of them; that of an array `{"element": name, "items": [typed values]}`; that of a set an array of
`[first, last]` pairs;
- a struct is `{"type": name, "fields": {...}}`.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from types import ModuleType
from typing import Any
from uuid import UUID

from amqpforge_protocol._support.composite import FieldInfo
from amqpforge_protocol._support.containers import Array

__all__ = ["CodedNotation"]

Json = Any
"""What the json module writes."""

_EXACT = 1 << 53  # integers up to here survive readers that hold numbers as doubles


class CodedNotation:
    """The notation of one dialect, whose generated package is `dialect`."""

    def __init__(self, dialect: ModuleType) -> None:
        self._encode = dialect.encode_value
        self._names: dict[int, str] = dialect.values.ELEMENT_NAMES

    def fields(self, fields: Iterable[tuple[FieldInfo, object]]) -> dict[str, Json]:
        """Fields with their values, by name."""
        return {info.name: self._field(info, value) for info, value in fields}

    def _field(self, info: FieldInfo, value: Any) -> Json:
        if info.multiple and isinstance(value, list | tuple):
            return [self._simple(info.primitive, item) for item in value]
        return self._simple(info.primitive, value)

    def _simple(self, primitive: str, value: Any) -> Json:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int) and abs(value) <= _EXACT:
            return int(value)
        if hasattr(type(value), "FIELDS"):
            return self._struct(value)
        return {"type": primitive, "value": self._content(value)}

    def _struct(self, value: Any) -> Json:
        pairs = ((info, getattr(value, info.attribute)) for info in type(value).FIELDS)
        held = self.fields((info, field) for info, field in pairs if field is not None)
        return {"type": type(value).XML_NAME, "fields": held}

    def _typed(self, value: Any) -> Json:
        if hasattr(type(value), "FIELDS"):
            return self._struct(value)
        return {"type": self._name(value), "value": self._content(value)}

    def _name(self, value: Any) -> str:
        code: int = self._encode(value)[0]
        return self._names.get(code) or f"0x{code:02x}"

    def _content(self, value: Any) -> Json:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, int):
            return int(value) if abs(value) <= _EXACT else str(int(value))
        if isinstance(value, float):
            return "0x" + self._encode(value)[1:].hex()
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, Decimal | UUID):
            return str(value)
        if isinstance(value, Array):
            return {"element": value.element, "items": [self._content(item) for item in value.items]}
        if isinstance(value, tuple):
            return [[int(first), int(last)] for first, last in value]
        if isinstance(value, list):
            return [self._typed(item) for item in value]
        if isinstance(value, dict):
            return {str(key): self._typed(item) for key, item in value.items()}
        return "0x" + self._encode(value)[1:].hex()  # of a type that is not known

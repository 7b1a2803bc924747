"""Arrays as AMQP values: the way back from tagged structs, and from plain Arrow types that stand in their
place.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.types as kinds_of

from amqpforge.notation import from_json
from amqpforge_protocol._support.errors import EncodeError, shown
from amqpforge_protocol._support.wrappers import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

from .arrow import Array
from .tagged import TAGGED, Family

__all__ = ["is_value_type", "moments_of", "parsed", "values_of"]

_Make = Callable[[Any], Any]


def _itself(value: Any) -> Any:
    return value


_MAKERS: dict[str, tuple[Family, _Make]] = {
    "null": ("kind", lambda value: None),
    "boolean": ("bool", _itself),
    "ubyte": ("long", UByte),
    "ushort": ("long", UShort),
    "uint": ("long", UInt),
    "ulong": ("decimal", ULong),
    "byte": ("long", Byte),
    "short": ("long", Short),
    "int": ("long", Int),
    "long": ("long", _itself),
    "float": ("double", Float),
    "double": ("double", _itself),
    "decimal32": ("string", Decimal32),
    "decimal64": ("string", Decimal64),
    "decimal128": ("string", Decimal),
    "char": ("string", Char),
    "timestamp": ("timestamp", Timestamp),
    "uuid": ("string", UUID),
    "binary": ("binary", _itself),
    "string": ("string", _itself),
    "symbol": ("string", Symbol),
}
"""For each kind the column that has the value, and what makes the value of it; other kinds are JSON."""

_NAMES = [field.name for field in TAGGED.fields]

_PLAIN: tuple[tuple[Callable[[Any], bool], _Make], ...] = (
    (kinds_of.is_string, _itself),
    (kinds_of.is_large_string, _itself),
    (kinds_of.is_binary, _itself),
    (kinds_of.is_large_binary, _itself),
    (kinds_of.is_boolean, _itself),
    (kinds_of.is_int64, _itself),
    (kinds_of.is_int32, Int),
    (kinds_of.is_int16, Short),
    (kinds_of.is_int8, Byte),
    (kinds_of.is_uint64, ULong),
    (kinds_of.is_uint32, UInt),
    (kinds_of.is_uint16, UShort),
    (kinds_of.is_uint8, UByte),
    (kinds_of.is_float64, _itself),
    (kinds_of.is_float32, Float),
    (kinds_of.is_null, _itself),
)


def _maker(kind: Any) -> _Make | None:
    """What makes a value of what an array of a plain Arrow type has; None: no value is of the type."""
    return next((make for fits, make in _PLAIN if fits(kind)), None)


def _is_ulong(kind: Any) -> bool:
    return bool(kinds_of.is_decimal(kind)) and kind.scale == 0 and kind.precision <= 20


def is_value_type(kind: Any) -> bool:
    """Whether an array of the Arrow type ``kind`` can hold values of any type."""
    if kinds_of.is_struct(kind):
        return {field.name for field in kind} <= {*_NAMES} and kind.get_field_index("kind") >= 0
    return bool(kinds_of.is_timestamp(kind)) or _is_ulong(kind) or _maker(kind) is not None


def values_of(array: Array) -> list[Any]:
    """The values of an array that ``is_value_type`` admits; a null is None.

    Raises:
        EncodeError: a value is not one of its kind; the reason begins with ``row N``.
    """
    kind = array.type
    if kinds_of.is_struct(kind):
        return _tagged_values(array)
    if kinds_of.is_timestamp(kind):
        return _made(moments_of(array), Timestamp)
    if _is_ulong(kind):
        return _made(array.cast(pa.uint64()).to_pylist(), ULong)
    make = _maker(kind) or _itself
    values: list[Any] = array.to_pylist()
    return values if make is _itself else _made(values, make)


def _made(values: list[Any], make: _Make) -> list[Any]:
    return [None if value is None else make(value) for value in values]


def moments_of(array: Array) -> list[int | None]:
    """Milliseconds since 1970 of an array of moments of any unit; finer units are rounded down."""
    moments = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()).to_pylist()
    return [None if moment is None else moment // 1000 for moment in moments]


def _tagged_values(array: Array) -> list[Any]:
    columns = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
    kinds: list[str | None] = columns["kind"].to_pylist()
    filled = {name: _column(column) for name, column in columns.items() if column.null_count < len(array)}
    nothing: list[Any] = [None] * len(kinds)
    readers = {kind: _reader(kind, filled, nothing) for kind in {*kinds}}
    if len(readers) == 1 and "json" not in filled:
        column, make = readers[kinds[0]]
        if make is _itself and None not in column:
            return column
    texts = filled.get("json", nothing)
    values: list[Any] = []
    for row, (kind, text) in enumerate(zip(kinds, texts, strict=True)):
        column, make = readers[kind]
        value = column[row]
        try:
            values.append(_other_value(kind, text) if value is None or text is not None else make(value))
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise EncodeError(f"row {row}: no value of the kind {kind}: {error}") from error
    _refuse_untold(array, kinds, filled)
    return values


def _reader(kind: str | None, filled: dict[str, list[Any]], nothing: list[Any]) -> tuple[list[Any], _Make]:
    """The column that has the values of a kind, and what makes a value of it."""
    family, make = _MAKERS.get(kind or "", ("", _itself))
    return filled.get(family, nothing), make


def _other_value(kind: str | None, text: str | None) -> Any:
    """What stands in no column of its own. Raises ValueError or ArithmeticError: there is none."""
    if kind is None:
        return None
    if text is None and kind in _MAKERS:
        raise ValueError(f"the column {_MAKERS[kind][0]} is null")
    return parsed(text, kind)


def _refuse_untold(array: Array, kinds: list[str | None], filled: dict[str, list[Any]]) -> None:
    """A value without a kind would be lost: refuse it."""
    if array.null_count == kinds.count(None):
        return
    for row, kind in enumerate(kinds):
        if kind is None and any(column[row] is not None for column in filled.values()):
            raise EncodeError(f"row {row}: a value has no kind")


def _column(column: Array) -> list[Any]:
    if kinds_of.is_timestamp(column.type):
        return moments_of(column)
    if _is_ulong(column.type):
        column = column.cast(pa.uint64())
    values: list[Any] = column.to_pylist()
    return values


def parsed(text: str | None, kind: str) -> Any:
    """The value that a text in JSON stands for.

    Raises:
        ValueError: it stands for none.
    """
    if text is None:
        raise ValueError(f"there is neither a kind {shown(kind)} nor JSON")
    value: Any = from_json(json.loads(text))
    return value

"""Values of any type: one struct that names the type and has the value in one column of its family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from amqpforge_protocol._support.wrappers import Byte, Int, PosixTime, Short, UByte, UInt, UShort

from .arrow import Array, arrow_type, nulls
from .rest import json_text

__all__ = [
    "LEAST_MILLISECONDS",
    "MOST_MILLISECONDS",
    "TAGGED",
    "Family",
    "Kinds",
    "milliseconds",
    "tagged_array",
]

TAGGED = StructType(
    [
        StructField("kind", StringType()),
        StructField("bool", BooleanType()),
        StructField("long", LongType()),
        StructField("decimal", DecimalType(20, 0)),
        StructField("double", DoubleType()),
        StructField("string", StringType()),
        StructField("binary", BinaryType()),
        StructField("timestamp", TimestampType()),
        StructField("json", StringType()),
    ]
)
"""A value of any type. ``kind`` is the specification's name of its type, and says which of the other columns
has the value; all others are null. ``json`` has what is no single value, in a notation that loses nothing.
"""

_FIELDS = list(arrow_type(TAGGED))
TAGGED_ARROW = arrow_type(TAGGED)

LEAST_MILLISECONDS = int(datetime.min.replace(tzinfo=UTC).timestamp()) * 1000
MOST_MILLISECONDS = int(datetime.max.replace(tzinfo=UTC, microsecond=0).timestamp()) * 1000 + 999
"""The moments that a column holds: those of the years 1 to 9999, as Python and Spark's functions of time know
them.
"""

_NARROW = frozenset((bool, Byte, Int, Short, UByte, UInt, UShort))
"""Types whose values fit into their column always."""

Family = str
"""A column of ``TAGGED`` beside ``kind``, or ``null``."""


class Kinds:
    """How the values of one dialect are tagged."""

    __slots__ = ("_by_type", "_name", "_notation")

    def __init__(
        self,
        by_type: Mapping[type, tuple[str | None, Family]],
        name: Callable[[Any], str],
        notation: Callable[[Any], object],
    ) -> None:
        """What is known of the dialect.

        Args:
            by_type: for each Python type the name of the AMQP type, None where the value has to tell it, and
                its family; what is of none of these types is JSON.
            name: tells the type of a value by the value.
            notation: a value as JSON, without loss.
        """
        self._by_type = _ByType(by_type)
        self._name = name
        self._notation = notation

    def family(self, kind: type) -> tuple[str | None, Family]:
        """The name of the type of the values of a Python type, None where each tells it, and their family."""
        return self._by_type[kind]

    def name(self, value: object) -> str:
        """The specification's name of the type of a value."""
        return self._by_type[type(value)][0] or self._name(value)

    def notation(self, value: object) -> object:
        """A value as JSON, without loss."""
        return self._notation(value)


class _ByType(dict[type, tuple[str | None, Family]]):
    """What a type is, or the nearest one that it derives from: enumerations derive from what they list."""

    def __missing__(self, kind: type) -> tuple[str | None, Family]:
        entry = next((self[base] for base in kind.__mro__[1:] if base in self), (None, "json"))
        self[kind] = entry
        return entry


def tagged_array(values: Sequence[Any], kinds: Kinds, *, null_is_absent: bool) -> Array:
    """An array of ``TAGGED`` structs.

    Args:
        values: values of the dialect.
        kinds: how they are tagged.
        null_is_absent: None makes a null struct; otherwise a struct of the kind ``null``.
    """
    count = len(values)
    types = {*map(type, values)}
    if types <= {NoneType} and null_is_absent:
        return nulls(count, TAGGED_ARROW)
    entries = {kind: kinds.family(kind) for kind in types}
    families = {kind: family for kind, (_, family) in entries.items()}
    far = (
        {row: values[row] for row in _far_rows(values, families)}
        if _IN_RANGE.keys() & families.values()
        else {}
    )
    arrays = [_names(values, entries, kinds)]
    for field in _FIELDS[1:]:
        own = [kind for kind, family in families.items() if family == field.name]
        column: Sequence[Any]
        if field.name == "json" and far:
            column = [
                values[row] if row in far or families[type(values[row])] == "json" else None
                for row in range(count)
            ]
        elif not own:
            arrays.append(nulls(count, field.type))
            continue
        elif len(own) == len(types) and not far:
            column = values
        elif len(own) == 1:
            column = [value if type(value) is own[0] else None for value in values]
        else:
            column = [value if type(value) in own else None for value in values]
        if far and field.name != "json":
            column = [None if row in far else value for row, value in enumerate(column)]
        arrays.append(_WRITERS.get(field.name, _write_plain)(column, field.type, kinds))
    mask = pa.array([value is None for value in values]) if null_is_absent and NoneType in types else None
    return pa.StructArray.from_arrays(arrays, fields=_FIELDS, mask=mask)


def _names(values: Sequence[Any], entries: Mapping[type, tuple[str | None, Family]], kinds: Kinds) -> Array:
    """The names of the types of values."""
    names = [name for name, _ in entries.values()]
    if None in names:
        return pa.array([entries[type(value)][0] or kinds.name(value) for value in values], pa.string())
    if len(names) == 1:
        return pa.repeat(pa.scalar(names[0]), len(values))
    places = {kind: place for place, kind in enumerate(entries)}
    return pa.array(names, pa.string()).take(pa.array([places[type(value)] for value in values], pa.int32()))


def milliseconds(moment: Any) -> int:
    """Milliseconds since 1970 of a moment of any dialect: some count them, some count seconds."""
    return int(moment) * 1000 if type(moment) is PosixTime else int(moment)


def _is_near_moment(value: Any) -> bool:
    return LEAST_MILLISECONDS <= milliseconds(value) <= MOST_MILLISECONDS


def _is_long(value: Any) -> bool:
    return bool(-(1 << 63) <= value < 1 << 63)


_IN_RANGE: dict[Family, Callable[[Any], bool]] = {"timestamp": _is_near_moment, "long": _is_long}
"""What the column of a family can hold, where that is not all."""


def _far_rows(values: Sequence[Any], families: Mapping[type, Family]) -> list[int]:
    """The rows whose values their column cannot hold, and which are JSON therefore."""
    checks = {kind: _IN_RANGE[family] for kind, family in families.items() if family in _IN_RANGE}
    checks = {kind: check for kind, check in checks.items() if kind not in _NARROW}
    if not checks:
        return []
    return [
        row
        for row, value in enumerate(values)
        if (check := checks.get(type(value))) is not None and not check(value)
    ]


def _write_plain(values: Sequence[Any], type_: Any, kinds: Kinds) -> Array:
    return pa.array(values, type_)


def _write_decimal(values: Sequence[Any], type_: Any, kinds: Kinds) -> Array:
    return pa.array(values, pa.uint64()).cast(type_)


def _write_text(values: Sequence[Any], type_: Any, kinds: Kinds) -> Array:
    return pa.array([str(v) if isinstance(v, UUID | Decimal) else v for v in values], type_)


def _write_moment(values: Sequence[Any], type_: Any, kinds: Kinds) -> Array:
    scaled = [None if v is None else milliseconds(v) for v in values]
    return pa.array(scaled, pa.timestamp("ms", "UTC")).cast(type_)


def _write_json(values: Sequence[Any], type_: Any, kinds: Kinds) -> Array:
    # None is where a value of another family stands: null itself is of the family "null".
    return pa.array([None if v is None else json_text(kinds.notation(v)) for v in values], type_)


_WRITERS: dict[Family, Callable[[Sequence[Any], Any, Kinds], Array]] = {
    "decimal": _write_decimal,
    "string": _write_text,
    "timestamp": _write_moment,
    "json": _write_json,
}

"""Columns: each takes values, some rows at a time, and makes an Arrow array of them.

Structs are taken apart into the columns of their fields, a field of several structs at a time. What a column
cannot hold goes to `Rest`, by the column's path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from .arrow import Array, arrow_type, nulls, spread
from .rest import Rest, json_text
from .tagged import LEAST_MILLISECONDS, MOST_MILLISECONDS, TAGGED, Kinds, milliseconds, tagged_array

__all__ = [
    "RANGE",
    "TOGETHER",
    "Column",
    "Expected",
    "Lists",
    "Maps",
    "Marks",
    "Moments",
    "Names",
    "Nested",
    "Plain",
    "Ranges",
    "StructColumns",
    "Tagged",
    "Texts",
    "ULongs",
    "Variant",
    "all_none",
    "offsets_of",
    "variant_type",
]


TOGETHER = 64
"""Objects that are taken apart together: more would not stay in the processor's cache until it is done."""


class Column(ABC):
    """Takes values, and makes an array of them."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[Any] = []

    def take(self, values: Iterable[Any]) -> None:
        """Take the values of the next rows; None where there is none."""
        self._values += values

    def finish(self, rows: Sequence[int]) -> Array:
        """The array of all values; the column is empty then.

        ``rows`` has the number of the row of each, for what has to go to the rest.
        """
        array = self._array(self._values, rows)
        self._values.clear()
        return array

    @abstractmethod
    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        """The array of these values."""


class Plain(Column):
    """Values that Arrow takes as they are: truth values, whole numbers, floats, text, octets."""

    __slots__ = ("_is_often_same", "_type")

    def __init__(self, spark: DataType) -> None:
        super().__init__()
        self._type = arrow_type(spark)
        self._is_often_same = not isinstance(spark, FloatType | DoubleType)  # 0.0 equals -0.0.

    def __len__(self) -> int:
        return len(self._values)

    def taker(self) -> Callable[[Any], None]:
        """What takes the value of one row, or None; it is good for the life of the column."""
        return self._values.append

    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        if (
            self._is_often_same
            and values
            and values[0] == values[-1]
            and values.count(values[0]) == len(values)
        ):
            return pa.repeat(pa.scalar(values[0], self._type), len(values))
        return pa.array(values, self._type)


class ULongs(Column):
    """Unsigned numbers of 64 bits, as decimals of 20 digits."""

    __slots__ = ()
    _TYPE = arrow_type(DecimalType(20, 0))

    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        return pa.array(values, pa.uint64()).cast(self._TYPE)


class Texts(Column):
    """Values whose text says all of them: UUIDs, decimals."""

    __slots__ = ()

    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        return pa.array([None if value is None else str(value) for value in values], pa.string())


class Marks(Column):
    """Structs without fields: true where one stands."""

    __slots__ = ()

    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        return pa.array([None if value is None else True for value in values], pa.bool_())


class Names(Column):
    """Values that have names: the name, or the value as text where it has none."""

    __slots__ = ("_names",)

    def __init__(self, names: Mapping[Any, str]) -> None:
        super().__init__()
        self._names = names

    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        if all_none(values):
            return nulls(len(values), pa.string())
        raw = [getattr(value, "_value_", value) for value in values]
        names = self._names
        return pa.array([None if v is None else names.get(v) or str(v) for v in raw], pa.string())


class Tagged(Column):
    """Values of any type."""

    __slots__ = ("_kinds",)

    def __init__(self, kinds: Kinds) -> None:
        super().__init__()
        self._kinds = kinds

    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        return tagged_array(values, self._kinds, null_is_absent=True)


class Moments(Column):
    """Moments of the years 1 to 9999, in milliseconds; others go to the rest."""

    __slots__ = ("_kinds", "_path", "_rest")
    _TYPE = arrow_type(TimestampType())

    def __init__(self, path: str, rest: Rest, kinds: Kinds) -> None:
        super().__init__()
        self._path, self._rest, self._kinds = path, rest, kinds

    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        moments = [None if value is None else milliseconds(value) for value in values]
        for place, moment in enumerate(moments):
            if moment is not None and not LEAST_MILLISECONDS <= moment <= MOST_MILLISECONDS:
                self._rest.add(rows[place], self._path, self._kinds.notation(values[place]))
                moments[place] = None
        return pa.array(moments, pa.timestamp("ms", "UTC")).cast(self._TYPE)


class Expected(Column):
    """Values of one Python type, where a peer may send others: those go to the rest."""

    __slots__ = ("_expected", "_kinds", "_path", "_rest", "_type")

    def __init__(self, spark: DataType, expected: type, path: str, rest: Rest, kinds: Kinds) -> None:
        super().__init__()
        self._type, self._expected = arrow_type(spark), expected
        self._path, self._rest, self._kinds = path, rest, kinds

    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        expected = self._expected
        if not {*map(type, values)} <= {expected, NoneType}:
            for row, value in zip(rows, values, strict=True):
                if value is not None and type(value) is not expected:
                    self._rest.add(row, self._path, self._kinds.notation(value))
            values = [value if type(value) is expected else None for value in values]
        return pa.array(values, self._type)


class Lists(Column):
    """Several values a row, or none: null is not the empty list."""

    __slots__ = ("_element", "_type")

    def __init__(self, element: Column, spark: DataType) -> None:
        """``spark`` is the type of one value."""
        super().__init__()
        self._element = element
        self._type = arrow_type(ArrayType(spark))

    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        if all_none(values):
            return nulls(len(values), self._type)
        offsets = offsets_of([None if value is None else len(value) for value in values])
        items = [item for value in values if value is not None for item in value]
        own = [row for row, value in zip(rows, values, strict=True) for _ in value or ()]
        self._element.take(items)
        return pa.ListArray.from_arrays(offsets, self._element.finish(own), type=self._type)


def all_none(values: Sequence[Any]) -> bool:
    """Whether there is no value at all."""
    return not values or (values[0] is None and values.count(None) == len(values))


def offsets_of(counts: Sequence[int | None]) -> Array:
    """The offsets of lists of these lengths; None is no list."""
    offsets: list[int | None] = []
    at = 0
    for count in counts:
        offsets.append(None if count is None else at)
        at += count or 0
    offsets.append(at)
    return pa.array(offsets, pa.int32())


class Maps(Column):
    """Maps from text to values of any type.

    Keys are of one Python type; entries with other keys are kept in the rest, as pairs.
    """

    __slots__ = ("_expected", "_kinds", "_path", "_rest")
    _TYPE = arrow_type(MapType(StringType(), TAGGED))

    def __init__(self, key: type[str], path: str, rest: Rest, kinds: Kinds) -> None:
        super().__init__()
        self._path, self._rest, self._kinds = path, rest, kinds
        self._expected = key

    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        if all_none(values):
            return nulls(len(values), self._TYPE)
        counts: list[int | None] = []
        keys: list[str] = []
        items: list[Any] = []
        fits = {self._expected}
        for row, value in zip(rows, values, strict=True):
            if value is None:
                counts.append(None)
                continue
            if type(value) is not dict or not {*map(type, value)} <= fits:
                value = self._fitting(value, row)
            counts.append(len(value))
            keys += value
            items += value.values()
        return pa.MapArray.from_arrays(
            offsets_of(counts),
            pa.array(keys, pa.string()),
            tagged_array(items, self._kinds, null_is_absent=False),
            type=self._TYPE,
        )

    def _fitting(self, value: Any, row: int) -> dict[str, Any]:
        """The entries of a map whose keys fit; the others go to the rest."""
        note = self._kinds.notation
        own: dict[str, Any] = {}
        others: list[object] = []
        for key, item in value.items():
            if type(key) is self._expected:
                own[key] = item
            else:
                others.append([note(key), note(item)])
        if others:
            self._rest.add(row, self._path, others)
        return own


class StructColumns(ABC):
    """The columns of the fields of one struct: only for the rows that have one."""

    __slots__ = ("_columns", "_fields", "type")

    def __init__(self, spark: StructType, columns: Sequence[Column]) -> None:
        self.type = arrow_type(spark)
        self._fields = list(self.type)
        self._columns = columns

    @abstractmethod
    def fields(self, structs: Sequence[Any]) -> Iterable[Sequence[Any]]:
        """For each field in its order, what these structs have there."""

    def take(self, structs: Sequence[Any]) -> None:
        """Take the fields of the next structs, none of which is None."""
        for column, values in zip(self._columns, self.fields(structs), strict=True):
            column.take(values)

    def finish(self, rows: Sequence[int]) -> Array:
        """The array of all structs, ``rows`` having the row of each; the columns are empty then."""
        arrays = [column.finish(rows) for column in self._columns]
        return pa.StructArray.from_arrays(arrays, fields=self._fields)


RANGE = StructType([StructField("first", LongType()), StructField("last", LongType())])
"""A range of serial numbers, both ends included."""


class Ranges(StructColumns):
    """Ranges of serial numbers, as pairs."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(RANGE, [Plain(LongType()), Plain(LongType())])

    def fields(self, structs: Sequence[tuple[int, int]]) -> Iterable[Sequence[Any]]:
        """The first numbers, then the last ones."""
        return [pair[0] for pair in structs], [pair[1] for pair in structs]


class Nested(Column):
    """A struct a row, or none."""

    __slots__ = ("_struct",)

    def __init__(self, struct: StructColumns) -> None:
        super().__init__()
        self._struct = struct

    def take(self, values: Iterable[Any]) -> None:
        """Take the structs of the next rows; None where there is none."""
        values = [*values]
        self._values += [value is not None for value in values]
        self._struct.take([value for value in values if value is not None])

    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        if not any(values):
            return nulls(len(values), self._struct.type)
        own = [row for row, present in zip(rows, values, strict=True) if present]
        return spread(self._struct.finish(own), values)


class Variant(Column):
    """One of several described types a row, or none.

    The struct has ``kind``, the specification's name of the type; a struct for each type that has fields, of
    which at most the one of that kind is not null; and ``json`` for what is of none of the types.
    """

    __slots__ = ("_fields", "_kinds", "_names", "_structs", "_type")

    def __init__(
        self,
        spark: StructType,
        names: Mapping[type, str],
        structs: Mapping[type, StructColumns],
        kinds: Kinds,
    ) -> None:
        """``names`` has all types, ``structs`` those with fields, in the order of their columns."""
        super().__init__()
        self._type = arrow_type(spark)
        self._fields = list(self._type)
        self._names, self._structs, self._kinds = names, structs, kinds

    def _array(self, values: Sequence[Any], rows: Sequence[int]) -> Array:
        if all_none(values):
            return nulls(len(values), self._type)
        types = [*map(type, values)]
        used = {*types} - {NoneType}
        known = self._names
        names = [
            None if value is None else known.get(kind) or self._kinds.name(value)
            for kind, value in zip(types, values, strict=True)
        ]
        arrays = [pa.array(names, pa.string())]
        for kind, struct in self._structs.items():
            if kind in used:
                own = [value for value in values if type(value) is kind]
                places = [row for row, one in zip(rows, types, strict=True) if one is kind]
                struct.take(own)
                arrays.append(spread(struct.finish(places), [one is kind for one in types]))
            else:
                arrays.append(nulls(len(values), struct.type))
        note = self._kinds.notation
        texts = [None if v is None or type(v) in known else json_text(note(v)) for v in values]
        arrays.append(pa.array(texts, pa.string()))
        mask = pa.array([value is None for value in values])
        return pa.StructArray.from_arrays(arrays, fields=self._fields, mask=mask)


def variant_type(structs: Mapping[str, StructType]) -> StructType:
    """The Spark type of a `Variant` of these types with fields."""
    fields = [StructField(name, struct) for name, struct in structs.items()]
    return StructType([StructField("kind", StringType()), *fields, StructField("json", StringType())])

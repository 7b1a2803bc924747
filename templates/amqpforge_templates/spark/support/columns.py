"""Column lists: each takes values one by one and makes an Arrow array of them.

What a column's ``taker`` gives takes the value of one row; ``finish`` makes the array of all and empties the
column. Nothing else is made for a row: the values go from the decoder into the lists. What a column cannot
hold goes to `Rest`, by the column's path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from .arrow import Array, arrow_type, spread
from .rest import Rest, json_text
from .tagged import LEAST_MILLISECONDS, MOST_MILLISECONDS, TAGGED, Kinds, milliseconds, tagged_array

__all__ = [
    "RANGE",
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
    "offsets_of",
    "variant_type",
]


class Column(Protocol):
    """A list of values that becomes an array."""

    def taker(self) -> Callable[[Any], None]:
        """What takes the value of the next row, or None; it is good for the life of the column."""
        raise NotImplementedError

    def finish(self) -> Array:
        """The array of all rows; the column is empty then."""
        raise NotImplementedError


class _Listed:
    """A column that is one list of Python values."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[Any] = []

    def taker(self) -> Callable[[Any], None]:
        """What takes the value of the next row, or None."""
        return self._values.append

    def __len__(self) -> int:
        return len(self._values)

    def finish(self) -> Array:
        """The array of all rows; the column is empty then."""
        array = self._array(self._values)
        self._values.clear()
        return array

    def _array(self, values: list[Any]) -> Array:
        raise NotImplementedError


class Plain(_Listed):
    """Values that Arrow takes as they are: truth values, whole numbers, floats, text, octets."""

    __slots__ = ("_type",)

    def __init__(self, spark: DataType) -> None:
        super().__init__()
        self._type = arrow_type(spark)

    def _array(self, values: list[Any]) -> Array:
        return pa.array(values, self._type)


class ULongs(_Listed):
    """Unsigned numbers of 64 bits, as decimals of 20 digits."""

    __slots__ = ()
    _TYPE = arrow_type(DecimalType(20, 0))

    def _array(self, values: list[Any]) -> Array:
        return pa.array(values, pa.uint64()).cast(self._TYPE)


class Texts(_Listed):
    """Values whose text says all of them: UUIDs, decimals."""

    __slots__ = ()

    def _array(self, values: list[Any]) -> Array:
        return pa.array([None if value is None else str(value) for value in values], pa.string())


class Marks(_Listed):
    """Structs without fields: true where one stands."""

    __slots__ = ()

    def _array(self, values: list[Any]) -> Array:
        return pa.array([None if value is None else True for value in values], pa.bool_())


class Names(_Listed):
    """Values that have names: the name, or the value as text where it has none."""

    __slots__ = ("_names",)

    def __init__(self, names: Mapping[Any, str]) -> None:
        super().__init__()
        self._names = names

    def _array(self, values: list[Any]) -> Array:
        raw = [getattr(value, "_value_", value) for value in values]
        names = self._names
        return pa.array([None if v is None else names.get(v) or str(v) for v in raw], pa.string())


class Tagged(_Listed):
    """Values of any type."""

    __slots__ = ("_kinds",)

    def __init__(self, kinds: Kinds) -> None:
        super().__init__()
        self._kinds = kinds

    def _array(self, values: list[Any]) -> Array:
        return tagged_array(values, self._kinds, null_is_absent=True)


class Moments(_Listed):
    """Moments of the years 1 to 9999, in milliseconds; what a row has goes through `fit` first."""

    __slots__ = ("_kinds", "_path", "_rest")
    _TYPE = arrow_type(TimestampType())

    def __init__(self, path: str, rest: Rest, kinds: Kinds) -> None:
        super().__init__()
        self._path, self._rest, self._kinds = path, rest, kinds

    def fit(self, value: Any) -> int | None:
        """What the column takes for a moment: its milliseconds, or None for one that goes to the rest."""
        moment = milliseconds(value)
        if LEAST_MILLISECONDS <= moment <= MOST_MILLISECONDS:
            return moment
        self._rest.add(self._path, self._kinds.notation(value))
        return None

    def _array(self, values: list[Any]) -> Array:
        return pa.array(values, pa.timestamp("ms", "UTC")).cast(self._TYPE)


class Expected(_Listed):
    """Values of one Python type, where a peer may send others; what a row has goes through `fit` first."""

    __slots__ = ("_expected", "_kinds", "_path", "_rest", "_type")

    def __init__(self, spark: DataType, expected: type, path: str, rest: Rest, kinds: Kinds) -> None:
        super().__init__()
        self._type, self._expected = arrow_type(spark), expected
        self._path, self._rest, self._kinds = path, rest, kinds

    def fit(self, value: Any) -> Any:
        """What the column takes for a value: itself, or None for one that goes to the rest."""
        if type(value) is self._expected:
            return value
        self._rest.add(self._path, self._kinds.notation(value))
        return None

    def _array(self, values: list[Any]) -> Array:
        return pa.array(values, self._type)


class Lists:
    """Several values a row, or none: null is not the empty list."""

    __slots__ = ("_add", "_element", "_starts", "_type")

    def __init__(self, element: Column, spark: DataType) -> None:
        """``spark`` is the type of one value."""
        self._element = element
        self._add = element.taker()
        self._starts: list[tuple[int, bool]] = []
        self._type = arrow_type(ArrayType(spark))

    def taker(self) -> Callable[[Any], None]:
        """What takes the value of the next row, or None."""
        return self.append

    def append(self, value: Sequence[Any] | None) -> None:
        """Take the values of the next row, or None."""
        self._starts.append((len(value) if value is not None else 0, value is not None))
        for item in value or ():
            self._add(item)

    def finish(self) -> Array:
        """The array of all rows; the column is empty then."""
        offsets = offsets_of([count if present else None for count, present in self._starts])
        self._starts.clear()
        return pa.ListArray.from_arrays(offsets, self._element.finish(), type=self._type)


def offsets_of(counts: Sequence[int | None]) -> Array:
    """The offsets of lists of these lengths; None is no list."""
    offsets: list[int | None] = []
    at = 0
    for count in counts:
        offsets.append(None if count is None else at)
        at += count or 0
    offsets.append(at)
    return pa.array(offsets, pa.int32())


class Maps:
    """Maps from text to values of any type.

    Keys are of one Python type; entries with other keys are kept in the rest, as pairs.

    Attributes:
        mark: takes the None of a row without a map, as ``append`` does, for those who cannot spare a call.
    """

    __slots__ = ("_expected", "_keys", "_kinds", "_path", "_rest", "_starts", "_values", "mark")
    _TYPE = arrow_type(MapType(StringType(), TAGGED))

    def __init__(self, key: type[str], path: str, rest: Rest, kinds: Kinds) -> None:
        self._path, self._rest, self._kinds = path, rest, kinds
        self._expected = key
        self._starts: list[int | None] = []
        self.mark = self._starts.append
        self._keys: list[str] = []
        self._values: list[Any] = []

    def taker(self) -> Callable[[Any], None]:
        """What takes the value of the next row, or None."""
        return self.append

    def append(self, value: Any) -> None:
        """Take the map of the next row, or None; it is a dict, or like one."""
        if value is None:
            self._starts.append(None)
            return
        self._starts.append(len(self._keys))
        expected = self._expected
        if type(value) is dict:
            for key in value:
                if type(key) is not expected:
                    break
            else:
                self._keys += value
                self._values += value.values()
                return
        note = self._kinds.notation
        others: list[object] = []
        for key, item in value.items():
            if type(key) is expected:
                self._keys.append(key)
                self._values.append(item)
            else:
                others.append([note(key), note(item)])
        if others:
            self._rest.add(self._path, others)

    def finish(self) -> Array:
        """The array of all rows; the column is empty then."""
        count = len(self._starts)
        if self._starts.count(None) == count:
            self._starts.clear()
            return pa.nulls(count, self._TYPE)
        self._starts.append(len(self._keys))
        array = pa.MapArray.from_arrays(
            pa.array(self._starts, pa.int32()),
            pa.array(self._keys, pa.string()),
            tagged_array(self._values, self._kinds, null_is_absent=False),
            type=self._TYPE,
        )
        for values in (self._starts, self._keys, self._values):
            values.clear()
        return array


class StructColumns:
    """The columns of the fields of one struct: only for the rows that have one."""

    __slots__ = ("_columns", "_fields")

    def __init__(self, spark: StructType, columns: Sequence[Column]) -> None:
        self._fields = list(arrow_type(spark))
        self._columns = columns

    def add(self, value: Any) -> None:
        """Take the fields of a struct."""
        raise NotImplementedError

    def finish(self) -> Array:
        """The array of the structs that were added; the columns are empty then."""
        return pa.StructArray.from_arrays([column.finish() for column in self._columns], fields=self._fields)

    def finish_spread(self, present: Sequence[bool]) -> Array:
        """The same, with nulls where ``present`` is false."""
        if not any(present):
            return pa.nulls(len(present), pa.struct(self._fields))
        return spread(self.finish(), present)

    @property
    def type(self) -> Any:
        """The ``pyarrow.DataType`` of the structs."""
        return pa.struct(self._fields)


RANGE = StructType([StructField("first", LongType()), StructField("last", LongType())])
"""A range of serial numbers, both ends included."""


class Ranges(StructColumns):
    """Ranges of serial numbers, as pairs."""

    __slots__ = ("_first", "_last")

    def __init__(self) -> None:
        columns = [Plain(LongType()), Plain(LongType())]
        super().__init__(RANGE, columns)
        self._first, self._last = [column.taker() for column in columns]

    def add(self, value: tuple[int, int]) -> None:
        """Take a range."""
        self._first(value[0])
        self._last(value[1])


class Nested:
    """A struct a row, or none.

    Attributes:
        mark: takes whether the next row has a struct, which then has to be given to ``add``; together they do
            what ``append`` does, for those who cannot spare a call.
        add: takes the struct of a row.
    """

    __slots__ = ("_present", "_struct", "add", "mark")

    def __init__(self, struct: StructColumns) -> None:
        self._struct = struct
        self._present: list[bool] = []
        self.add = struct.add
        self.mark = self._present.append

    def taker(self) -> Callable[[Any], None]:
        """What takes the value of the next row, or None."""
        return self.append

    def append(self, value: Any) -> None:
        """Take the struct of the next row, or None."""
        if value is None:
            self._present.append(False)
        else:
            self._present.append(True)
            self.add(value)

    def finish(self) -> Array:
        """The array of all rows; the column is empty then."""
        array = self._struct.finish_spread(self._present)
        self._present.clear()
        return array


class Variant:
    """One of several described types a row, or none.

    The struct has ``kind``, the specification's name of the type; a struct for each type that has fields, of
    which at most the one of that kind is not null; and ``json`` for what is of none of the types.
    """

    __slots__ = ("_fields", "_json", "_kinds", "_names", "_rows", "_structs")

    def __init__(
        self,
        spark: StructType,
        names: Mapping[type, str],
        structs: Mapping[type, StructColumns],
        kinds: Kinds,
    ) -> None:
        """``names`` has all types, ``structs`` those with fields, in the order of their columns."""
        self._fields = list(arrow_type(spark))
        self._names, self._structs, self._kinds = names, structs, kinds
        self._rows: list[str | None] = []
        self._json: list[str] = []

    def taker(self) -> Callable[[Any], None]:
        """What takes the value of the next row, or None."""
        return self.append

    def append(self, value: Any) -> None:
        """Take the value of the next row, or None."""
        kind = type(value)
        name = self._names.get(kind)
        if value is None or name is not None:
            self._rows.append(name)
            struct = self._structs.get(kind)
            if struct is not None:
                struct.add(value)
        else:
            self._rows.append(self._kinds.name(value))
            self._json.append(json_text(self._kinds.notation(value)))

    def finish(self) -> Array:
        """The array of all rows; the column is empty then."""
        rows = self._rows
        if rows.count(None) == len(rows):
            array = pa.nulls(len(rows), pa.struct(self._fields))
        else:
            known = {None, *self._names.values()}
            arrays = [pa.array(rows, pa.string())]
            for kind, struct in self._structs.items():
                name = self._names[kind]
                arrays.append(struct.finish_spread([row == name for row in rows]))
            arrays.append(spread(pa.array(self._json, pa.string()), [row not in known for row in rows]))
            mask = pa.array([row is None for row in rows])
            array = pa.StructArray.from_arrays(arrays, fields=self._fields, mask=mask)
        rows.clear()
        self._json.clear()
        return array


def variant_type(structs: Mapping[str, StructType]) -> StructType:
    """The Spark type of a `Variant` of these types with fields."""
    fields = [StructField(name, struct) for name, struct in structs.items()]
    return StructType([StructField("kind", StringType()), *fields, StructField("json", StringType())])

"""Values of many rows at once, straight from their octets: each step looks at one place of every row.

A place is the offset of an octet in the buffer that all rows share. It is null where a row has no such value,
or where the row is lost: it has something there that is wrong, or is not dealt with here. What is made of a
null place is null. Nothing here decides what is wrong with a row: one that comes to its end is right, and all
others are left to the decoder of single messages, which knows every form and names what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from .arrow import Array, compute

__all__ = ["ROOM", "Constructor", "Constructors", "Values", "Wire", "either", "turns"]

ROOM: Final = bytes(16)
"""What is behind the last row, for looks at octets that it does not have."""
_EIGHT: Final = pa.scalar(8, pa.uint64())


@dataclass(frozen=True, slots=True)
class Constructor:
    """How a value of one type travels that contains no others.

    Attributes:
        type: the specification's name of the type.
        width: octets of the value, or of its size if that is told.
        is_sized: whether the size is told.
        value: what a value without octets is.
    """

    type: str
    width: int
    is_sized: bool = False
    value: int = 0


class Constructors:
    """The constructors of a dialect whose values contain no others.

    Attributes:
        by_code: the constructors.
        ahead: for each code the octets between the code and the value, with the code itself; null where it is
            none of these constructors.
        width: for each code the octets of the value; null where its size is told.
    """

    def __init__(self, by_code: Mapping[int, Constructor]) -> None:
        self.by_code = by_code
        every = [by_code.get(code) for code in range(256)]
        self.ahead = pa.array(
            [None if one is None else 1 + one.width * one.is_sized for one in every], pa.int64()
        )
        self.width = pa.array(
            [None if one is None or one.is_sized else one.width for one in every], pa.int64()
        )

    def of(self, *types: str) -> frozenset[int]:
        """The codes of types."""
        return frozenset(code for code, one in self.by_code.items() if one.type in types)

    def sized(self, codes: frozenset[int]) -> dict[int, list[int]]:
        """Those of some codes whose values tell their sizes, by the octets of the size."""
        found: dict[int, list[int]] = {}
        for code in codes & self.by_code.keys():
            one = self.by_code[code]
            if one.is_sized:
                found.setdefault(one.width, []).append(code)
        return found


@dataclass(frozen=True, slots=True)
class Values:
    """A value of each row.

    Attributes:
        code: of its constructor.
        start: the place where it begins.
        end: the place behind it.
        codes: all codes that there are.
    """

    code: Array
    start: Array
    end: Array
    codes: frozenset[int]

    def only(self, allowed: frozenset[int]) -> Values:
        """The same, but rows are lost whose values have other constructors than these."""
        if self.codes <= allowed:
            return self
        fits = compute.is_in(self.code, pa.array(sorted(allowed), pa.uint8()))
        return Values(either(fits, self.code), self.start, either(fits, self.end), self.codes & allowed)

    def take(self, rows: Array) -> Values:
        """Those of rows with these numbers."""
        return Values(self.code.take(rows), self.start.take(rows), self.end.take(rows), self.codes)


def either(condition: Array, values: Array, others: Array | None = None) -> Array:
    """Values where a condition holds, and others elsewhere; without these, nulls."""
    return compute.if_else(condition, values, pa.scalar(None, values.type) if others is None else others)


class Wire:
    """The octets of all rows.

    Attributes:
        start: the first place of each row.
        end: the place behind each row.
    """

    def __init__(self, octets: bytes, bounds: Array, constructors: Constructors) -> None:
        """Make one.

        Args:
            octets: rows one behind the other, at least one, and `ROOM`.
            bounds: the places where they begin, and the end of the last one, as int64.
            constructors: of the values in them.
        """
        self._buffer = pa.py_buffer(octets)
        self._octets = pa.Array.from_buffers(pa.uint8(), len(self._buffer), [None, self._buffer])
        self.start, self.end = bounds[:-1], bounds[1:]
        self._constructors = constructors

    @classmethod
    def of(cls, payloads: Array, constructors: Constructors) -> Wire:
        """The same of a ``pyarrow.BinaryArray`` without nulls, not empty."""
        count = len(payloads)
        _, offsets, octets = payloads.buffers()
        bounds = pa.Array.from_buffers(pa.int32(), count + 1, [None, offsets], offset=payloads.offset)
        first, last = bounds[0].as_py(), bounds[count].as_py()
        places = compute.subtract(bounds.cast(pa.int64()), first)
        return cls(b"".join((memoryview(octets)[first:last], ROOM)), places, constructors)

    def __len__(self) -> int:
        return len(self.start)

    def rows(self, numbers: Array) -> Wire:
        """The rows with these numbers."""
        some = copy(self)
        some.start, some.end = self.start.take(numbers), self.end.take(numbers)
        return some

    def octet(self, place: Array, offset: int = 0) -> Array:
        """The octet so many behind a place, at most 15."""
        return self._octets.take(compute.add(place, offset) if offset else place)

    def number(self, place: Array, width: int) -> Array:
        """The unsigned number in so many octets, 1 to 8, as uint64."""
        number = self.octet(place).cast(pa.uint64())
        for offset in range(1, width):
            octet = self.octet(place, offset).cast(pa.uint64())
            number = compute.bit_wise_or(compute.shift_left(number, _EIGHT), octet)
        return number

    def read(self, place: Array) -> Values:
        """The value at a place of each row. Where it contains others, the row is lost."""
        known = self._constructors
        code = self.octet(place)
        codes = frozenset(code.unique().to_pylist()) - {None}
        start = compute.add(place, known.ahead.take(code))
        size = known.width.take(code)
        for width, sized in known.sized(codes).items():
            own = place if len(sized) == len(codes) else either(_is_in(code, sized), place)
            told = self.number(compute.add(own, 1), width).cast(pa.int64())
            size = told if len(sized) == len(codes) else compute.coalesce(size, told)
        return Values(code, start, self.inside(compute.add(start, size)), codes)

    def inside(self, place: Array) -> Array:
        """A place, if it is not behind the end of its row."""
        return either(compute.less_equal(place, self.end), place)

    def slices(self, values: Values) -> Array:
        """The octets of values, which stand in the order of their places, as binary."""
        count = len(values.code)
        if not count:
            return pa.array([], pa.binary())
        end = compute.fill_null_forward(values.end).fill_null(0)
        start = compute.coalesce(either(values.end.is_valid(), values.start), end)
        # With what is between them the values are one array: every second element is one of them.
        bounds = pa.concat_arrays([start, end]).take(turns(2, count)).cast(pa.int32())
        whole = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, bounds.buffers()[1], self._buffer])
        return whole.take(either(values.end.is_valid(), pa.arange(0, 2 * count, 2)))


def _is_in(code: Array, codes: list[int]) -> Array:
    return (
        compute.equal(code, codes[0]) if len(codes) == 1 else compute.is_in(code, pa.array(codes, pa.uint8()))
    )


def turns(columns: int, rows: int) -> Array:
    """The places of the elements of columns that stand one behind the other, row by row."""
    places = pa.arange(0, columns * rows)
    row = compute.divide(places, columns)
    column = compute.subtract(places, compute.multiply(row, columns))
    return compute.add(compute.multiply(column, rows), row)

"""Values in their usual form, of many rows at once, as arrays: such as contain no others, and lists of them.

What is not so, and what is wrong, is left to the decoder of single values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from .arrow import Array, arrow_type, compute, nulls
from .forms import FAMILIES, Encodings, Field, Listed, Marks, Names
from .tagged import LEAST_MILLISECONDS, MOST_MILLISECONDS, TAGGED, Family
from .wire import Values, Wire, either

__all__ = ["DESCRIBED", "LEAST_ROWS", "MOST_ELEMENTS", "MOST_OCTETS", "SMALL_ULONG", "Reading", "merged"]

_SIGNED: Final = frozenset(("byte", "short", "int", "long", "timestamp"))
_NULL: Final = 0x40
_MICROSECONDS: Final = pa.timestamp("us", "UTC")
_MILLISECONDS: Final = pa.timestamp("ms", "UTC")
_TAGGED: Final = arrow_type(TAGGED)

DESCRIBED: Final = 0x00
"""The constructor of a value with a descriptor (section 1.2)."""
SMALL_ULONG: Final = 0x53
"""That of the descriptors of all usual types, whose code follows (section 1.1.2)."""
LEAST_ROWS: Final = 512
"""Rows from which on it is worth while to decode them together."""
MOST_OCTETS: Final = 64 << 20
"""Octets of rows that are decoded together, at most: they are copied."""
MOST_ELEMENTS: Final = 1000
"""More elements than a row has that is decoded together."""


def merged(right: Array, arrays: Sequence[Array], others: Sequence[Array]) -> list[Array]:
    """Columns of rows that were decoded together, and of those that were not.

    Args:
        right: which rows are right in ``arrays``.
        arrays: columns with all rows.
        others: the same columns, with the other rows alone.
    """
    count = len(right)
    behind = compute.add(compute.cumulative_sum(compute.invert(right).cast(pa.int64())), count - 1)
    places = either(right, pa.arange(0, count), behind)
    return [
        pa.concat_arrays([array, other]).take(places) for array, other in zip(arrays, others, strict=True)
    ]


class Reading:
    """Makes arrays of values, and notes the rows whose values are not dealt with here.

    Attributes:
        wire: where they are.
        encodings: how they travel.
        lost: for each reason which rows are lost.
    """

    def __init__(self, wire: Wire, encodings: Encodings) -> None:
        self.wire = wire
        self.encodings = encodings
        self.lost: list[Array] = []
        self._makers: dict[Family, Callable[[Values], Array]] = {
            "bool": self._booleans,
            "long": self._numbers,
            "decimal": self._numbers,
            "double": self._floats,
            "string": self._texts,
            "binary": wire.slices,
            "timestamp": self._moments,
        }

    def typed(self, values: Values, type_: str, kind: Any) -> Array:
        """Values of one type, or null, as an array of an Arrow type."""
        known = self.encodings.constructors
        own = values.only(known.of(type_, "null"))
        self.lost.append(compute.and_(values.code.is_valid(), compute.invert(own.code.is_valid())))
        if own.codes <= known.of("null"):
            return nulls(len(own.code), kind)
        return self._makers[FAMILIES[type_]](_but(own, known.of("null"))).cast(kind)

    def tagged(self, values: Values, *, null_is_absent: bool) -> Array:
        """Values of any type."""
        known = self.encodings.constructors
        codes = values.codes & known.by_code.keys()
        families = {code: FAMILIES[known.by_code[code].type] for code in codes}
        present = values.end.is_valid()
        if null_is_absent and not {*families.values()} - {"null"}:
            return nulls(len(values.code), _TAGGED)
        names = pa.array([known.by_code[code].type if code in codes else None for code in range(256)])
        arrays = [names.take(values.code)]
        for field in list(_TAGGED)[1:]:
            own = frozenset(code for code, family in families.items() if family == field.name)
            if own:
                arrays.append(self._makers[field.name](values.only(own)).cast(field.type))
            else:
                arrays.append(nulls(len(values.code), field.type))
        if null_is_absent:
            present = compute.and_(present, compute.invert(compute.equal(arrays[0], "null").fill_null(False)))
        return pa.StructArray.from_arrays(arrays, fields=list(_TAGGED), mask=compute.invert(present))

    def _numbers(self, values: Values) -> Array:
        known = self.encodings.constructors.by_code
        found: Array | None = None
        for code in sorted(values.codes):
            one = known[code]
            own = compute.equal(values.code, code)
            if one.width:
                number = self.wire.number(either(own, values.start), one.width)
                number = _signed(number, one.width) if one.type in _SIGNED else number
            else:
                number = either(own, pa.scalar(one.value, pa.uint64()))
            if FAMILIES[one.type] != "decimal":
                number = number.cast(pa.int64())
            found = number if found is None else compute.coalesce(found, number)
        return nulls(len(values.code), pa.int64()) if found is None else found

    def _booleans(self, values: Values) -> Array:
        numbers = self._numbers(values)
        self.lost.append(compute.greater(numbers, 1))
        return compute.equal(numbers, 1)

    def _floats(self, values: Values) -> Array:
        known = self.encodings.constructors.by_code
        found: Array | None = None
        for code in sorted(values.codes):
            width = known[code].width
            number = self.wire.number(either(compute.equal(values.code, code), values.start), width)
            single = width == 4
            number = number.cast(pa.uint32()).view(pa.float32()) if single else number.view(pa.float64())
            number = number.cast(pa.float64())
            found = number if found is None else compute.coalesce(found, number)
        return found

    def _texts(self, values: Values) -> Array:
        """The text of strings, symbols, and UUIDs."""
        known = self.encodings.constructors
        uuids = known.of("uuid")
        if values.codes & uuids:
            octets = self.wire.slices(values.only(uuids)).to_pylist()
            found = pa.array([None if one is None else str(UUID(bytes=one)) for one in octets], pa.string())
            return compute.coalesce(found, self._texts(values.only(values.codes - uuids)))
        texts = self.wire.slices(values).cast(pa.string())
        if values.codes & known.of("symbol"):
            is_symbol = compute.is_in(values.code, pa.array(sorted(known.of("symbol")), pa.uint8()))
            self.lost.append(compute.and_(is_symbol, compute.invert(compute.string_is_ascii(texts))))
        return texts

    def _moments(self, values: Values) -> Array:
        moments = self._numbers(values)
        is_near = compute.and_(
            compute.greater_equal(moments, LEAST_MILLISECONDS), compute.less_equal(moments, MOST_MILLISECONDS)
        )
        self.lost.append(compute.invert(is_near))
        return either(is_near, moments).cast(_MILLISECONDS).cast(_MICROSECONDS)

    def compound(self, place: Array, constructors: Mapping[int, int]) -> tuple[Array, Array, Array]:
        """Of lists or maps the places of what they contain, the places behind them, and how much that is."""
        wire, code = self.wire, self.wire.octet(place)
        found: list[tuple[Array, Array, Array]] = []
        for one in {*code.unique().to_pylist()} & constructors.keys():
            own, width = compute.add(either(compute.equal(code, one), place), 1), constructors[one]
            if width:
                size, count = (
                    wire.number(compute.add(own, ahead), width).cast(pa.int64()) for ahead in (0, width)
                )
                end = wire.inside(compute.add(compute.add(own, width), size))
                found.append((compute.add(own, 2 * width), end, count))
            else:
                found.append((own, wire.inside(own), compute.multiply(own, 0)))
        if not found:
            return (nulls(len(place), pa.int64()),) * 3
        first, end, count = (compute.coalesce(*columns) for columns in zip(*found, strict=True))
        return first, end, count

    def listed(self, own: Array, listed: Listed) -> tuple[Array, Array]:
        """Described lists, whose constructors are at ``own``, as structs, and the places behind them."""
        place, end, count = self.compound(own, self.encodings.lists)
        count = either(compute.less_equal(count, len(listed.fields)), count)
        most = compute.max(count).as_py() or 0
        arrays: list[Array] = []
        kinds = list(arrow_type(listed.spark))
        for number, (kind, field) in enumerate(zip(kinds, listed.fields, strict=True)):
            if number < most:
                has = compute.greater(count, number)
                array, behind = self._field(either(has, place), field, kind.type)
                place = either(has, behind, place)
            else:
                array = nulls(len(own), kind.type)
            if field.is_mandatory:
                self.lost.append(compute.and_(own.is_valid(), array.is_null()))
            if field.default is not None:
                array = either(own.is_valid(), compute.coalesce(array, pa.scalar(field.default, kind.type)))
            arrays.append(array)
        structs = pa.StructArray.from_arrays(arrays, fields=kinds, mask=own.is_null())
        return structs, either(compute.equal(place, end), end)

    def _field(self, place: Array, field: Field, kind: Any) -> tuple[Array, Array]:
        """The values of a field, and the places behind them."""
        if isinstance(field.type, Marks):
            return self._marked(place, field.type, kind)
        values = self.wire.read(place)
        if field.most is not None:
            self.lost.append(compute.greater(compute.subtract(values.end, values.start), field.most))
        if isinstance(field.type, Names):
            return self._named(values, field.type), values.end
        if field.type == "*":
            return self.tagged(values, null_is_absent=True), values.end
        return self.typed(values, field.type or "null", kind), values.end

    def _named(self, values: Values, type_: Names) -> Array:
        """The names of values; a value without one is lost."""
        numbers = self.typed(values, type_.type, pa.int64())
        names = nulls(len(numbers), pa.string())
        for value, name in type_.names.items():
            names = compute.coalesce(names, either(compute.equal(numbers, int(value)), pa.scalar(name)))
        self.lost.append(compute.and_(numbers.is_valid(), names.is_null()))
        return names

    def _marked(self, place: Array, type_: Marks, kind: Any) -> tuple[Array, Array]:
        """Described lists that are empty, or nulls."""
        wire = self.wire
        code = wire.octet(place)
        is_described = compute.and_(
            compute.equal(code, DESCRIBED), compute.equal(wire.octet(place, 1), SMALL_ULONG)
        )
        descriptor = either(is_described, wire.octet(place, 2))
        names = nulls(len(place), pa.string())
        for number in {*descriptor.unique().to_pylist()} & type_.names.keys():
            name = pa.scalar(type_.names[number])
            names = compute.coalesce(names, either(compute.equal(descriptor, number), name))
        _, end, count = self.compound(compute.add(either(names.is_valid(), place), 3), self.encodings.lists)
        end = either(compute.equal(count, 0), end)
        end = compute.coalesce(end, compute.add(either(compute.equal(code, _NULL), place), 1))
        others = [nulls(len(place), field.type) for field in list(kind)[1:]]
        structs = pa.StructArray.from_arrays([names, *others], fields=list(kind), mask=names.is_null())
        return structs, wire.inside(end)

    def right(self, right: Array) -> Array:
        """Which of these rows are not lost."""
        right = right.fill_null(False)
        for lost in self.lost:
            right = compute.and_(right, compute.invert(lost.fill_null(False)))
        return right


def _signed(number: Array, width: int) -> Array:
    """Two's complement of so many octets, as int64."""
    if width == 8:
        return number.view(pa.int64())
    least = 1 << (8 * width - 1)
    return compute.subtract(
        compute.bit_wise_xor(number.cast(pa.int64()), pa.scalar(least, pa.int64())), least
    )


def _but(values: Values, codes: frozenset[int]) -> Values:
    """Values without those with some constructors."""
    return values.only(values.codes - codes)

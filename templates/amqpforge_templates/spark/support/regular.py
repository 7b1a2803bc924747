"""Messages in their usual form, all of a batch at once: sections in their order, none of them twice, with
values that contain no others.

Messages that are not so, wrong ones among them, are left to the decoder of single messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructType

from amqpforge_protocol._support.limits import Limits

from .arrow import Array, arrow_type, compute, nulls
from .rest import CORRUPT
from .tagged import LEAST_MILLISECONDS, MOST_MILLISECONDS, TAGGED, Family
from .wire import Constructor, Constructors, Values, Wire, either, turns

__all__ = ["Bodies", "Form", "Listed", "Mapped", "decode_together", "regular_constructors"]

_FAMILIES: Final[Mapping[str, Family]] = {
    "null": "null",
    "boolean": "bool",
    "ubyte": "long",
    "ushort": "long",
    "uint": "long",
    "ulong": "decimal",
    "byte": "long",
    "short": "long",
    "int": "long",
    "long": "long",
    "float": "double",
    "double": "double",
    "timestamp": "timestamp",
    "uuid": "string",
    "binary": "binary",
    "string": "string",
    "symbol": "string",
}
"""The types that are dealt with here, and the column of ``TAGGED`` that their values stand in."""

_SIGNED: Final = frozenset(("byte", "short", "int", "long", "timestamp"))
_MOST_ENTRIES: Final = 16
"""Entries of a map."""
_LEAST_ROWS: Final = 512
"""Rows from which on it is worth while to decode them together."""
_MOST_OCTETS: Final = 64 << 20
"""Octets that are copied at most."""
_MOST_ELEMENTS: Final = 1000
"""More elements than a message of the usual form can have."""
_FORMATS: Final = 1 << 8
"""The message-formats below this are versions of AMQP's own."""
_DESCRIBED: Final = 0x00
_SMALL_ULONG: Final = 0x53
_MICROSECONDS: Final = pa.timestamp("us", "UTC")
_MILLISECONDS: Final = pa.timestamp("ms", "UTC")
_TAGGED: Final = arrow_type(TAGGED)
_MAP: Final = arrow_type(MapType(StringType(), TAGGED))
_SIZES: Final = arrow_type(ArrayType(LongType()))
_SEQUENCES: Final = arrow_type(ArrayType(ArrayType(TAGGED)))


def regular_constructors(by_code: Mapping[int, Constructor]) -> Constructors:
    """Those of the types that are dealt with here."""
    return Constructors({code: one for code, one in by_code.items() if one.type in _FAMILIES})


@dataclass(frozen=True, slots=True)
class Listed:
    """A section that is a list of fields.

    Attributes:
        code: of its descriptor.
        spark: the type of its column.
        types: for each field the specification's name of its type, ``*`` for those that may be of any; None:
            a message with such a field is none of the usual form.
        defaults: for each field what is meant where it is not there; None: nothing.
    """

    code: int
    spark: StructType
    types: tuple[str | None, ...]
    defaults: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Mapped:
    """A section that is a map.

    Attributes:
        code: of its descriptor.
        key: the specification's name of the type of its keys.
        typed: keys whose values are of types of their own: a message with one is none of the usual form.
    """

    code: int
    key: str
    typed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bodies:
    """The sections of a body: their codes, and the specification's names."""

    data: tuple[int, str]
    single: tuple[int, str]


@dataclass(frozen=True, slots=True)
class Form:
    """The usual form of messages.

    Attributes:
        constructors: of what contains nothing else.
        lists: the codes of the constructors of lists, with the octets of their size and of their count; 0:
            the list is empty.
        maps: the same of maps.
        head: the sections in front of the body.
        bodies: those of the body.
        foot: those behind it.
    """

    constructors: Constructors
    lists: Mapping[int, int]
    maps: Mapping[int, int]
    head: tuple[Listed | Mapped, ...]
    bodies: Bodies
    foot: tuple[Listed | Mapped, ...]


def decode_together(
    payloads: Array,
    formats: Array | None,
    form: Form,
    limits: Limits,
    singly: Callable[[Iterable[bytes], Iterable[int], Limits], list[Array]],
) -> list[Array]:
    """Decode messages: all that are of the usual form together, the others one by one.

    Args:
        payloads: a ``pyarrow.BinaryArray`` without nulls: whole messages.
        formats: their message-formats, without nulls; None: all are 0.
        form: the usual form of their sections.
        limits: those of the decoder.
        singly: decodes messages one by one; it is given their formats too, and returns two arrays more than
            the form has sections: what fits no column, and what is wrong.
    """
    count = len(payloads)
    numbers = pa.repeat(pa.scalar(0, pa.int64()), count) if formats is None else formats
    some = None
    if (
        count >= _LEAST_ROWS
        and payloads.nbytes <= _MOST_OCTETS
        and limits.elements >= _MOST_ELEMENTS
        and limits.depth
    ):
        with suppress(pa.ArrowInvalid):
            some = _decode_regular(payloads, form)
    if some is None:
        return singly(payloads.to_pylist(), numbers.to_pylist(), limits)
    arrays, right = some
    right = compute.and_(right, compute.less(numbers, _FORMATS))
    others = compute.invert(right)
    if not others.true_count:
        return [*arrays, nulls(count, pa.string()), nulls(count, arrow_type(CORRUPT))]
    found = singly(payloads.filter(others).to_pylist(), numbers.filter(others).to_pylist(), limits)
    arrays = [*arrays, *[nulls(count, array.type) for array in found[len(arrays) :]]]
    places = either(
        right, pa.arange(0, count), compute.add(compute.cumulative_sum(others.cast(pa.int64())), count - 1)
    )
    return [pa.concat_arrays([array, other]).take(places) for array, other in zip(arrays, found, strict=True)]


def _decode_regular(payloads: Array, form: Form) -> tuple[list[Array], Array]:
    """Decode messages.

    Args:
        payloads: a ``pyarrow.BinaryArray`` without nulls, not empty: whole messages.
        form: their form.

    Returns:
        The arrays of the sections, those of the body in their place; and which rows they are right for.

    Raises:
        pyarrow.ArrowInvalid: text is not UTF-8 somewhere.
    """
    reading = _Sections(Wire(payloads, form.constructors), form)
    arrays = [reading.section(section) for section in form.head]
    arrays += reading.body(form.bodies)
    arrays += [reading.section(section) for section in form.foot]
    return arrays, reading.right()


class _Values:
    """Makes arrays of values, and notes the rows whose values are not dealt with here.

    Attributes:
        wire: where they are.
        lost: for each reason which rows are lost.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
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
        known = self.wire.constructors
        own = values.only(known.of(type_, "null"))
        self.lost.append(compute.and_(values.code.is_valid(), compute.invert(own.code.is_valid())))
        if own.codes <= known.of("null"):
            return nulls(len(own.code), kind)
        return self._makers[_FAMILIES[type_]](_but(own, known.of("null"))).cast(kind)

    def tagged(self, values: Values, *, null_is_absent: bool) -> Array:
        """Values of any type."""
        known = self.wire.constructors
        codes = values.codes & known.by_code.keys()
        families = {code: _FAMILIES[known.by_code[code].type] for code in codes}
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
        known = self.wire.constructors.by_code
        found: Array | None = None
        for code in sorted(values.codes):
            one = known[code]
            own = compute.equal(values.code, code)
            if one.width:
                number = self.wire.number(either(own, values.start), one.width)
                number = _signed(number, one.width) if one.type in _SIGNED else number
            else:
                number = either(own, pa.scalar(one.value, pa.uint64()))
            if _FAMILIES[one.type] != "decimal":
                number = number.cast(pa.int64())
            found = number if found is None else compute.coalesce(found, number)
        return nulls(len(values.code), pa.int64()) if found is None else found

    def _booleans(self, values: Values) -> Array:
        numbers = self._numbers(values)
        self.lost.append(compute.greater(numbers, 1))
        return compute.equal(numbers, 1)

    def _floats(self, values: Values) -> Array:
        known = self.wire.constructors.by_code
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
        known = self.wire.constructors
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


class _Sections(_Values):
    """Reads section after section."""

    def __init__(self, wire: Wire, form: Form) -> None:
        super().__init__(wire)
        self._form = form
        self._place = wire.start
        self._find()

    def _find(self) -> None:
        """See which sections are next."""
        wire, place = self.wire, self._place
        is_described = compute.and_(
            compute.equal(wire.octet(place), _DESCRIBED), compute.equal(wire.octet(place, 1), _SMALL_ULONG)
        )
        is_there = compute.and_(is_described, compute.less(place, wire.end))
        self._next = either(is_there, wire.octet(place, 2))
        self._nexts = frozenset(self._next.unique().to_pylist())

    def _own(self, code: int) -> Array:
        """The place behind the descriptor, where a section with this code is next."""
        return compute.add(either(compute.equal(self._next, code), self._place), 3)

    def _advance(self, own: Array, end: Array) -> None:
        """Go on behind sections that began at ``own``, and end at ``end``."""
        self._place = either(own.is_valid(), end, self._place)
        self._find()

    def right(self) -> Array:
        """Which rows have come to their end, and are not lost."""
        right = compute.equal(self._place, self.wire.end).fill_null(False)
        for lost in self.lost:
            right = compute.and_(right, compute.invert(lost.fill_null(False)))
        return right

    def section(self, section: Listed | Mapped) -> Array:
        """The column of a section that is no body."""
        if section.code not in self._nexts:
            return nulls(len(self._place), _MAP if isinstance(section, Mapped) else arrow_type(section.spark))
        return self._listed(section) if isinstance(section, Listed) else self._mapped(section)

    def _compound(self, own: Array, constructors: Mapping[int, int]) -> tuple[Array, Array, Array]:
        """Of a list or a map the place of what it contains, the place behind it, and how much that is."""
        wire, code = self.wire, self.wire.octet(own)
        found: list[tuple[Array, Array, Array]] = []
        for one in {*code.unique().to_pylist()} & constructors.keys():
            place, width = compute.add(either(compute.equal(code, one), own), 1), constructors[one]
            if width:
                size, count = (
                    wire.number(compute.add(place, ahead), width).cast(pa.int64()) for ahead in (0, width)
                )
                end = wire.inside(compute.add(compute.add(place, width), size))
                found.append((compute.add(place, 2 * width), end, count))
            else:
                found.append((place, place, compute.multiply(place, 0)))
        if not found:
            return (nulls(len(own), pa.int64()),) * 3
        first, end, count = (compute.coalesce(*columns) for columns in zip(*found, strict=True))
        return first, end, count

    def _listed(self, section: Listed) -> Array:
        own = self._own(section.code)
        place, end, count = self._compound(own, self._form.lists)
        most = compute.max(count).as_py() or 0
        arrays: list[Array] = []
        fields = list(arrow_type(section.spark))
        for number, (field, type_) in enumerate(zip(fields, section.types, strict=True)):
            if number < most:
                has = compute.greater(count, number)
                values = self.wire.read(either(has, place))
                place = either(has, values.end, place)
                array = self._field(values, type_, field.type)
            else:
                array = nulls(len(own), field.type)
            default = section.defaults[number]
            if default is not None:
                array = either(own.is_valid(), compute.coalesce(array, pa.scalar(default, field.type)))
            arrays.append(array)
        self._advance(own, either(compute.equal(place, end), end))
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=own.is_null())

    def _field(self, values: Values, type_: str | None, kind: Any) -> Array:
        if type_ == "*":
            return self.tagged(values, null_is_absent=True)
        return self.typed(values, type_ or "null", kind)

    def _mapped(self, section: Mapped) -> Array:
        wire, own = self.wire, self._own(section.code)
        place, end, count = self._compound(own, self._form.maps)
        count = either(compute.less_equal(count, 2 * _MOST_ENTRIES), count)
        entries = compute.divide(count, 2)
        allowed = wire.constructors.of(section.key)
        keys: list[Values] = []
        items: list[Values] = []
        for number in range(compute.max(entries).as_py() or 0):
            has = compute.greater(entries, number)
            keys.append(wire.read(either(has, place)).only(allowed))
            items.append(wire.read(keys[-1].end))
            place = either(has, items[-1].end, place)
        is_even = compute.equal(compute.multiply(entries, 2), count)
        end = either(compute.and_(compute.equal(place, end), is_even), end)
        array = self._entries(section, keys, items, either(end.is_valid(), entries).fill_null(0))
        self._advance(own, end)
        return array

    def _entries(self, section: Mapped, keys: list[Values], items: list[Values], sizes: Array) -> Array:
        """Maps of so many entries, 0 for a null; their keys and items turn by turn."""
        if not keys:
            return nulls(len(sizes), _MAP)
        order = turns(len(keys), len(sizes))
        number = compute.divide(order, len(sizes))
        rows = compute.subtract(order, compute.multiply(number, len(sizes)))
        is_there = compute.less(number, sizes.take(rows))
        order, rows = order.filter(is_there), rows.filter(is_there)
        flat = _Values(self.wire)
        texts = flat.typed(_joined(keys).take(order), section.key, pa.string())
        tagged = flat.tagged(_joined(items).take(order), null_is_absent=False)
        if section.typed:
            flat.lost.append(compute.is_in(texts, pa.array(section.typed)))
        flat.lost.append(_repeated(rows, texts))
        for lost in flat.lost:
            places = rows.filter(lost.fill_null(False))
            if len(places):
                self.lost.append(compute.is_in(pa.arange(0, len(sizes)), places))
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), compute.cumulative_sum(sizes)]).cast(
            pa.int32()
        )
        is_null = pa.concat_arrays([compute.equal(sizes, 0), pa.array([False])])
        offsets = either(compute.invert(is_null), offsets)
        return pa.MapArray.from_arrays(offsets, texts, tagged, type=_MAP)

    def body(self, bodies: Bodies) -> list[Array]:
        """The columns of the body; rows without one are lost."""
        count = len(self._place)
        (data_code, data), (single_code, single) = bodies.data, bodies.single
        data_own, single_own = self._own(data_code), self._own(single_code)
        own = compute.coalesce(data_own, single_own)
        self.lost.append(own.is_null())
        octets, tagged = nulls(count, pa.binary()), nulls(count, _TAGGED)
        end = data_end = single_end = nulls(count, pa.int64())
        if data_code in self._nexts:
            values = self.wire.read(data_own).only(self.wire.constructors.of("binary"))
            octets, data_end = self.wire.slices(values), values.end
        if single_code in self._nexts:
            values = self.wire.read(single_own)
            tagged, single_end = self.tagged(values, null_is_absent=False), values.end
        end = compute.coalesce(data_end, single_end)
        kinds = either(data_own.is_valid(), pa.scalar(data), pa.scalar(single))
        self._advance(own, end)
        return [kinds, octets, nulls(count, _SIZES), tagged, nulls(count, _SEQUENCES)]


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


def _joined(columns: Sequence[Values]) -> Values:
    """Columns one behind the other."""
    code, start, end = (
        pa.concat_arrays([getattr(one, name) for one in columns]) for name in ("code", "start", "end")
    )
    return Values(code, start, end, frozenset().union(*[one.codes for one in columns]))


def _repeated(rows: Array, keys: Array) -> Array:
    """Which keys belong to rows that have a key twice."""
    if len(keys) == 0:
        return pa.array([], pa.bool_())
    encoded = compute.dictionary_encode(keys)
    both = compute.add(compute.multiply(rows, len(encoded.dictionary)), encoded.indices.cast(pa.int64()))
    if compute.count_distinct(both).as_py() == len(both):
        return compute.equal(rows, -1)
    counts = compute.value_counts(both)
    twice = counts.field("values").filter(compute.greater(counts.field("counts"), 1))
    return compute.is_in(both, twice)

"""Messages in their usual form, all of a batch at once: sections in their order, none of them twice, with
values that contain no others.

Messages that are not so, wrong ones among them, are left to the decoder of single messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import ArrayType, LongType, MapType, StringType

from amqpforge_protocol._support.limits import Limits

from .arrow import Array, arrow_type, compute, nulls
from .forms import Encodings, Listed
from .regular import (
    DESCRIBED,
    LEAST_ROWS,
    MOST_ELEMENTS,
    MOST_OCTETS,
    SMALL_ULONG,
    Reading,
    merged,
)
from .rest import CORRUPT
from .tagged import TAGGED
from .wire import Values, Wire, either, turns

__all__ = ["Bodies", "Form", "Mapped", "decode_together"]

_MOST_ENTRIES: Final = 16
"""Entries of a map."""
_FORMATS: Final = 1 << 8
"""The message-formats below this are versions of AMQP's own."""
_TAGGED: Final = arrow_type(TAGGED)
_MAP: Final = arrow_type(MapType(StringType(), TAGGED))
_SIZES: Final = arrow_type(ArrayType(LongType()))
_SEQUENCES: Final = arrow_type(ArrayType(ArrayType(TAGGED)))


@dataclass(frozen=True, slots=True)
class Mapped:
    """A section that is a map.

    Attributes:
        code: of its descriptor.
        key: the specification's name of the type of its keys.
        typed: keys whose values are of types of their own: they are not dealt with here.
    """

    code: int
    key: str
    typed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bodies:
    """The sections that are a body.

    Attributes:
        data: the code and the name of those of octets.
        single: the code and the name of those of a value.
    """

    data: tuple[int, str]
    single: tuple[int, str]


@dataclass(frozen=True, slots=True)
class Form:
    """The usual form of messages.

    Attributes:
        encodings: how values travel.
        head: the sections in front of the body.
        bodies: those of the body.
        foot: those behind it.
    """

    encodings: Encodings
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
        form: the usual form.
        limits: those of the decoder.
        singly: decodes messages with their formats one by one, into the columns of the sections, what fits no
            column, and what is wrong.

    Returns:
        These columns.
    """
    count = len(payloads)
    numbers = pa.repeat(pa.scalar(0, pa.int64()), count) if formats is None else formats
    some = None
    if (
        count >= LEAST_ROWS
        and payloads.nbytes <= MOST_OCTETS
        and limits.elements >= MOST_ELEMENTS
        and limits.depth
    ):
        with suppress(pa.ArrowInvalid):
            some = _decode_usual(payloads, form)
    if some is None:
        return singly(payloads.to_pylist(), numbers.to_pylist(), limits)
    arrays, right = some
    right = compute.and_(right, compute.less(numbers, _FORMATS))
    arrays += [nulls(count, pa.string()), nulls(count, arrow_type(CORRUPT))]
    if right.true_count == count:
        return arrays
    others = compute.invert(right)
    found = singly(payloads.filter(others).to_pylist(), numbers.filter(others).to_pylist(), limits)
    return merged(right, arrays, found)


def _decode_usual(payloads: Array, form: Form) -> tuple[list[Array], Array]:
    """The columns of the sections, and which rows they are right for.

    Raises:
        pyarrow.ArrowInvalid: a text is not UTF-8.
    """
    reading = _Sections(Wire.of(payloads, form.encodings.constructors), form)
    arrays = [reading.section(section) for section in form.head]
    arrays += reading.body(form.bodies)
    arrays += [reading.section(section) for section in form.foot]
    return arrays, reading.whole()


class _Sections(Reading):
    """Reads section after section."""

    def __init__(self, wire: Wire, form: Form) -> None:
        super().__init__(wire, form.encodings)
        self._place = wire.start
        self._find()

    def _find(self) -> None:
        """See which sections are next."""
        wire, place = self.wire, self._place
        is_described = compute.and_(
            compute.equal(wire.octet(place), DESCRIBED), compute.equal(wire.octet(place, 1), SMALL_ULONG)
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

    def whole(self) -> Array:
        """Which rows have come to their end, and are not lost."""
        return self.right(compute.equal(self._place, self.wire.end))

    def section(self, section: Listed | Mapped) -> Array:
        """The column of a section that is no body."""
        if section.code not in self._nexts:
            return nulls(len(self._place), _MAP if isinstance(section, Mapped) else arrow_type(section.spark))
        own = self._own(section.code)
        if isinstance(section, Listed):
            array, end = self.listed(own, section)
        else:
            array, end = self._mapped(own, section)
        self._advance(own, end)
        return array

    def _mapped(self, own: Array, section: Mapped) -> tuple[Array, Array]:
        wire = self.wire
        place, end, count = self.compound(own, self.encodings.maps)
        count = either(compute.less_equal(count, 2 * _MOST_ENTRIES), count)
        entries = compute.divide(count, 2)
        allowed = self.encodings.constructors.of(section.key)
        keys: list[Values] = []
        items: list[Values] = []
        for number in range(compute.max(entries).as_py() or 0):
            has = compute.greater(entries, number)
            keys.append(wire.read(either(has, place)).only(allowed))
            items.append(wire.read(keys[-1].end))
            place = either(has, items[-1].end, place)
        is_even = compute.equal(compute.multiply(entries, 2), count)
        end = either(compute.and_(compute.equal(place, end), is_even), end)
        return self._entries(section, keys, items, either(end.is_valid(), entries).fill_null(0)), end

    def _entries(self, section: Mapped, keys: list[Values], items: list[Values], sizes: Array) -> Array:
        """Maps of so many entries, 0 for a null; their keys and items turn by turn."""
        if not keys:
            return nulls(len(sizes), _MAP)
        order = turns(len(keys), len(sizes))
        number = compute.divide(order, len(sizes))
        rows = compute.subtract(order, compute.multiply(number, len(sizes)))
        is_there = compute.less(number, sizes.take(rows))
        order, rows = order.filter(is_there), rows.filter(is_there)
        flat = Reading(self.wire, self.encodings)
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
            values = self.wire.read(data_own).only(self.encodings.constructors.of("binary"))
            octets, data_end = self.wire.slices(values), values.end
        if single_code in self._nexts:
            values = self.wire.read(single_own)
            tagged, single_end = self.tagged(values, null_is_absent=False), values.end
        end = compute.coalesce(data_end, single_end)
        kinds = either(data_own.is_valid(), pa.scalar(data), pa.scalar(single))
        self._advance(own, end)
        return [kinds, octets, nulls(count, _SIZES), tagged, nulls(count, _SEQUENCES)]


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

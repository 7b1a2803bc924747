"""Frames in their usual form, all of a batch at once: a header without extension, and a performative."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import pyarrow as pa

from amqpforge_protocol._support.errors import DecodeError
from amqpforge_protocol._support.limits import Limits

from .arrow import Array, arrow_type, compute, nulls, spread
from .columns import TOGETHER, StructColumns
from .forms import Encodings, Listed
from .frames import HEADER_TYPE, FrameRows, Origin
from .regular import DESCRIBED, LEAST_ROWS, MOST_ELEMENTS, MOST_OCTETS, SMALL_ULONG, Reading, merged
from .rest import CORRUPT, Rest
from .wire import ROOM, Wire, either

__all__ = ["Performative", "UsualFrameRows"]

_DATA_OFFSET: Final = 2
"""That of a header without extension (section 2.3.1)."""
_AMQP: Final = 0
"""The type of frames that hold performatives."""
_KIND: Final = "amqp"
"""What rows of such frames have as their kind."""
_DEPTH: Final = 2
"""How deep the values of the usual form go."""
_FIELDS: Final = 11
"""Octets from where a frame begins to the fields of its performative."""


@dataclass(frozen=True, slots=True)
class Performative:
    """What a frame holds.

    Attributes:
        name: the specification's name.
        fields: its list.
        has_payload: whether the octets behind it are a payload.
    """

    name: str
    fields: Listed
    has_payload: bool


class UsualFrameRows(FrameRows, ABC):
    """The columns of frames that wait until all are there: then those of the usual form are decoded together,
    and the others one by one.
    """

    __slots__ = ("_encodings", "_errors", "_limits", "_octets", "_performatives", "_sizes")

    def __init__(
        self,
        structs: Sequence[tuple[type, str, str, StructColumns | None]],
        plain: Sequence[str],
        rest: Rest,
        *,
        encodings: Encodings,
        performatives: Sequence[Performative],
        limits: Limits,
    ) -> None:
        """What frames there are; ``structs``, ``plain`` and ``rest`` as `FrameRows` has them."""
        super().__init__(structs, plain, rest)
        self._encodings = encodings
        self._performatives = performatives
        self._limits = limits
        self._octets: list[bytes] = []
        self._sizes: list[int] = []
        self._errors: dict[int, DecodeError] = {}

    def append_error(
        self,
        octets: bytes,
        reason: str,
        origin: Origin | None = None,
        time: int | None = None,
        offset: int | None = None,
    ) -> None:
        """Take octets of which somebody else knows that they are no frame, and why."""
        self._errors[len(self)] = DecodeError(reason)
        self.extend(octets, [len(octets)], origin, time, offset)

    def extend(
        self,
        octets: bytes,
        sizes: Sequence[int],
        origin: Origin | None = None,
        time: int | None = None,
        offset: int | None = None,
    ) -> None:
        """Take frames that came one behind the other, at least one: all their octets, and the octets of each;
        ``offset`` is that of the first one.
        """
        is_known = offset is not None
        offsets = list(accumulate(sizes[:-1], initial=offset)) if is_known else [None] * len(sizes)
        self._begin(origin, time, offsets)
        self._octets.append(octets)
        self._sizes += sizes

    @abstractmethod
    def add_frame(self, octets: bytes) -> None:
        """Decode any frame."""

    def held(self) -> list[Array]:
        """What the frames hold."""
        octets = b"".join((*self._octets, ROOM))
        bounds = list(accumulate(self._sizes, initial=0))
        found = self._decode_usual(octets, bounds)
        if found is None:
            self._add(octets, bounds, range(len(self._sizes)))
            arrays = super().held()
        else:
            arrays, right = found
            self._add(octets, bounds, compute.indices_nonzero(compute.invert(right)).to_pylist())
            others = super().held()
            if right.true_count < len(right):
                arrays = merged(right, arrays, others)
        self._octets.clear()
        self._sizes.clear()
        self._errors.clear()
        return arrays

    def _decode_usual(self, octets: bytes, bounds: list[int]) -> tuple[list[Array], Array] | None:
        """What all frames hold, and for which of them that is right; None: it is not worth while, or the
        limits are too narrow for that.
        """
        count, limits = len(self._sizes), self._limits
        if count < LEAST_ROWS or len(octets) > MOST_OCTETS:
            return None
        if limits.elements < MOST_ELEMENTS or limits.depth < _DEPTH:
            return None
        wire = Wire(octets, pa.array(bounds, pa.int64()), self._encodings.constructors)
        try:
            found = _Usual(wire, self._encodings, self._performatives)
        except pa.ArrowInvalid:  # A text is not UTF-8.
            return None
        right = found.right
        if self._errors:
            errors = pa.array([*self._errors], pa.int64())
            right = compute.and_(right, compute.invert(compute.is_in(pa.arange(0, count), errors)))
        structs = [
            found.structs.get(self._names[number] or "", nulls(count, columns.type))
            for number, columns, _ in self._columns
        ]
        arrays = [
            pa.repeat(pa.scalar(_KIND), count),
            found.channel,
            found.name,
            found.payload,
            nulls(count, HEADER_TYPE),
            *structs,
            nulls(count, pa.string()),
            nulls(count, arrow_type(CORRUPT)),
        ]
        return arrays, right

    def _add(self, octets: bytes, bounds: list[int], rows: Sequence[int]) -> None:
        """Decode frames one by one."""
        for row in rows:
            frame = octets[bounds[row] : bounds[row + 1]]
            if row in self._errors:
                self.add_corrupt(frame, self._errors[row])
            else:
                self.add_frame(frame)
            if len(self._numbers) - self._apart >= TOGETHER:
                self._take_apart()


class _Usual:
    """Frames of the usual form.

    Attributes:
        channel: of each.
        name: of its performative.
        payload: octets behind that.
        structs: the performatives by their names.
        right: which rows are right.
    """

    def __init__(self, wire: Wire, encodings: Encodings, performatives: Sequence[Performative]) -> None:
        count = len(wire)
        self.channel = wire.number(compute.add(wire.start, 6), 2).cast(pa.int32())
        codes = _codes(wire)
        known = {one.fields.code: one for one in performatives}
        names = [known[code].name if code in known else None for code in range(256)]
        self.name = pa.array(names, pa.string()).take(codes)
        self.payload = nulls(count, pa.int64())
        self.right = pa.repeat(pa.scalar(False), count)
        self.structs: dict[str, Array] = {}
        for code in {*codes.unique().to_pylist()} & known.keys():
            one, mine = known[code], compute.equal(codes, code).fill_null(False)
            some = wire.rows(compute.indices_nonzero(mine))
            reading = Reading(some, encodings)
            structs, end = reading.listed(compute.add(some.start, _FIELDS), one.fields)
            right = reading.right(end.is_valid())
            behind = compute.subtract(some.end, end if one.has_payload else some.end)
            self.structs[one.name] = spread(structs, mine)
            self.payload = compute.coalesce(self.payload, spread(behind, mine))
            self.right = compute.or_(self.right, spread(right, mine).fill_null(False))


def _codes(wire: Wire) -> Array:
    """The codes of the performatives, where a frame has one and a header without extension."""
    start = wire.start
    has = compute.equal(wire.number(start, 4).cast(pa.int64()), compute.subtract(wire.end, start))
    octets = ((4, _DATA_OFFSET), (5, _AMQP), (8, DESCRIBED), (9, SMALL_ULONG))
    for offset, expected in octets:
        has = compute.and_(has, compute.equal(wire.octet(start, offset), expected))
    return either(has, wire.octet(start, 10))

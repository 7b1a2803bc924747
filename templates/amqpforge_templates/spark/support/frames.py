"""Frames of any dialect as rows: what their columns have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from amqpforge_protocol._support.errors import CodecError, DecodeError

from .arrow import Array, Batch, Schema, arrow_type, compute, nulls, spread
from .columns import TOGETHER, StructColumns
from .rest import CORRUPT, Corrupt, Rest

__all__ = [
    "CAPTURE",
    "FRAME_ENDS",
    "FRAME_FACTS",
    "HEADER_TYPE",
    "FrameRows",
    "Origin",
    "check_end",
    "sparse_columns",
    "spread_rows",
]

Origin: TypeAlias = tuple[int | None, str | None, int | None, str | None, int | None, str | None]
"""The number of a stream, the address and port that it came from, those that it went to, and the name of its
direction.
"""

_ORIGIN = [
    StructField("stream", LongType()),
    StructField("source", StringType()),
    StructField("source_port", IntegerType()),
    StructField("destination", StringType()),
    StructField("destination_port", IntegerType()),
    StructField("direction", StringType()),
]
CAPTURE = [
    StructField("time", TimestampType()),
    *_ORIGIN,
    StructField("offset", LongType()),
    StructField("dialect", StringType()),
]
"""Where and when a frame was captured: ``offset`` counts octets of its stream, in its direction."""

_HEADER = StructType(
    [StructField(name, IntegerType()) for name in ("protocol_id", "major", "minor", "revision")]
)
FRAME_FACTS = [
    StructField("kind", StringType()),
    StructField("channel", IntegerType()),
    StructField("name", StringType()),
    StructField("payload_size", LongType()),
    StructField("protocol_header", _HEADER),
]
"""What a frame of any kind says: ``name`` is the specification's name of what it holds, ``payload_size``
counts the octets behind that; the four numbers of a protocol header are those behind the letters AMQP.
"""

FRAME_ENDS = [StructField("_rest", StringType()), StructField("_corrupt", CORRUPT)]
"""What fits no column, and what could not be decoded."""

_HEADER_SIZE = 8
HEADER_TYPE = arrow_type(_HEADER)
"""The Arrow type of what is said of a protocol header."""
_TIME = arrow_type(TimestampType())
_ORIGIN_TYPES = [arrow_type(field.dataType) for field in _ORIGIN]
_NO_ORIGIN: Origin = (None, None, None, None, None, None)
_Taker: TypeAlias = tuple[int, Callable[[Any], None] | None]


def check_end(behind: int, octets: bytes) -> None:
    """See that nothing follows what ends at ``behind``. Raises DecodeError."""
    if behind != len(octets):
        raise DecodeError(f"{len(octets) - behind} octets follow the frame", offset=behind)


def sparse_columns(
    rows: dict[int, tuple[Any, ...]], fields: Sequence[StructField], count: int
) -> list[Array]:
    """Columns of ``fields`` that have values in some of ``count`` rows; ``rows`` is emptied."""
    kinds = [arrow_type(field.dataType) for field in fields]
    if not rows:
        return [nulls(count, kind) for kind in kinds]
    nothing = (None,) * len(fields)
    columns = zip(*[rows.get(row, nothing) for row in range(count)], strict=True)
    rows.clear()
    return [pa.array(list(values), kind) for values, kind in zip(columns, kinds, strict=True)]


def spread_rows(arrays: Sequence[Array], spark: StructType, rows: list[int], count: int) -> Array:
    """Structs of these columns in some of ``count`` rows, and nulls in the others; ``rows`` is emptied."""
    kind = arrow_type(spark)
    if not rows:
        return nulls(count, kind)
    own = {*rows}
    rows.clear()
    structs = pa.StructArray.from_arrays(arrays, fields=list(kind))
    return spread(structs, [row in own for row in range(count)])


class FrameRows:
    """The columns of frames. Subclasses decode; here is what a decoded frame becomes.

    Each row has the number of its kind, from which its ``kind`` and ``name`` follow and which struct it
    fills.
    """

    __slots__ = (
        "_apart",
        "_channel",
        "_channels",
        "_columns",
        "_corrupt",
        "_headers",
        "_kind",
        "_kinds",
        "_names",
        "_numbers",
        "_offsets",
        "_origins",
        "_payload",
        "_payloads",
        "_places",
        "_plain",
        "_rest",
        "_takers",
        "_times",
    )
    _SCHEMA: ClassVar[Schema]
    _DIALECT: ClassVar[str]

    def __init__(
        self,
        structs: Sequence[tuple[type, str, str, StructColumns | None]],
        plain: Sequence[str],
        rest: Rest,
    ) -> None:
        """What frames there are.

        Args:
            structs: for each class of what a frame can hold: its kind, its name, and its columns if it has
                fields; in the order of the columns.
            plain: the kinds of frames without such an object, ``header`` and ``error`` among them.
            rest: for what fits no column of ``structs``.
        """
        self._rest, self._corrupt = rest, Corrupt()
        self._kinds = [*[kind for _, kind, _, _ in structs], *plain]
        self._names: list[str | None] = [*[name for _, _, name, _ in structs], *[None for _ in plain]]
        self._plain = {kind: len(structs) + index for index, kind in enumerate(plain)}
        waiting: list[list[Any]] = [[] for _ in structs]
        self._takers: dict[type, _Taker] = {
            cls: (number, waiting[number].append if columns is not None else None)
            for number, (cls, _, _, columns) in enumerate(structs)
        }
        self._columns = [
            (number, columns, waiting[number])
            for number, (_, _, _, columns) in enumerate(structs)
            if columns is not None
        ]
        self._apart = 0
        self._numbers: list[int] = []
        self._channels: list[int | None] = []
        self._payloads: list[int] = []
        self._places: dict[Origin | None, int] = {}
        self._origins: list[int] = []
        self._times: list[int | None] = []
        self._offsets: list[int | None] = []
        self._headers: dict[int, tuple[int, int, int, int]] = {}
        self._kind = self._numbers.append
        self._channel = self._channels.append
        self._payload = self._payloads.append

    def __len__(self) -> int:
        return len(self._origins)

    def takers(self, kind: str) -> dict[type, _Taker]:
        """For the classes of one kind, the number of the kind and what takes the fields of an object."""
        return {cls: taker for cls, taker in self._takers.items() if self._kinds[taker[0]] == kind}

    def append_error(
        self,
        octets: bytes,
        reason: str,
        origin: Origin | None = None,
        time: int | None = None,
        offset: int | None = None,
    ) -> None:
        """Take octets of which somebody else knows that they are no frame, and why."""
        self._begin(origin, time, [offset])
        self.add_corrupt(octets, DecodeError(reason))

    def _begin(self, origin: Origin | None, time: int | None, offsets: Sequence[int | None]) -> None:
        """Begin rows that have these offsets; what follows ends one each."""
        count = len(offsets)
        self._origins += [self._places.setdefault(origin, len(self._places))] * count
        self._times += [time] * count
        self._offsets += offsets

    def add_plain(self, kind: str, channel: int | None, payload: int) -> None:
        """The frame holds nothing with fields."""
        self._kind(self._plain[kind])
        self._channel(channel)
        self._payload(payload)

    def add_struct(self, value: object, channel: int | None, payload: int) -> None:
        """The frame holds a performative, a method, an operation, or the properties of a content."""
        number, add = self._takers[type(value)]
        self._kind(number)
        self._channel(channel)
        self._payload(payload)
        if add is not None:
            add(value)
        if len(self._numbers) - self._apart >= TOGETHER:
            self._take_apart()

    def add_header(self, numbers: tuple[int, int, int, int]) -> None:
        """It is a protocol header."""
        self._headers[len(self._numbers)] = numbers
        self.add_plain("header", None, 0)

    def add_protocol_header(self, octets: bytes) -> None:
        """It is a protocol header, or what is left of one."""
        if len(octets) != _HEADER_SIZE:
            reason = f"a protocol header has {_HEADER_SIZE} octets, not {len(octets)}"
            self.add_corrupt(octets, DecodeError(reason, offset=min(len(octets), _HEADER_SIZE)))
            return
        protocol_id, major, minor, revision = octets[4:]
        self.add_header((protocol_id, major, minor, revision))

    def add_corrupt(self, octets: bytes, error: CodecError) -> None:
        """It could not be decoded."""
        self._corrupt.add(len(self._numbers), error, octets)
        self.add_plain("error", None, 0)

    def _take_apart(self, least: int = TOGETHER // 2) -> None:
        """Leave nothing waiting of which there are this many."""
        for _, columns, waiting in self._columns:
            if len(waiting) >= least:
                columns.take(waiting)
                waiting.clear()
        self._apart = len(self._numbers)

    def batch(self, further: Sequence[Array], facts: Sequence[Array] = ()) -> Batch:
        """All rows, with ``facts`` in front of the structs and ``further`` columns behind; the columns are
        empty then.
        """
        count, own, ends = len(self), len(FRAME_FACTS), -len(FRAME_ENDS)
        held = self.held()
        arrays = [
            pa.array(self._times, _TIME),
            *self._finish_origins(),
            pa.array(self._offsets, pa.int64()),
            pa.repeat(pa.scalar(self._DIALECT), count),
            *held[:own],
            *facts,
            *held[own:ends],
            *further,
            *held[ends:],
        ]
        for values in (self._origins, self._times, self._offsets):
            values.clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self._SCHEMA)

    def held(self) -> list[Array]:
        """What the frames say and hold: the columns of ``FRAME_FACTS``, the structs, and ``FRAME_ENDS``."""
        count = len(self._numbers)
        numbers = pa.array(self._numbers, pa.int32())
        arrays = [
            pa.array(self._kinds, pa.string()).take(numbers),
            pa.array(self._channels, pa.int32()),
            pa.array(self._names, pa.string()).take(numbers),
            pa.array(self._payloads, pa.int64()),
            self._finish_headers(count),
        ]
        self._take_apart(1)
        self._apart = 0
        used = {*self._numbers}
        for number, columns, _ in self._columns:
            if number in used:
                present = compute.equal(numbers, number)
                rows = compute.indices_nonzero(present).to_pylist()
                arrays.append(spread(columns.finish(rows), present))
            else:
                arrays.append(nulls(count, columns.type))
        for values in (self._numbers, self._channels, self._payloads):
            values.clear()
        return [*arrays, self._rest.finish(count), self._corrupt.finish(count)]

    def _finish_origins(self) -> list[Array]:
        """Origins are few: their columns are made of few values."""
        places = pa.array(self._origins, pa.int32())
        few = [origin or _NO_ORIGIN for origin in self._places]
        self._places.clear()
        return [
            pa.array([origin[number] for origin in few], kind).take(places)
            for number, kind in enumerate(_ORIGIN_TYPES)
        ]

    def _finish_headers(self, count: int) -> Array:
        if not self._headers:
            return nulls(count, HEADER_TYPE)
        rows = [self._headers.get(row) for row in range(count)]
        self._headers.clear()
        return pa.array(
            [None if row is None else dict(zip(_HEADER.names, row, strict=True)) for row in rows],
            HEADER_TYPE,
        )

"""Record batches of frames: what Spark gets of a capture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

__all__ = ["BATCH_ROWS", "UNKNOWN", "Origin", "Rows", "Wanted", "held", "schema"]

BATCH_ROWS: Final = 10_000
"""Rows of a record batch, about."""

_BATCH_OCTETS: Final = 16 * 1024 * 1024
_OWN: Final = (
    StructField("file", StringType()),
    StructField("packet", LongType()),
    StructField("size", LongType()),
)
_MESSAGE: Final = "message"
_AMQP_1_0: Final = "amqp_1_0"
_ORIGIN: Final = ("stream", "source", "source_port", "destination", "destination_port", "direction")

Origin = tuple[int | None, str | None, int | None, str | None, int | None, str | None]
"""Number of the stream, address and port of the source, of the destination, direction."""

UNKNOWN: Final[Origin] = (None, None, None, None, None, None)


@cache
def _package(dialect: str) -> ModuleType:
    return import_module(f"amqpforge_spark.{dialect}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which columns there are.

    Attributes:
        dialect: whose frames have columns for what they hold.
        sections: whether the messages have one.
        fields: the names of the performatives, methods, controls and commands that have one; None: all.
    """

    dialect: str
    sections: bool
    fields: frozenset[str] | None = None

    def __contains__(self, name: str) -> bool:
        """Whether a column of a frame is among them."""
        if name == _MESSAGE:
            return self.sections
        return self.fields is None or name in self.fields or name not in held(self.dialect)


@cache
def held(dialect: str) -> tuple[str, ...]:
    """The columns of what frames of a dialect can hold: there is one for each kind of that."""
    fields = _package(dialect).FRAME.fields
    structs = (field.name for field in fields if isinstance(field.dataType, StructType))
    return tuple(name for name in structs if name not in (_MESSAGE, "protocol_header", "_corrupt"))


@cache
def schema(wanted: Wanted) -> StructType:
    """The columns of a capture: the file, the number of the packet that completed the frame, the octets of
    the frame, and the columns of a frame of the dialect.
    """
    return StructType(
        [*_OWN, *(field for field in _package(wanted.dialect).FRAME.fields if field.name in wanted)]
    )


class _Dialect(NamedTuple):
    """The frames of one dialect: their columns; for each its packet, and the octets that it has."""

    columns: Any
    packets: list[int | None]
    sizes: list[int | None]


class Rows:
    """The rows of one file.

    Attributes:
        packet: the number of the packet that brings what comes next; None: none does.
    """

    def __init__(self, file: str, wanted: Wanted) -> None:
        """Of frames in other dialects than ``wanted`` has there are the columns that all have."""
        self.packet: int | None = None
        self._file = file
        self._wanted = wanted
        self._dialects: dict[str, _Dialect] = {}
        self._ends: list[tuple[int | None, int | None, Origin, int, str]] = []
        self._octets = 0
        self._count = 0

    def extend(
        self,
        octets: bytes,
        sizes: list[int],
        origin: Origin,
        time: int | None,
        offset: int,
        messages: Sequence[bytes | None],
    ) -> None:
        """Frames of AMQP 1.0 that came one behind the other: all their octets, and the octets of each; each
        with the message that it completes, if messages are wanted. ``offset`` is that of the first one.
        """
        self._of(_AMQP_1_0, sizes).extend(octets, sizes, origin, time, offset, messages)

    def frame(self, octets: bytes, origin: Origin, time: int | None, offset: int, dialect: str) -> None:
        """A frame or protocol header, without a message."""
        self._of(dialect, [len(octets)]).append(octets, origin, time, offset)

    def error(self, reason: str, origin: Origin, time: int | None, offset: int | None, dialect: str) -> None:
        """Something that is no frame."""
        self._of(dialect, [None]).append_error(b"", reason, origin, time, offset)

    def end(self, time: int | None, origin: Origin, offset: int, *, closed: bool) -> None:
        """A direction is over: it was closed, or else the capture is."""
        self._ends.append((self.packet, time, origin, offset, "closed" if closed else "cut"))
        self._count += 1

    def is_full(self, octets: int) -> bool:
        """Whether there is enough for a batch; what came since the last call took so many octets."""
        self._octets += octets
        return self._count >= BATCH_ROWS or self._octets >= _BATCH_OCTETS

    def _of(self, dialect: str, sizes: Sequence[int | None]) -> Any:
        """The ``FrameColumns`` of a dialect, for more rows: ``sizes`` are those of the frames in octets, None
        for what is no frame.
        """
        count = len(sizes)
        found = self._dialects.get(dialect)
        if found is None:
            found = self._dialects[dialect] = _Dialect(_package(dialect).FrameColumns(), [], [])
        found.packets.extend([self.packet] * count)
        found.sizes.extend(sizes)
        self._count += count
        return found.columns

    def batches(self) -> Iterator[Any]:
        """The rows so far as record batches: one a dialect, and one of the ends; there are none left then."""
        self._octets = self._count = 0
        for columns, packets, sizes in self._dialects.values():
            if packets:
                frames = columns.finish()
                found = dict(zip(frames.schema.names, frames.columns, strict=True))
                found["packet"] = pa.array(packets, pa.int64())
                found["size"] = pa.array(sizes, pa.int64())
                yield self._batch(found, len(packets))
                packets.clear()
                sizes.clear()
        if self._ends:
            yield self._batch(_end_columns(self._ends), len(self._ends))
            self._ends.clear()

    def _batch(self, found: dict[str, Any], count: int) -> Any:
        """A batch of these columns; nulls in all others, and in those that have another type here."""
        target = _arrow(self._wanted)
        found["file"] = pa.repeat(pa.scalar(self._file), count)
        arrays = []
        for field in target:
            array = found.get(field.name)
            fits = array is not None and array.type == field.type
            arrays.append(array if fits else pa.nulls(count, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=target)


def _end_columns(ends: list[tuple[int | None, int | None, Origin, int, str]]) -> dict[str, Any]:
    packets, times, origins, offsets, names = zip(*ends, strict=True)
    types = (pa.int64(), pa.string(), pa.int32(), pa.string(), pa.int32(), pa.string())
    return {
        "packet": pa.array(packets, pa.int64()),
        "time": pa.array(times, pa.timestamp("us", "UTC")),
        **{
            name: pa.array(values, kind)
            for name, values, kind in zip(_ORIGIN, zip(*origins, strict=True), types, strict=True)
        },
        "offset": pa.array(offsets, pa.int64()),
        "kind": pa.repeat(pa.scalar("end"), len(ends)),
        "name": pa.array(names, pa.string()),
    }


@cache
def _arrow(wanted: Wanted) -> Any:
    own = [pa.field("file", pa.string()), pa.field("packet", pa.int64()), pa.field("size", pa.int64())]
    return pa.schema([*own, *(one for one in _package(wanted.dialect).FRAME_SCHEMA if one.name in wanted)])

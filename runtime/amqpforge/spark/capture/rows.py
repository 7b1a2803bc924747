"""Record batches of frames: what Spark gets of a capture."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

__all__ = ["BATCH_ROWS", "UNKNOWN", "Origin", "Rows", "schema"]

BATCH_ROWS: Final = 10_000
"""Rows of a record batch, about."""

_BATCH_OCTETS: Final = 16 * 1024 * 1024
_OWN: Final = (
    StructField("file", StringType()),
    StructField("packet", LongType()),
    StructField("size", LongType()),
)
_MESSAGE: Final = "message"
_ORIGIN: Final = ("stream", "source", "source_port", "destination", "destination_port", "direction")

Origin = tuple[int | None, str | None, int | None, str | None, int | None, str | None]
"""Number of the stream, address and port of the source, of the destination, direction."""

UNKNOWN: Final[Origin] = (None, None, None, None, None, None)


@cache
def _package(dialect: str) -> ModuleType:
    return import_module(f"amqpforge_spark.{dialect}")


@cache
def schema(dialect: str, *, sections: bool) -> StructType:
    """The columns of a capture: the file, the number of the packet that completed the frame, the octets of
    the frame, and the columns of a frame of the dialect; ``sections``: with the message that it completes.
    """
    fields = [field for field in _package(dialect).FRAME.fields if sections or field.name != _MESSAGE]
    return StructType([*_OWN, *fields])


class Rows:
    """The rows of one file.

    Attributes:
        sizes: of the frames of each dialect, in octets, one for each row of it; None for what is no frame.
    """

    def __init__(self, file: str, dialect: str, *, sections: bool) -> None:
        """``dialect`` decides the columns; of frames in others there are those that all have."""
        self._file = file
        self._dialect = dialect
        self._sections = sections
        self._columns: dict[str, Any] = {}
        self._packets: dict[str, list[int | None]] = {}
        self.sizes: dict[str, list[int | None]] = {}
        self._ends: list[tuple[int | None, int | None, Origin, int, str]] = []
        self._octets = 0

    def of(self, dialect: str) -> Any:
        """The ``FrameColumns`` of a dialect; whoever appends to them adds to `sizes`, and calls `close`
        soon.
        """
        found = self._columns.get(dialect)
        if found is None:
            self._packets[dialect] = []
            self.sizes[dialect] = []
            found = self._columns[dialect] = _package(dialect).FrameColumns()
        return found

    def frame(self, octets: bytes, origin: Origin, time: int | None, offset: int, dialect: str) -> None:
        """A frame or protocol header, without a message."""
        self.of(dialect).append(octets, origin, time, offset)
        self.sizes[dialect].append(len(octets))

    def error(self, reason: str, origin: Origin, time: int | None, offset: int | None, dialect: str) -> None:
        """Something that is no frame."""
        self.of(dialect).append_error(b"", reason, origin, time, offset)
        self.sizes[dialect].append(None)

    def end(self, packet: int | None, time: int | None, origin: Origin, offset: int, *, closed: bool) -> None:
        """A direction is over: it was closed, or else the capture is."""
        self._ends.append((packet, time, origin, offset, "closed" if closed else "cut"))

    def close(self, packet: int | None, octets: int) -> bool:
        """What was appended since the last call came with this packet, from so many octets; whether there is
        enough for a batch.
        """
        self._octets += octets
        count = 0
        for dialect, columns in self._columns.items():
            packets = self._packets[dialect]
            more = len(columns) - len(packets)
            if more:
                packets += [packet] * more
            count += len(packets)
        return count >= BATCH_ROWS or self._octets >= _BATCH_OCTETS or len(self._ends) >= BATCH_ROWS

    def batches(self) -> Iterator[Any]:
        """The rows so far as record batches: one a dialect, and one of the ends; there are none left then."""
        self._octets = 0
        for dialect, packets in self._packets.items():
            if packets:
                frames = self._columns[dialect].finish()
                found = dict(zip(frames.schema.names, frames.columns, strict=True))
                found["packet"] = pa.array(packets, pa.int64())
                found["size"] = pa.array(self.sizes[dialect], pa.int64())
                yield self._batch(found, len(packets))
                packets.clear()
                self.sizes[dialect].clear()
        if self._ends:
            yield self._batch(_end_columns(self._ends), len(self._ends))
            self._ends.clear()

    def _batch(self, found: dict[str, Any], count: int) -> Any:
        """A batch of these columns; nulls in all others, and in those that have another type here."""
        target = _arrow(self._dialect, self._sections)
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
def _arrow(dialect: str, sections: bool) -> Any:
    own = [pa.field("file", pa.string()), pa.field("packet", pa.int64()), pa.field("size", pa.int64())]
    fields = [field for field in _package(dialect).FRAME_SCHEMA if sections or field.name != _MESSAGE]
    return pa.schema([*own, *fields])

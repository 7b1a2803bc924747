"""What Spark takes for itself: a data source in Python whose rows are there already, and only handed over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

NAME = "benchmark_handed_over"
_SPARK = b"spark"


class HandedOver(DataSource):
    """The record batches in a file that :func:`record` has written: the options are its ``path``, and how
    many ``tasks`` read it.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        with pa.memory_map(self.options["path"]) as source:
            about = pa.ipc.open_file(source).schema.metadata
        return StructType.fromJson(json.loads(about[_SPARK]))

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.options["path"], int(self.options["tasks"]))


class _Reader(DataSourceReader):
    def __init__(self, path: str, tasks: int) -> None:
        self._path = path
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(first) for first in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self._path) as source:
            reader = pa.ipc.open_file(source)
            for number in range(partition.value, reader.num_record_batches, self._tasks):
                yield reader.get_batch(number)


def record(batches: Iterable[pa.RecordBatch], spark: StructType, path: str) -> int:
    """Write record batches with these columns into a file; returns how many rows they have."""
    about = {_SPARK: spark.json().encode()}
    rows = 0
    with Path(path).open("wb") as file:
        writer: pa.RecordBatchFileWriter | None = None
        for batch in batches:
            schema = batch.schema.with_metadata(about)
            writer = writer or pa.ipc.new_file(file, schema)
            writer.write_batch(batch.replace_schema_metadata(about))
            rows += batch.num_rows
        if writer is not None:
            writer.close()
    return rows

"""What Spark calls: ``spark.read.format("amqp_capture").load(path)``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .inputs import files
from .options import CaptureOptions
from .plan import Part, batches, tasks
from .rows import schema

__all__ = ["CaptureDataSource"]


class CaptureDataSource(DataSource):
    """Captured AMQP traffic, one row a frame; ``docs/spark-captures.md`` is the guide."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "amqp_capture"

    def schema(self) -> StructType:
        """The columns, by the options ``dialect``, ``sections`` and ``fields``.

        Raises:
            OptionError: an option is not known, or wrong.
        """
        return schema(CaptureOptions.read(self.options).wanted)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What plans and runs the tasks.

        Raises:
            OptionError: as for `schema`.
        """
        return _Reader(CaptureOptions.read(self.options))


class _Task(InputPartition):
    """The parts of files that one task reads."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts


class _Reader(DataSourceReader):
    def __init__(self, options: CaptureOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task.

        Raises:
            OptionError: a path names nothing.
            CaptureError: a file is no capture.
        """
        options = self._options
        return [_Task(parts) for parts in tasks(files(options.paths, options.name_pattern), options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a task."""
        if not isinstance(partition, _Task):
            raise TypeError(f"{partition!r} is none of the partitions that were planned")
        for part in partition.parts:
            yield from batches(part, self._options)

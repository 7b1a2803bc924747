"""Sources whose tasks lose their process while they read: ``format("amqpfragile")`` is else the real one, and
``format("amqpdestructive")`` takes away what it has read, as none may whose tasks can be run again.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyspark_amqp
from amqpforge.spark.source.stream import AmqpStreamReader, SegmentPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

__all__ = ["DestructiveSource", "FragileSource", "deaths", "plan_deaths"]


def plan_deaths(folder: Path, moments: list[int]) -> None:
    """Have tasks die that read from the spool in a folder: when so many batches of rows were read in all."""
    (folder / "moments").write_text(json.dumps(moments))


def deaths(folder: Path) -> int:
    """How many have died."""
    return len(list(folder.glob("died-*")))


class FragileReader(AmqpStreamReader):
    """See the module."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Segment by segment, so that there are several batches of rows."""
        assert isinstance(partition, SegmentPartition)
        for name in partition.names:
            for batch in super().read(SegmentPartition(partition.location, (name,))):
                yield batch
                self._count()

    @property
    def _folder(self) -> Path:
        return Path(str(self._options.spool)).parent

    def _count(self) -> None:
        with (self._folder / "read").open("ab") as file:
            file.write(b".")
            file.flush()
            number = file.tell()
        if number in json.loads((self._folder / "moments").read_text()):
            (self._folder / f"died-{number}").touch()
            os.kill(os.getpid(), signal.SIGKILL)


class DestructiveReader(FragileReader):
    """See the module."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SegmentPartition)
        for name in partition.names:
            yield from super().read(SegmentPartition(partition.location, (name,)))
            (self._folder / "spool" / name).unlink()


class FragileSource(pyspark_amqp.DefaultSource):
    """See the module."""

    reader_class: ClassVar[type[FragileReader]] = FragileReader

    @classmethod
    def name(cls) -> str:
        return "amqpfragile"

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        reader = super().streamReader(schema)
        assert type(reader) is AmqpStreamReader
        reader.__class__ = self.reader_class
        return reader


class DestructiveSource(FragileSource):
    """See the module."""

    reader_class = DestructiveReader

    @classmethod
    def name(cls) -> str:
        return "amqpdestructive"

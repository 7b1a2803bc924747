"""The writers that Spark asks for: made on the driver, run in the tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from amqpforge.errors import LocalError

from .encoding import RowEncoder
from .options import SinkOptions
from .task import write_partition

__all__ = ["BatchWriter", "StreamWriter", "Written"]

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"

_log = logging.getLogger("amqpforge.spark")


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What a task has written.

    Attributes:
        rows: messages that were accepted at their own address.
        octets: of these.
        dead_lettered: messages that went to the dead-letter address.
    """

    rows: int
    octets: int
    dead_lettered: int


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of ``df.write``."""

    def __init__(self, options: SinkOptions) -> None:
        """All attempts of all tasks share the name of the write that is made here."""
        self.options = options
        self._name = options.write_id or uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write a partition."""
        return _write(self.options, self._name, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All partitions are written."""
        _log.info("written: %s", _summed(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A partition could not be written. What others have sent stays sent: a queue takes nothing back."""
        _log.warning("a write has failed; what was written before it did stays: %s", _summed(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of ``df.writeStream``; there is another one for each micro-batch."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write a partition of a micro-batch.

        Raises:
            LocalError: Spark does not say which query and which batch this is.
        """
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY) if context is not None else None
        batch = context.getLocalProperty(_BATCH) if context is not None else None
        if query is None or batch is None:
            raise LocalError(
                f"Spark sets no {_QUERY} and {_BATCH} for this task: rows would have no steady ids"
            )
        return _write(self.options, f"{query.replace('-', '')}:{batch}", iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All partitions of the micro-batch are written."""
        _log.info("micro-batch %d is written: %s", batchId, _summed(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """A partition could not be written: the micro-batch will come again, with the same ids."""
        _log.warning("micro-batch %d has failed; what was written stays: %s", batchId, _summed(messages))


def _write(options: SinkOptions, name: str, batches: Iterable[pa.RecordBatch]) -> Written:
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    encoder = RowEncoder(
        partition,
        address=options.address,
        id_prefix=f"{name}:{partition}" if options.makes_ids else None,
    )
    return Written(*write_partition(options, partition, encoder.rows(batches)))


def _summed(messages: Iterable[WriterCommitMessage | None]) -> str:
    told = [message for message in messages if isinstance(message, Written)]
    text = f"{sum(one.rows for one in told)} messages, {sum(one.octets for one in told)} octets"
    dead = sum(one.dead_lettered for one in told)
    return f"{text}, {dead} dead letters" if dead else text

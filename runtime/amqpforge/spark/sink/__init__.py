"""Writing tables to AMQP: ``df.write.format("amqp")`` and ``df.writeStream.format("amqp")``.

``docs/spark-sink.md`` says which columns become what, and what is promised.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from amqpforge.errors import LocalError

from .columns import check_table
from .options import SinkOptions
from .writer import BatchWriter, StreamWriter, Written

__all__ = ["BatchWriter", "StreamWriter", "Written", "batch_writer", "stream_writer"]


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of a batch.

    Args:
        options: as Spark gives them.
        schema: of the table.
        overwrite: whether what is there is to go.

    Raises:
        OptionError: an option is not known, missing or wrong.
        ColumnError: the table cannot be written.
        LocalError: it is to overwrite.
    """
    if overwrite:
        raise LocalError('a write does not empty a node: use mode("append")')
    made = SinkOptions.for_batch(options)
    check_table(schema, has_address=made.address is not None)
    return BatchWriter(made)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """The writer of a micro-batch.

    Args:
        options: as Spark gives them.
        schema: of the table.
        overwrite: whether each micro-batch is the whole result (output mode complete): it is sent as it is.

    Raises:
        OptionError: an option is not known, missing or wrong.
        ColumnError: the table cannot be written.
    """
    made = SinkOptions.for_stream(options)
    check_table(schema, has_address=made.address is not None)
    return StreamWriter(made)

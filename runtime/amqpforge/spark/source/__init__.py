"""Reading AMQP with Spark: a receiver that spools messages durably, and readers of what is spooled."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .batch import AmqpBatchReader
    from .rounds import AmqpRoundReader
    from .stream import AmqpStreamReader

__all__ = ["batch_reader", "stream_reader"]


def batch_reader(given: MutableMapping[str, str], schema: StructType) -> AmqpBatchReader:
    """What reads a batch; nothing happens before it is asked for its partitions.

    Args:
        given: the options of the data source.
        schema: the columns that Spark expects.

    Raises:
        OptionError: an option is wrong.
    """
    from .batch import AmqpBatchReader
    from .options import ReadOptions

    _check_schema(schema)
    return AmqpBatchReader(ReadOptions.for_batch(given))


def stream_reader(given: MutableMapping[str, str], schema: StructType) -> AmqpStreamReader | AmqpRoundReader:
    """What reads a stream; nothing happens before it is asked for an offset.

    The password is taken out of ``given``: what belongs to the data source goes to every task, and to a task
    that connects the reader brings it.

    Args:
        given: the options of the data source.
        schema: the columns that Spark expects.

    Raises:
        OptionError: an option is wrong.
    """
    from .options import ReadOptions
    from .rounds import AmqpRoundReader
    from .stream import AmqpStreamReader

    _check_schema(schema)
    options = ReadOptions.for_stream(given)
    reader = AmqpRoundReader(options) if options.on_executors else AmqpStreamReader(options)
    given.pop("password", None)
    return reader


def _check_schema(schema: StructType) -> None:
    """See that Spark expects what there is.

    Raises:
        OptionError: it was given another schema.
    """
    from amqpforge.spark.options import OptionError
    from amqpforge_spark.amqp_1_0 import MESSAGE

    if schema != MESSAGE:
        raise OptionError("schema", "cannot be chosen: leave .schema(...) out and select the columns")

"""Reading AMQP with Spark: a receiver that spools messages durably, and readers of what is spooled."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .batch import AmqpBatchReader
    from .options import ReadOptions
    from .rounds import AmqpRoundReader
    from .stream import AmqpStreamReader

__all__ = ["batch_reader", "read_schema", "stream_reader"]


def read_schema(given: Mapping[str, str]) -> StructType:
    """The columns of what is read. No other option is looked at: a batch and a stream have different ones.

    Args:
        given: the options of the data source.

    Raises:
        OptionError: the option ``columns`` is wrong.
    """
    from amqpforge.spark.options import OptionReader

    from .columns import columns_of, schema_of

    return schema_of(columns_of(OptionReader(given, given, purpose="reading")))


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

    options = ReadOptions.for_batch(given)
    _check_schema(schema, options)
    return AmqpBatchReader(options)


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

    options = ReadOptions.for_stream(given)
    _check_schema(schema, options)
    reader = AmqpRoundReader(options) if options.on_executors else AmqpStreamReader(options)
    given.pop("password", None)
    return reader


def _check_schema(schema: StructType, options: ReadOptions) -> None:
    """See that Spark expects what there is.

    Raises:
        OptionError: it was given another schema.
    """
    from amqpforge.spark.options import OptionError

    from .columns import schema_of

    if schema != schema_of(options.columns):
        raise OptionError(
            "schema", "cannot be chosen: leave .schema(...) out, and name columns in the option 'columns'"
        )

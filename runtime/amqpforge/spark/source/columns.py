"""The columns that rows have: all of a message, or those that the option ``columns`` names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from amqpforge_spark.amqp_1_0 import MESSAGE

if TYPE_CHECKING:
    from amqpforge.spark.options import OptionReader

__all__ = ["columns_of", "schema_of"]

_ALWAYS: Final = ("_rest", "_corrupt")
"""Without these, values that fit no column and octets that are no message would be lost silently."""


def columns_of(reader: OptionReader) -> tuple[str, ...]:
    """The names of the columns, in the order in which the option has them; those that are always there
    follow, unless it names them.

    Raises:
        OptionError: it names none, one that there is not, or one twice.
    """
    given = reader.names("columns", MESSAGE.names)
    if given is None:
        return tuple(MESSAGE.names)
    return (*given, *(name for name in _ALWAYS if name not in given))


def schema_of(columns: Sequence[str]) -> StructType:
    """Columns of a message by their names, as Spark has them."""
    return StructType([MESSAGE[name] for name in columns])

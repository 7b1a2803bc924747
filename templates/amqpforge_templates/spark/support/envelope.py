"""What is known of a message beside its octets: where it was read, by which link and delivery, and when."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, TimestampType

from .arrow import Array, Batch, arrow_type

__all__ = ["ENVELOPE", "PAYLOAD", "envelope_of", "formats_of", "payloads_of"]

ENVELOPE = [
    StructField("address", StringType()),
    StructField("link", StringType()),
    StructField("delivery_tag", BinaryType()),
    StructField("received_at", TimestampType()),
    StructField("message_format", LongType()),
]
"""The columns in front of a message's sections."""

PAYLOAD = "payload"
"""The column of a batch that holds whole messages."""


def envelope_of(batch: Batch) -> list[Array]:
    """The columns of ``ENVELOPE`` that a batch has; for others nulls."""
    arrays: list[Any] = []
    for field in ENVELOPE:
        kind = arrow_type(field.dataType)
        index = batch.schema.get_field_index(field.name)
        arrays.append(pa.nulls(batch.num_rows, kind) if index < 0 else batch.column(index).cast(kind))
    return arrays


def payloads_of(batch: Batch) -> Array:
    """The octets of the messages of a batch, a ``pyarrow.BinaryArray``.

    Raises:
        ValueError: there is no such column, or it has a null.
    """
    index = batch.schema.get_field_index(PAYLOAD)
    if index < 0:
        raise ValueError(f"no column {PAYLOAD!r} holds messages; there are: {', '.join(batch.schema.names)}")
    column = batch.column(index)
    if column.null_count:
        raise ValueError(f"the column {PAYLOAD!r} has {column.null_count} nulls; each row is a message")
    return column.cast(pa.binary())


def formats_of(batch: Batch) -> Array | None:
    """The message-format of each message; None: all are of AMQP's own."""
    index = batch.schema.get_field_index("message_format")
    return None if index < 0 else batch.column(index).cast(pa.int64()).fill_null(0)

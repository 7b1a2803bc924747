"""Frames in few columns: what the analysis looks at, so that a capture is read once and little is moved.

A frame has a struct for each performative or method, hundreds of fields in all, and one of the structs is in
use. Moving, sorting and keeping such rows costs far more than reading the capture does; here the one that is
in use is JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType

__all__ = ["COLUMNS", "digest", "is_digest", "structs"]

_PLAIN: Final = (
    *("file", "stream", "packet", "time", "source", "source_port", "destination", "destination_port"),
    *("direction", "offset", "size", "dialect", "kind", "channel", "name", "payload_size"),
)
"""Columns of captures that are taken over."""

COLUMNS: Final = (
    *_PLAIN,
    *("column", "fields", "condition", "description", "delivery_count", "redelivered"),
)
"""The columns of a digest."""

_APART: Final = ("message", "_corrupt")
_CARRIERS: Final = (
    ("close", "error.condition", "error.description"),
    ("end", "error.condition", "error.description"),
    ("detach", "error.condition", "error.description"),
    ("disposition", "state.rejected.error.condition", "state.rejected.error.description"),
    (
        "disposition",
        "state.transactional_state.outcome.rejected.error.condition",
        "state.transactional_state.outcome.rejected.error.description",
    ),
    ("sasl_outcome", "code", None),
    ("connection_close", "reply_code", "reply_text"),
    ("channel_close", "reply_code", "reply_text"),
    ("session_closed", "reply_code", "reply_text"),
    ("basic_return", "reply_code", "reply_text"),
    ("file_return", "reply_code", "reply_text"),
    ("stream_return", "reply_code", "reply_text"),
    ("message_reject", "code", "text"),
    ("connection_close", "close_code", "close_text"),
    ("session_detach", "exception.error_code", "exception.description"),
    ("connection_sasl_outcome", "code", None),
)
"""Columns that may carry an error, its condition and its description, in all dialects."""

_GOOD: Final = ("ok", "normal", "0", "200")
"""What closes and outcomes say when nothing is wrong."""

_REDELIVERED: Final = ("basic_deliver", "basic_get_ok", "file_deliver", "link_transfer")
"""Columns with a flag that the peer has sent the message before."""


def digest(frames: DataFrame) -> DataFrame:
    """What the functions of this package look at of captured frames, one narrow row each, of any dialect.

    They take frames too, but of a digest that is kept (``digest(frames).persist()``) several of them can be
    asked with one reading of the capture.

    - ``column`` is the column of the frame that had its fields, ``fields`` those as JSON;
    - ``condition`` and ``description`` are those of an error that the frame tells, "undecodable" and the
      reason for what could not be read;
    - ``delivery_count`` is how often the message that an AMQP 1.0 transfer completes was delivered before,
      null where no message is known: that needs the option ``sections``;
    - ``redelivered`` says whether the frame tells of such a message, or resumes a delivery, in any dialect.

    Args:
        frames: rows of ``format("amqp_capture")``, or a digest, which is given back.

    Raises:
        ValueError: columns are missing.
    """
    if is_digest(frames):
        return frames
    missing = [name for name in (*_PLAIN, "_corrupt") if name not in frames.columns]
    if missing:
        raise ValueError(
            f"these are no frames, the columns {', '.join(missing)} are missing: "
            "read them with format('amqp_capture')"
        )
    held = list(structs(frames))
    corrupt = f.col("_corrupt").isNotNull()
    count = _count(frames)
    return frames.select(
        *_PLAIN,
        _first([f.when(f.col(name).isNotNull(), f.lit(name)) for name in held]).alias("column"),
        _first([f.to_json(name, {"ignoreNullFields": "true"}) for name in held]).alias("fields"),
        f.when(corrupt, f.lit("undecodable")).otherwise(_condition(frames)).alias("condition"),
        f.when(corrupt, f.col("_corrupt.error")).otherwise(_description(frames)).alias("description"),
        count.alias("delivery_count"),
        _redelivered(frames, count).alias("redelivered"),
    )


def is_digest(frames: DataFrame) -> bool:
    """Whether frames have been digested."""
    return tuple(frames.columns) == COLUMNS


def structs(frames: DataFrame) -> dict[str, DataType]:
    """The types of the columns that have the fields of performatives, methods, headers and the like."""
    found = (one for one in frames.schema if isinstance(one.dataType, StructType) and one.name not in _APART)
    return {one.name: one.dataType for one in found}


def _first(columns: Sequence[Column]) -> Column:
    return f.coalesce(*columns) if columns else f.lit(None).cast("string")


def _has(frames: DataFrame, column: str, path: str) -> bool:
    """Whether there is such a column with such a field."""
    kind: DataType = frames.schema
    for name in (column, *path.split(".")):
        if not isinstance(kind, StructType) or name not in kind.names:
            return False
        kind = kind[name].dataType
    return True


def _condition(frames: DataFrame) -> Column:
    found = [
        f.col(f"{column}.{path}").cast("string")
        for column, path, _ in _CARRIERS
        if _has(frames, column, path)
    ]
    condition = _first(found)
    return f.when(~condition.isin(*_GOOD), condition)


def _description(frames: DataFrame) -> Column:
    return _first(
        [
            f.col(f"{column}.{path}")
            for column, _, path in _CARRIERS
            if path is not None and _has(frames, column, path)
        ]
    )


def _count(frames: DataFrame) -> Column:
    """What the header of a message tells; 0 for a message without one."""
    if "message" not in frames.columns:
        return f.lit(None).cast("long")
    return f.when(
        f.col("message").isNotNull(), f.coalesce(f.col("message.header.delivery_count"), f.lit(0))
    ).cast("long")


def _redelivered(frames: DataFrame, count: Column) -> Column:
    told = [f.coalesce(count > 0, f.lit(False))]
    if _has(frames, "transfer", "resume"):
        told.append(f.coalesce(f.col("transfer.resume"), f.lit(False)))
    told += [
        f.coalesce(f.col(f"{name}.redelivered"), f.lit(False))
        for name in _REDELIVERED
        if _has(frames, name, "redelivered")
    ]
    return reduce(Column.__or__, told)

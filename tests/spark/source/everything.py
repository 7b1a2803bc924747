"""Messages with every type of AMQP 1.0 in every place, and a stream that passes them on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import amqpforge_protocol.amqp_1_0 as amqp
from amqpforge import Message
from tests.spark.values import VALUES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ENVELOPE", "compound", "forward", "plain", "values"]

ENVELOPE = ("address", "link", "delivery_tag", "received_at", "_corrupt")
"""Columns that are about a delivery and not about its message."""
COMPOUND = ("list", "map", "array", "described")
NOW = datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)


def values(*, compound: bool) -> Iterator[tuple[str, Any]]:
    """A name for each value, and the value; ``compound``: those too that have values in them."""
    for kind, found in VALUES.items():
        if compound or kind not in COMPOUND:
            for number, value in enumerate(found):
                yield f"{kind}-{number}", value


def plain() -> list[Message]:
    """A body of each kind, and properties of each type."""
    made = [Message(amqp.AmqpValue(value), message_id=name) for name, value in values(compound=False)]
    made.append(
        Message(
            b"all properties",
            durable=True,
            priority=9,
            message_id=UUID(int=9),
            correlation_id=amqp.ULong(2**64 - 1),
            user_id=b"guest",
            to="t",
            subject="größer",
            reply_to="r",
            content_type="a/b",
            content_encoding="gzip",
            absolute_expiry_time=NOW.replace(year=2999),
            creation_time=NOW,
            group_id="g",
            group_sequence=2**32 - 1,
            reply_to_group_id="h",
            application_properties=dict(values(compound=False)),
        )
    )
    made.append(Message(b"", message_id=b"\x00\xff", correlation_id="none else"))
    made.append(Message([amqp.Data(b"a"), amqp.Data(b""), amqp.Data(b"bc")], message_id="several"))
    return made


def compound() -> list[Message]:
    """Values that have values in them, and annotations and footers with all of them."""
    everything = {f"x-opt-{name}": value for name, value in values(compound=True)}
    sequence = [value for _, value in values(compound=True)]
    return [
        *(
            Message(amqp.AmqpValue(value), message_id=name)
            for name, value in values(compound=True)
            if name.partition("-")[0] in COMPOUND
        ),
        Message([amqp.AmqpSequence(sequence), amqp.AmqpSequence([])], message_id="sequences"),
        Message(b"annotated", message_id="annotated", annotations=everything, footer=everything),
        Message(b"no id and nothing else"),
    ]


def forward(spark: SparkSession, folder: Path, source: dict[str, str], sink: dict[str, str]) -> None:
    """Have a stream pass on what a node holds."""
    stream = spark.readStream.format("amqp").options(**source, spoolLocation=str(folder / "spool")).load()
    query = (
        stream.writeStream.format("amqp")
        .options(**sink, messageId="keep", checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
        error = query.exception()
        if error is not None:
            raise error
    finally:
        query.stop()

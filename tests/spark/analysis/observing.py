"""Captures observed without Spark: what its tasks would observe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from amqpforge.engine.observations import Direction
from amqpforge.spark.analysis.observing import FRAME_COLUMNS, Connection
from amqpforge.spark.capture import plan
from amqpforge_protocol.amqp_1_0 import ProtocolHeader, encode_frame
from tests.spark.capture.reading import options, saved, talk

Row = dict[str, Any]
ORDER = [(name, "ascending") for name in ("file", "stream", "packet", "direction", "offset")]


def frames(path: Path) -> Any:
    """The frames of a file as an Arrow table, in the order that Spark gives them to the tasks."""
    chosen = options(path, sections="false", minPartitions="1")
    parts = [part for task in plan.tasks([str(path)], chosen) for part in task]
    table = pa.Table.from_batches([batch for part in parts for batch in plan.batches(part, chosen)])
    table = table.filter(table.column("stream").is_valid())
    return table.select(FRAME_COLUMNS).sort_by(ORDER)


def observations(path: Path, rows: int = 1000) -> list[Row]:
    """What is observed in a file that is read ``rows`` at a time; every row without the kinds it has not."""
    return observed(frames(path), rows)


def observed(table: Any, rows: int = 1000) -> list[Row]:
    """What is observed in these frames."""
    found: list[Row] = []
    for stream in sorted(set(table.column("stream").to_pylist())):
        connection = Connection()
        own = table.filter(pc.field("stream") == stream).combine_chunks()
        made = [one for batch in own.to_batches(max_chunksize=rows) for one in connection.eval(batch)]
        found += [row for batch in (*made, *connection.terminate()) for row in batch.to_pylist()]
    return [
        {name: value for name, value in row.items() if value is not None or name == row["kind"]}
        for row in found
    ]


def of(found: list[Row], kind: str) -> list[Row]:
    """The fields of the observations of a kind."""
    return [row[kind] for row in found if row["kind"] == kind]


def conversation(
    folder: Path, *said: tuple[Direction, Any], close: bool = True, handshake: bool = True
) -> Path:
    """A capture of a conversation: headers, performatives on channel 0, pairs of one and a payload, or
    octets. Packets are a microsecond apart.
    """
    sent: list[tuple[Direction, bytes]] = []
    for direction, what in said:
        if isinstance(what, bytes):
            octets = what
        elif isinstance(what, ProtocolHeader):
            octets = what.encode()
        else:
            performative, payload = what if isinstance(what, tuple) else (what, b"")
            octets = encode_frame(performative, 0, payload)
        sent.append((direction, octets))
    made = talk(*sent, handshake=handshake)
    return saved(folder, (made.close() if close else made).packets)

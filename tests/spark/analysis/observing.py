"""Captures observed without Spark: what its tasks would observe."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from amqpforge.engine.observations import Direction
from amqpforge.spark.analysis.observing import FRAME_COLUMNS, Connection
from amqpforge.spark.analysis.performatives import PERFORMATIVES
from amqpforge.spark.capture import plan
from amqpforge_protocol.amqp_1_0 import ProtocolHeader, encode_frame
from tests.spark.capture.reading import options, saved, talk

Row = dict[str, Any]
_COLUMNS = [name.replace("-", "_") for name in PERFORMATIVES]
ORDER = [(name, "ascending") for name in ("file", "stream", "packet", "direction", "offset")]


def frames(path: Path) -> Any:
    """The digest of a file's frames as an Arrow table, in the order that Spark gives them to the tasks."""
    chosen = options(path, minPartitions="1")
    parts = [part for task in plan.tasks([str(path)], chosen) for part in task]
    table = pa.Table.from_batches([_digest(batch) for part in parts for batch in plan.batches(part, chosen)])
    return table.filter(table.column("stream").is_valid()).sort_by(ORDER)


def _digest(batch: Any) -> Any:
    """What ``analysis.digest`` makes of a batch, as far as it is followed."""
    held = [batch.column(name).to_pylist() for name in ("protocol_header", *_COLUMNS)]
    fields = [next((_json(one) for one in row if one is not None), None) for row in zip(*held, strict=True)]
    counts = [
        None if message is None else (message["header"] or {}).get("delivery_count") or 0
        for message in batch.column("message").to_pylist()
    ]
    made = {"fields": pa.array(fields, pa.string()), "delivery_count": pa.array(counts, pa.int64())}
    return pa.record_batch(
        [made[name] if name in made else batch.column(name) for name in FRAME_COLUMNS], FRAME_COLUMNS
    )


def _json(held: Row) -> str:
    """As Spark writes a struct: no nulls, octets in base64."""
    return json.dumps(_plain(held))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(held) for key, held in value.items() if held is not None}
    if isinstance(value, list):
        return [_plain(held) for held in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return int(value)
    return str(value) if isinstance(value, datetime) else value


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

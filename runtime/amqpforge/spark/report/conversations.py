"""Conversations for the sequence chart: which frames of which connections, and what is said of each."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from .content import shortened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType

__all__ = ["pick", "sequence", "title_of"]

_CONVERSATIONS: Final = 100
_FRAMES: Final = 20_000
_HEAD: Final = 240
_TAIL: Final = 40
_NOTABLE: Final = 60
_MOST_LETTERS: Final = 4_000
_MOST_JSON: Final = 16 * 1024
_TOO_LONG: Final = '"too long to be shown"'
_SHORT: Final = 160
_LEAST_TEXT: Final = 4
_ENDINGS: Final = (
    *("close", "end", "detach", "sasl-outcome"),
    *("connection.close", "channel.close", "basic.return", "basic.nack"),
)
"""Frames that may carry an error."""

_KEY: Final = ("file", "stream", "direction", "offset")
_KEYS: Final = (("file", "string"), ("stream", "int64"), ("direction", "string"), ("offset", "int64"))
_PROTOCOLS: Final = {0: "AMQP", 2: "TLS", 3: "SASL"}
_TAGGED: Final = frozenset("kind bool long decimal double string binary timestamp json".split())
_OUTCOMES: Final = ("sasl-outcome", "connection.sasl-outcome")

#: What may hold a password: a page is for others to see.
_SECRET: Final = {
    "sasl-init": ("initial_response",),
    "sasl-response": ("response",),
    "connection.start-ok": ("response",),
    "connection.secure-ok": ("response",),
    "connection.sasl-init": ("initial_response",),
    "connection.sasl-response": ("response",),
}

#: The fields that come first in the short form of a frame; the others follow in their order.
_FIRST: Final = {
    "open": ("container_id",),
    "attach": ("name", "role"),
    "flow": ("link_credit", "delivery_count", "incoming_window"),
    "transfer": ("delivery_id", "handle", "settled"),
    "disposition": ("first", "last", "state"),
    "sasl-init": ("mechanism",),
    "basic.publish": ("exchange", "routing_key"),
    "basic.deliver": ("delivery_tag", "routing_key"),
}


def pick(
    spark: SparkSession, frames: DataFrame, connections: Sequence[Row], violations: Sequence[Row]
) -> list[Row]:
    """The frames to be drawn, in order, of the first 100 connections.

    Of a long one these are its beginning and its end, those that broke the protocol or cannot be read,
    and those that end something; 20,000 in all at most. A row says by ``place`` which frame of its connection
    it is, counted from 1, of how many (``total``), and has all ``fields`` as JSON, those of
    the ``column``, or a text if there are more than 16 KiB of them.
    """
    import pyarrow as pa
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    drawn = connections[:_CONVERSATIONS]
    if not drawn:
        return []
    each = max(2, _FRAMES // len(drawn))
    head, tail, notable = (
        min(most, each * most // (_HEAD + _TAIL + _NOTABLE)) for most in (_HEAD, _TAIL, _NOTABLE)
    )
    wanted = {name: [row[name] for row in drawn] for name in ("file", "stream", "frames")}
    keys = {name: [row[name] for row in violations] for name in _KEY}
    blamed = (
        spark.createDataFrame(pa.table(keys, pa.schema(list(_KEYS))))
        .distinct()
        .withColumn("blamed", f.lit(True))
    )
    order = Window.partitionBy("file", "stream").orderBy(f.asc_nulls_last("packet"), "direction", "offset")
    is_notable = (
        f.col("condition").isNotNull()
        | f.coalesce("blamed", f.lit(False))
        | f.coalesce(f.col("name").isin(*_ENDINGS), f.lit(False))
    )
    plain = ("packet", "kind", "channel", "name", "payload_size", "column", "condition", "description")
    fields = f.when(f.length("fields") > _MOST_JSON, f.lit(_TOO_LONG)).otherwise(f.col("fields"))
    rows = (
        frames.where("kind != 'end'")
        .join(f.broadcast(spark.createDataFrame(pa.table(wanted))), ["file", "stream"])
        .withColumnRenamed("frames", "total")
        .join(f.broadcast(blamed), list(_KEY), "left")
        .withColumn("notable", is_notable)
        .withColumn("place", f.row_number().over(order))
        .withColumn("rank", f.sum(f.col("notable").cast("int")).over(order))
        .where(
            (f.col("place") <= head)
            | (f.col("place") > f.col("total") - tail)
            | (f.col("notable") & (f.col("rank") <= notable))
        )
        .select(
            *_KEY,
            *("place", "total", f.unix_micros("time").alias("time"), *plain, fields.alias("fields")),
        )
        .collect()
    )
    return sorted(rows, key=lambda row: (row["file"], row["stream"], row["place"]))


def title_of(connection: Row, several: bool) -> str:
    """What a conversation is called in lists: its file, if there are several, its number, how many frames."""
    file = f"{str(connection['file']).rpartition('/')[2]}, " if several else ""
    return f"{file}connection {connection['stream']} ({connection['frames']:,} frames)"


def sequence(
    connection: Row, rows: Sequence[Row], blame: Mapping[tuple[Any, ...], str], schema: Mapping[str, DataType]
) -> list[list[Any]]:
    """The frames of a conversation as the page has them (see `Conversation`).

    Args:
        connection: that of the rows.
        rows: of `pick`, in order.
        blame: what is wrong with a frame, by file, stream, direction and offset.
        schema: the types of the columns that had the fields.
    """
    frames: list[list[Any]] = []
    before = 0
    for row in rows:
        left_out = row["place"] - before - 1
        if left_out:
            frames.append([f"{left_out:,} {'frame' if left_out == 1 else 'frames'} left out"])
        before = row["place"]
        wrong = blame.get(tuple(row[name] for name in _KEY))
        frames.append(_frame(row, connection["began"], wrong, schema))
    left_out = (rows[0]["total"] if rows else 0) - before
    if left_out:
        frames.append([f"{left_out:,} more frames left out"])
    return frames


def _frame(row: Row, began: int | None, wrong: str | None, schema: Mapping[str, DataType]) -> list[Any]:
    name = row["name"] or row["kind"]
    fields = _fields(row, schema)
    for key in _SECRET.get(name, ()):
        if key in fields:
            fields[key] = "(not shown)"
    if row["kind"] == "header" and fields:
        number, *version = fields.values()
        fields = {"protocol": f"{_PROTOCOLS.get(number, number)} {'.'.join(map(str, version))}"}
    error = wrong or _error(row, name, fields)
    return [
        _since(row["time"], began),
        row["packet"],
        int(row["direction"] == "c2s"),
        row["channel"],
        name,
        _short(name, fields, row["payload_size"] or 0),
        error,
        _full(fields, row["payload_size"] or 0),
    ]


def _fields(row: Row, schema: Mapping[str, DataType]) -> dict[str, Any]:
    """The fields of a frame, as they are read best."""
    held = json.loads(row["fields"] or "{}")
    if isinstance(held, str):
        return {"fields": held}
    found: dict[str, Any] = _plain(held, schema.get(row["column"]))
    return found


def _error(row: Row, name: str, fields: Mapping[str, Any]) -> str | None:
    """What a frame says that went wrong, or None."""
    condition, description = row["condition"], row["description"]
    if condition is None:
        return "rejected" if name == "disposition" and _is_rejected(fields.get("state")) else None
    if condition == "undecodable":
        return shortened(str(description))
    if name in _OUTCOMES:
        return f"authentication failed: {condition}"
    return ": ".join(map(shortened, filter(None, (condition, description))))


def _is_rejected(state: Any) -> bool:
    return isinstance(state, Mapping) and state.get("kind") == "rejected"


def _since(time: int | None, began: int | None) -> str:
    """Seconds since the conversation began; nothing if that is not known."""
    if time is None or began is None:
        return ""
    return f"{(time - began) / 1e6:.6f} s"


def _short(name: str, fields: Mapping[str, Any], payload: int) -> str:
    """The fields of a frame on one line, those that matter most first."""
    first = [key for key in _FIRST.get(name, ()) if key in fields]
    keys = [*first, *(key for key in fields if key not in first)]
    # What is not so, and what there is nothing of, says little.
    words = [f"{key.replace('_', '-')}={_word(fields[key])}" for key in keys if _tells(fields[key])]
    text = ", ".join(words)
    cut = text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
    return f"{cut} +{payload:,} octets" if payload else cut


def _tells(value: Any) -> bool:
    return value is not False and value != [] and value != {}


def _word(value: Any) -> str:
    """A value in a few letters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        kind = value.get("kind")
        held = value.get(kind) if isinstance(kind, str) else value
        inner = held.get("address") or held.get("condition") if isinstance(held, Mapping) else None
        return str(inner or kind or "{…}")
    if isinstance(value, list):
        return f"[{', '.join(map(_word, value[:4]))}{', …' if len(value) > 4 else ''}]"
    return str(value)


def _full(fields: Mapping[str, Any], payload: int) -> str:
    lines = []
    for key, value in fields.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{key.replace('_', '-')}: {text}")
    if payload:
        lines.append(f"payload: {payload:,} octets")
    text = "\n".join(lines)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}… ({len(text):,} letters)"


def _plain(value: Any, kind: DataType | None) -> Any:
    """A value of Spark's JSON as it is read best: octets in letters or hexadecimal, tagged values plainly."""
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

    if isinstance(kind, StructType) and isinstance(value, dict):
        if set(kind.names) == _TAGGED:
            return _untagged(value)
        return {key: _plain(held, kind[key].dataType) for key, held in value.items()}
    if isinstance(kind, MapType) and isinstance(value, dict):
        return {key: _plain(held, kind.valueType) for key, held in value.items()}
    if isinstance(kind, ArrayType) and isinstance(value, list):
        return [_plain(held, kind.elementType) for held in value]
    if isinstance(kind, BinaryType) and isinstance(value, str):
        return _octets(value)
    return value


def _octets(packed: str) -> str:
    """Octets in hexadecimal; those that are plainly a text as that, in quotes."""
    octets = base64.b64decode(packed)
    if len(octets) >= _LEAST_TEXT and octets.isascii() and octets.decode("ascii").isprintable():
        return f'"{octets.decode("ascii")}"'
    return f"0x{octets.hex()}"


def _untagged(value: Mapping[str, Any]) -> Any:
    """What a tagged value holds, in the column of its kind."""
    held = next((held for key, held in value.items() if key != "kind"), None)
    if "binary" in value:
        return _octets(value["binary"])
    return json.loads(held) if "json" in value and isinstance(held, str) else held

"""Conversations for the sequence chart: which frames of which connections, and what is said of each."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType

__all__ = ["pick", "sequence", "structs", "title_of"]

_CONVERSATIONS: Final = 100
_FRAMES: Final = 20_000
_HEAD: Final = 240
_TAIL: Final = 40
_NOTABLE: Final = 60
_MOST_LETTERS: Final = 4_000
_SHORT: Final = 160
_ENDINGS: Final = (
    *("close", "end", "detach", "sasl-outcome"),
    *("connection.close", "channel.close", "basic.return", "basic.nack"),
)
"""Frames that may carry an error."""

_KEY: Final = ("file", "stream", "direction", "offset")
_PROTOCOLS: Final = {0: "AMQP", 2: "TLS", 3: "SASL"}
_TAGGED: Final = frozenset("kind bool long decimal double string binary timestamp json".split())
_GOOD_REPLY: Final = 200

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
    the ``column``.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    drawn = connections[:_CONVERSATIONS]
    if not drawn:
        return []
    each = max(2, _FRAMES // len(drawn))
    head, tail, notable = (
        min(most, each * most // (_HEAD + _TAIL + _NOTABLE)) for most in (_HEAD, _TAIL, _NOTABLE)
    )
    wanted = spark.createDataFrame(
        [(row["file"], row["stream"]) for row in drawn], "file string, stream long"
    )
    blamed = spark.createDataFrame(
        list({tuple(row[name] for name in _KEY) for row in violations}),
        "file string, stream long, direction string, offset long",
    ).withColumn("blamed", f.lit(True))
    whole = Window.partitionBy("file", "stream")
    order = whole.orderBy("packet", "direction", "offset")
    is_notable = (
        f.col("_corrupt").isNotNull()
        | f.coalesce("blamed", f.lit(False))
        | f.coalesce(f.col("name").isin(*_ENDINGS), f.lit(False))
    )
    plain = ("packet", "kind", "channel", "name", "payload_size", "protocol_header", "_corrupt")
    held = structs(frames)
    fields = f.coalesce(*[f.to_json(f.col(name)) for name in held]).alias("fields")
    column = f.coalesce(*[f.when(f.col(name).isNotNull(), f.lit(name)) for name in held]).alias("column")
    return (
        frames.where("kind != 'end'")
        .join(f.broadcast(wanted), ["file", "stream"])
        .join(f.broadcast(blamed), list(_KEY), "left")
        .withColumn("notable", is_notable)
        .withColumn("place", f.row_number().over(order))
        .withColumn("total", f.count("*").over(whole))
        .withColumn("rank", f.sum(f.col("notable").cast("int")).over(order))
        .where(
            (f.col("place") <= head)
            | (f.col("place") > f.col("total") - tail)
            | (f.col("notable") & (f.col("rank") <= notable))
        )
        .select(*_KEY, "place", "total", f.unix_micros("time").alias("time"), *plain, column, fields)
        .orderBy("file", "stream", "place")
        .collect()
    )


def structs(frames: DataFrame) -> dict[str, DataType]:
    """The types of the columns that have the fields of performatives, methods and the like."""
    from pyspark.sql.types import StructType

    apart = ("protocol_header", "message", "_corrupt")
    found = (one for one in frames.schema if isinstance(one.dataType, StructType) and one.name not in apart)
    return {one.name: one.dataType for one in found}


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
        schema: of `structs`.
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
    fields = _plain(json.loads(row["fields"]), schema.get(row["column"])) if row["fields"] else {}
    for key in _SECRET.get(name, ()):
        if key in fields:
            fields[key] = "(not shown)"
    if row["protocol_header"] is not None:
        number, *version = row["protocol_header"]
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


def _error(row: Row, name: str, fields: Mapping[str, Any]) -> str | None:
    """What a frame says that went wrong, or None."""
    if row["_corrupt"] is not None:
        return str(row["_corrupt"]["error"])
    told = fields.get("error")
    if name == "disposition":
        told = _rejection(fields.get("state"))
    if isinstance(told, Mapping):
        return ": ".join(str(told[key]) for key in ("condition", "description") if told.get(key))
    if name == "sasl-outcome" and fields.get("code") not in (None, "ok"):
        return f"authentication failed: {fields['code']}"
    code = fields.get("reply_code")
    if isinstance(code, int) and code != _GOOD_REPLY:
        return f"{code} {fields.get('reply_text', '')}".strip()
    return None


def _rejection(state: Any) -> Any:
    """The error of a rejected delivery; a word where it was rejected without one."""
    if not isinstance(state, Mapping) or state.get("kind") != "rejected":
        return None
    rejected = state.get("rejected")
    told = rejected.get("error") if isinstance(rejected, Mapping) else None
    return told or {"condition": "rejected"}


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
    """A value of Spark's JSON as it is read best: octets in hexadecimal, tagged values as what they are."""
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
        return f"0x{base64.b64decode(value).hex()}"
    return value


def _untagged(value: Mapping[str, Any]) -> Any:
    """What a tagged value holds, in the column of its kind."""
    held = next((held for key, held in value.items() if key != "kind"), None)
    if "binary" in value:
        return f"0x{base64.b64decode(value['binary']).hex()}"
    return json.loads(held) if "json" in value and isinstance(held, str) else held

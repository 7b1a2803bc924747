"""Frames in, observations out: what runs in the tasks, connection by connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.udtf import UserDefinedTableFunction

from .digest import digest, is_digest
from .following import Follower, Item
from .observations import OBSERVATION, Observations
from .performatives import PERFORMATIVES, performatives

__all__ = ["FRAME_COLUMNS", "Connection", "observe"]

FRAME_COLUMNS: Final = (
    *("file", "stream", "packet", "time", "source", "source_port", "destination", "destination_port"),
    *("direction", "offset", "size", "dialect", "kind", "channel", "name", "payload_size"),
    *("fields", "delivery_count"),
)
"""The columns of a digest that are looked at."""

_DIALECT: Final = "amqp_1_0"


def observe(frames: DataFrame) -> DataFrame:
    """What happened on the AMQP 1.0 connections of captured frames: rows of ``OBSERVATION``.

    The rows of a connection are followed one after the other in one task, in the order of the capture, by
    the tables, windows and credits of the engine. A task holds what is unfinished of one connection, however
    long that is; connections are spread over the tasks. (This is a table function, as ``mapInArrow`` and
    ``applyInArrow`` need pandas.)

    Args:
        frames: rows of ``format("amqp_capture")``, all of each connection, or a digest of them. Redeliveries
            are found where ``message`` is among their columns, that is, with the option ``sections``.

    Raises:
        ValueError: columns are missing.
    """
    narrow = digest(frames)
    wanted = () if is_digest(frames) else [name.replace("-", "_") for name in PERFORMATIVES]
    missing = [name for name in wanted if name not in frames.columns]
    if missing:
        raise ValueError(
            f"these are no frames of AMQP 1.0, the columns {', '.join(missing)} are missing: "
            "read them with format('amqp_capture') and the dialect amqp_1_0"
        )
    chosen = narrow.select(*FRAME_COLUMNS).where("stream is not null")
    order = (f.col("packet").asc_nulls_last(), f.col("direction"), f.col("offset"))
    table = chosen.asTable().partitionBy("file", "stream").orderBy(*order)
    function = cast(UserDefinedTableFunction, f.arrow_udtf(Connection, returnType=OBSERVATION))
    return function(table)


class Connection:
    """Follows the frames of one connection, a record batch at a time; its methods are those of a table
    function of Spark.
    """

    def __init__(self) -> None:
        self._found = Observations()
        self._follower: Follower | None = None
        self._passed = 0

    def eval(self, batch: Any) -> Iterator[Any]:
        """The next frames, in the order of the capture; the observations so far, if there are enough."""
        for ends, item in _items(batch):
            if self._follower is None and _begins(item):
                file, stream = (batch.column(name)[0].as_py() for name in ("file", "stream"))
                self._follower = Follower(file, stream, self._found, self._passed)
            if self._follower is None:
                self._passed += 1
            elif item is not None:
                self._follower.take(item, *ends)
            if self._found.is_full:
                yield from self._found.batches()

    def terminate(self) -> Iterator[Any]:
        """There are no more frames: the rest of the observations."""
        if self._follower is not None:
            self._follower.finish()
        yield from self._found.batches()


def _begins(item: Item | None) -> bool:
    """Whether a row tells that its connection is one of AMQP 1.0."""
    if item is None or item.kind in ("error", "end"):
        return False
    if item.kind != "header":
        return True
    header = item.performative
    return (header.major, header.minor, header.revision) == (1, 0, 0)


_Ends = tuple[str | None, str | None]


def _items(batch: Any) -> Iterator[tuple[_Ends, Item | None]]:
    """The rows, with the two ends of each; no item for what is not AMQP 1.0."""
    columns = {
        name: (column.cast("int64") if name == "time" else column).to_pylist()
        for name, column in zip(FRAME_COLUMNS[2:], batch.columns[2:], strict=True)
    }
    made = performatives(columns["kind"], columns["name"], columns.pop("fields"))
    rows = zip(*columns.values(), made, strict=True)
    for packet, time, source, sport, target, tport, direction, offset, size, dialect, *rest in rows:
        kind, channel, name, payload, delivery_count, performative = rest
        item = None
        if dialect in (_DIALECT, None):
            item = Item(
                packet,
                time,
                direction,
                offset,
                size or 0,
                kind,
                channel or 0,
                name,
                payload or 0,
                performative,
                delivery_count,
            )
        yield (_end(source, sport), _end(target, tport)), item


def _end(address: str | None, port: int | None) -> str | None:
    return None if address is None else f"[{address}]:{port}" if ":" in address else f"{address}:{port}"

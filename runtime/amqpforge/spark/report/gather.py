"""What the page is made of, asked of Spark: bounded answers, however large the captures are.

The captures are read once: Spark keeps frames and observations, in memory and on disk, until all is asked.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from amqpforge.spark import analysis

from . import conversations

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType

__all__ = ["LATENCY_STEPS", "STEPS", "Gathered", "gather"]

STEPS: Final = (
    "reading the captures",
    "following the connections",
    "looking for errors",
    "counting frames over time",
    "looking at links and deliveries",
    "looking at credit",
    "picking conversations",
)
"""What `gather` tells its progress by, in order."""

LATENCY_STEPS: Final = 8
"""Bars of the distribution for each power of ten."""

_STRETCHES: Final = 120
_CREDIT_STRETCHES: Final = 400
_SHOWN_LINKS: Final = 6
_ROWS: Final = 500
_FOLLOWED: Final = "amqp_1_0"
_SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_LINK: Final = ("file", "stream", "sender", "channel", "link")


@dataclass(slots=True)
class Gathered:
    """The answers, as rows; lists of things that a capture decides the number of have 500 at most.

    Attributes:
        paths: what was read.
        dialects: frames by dialect.
        began: microseconds since 1970 of the first frame; None if no frame has a time.
        ended: those of the last one.
        connections: one row a connection, in any dialect, with its ends and counts; those with violations and
            errors first, then those with the most frames.
        connection_count: of all of them.
        frames: ``name``, ``count``, ``octets``.
        width: microseconds of a stretch of time.
        over_time: ``stretch``, ``direction``, ``name``, ``count``, ``octets``.
        latency: ``step`` on a scale of logarithms of seconds, ``outcome``, ``count``.
        percentiles: of the seconds until settlement: ``deliveries``, ``mean``, ``p50``, ..., ``most``.
        outcomes: ``outcome``, ``count``, of all deliveries.
        slowest: deliveries, the slowest first.
        links: attachments of links, the busiest first.
        credit: of the busiest links: the place of the link, ``stretch``, ``time``, ``least``, ``most``.
        waits: intervals without credit or window, the longest first.
        errors: what the ends told each other, by frame and condition.
        error_frames: those errors one by one.
        violations: what broke the protocol.
        violation_count: of all of them.
        owed: what the ends still had to do.
        chosen: frames of the conversations that are shown.
        schema: the types of the columns that have their fields.

    Times in rows are microseconds since 1970.
    """

    paths: tuple[str, ...]
    dialects: dict[str, int] = field(default_factory=dict)
    began: int | None = None
    ended: int | None = None
    connections: list[Row] = field(default_factory=list)
    connection_count: int = 0
    frames: list[Row] = field(default_factory=list)
    width: int = 1
    over_time: list[Row] = field(default_factory=list)
    latency: list[Row] = field(default_factory=list)
    percentiles: Row | None = None
    outcomes: list[Row] = field(default_factory=list)
    slowest: list[Row] = field(default_factory=list)
    links: list[Row] = field(default_factory=list)
    credit: list[Row] = field(default_factory=list)
    waits: list[Row] = field(default_factory=list)
    errors: list[Row] = field(default_factory=list)
    error_frames: list[Row] = field(default_factory=list)
    violations: list[Row] = field(default_factory=list)
    violation_count: int = 0
    owed: list[Row] = field(default_factory=list)
    chosen: list[Row] = field(default_factory=list)
    schema: dict[str, DataType] = field(default_factory=dict)


def gather(
    spark: SparkSession,
    paths: Sequence[str],
    *,
    dialect: str = _FOLLOWED,
    told: Callable[[str], None] = lambda step: None,
) -> Gathered:
    """Ask Spark all that a page shows.

    Args:
        spark: the session.
        paths: files, folders and patterns, as ``format("amqp_capture")`` takes them.
        dialect: whose frames are shown with their fields. Connections of AMQP 1.0 alone are followed.
        told: called with each of `STEPS` as it begins.
    """
    from pyspark import StorageLevel

    found = Gathered(tuple(paths))
    with contextlib.ExitStack() as kept:

        def keep(rows: DataFrame) -> DataFrame:
            kept.callback(rows.unpersist)
            return rows.persist(StorageLevel.MEMORY_AND_DISK)

        told(STEPS[0])
        options = {"sections": "false", "dialect": dialect, "paths": json.dumps(list(paths))}
        frames = keep(spark.read.format("amqp_capture").options(**options).load())
        counted = frames.where("kind != 'end'").groupBy("dialect").count().collect()
        found.dialects = {row["dialect"] or "": row["count"] for row in counted}
        seen = None
        if dialect == _FOLLOWED:
            told(STEPS[1])
            seen = keep(analysis.observe(frames))
            found.violation_count = analysis.violations(seen).count()
        told(STEPS[2])
        _wrongs(frames, seen, found)
        _connections(frames, seen, found)
        told(STEPS[3])
        _over_time(frames, found)
        if seen is not None:
            told(STEPS[4])
            _deliveries(seen, found)
            told(STEPS[5])
            _credit(seen, found)
        told(STEPS[6])
        found.schema = conversations.structs(frames)
        found.chosen = conversations.pick(spark, frames, found.connections, found.violations)
    return found


def _rows(rows: DataFrame) -> list[Row]:
    """All of them, with times as microseconds since 1970: Python's are in the machine's zone."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampType

    times = [one.name for one in rows.schema if isinstance(one.dataType, TimestampType)]
    return rows.withColumns({name: f.unix_micros(name) for name in times}).collect()


def _wrongs(frames: DataFrame, seen: DataFrame | None, found: Gathered) -> None:
    found.errors = _rows(analysis.errors_by_condition(frames).orderBy("count", ascending=False).limit(_ROWS))
    told = analysis.errors(frames).orderBy("time", "packet").limit(_ROWS)
    found.error_frames = _rows(told)
    if seen is not None:
        found.violations = _rows(analysis.violations(seen).orderBy("time", "packet").limit(_ROWS))
        found.owed = analysis.owed(seen).limit(_ROWS).collect()


def _connections(frames: DataFrame, seen: DataFrame | None, found: Gathered) -> None:
    """All connections, of which those that are worth a look are kept; and when it all began and ended."""
    from pyspark.sql import functions as f

    ends = [f.col("source"), f.col("source_port"), f.col("destination"), f.col("destination_port")]
    client = f.when(f.col("direction") == "c2s", f.struct(*ends[:2])).otherwise(
        f.struct(ends[2].alias("source"), ends[3].alias("source_port"))
    )
    server = f.when(
        f.col("direction") == "c2s", f.struct(ends[2].alias("source"), ends[3].alias("source_port"))
    )
    server = server.otherwise(f.struct(*ends[:2]))
    wrong = f.col("_corrupt").isNotNull()
    each = (
        frames.where("stream is not null and kind != 'end'")
        .groupBy("file", "stream")
        .agg(
            f.first(client).alias("client"),
            f.first(server).alias("server"),
            f.first("dialect", ignorenulls=True).alias("dialect"),
            f.unix_micros(f.min("time")).alias("began"),
            f.unix_micros(f.max("time")).alias("ended"),
            f.count("*").alias("frames"),
            f.sum("size").alias("octets"),
            f.sum(f.when(f.col("name") == "transfer", 1).otherwise(0)).alias("transfers"),
            f.sum(f.when(wrong, 1).otherwise(0)).alias("undecodable"),
        )
    )
    if seen is None:
        told = each.withColumns({name: f.lit(None) for name in ("client_container", "server_container")})
        told = told.withColumns(
            {name: f.lit(None).cast("long") for name in ("deliveries", "unsettled", "violations")}
        )
    else:
        names = ("client_container", "server_container", "deliveries", "unsettled", "violations")
        told = each.join(
            analysis.connections(seen).select("file", "stream", *names), ["file", "stream"], "left"
        )
    worth = (f.coalesce("violations", f.lit(0)) + f.col("undecodable")) > 0
    found.connections = told.orderBy(worth.desc(), f.desc("frames"), "file", "stream").limit(_ROWS).collect()
    whole = each.agg(
        f.count("*").alias("count"), f.min("began").alias("began"), f.max("ended").alias("ended")
    ).first()
    if whole is not None:
        found.connection_count, found.began, found.ended = whole["count"], whole["began"], whole["ended"]


def _over_time(frames: DataFrame, found: Gathered) -> None:
    from pyspark.sql import functions as f

    named = frames.where("kind != 'end'").withColumn("name", f.coalesce("name", "kind"))
    sums = (f.count("*").alias("count"), f.sum("size").alias("octets"))
    found.frames = named.groupBy("name").agg(*sums).orderBy(f.desc("count")).limit(_ROWS).collect()
    if found.began is None or found.ended is None:
        return
    found.width = _width(found.ended - found.began, _STRETCHES)
    stretch = f.floor((f.unix_micros("time") - found.began) / found.width).alias("stretch")
    found.over_time = (
        named.where("time is not null")
        .groupBy(stretch, "direction", "name")
        .agg(*sums)
        .orderBy("stretch")
        .collect()
    )


def _width(length: int, stretches: int) -> int:
    """The least of 1, 2, 5, 10, 20, ... microseconds of which so many stretches cover a length."""
    unit = 1
    while True:
        for factor in (1, 2, 5):
            if unit * factor * stretches > length:
                return unit * factor
        unit *= 10


def _deliveries(seen: DataFrame, found: Gathered) -> None:
    from pyspark.sql import functions as f

    deliveries = analysis.deliveries(seen)
    found.outcomes = deliveries.groupBy("outcome").count().orderBy(f.desc("count")).collect()
    timed = deliveries.where("seconds is not null and outcome not in ('pre-settled', 'aborted')")
    # A microsecond is what the captures tell apart.
    step = f.floor(f.log10(f.greatest("seconds", f.lit(1e-6))) * LATENCY_STEPS).alias("step")
    found.latency = timed.groupBy(step, "outcome").count().orderBy("step").collect()
    found.slowest = _rows(timed.orderBy(f.desc("seconds")).limit(_ROWS))
    shares = [f.percentile_approx("seconds", share, 10_000).alias(name) for name, share in _SHARES.items()]
    found.percentiles = timed.agg(
        f.count("*").alias("deliveries"), *shares, f.max("seconds").alias("most")
    ).first()
    found.links = _rows(analysis.links(seen).orderBy(f.desc("deliveries"), "began").limit(_ROWS))


def _credit(seen: DataFrame, found: Gathered) -> None:
    from pyspark.sql import functions as f

    waits = [
        rows.withColumn("what", f.lit(what))
        for rows, what in ((analysis.starvation(seen), "credit"), (analysis.window_stalls(seen), "window"))
    ]
    both = waits[0].unionByName(waits[1], allowMissingColumns=True)
    found.waits = _rows(both.orderBy(f.desc_nulls_first("seconds")).limit(_ROWS))
    busiest = found.links[:_SHOWN_LINKS]
    if not busiest or found.began is None or found.ended is None:
        return
    place = f.coalesce(*[f.when(_is_of(link), f.lit(place)) for place, link in enumerate(busiest)])
    width = _width(found.ended - found.began, _CREDIT_STRETCHES)
    found.credit = (
        analysis.credit(seen)
        .where("time is not null")
        .withColumn("place", place)
        .where("place is not null")
        .groupBy("place", f.floor((f.unix_micros("time") - found.began) / width).alias("stretch"))
        .agg(
            f.unix_micros(f.min("time")).alias("time"),
            f.min(f.least("before", "credit")).alias("least"),
            f.max(f.greatest("before", "credit")).alias("most"),
        )
        .orderBy("place", "stretch")
        .collect()
    )


def _is_of(link: Row) -> Column:
    """Whether a row is of a link, as a condition for Spark."""
    from pyspark.sql import functions as f

    same = f.lit(True)
    for name in _LINK:
        same = same & f.col(name).eqNullSafe(f.lit(link[name]))
    return same

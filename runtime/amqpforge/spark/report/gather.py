"""What the page is made of, asked of Spark: bounded answers, however large the captures are.

The captures are read once: Spark keeps what the analysis looks at of the frames, and the observations, in
memory and on disk, until all is asked.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from amqpforge.spark import analysis

from . import conversations

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType

__all__ = ["FOLLOWED", "LATENCY_STEPS", "MOST_ROWS", "STEPS", "Gathered", "gather"]

STEPS: Final = (
    "reading the captures",
    "following the connections",
    "looking for errors",
    "counting frames over time",
    "looking at deliveries",
    "looking at links and credit",
    "picking conversations",
)
"""What `gather` tells its progress by, in order."""

LATENCY_STEPS: Final = 8
"""Bars of the distribution for each power of ten."""

FOLLOWED: Final = "amqp_1_0"
"""The dialect whose connections are followed."""

MOST_ROWS: Final = 500
"""Rows that a list has at most."""

_STRETCHES: Final = 120
_CREDIT_STRETCHES: Final = 400
_SHOWN_LINKS: Final = 6
_SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_LINK: Final = ("file", "stream", "sender", "channel", "link")


@dataclass(slots=True)
class Gathered:
    """The answers, as rows; lists of things that a capture decides the number of have `MOST_ROWS` at most.

    Attributes:
        paths: what was read.
        dialect: whose frames are shown with their fields.
        dialects: frames by the dialect of their connection; "" is none that is known.
        began: microseconds since 1970 of the first frame; None if no frame has a time.
        ended: those of the last one.
        connections: one row a connection, in any dialect, with its ends and counts; those with violations and
            errors first, then those with the most frames.
        connection_count: of all of them.
        foreign: connections with nothing that can be read as AMQP, which are left out.
        frames: count and octets by name.
        width: microseconds of a stretch of time.
        over_time: ``stretch``, ``direction``, ``name``, ``count``, ``octets``.
        redelivered: frames with messages that were delivered before.
        counts: of the observations, by kind.
        outcomes: deliveries by outcome.
        timings: ``step`` on a scale of logarithms of seconds, ``outcome``, ``count``.
        percentiles: of the seconds until settlement: ``deliveries``, ``p50``, ..., ``most``.
        latency: the same by link and outcome, those with the most deliveries first.
        slowest: deliveries, the slowest first.
        sessions: those with the most transfers first.
        links: attachments of links, the busiest first.
        credit: of the busiest links: the place of the link, ``stretch``, ``time``, ``least``, ``most``.
        waits: intervals without credit or window, the longest first.
        errors: what the ends told each other, by frame and condition, with the place of the first.
        violations: what broke the protocol, the first ones.
        owed: what the ends still had to do when their connection was over.
        redeliveries: the first ones.
        chosen: frames of the conversations that are shown.
        schema: the types of the columns that had their fields.

    Times in rows are microseconds since 1970.
    """

    paths: tuple[str, ...]
    dialect: str = FOLLOWED
    dialects: dict[str, int] = field(default_factory=dict)
    began: int | None = None
    ended: int | None = None
    connections: list[Row] = field(default_factory=list)
    connection_count: int = 0
    foreign: int = 0
    frames: dict[str, tuple[int, int]] = field(default_factory=dict)
    width: int = 1
    over_time: list[Row] = field(default_factory=list)
    redelivered: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    timings: list[Row] = field(default_factory=list)
    percentiles: Row | None = None
    latency: list[Row] = field(default_factory=list)
    slowest: list[Row] = field(default_factory=list)
    sessions: list[Row] = field(default_factory=list)
    links: list[Row] = field(default_factory=list)
    credit: list[Row] = field(default_factory=list)
    waits: list[Row] = field(default_factory=list)
    errors: list[Row] = field(default_factory=list)
    violations: list[Row] = field(default_factory=list)
    owed: list[Row] = field(default_factory=list)
    redeliveries: list[Row] = field(default_factory=list)
    chosen: list[Row] = field(default_factory=list)
    schema: dict[str, DataType] = field(default_factory=dict)


Keep = Callable[["DataFrame"], "DataFrame"]


def gather(
    spark: SparkSession,
    paths: Sequence[str],
    *,
    dialect: str | None = None,
    told: Callable[[str], None] = lambda step: None,
) -> Gathered:
    """Ask Spark all that a page shows.

    Args:
        spark: the session.
        paths: files, folders and patterns, as ``format("amqp_capture")`` takes them.
        dialect: whose frames are shown with their fields; None: the one that most frames are of, for which
            captures of other dialects than AMQP 1.0 are read twice. Connections of AMQP 1.0 alone are
            followed.
        told: called with each of `STEPS` as it begins.
    """
    from pyspark import StorageLevel

    found = Gathered(tuple(paths))
    with contextlib.ExitStack() as kept:

        def keep(rows: DataFrame) -> DataFrame:
            kept.callback(rows.unpersist)
            return rows.persist(StorageLevel.MEMORY_AND_DISK)

        told(STEPS[0])
        frames, each = _read(spark, found, dialect or FOLLOWED, keep)
        most = max(found.dialects, key=lambda name: found.dialects[name], default="")
        if dialect is None and most not in ("", FOLLOWED):
            frames.unpersist()
            frames, each = _read(spark, found, most, keep)
        seen = None
        told(STEPS[1])
        if found.dialect == FOLLOWED:
            seen = keep(analysis.observe(frames))
            found.counts = {row["kind"]: row["count"] for row in seen.groupBy("kind").count().collect()}
        told(STEPS[2])
        _wrongs(frames, seen, found)
        _connections(each, seen, found)
        told(STEPS[3])
        _over_time(frames, found)
        told(STEPS[4])
        if seen is not None:
            _deliveries(seen, found)
        told(STEPS[5])
        if seen is not None:
            _links(seen, found)
            _credit(seen, found)
        told(STEPS[6])
        found.chosen = conversations.pick(spark, frames, found.connections, found.violations)
    return found


def _read(spark: SparkSession, found: Gathered, dialect: str, keep: Keep) -> tuple[DataFrame, DataFrame]:
    """The frames as a digest, and one row a connection, both kept; how much there is of which dialect, and
    from when to when.
    """
    from pyspark.sql import functions as f

    options = {"dialect": dialect, "paths": json.dumps(list(found.paths))}
    captured = spark.read.format("amqp_capture").options(**options).load()
    found.dialect, found.schema = dialect, analysis.structs(captured)
    frames = keep(analysis.digest(captured))
    each = keep(_each(frames))
    times = (f.min("began").alias("began"), f.max("ended").alias("ended"))
    sums = each.groupBy("dialect").agg(
        *(f.count("*").alias("connections"), f.sum("frames").alias("frames")),
        *(f.count_if(f.col("readable") == 0).alias("foreign"), *times),
    )
    rows = sums.collect()
    found.dialects = {
        row["dialect"] or "": row["frames"] for row in rows if row["connections"] > row["foreign"]
    }
    found.connection_count = sum(row["connections"] - row["foreign"] for row in rows)
    found.foreign = sum(row["foreign"] for row in rows)
    found.began = min((row["began"] for row in rows if row["began"] is not None), default=None)
    found.ended = max((row["ended"] for row in rows if row["ended"] is not None), default=None)
    return frames, each


def _each(frames: DataFrame) -> DataFrame:
    """One row a connection: its ends, dialect, times and counts."""
    from pyspark.sql import functions as f

    ends = [f.col("source"), f.col("source_port"), f.col("destination"), f.col("destination_port")]
    sender, receiver = f.struct(*ends[:2]), f.struct(ends[2].alias("source"), ends[3].alias("source_port"))
    from_client = f.col("direction") == "c2s"
    undecodable = f.col("condition") == "undecodable"
    return (
        frames.where("stream is not null and kind != 'end'")
        .groupBy("file", "stream")
        .agg(
            f.first(f.when(from_client, sender).otherwise(receiver)).alias("client"),
            f.first(f.when(from_client, receiver).otherwise(sender)).alias("server"),
            f.first("dialect", ignorenulls=True).alias("dialect"),
            f.unix_micros(f.min("time")).alias("began"),
            f.unix_micros(f.max("time")).alias("ended"),
            f.count("*").alias("frames"),
            f.sum("size").alias("octets"),
            f.count_if(f.col("kind") != "error").alias("readable"),
            f.count_if(undecodable).alias("undecodable"),
            f.count_if(f.col("condition").isNotNull()).alias("errors"),
        )
    )


def _rows(rows: DataFrame) -> list[Row]:
    """All of them, with times as microseconds since 1970: Python's are in the machine's zone."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampType

    times = [one.name for one in rows.schema if isinstance(one.dataType, TimestampType)]
    return rows.withColumns({name: f.unix_micros(name) for name in times}).collect()


def _first(rows: DataFrame, *order: str | Column) -> list[Row]:
    return _rows(rows.orderBy(*order).limit(MOST_ROWS))


def _wrongs(frames: DataFrame, seen: DataFrame | None, found: Gathered) -> None:
    from pyspark.sql import functions as f

    found.errors = _first(analysis.errors_by_condition(frames), f.desc("count"), "name", "condition")
    if seen is None:
        return
    if "violation" in found.counts:
        found.violations = _first(analysis.violations(seen), "time", "packet")
    if "redelivery" in found.counts:
        found.redeliveries = _first(analysis.redeliveries(seen), "time", "packet")
    if "owed" in found.counts:
        found.owed = _first(analysis.owed(seen), "file", "stream", "end", "text")


def _connections(each: DataFrame, seen: DataFrame | None, found: Gathered) -> None:
    """The connections that are worth a look."""
    from pyspark.sql import functions as f

    counts = ("deliveries", "unsettled", "violations", "most_unsettled", "redeliveries")
    if seen is None:
        none = {name: f.lit(None).cast("string") for name in ("client_container", "server_container")}
        told = each.withColumns({**none, **{name: f.lit(None).cast("long") for name in counts}})
    else:
        names = ("client_container", "server_container", *counts)
        own = analysis.connections(seen).select("file", "stream", *names)
        told = each.join(own, ["file", "stream"], "left")
    worth = (f.coalesce("violations", f.lit(0)) + f.col("undecodable")) > 0
    order = (worth.desc(), (f.col("errors") > 0).desc(), f.desc("frames"), "file", "stream")
    found.connections = told.where("readable > 0").orderBy(*order).limit(MOST_ROWS).collect()


def _over_time(frames: DataFrame, found: Gathered) -> None:
    """Frames and octets by name, in stretches of time; those without a time are counted as well."""
    from pyspark.sql import functions as f

    named = frames.where("kind != 'end'").withColumn("name", f.coalesce("name", "kind"))
    began, ended = found.began, found.ended
    stretch: Column = f.lit(None).cast("long")
    if began is not None and ended is not None:
        found.width = _width(ended - began, _STRETCHES)
        stretch = f.floor((f.unix_micros("time") - began) / found.width)
    rows = (
        named.groupBy(stretch.alias("stretch"), "direction", "name")
        .agg(
            f.count("*").alias("count"),
            f.sum("size").alias("octets"),
            f.count_if("redelivered").alias("redelivered"),
        )
        .collect()
    )
    found.redelivered = sum(row["redelivered"] for row in rows)
    in_time = (row for row in rows if row["stretch"] is not None)
    found.over_time = sorted(in_time, key=lambda row: (row["stretch"], row["direction"], row["name"]))
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        sums[row["name"]][0] += row["count"]
        sums[row["name"]][1] += row["octets"] or 0
    order = sorted(sums, key=lambda name: (-sums[name][0], name))
    found.frames = {name: (sums[name][0], sums[name][1]) for name in order}


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
    is_timed = "seconds is not null and outcome not in ('pre-settled', 'aborted')"
    # A microsecond is what the captures tell apart.
    step = f.floor(f.log10(f.greatest("seconds", f.lit(1e-6))) * LATENCY_STEPS)
    counted = deliveries.groupBy(f.when(f.expr(is_timed), step).alias("step"), "outcome").count().collect()
    for row in counted:
        found.outcomes[row["outcome"]] += row["count"]
    found.timings = sorted((row for row in counted if row["step"] is not None), key=lambda row: row["step"])
    if not found.timings:
        return
    timed = deliveries.where(is_timed)
    found.slowest = _first(timed, f.desc("seconds"))
    by = (*_LINK, "source", "target", "outcome")
    shares = [f.percentile_approx("seconds", share, 10_000).alias(name) for name, share in _SHARES.items()]
    measured = (
        timed.groupingSets([[f.col(name) for name in by], []], *by)
        .agg(
            *(f.grouping_id().alias("level"), f.count("*").alias("deliveries")),
            *(*shares, f.max("seconds").alias("most")),
        )
        .orderBy(f.desc("level"), f.desc("deliveries"))
        .limit(MOST_ROWS + 1)
        .collect()
    )
    found.percentiles, *found.latency = measured


def _links(seen: DataFrame, found: Gathered) -> None:
    from pyspark.sql import functions as f

    found.links = _first(analysis.links(seen), f.desc("deliveries"), "began")
    transfers = f.col("client_transfers") + f.col("server_transfers")
    found.sessions = _first(analysis.sessions(seen), transfers.desc(), "began")


def _credit(seen: DataFrame, found: Gathered) -> None:
    from pyspark.sql import functions as f

    if "starvation" in found.counts or "stall" in found.counts:
        waits = [
            rows.withColumn("what", f.lit(what))
            for rows, what in (
                (analysis.starvation(seen), "credit"),
                (analysis.window_stalls(seen), "window"),
            )
        ]
        both = waits[0].unionByName(waits[1], allowMissingColumns=True)
        found.waits = _first(both, f.desc_nulls_first("seconds"))
    busiest = found.links[:_SHOWN_LINKS]
    if not busiest or found.began is None or found.ended is None or "credit" not in found.counts:
        return
    place = f.coalesce(*[f.when(_is_of(link), f.lit(place)) for place, link in enumerate(busiest)])
    width = _width(found.ended - found.began, _CREDIT_STRETCHES)
    rows = (
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
        .collect()
    )
    found.credit = sorted(rows, key=lambda row: (row["place"], row["stretch"]))


def _is_of(link: Row) -> Column:
    """Whether a row is of a link, as a condition for Spark."""
    from pyspark.sql import functions as f

    same = f.lit(True)
    for name in _LINK:
        same = same & f.col(name).eqNullSafe(f.lit(link[name]))
    return same

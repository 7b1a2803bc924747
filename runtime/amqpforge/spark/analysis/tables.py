"""Tables of observations and frames: DataFrame in, DataFrame out."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from .digest import digest
from .observations import KINDS

__all__ = [
    "connections",
    "credit",
    "deliveries",
    "errors",
    "errors_by_condition",
    "latency",
    "links",
    "owed",
    "redeliveries",
    "sessions",
    "starvation",
    "throughput",
    "unknown",
    "unsettled",
    "violations",
    "window_stalls",
]

_PLACE: Final = ("file", "stream")
_LINK: Final = ("sender", "channel", "link", "source", "target")


def _of(observations: DataFrame, kind: str, *common: str) -> DataFrame:
    """The observations of one kind: the columns of the connection, those of the frame that are asked for, and
    the fields of the kind.
    """
    if kind not in observations.columns:
        raise ValueError(
            f"these are no observations: there is no column {kind!r}; make them with observe(frames)"
        )
    fields = [f.col(f"{kind}.{name}") for name in KINDS[kind].names]
    return observations.where(f.col("kind") == kind).select(*_PLACE, *common, *fields)


def connections(observations: DataFrame) -> DataFrame:
    """One row a connection: its ends, when it began and ended, how much went each way, the counts."""
    return _of(observations, "connection")


def sessions(observations: DataFrame) -> DataFrame:
    """One row a session: channels, transfers and octets each way, their rates, the error that ended it."""
    took = _seconds("began", "ended")
    return (
        _of(observations, "session")
        .withColumn("seconds", took)
        .withColumn("client_transfers_per_second", _per(f.col("client_transfers"), took))
        .withColumn("server_transfers_per_second", _per(f.col("server_transfers"), took))
        .withColumn("client_octets_per_second", _per(f.col("client_octets"), took))
        .withColumn("server_octets_per_second", _per(f.col("server_octets"), took))
    )


def links(observations: DataFrame) -> DataFrame:
    """One row for each time a link was attached: deliveries by outcome, octets, the most that was unsettled,
    what went through it a second, the error that detached it.
    """
    took = _seconds("began", "ended")
    return (
        _of(observations, "link")
        .withColumn("seconds", took)
        .withColumn("deliveries_per_second", _per(f.col("deliveries"), took))
        .withColumn("octets_per_second", _per(f.col("octets"), took))
    )


def deliveries(observations: DataFrame) -> DataFrame:
    """One row a delivery: from its first transfer to its settlement, by whichever end settled it first.

    ``seconds`` is the time between; ``settled`` and ``seconds`` are null for those that nobody settled.
    ``outcome`` is the last state that was told, "pre-settled" or "aborted" of the sender, or "none".
    """
    return _of(observations, "delivery")


def latency(observations: DataFrame, *by: str) -> DataFrame:
    """How long settling took, for deliveries that did not come settled: count, mean, percentiles, most.

    Args:
        observations: of `observe`.
        by: columns of `deliveries` to tell apart, by default the link and the outcome.
    """
    taken = deliveries(observations).where(
        "seconds is not null and outcome not in ('pre-settled', 'aborted')"
    )
    parts = [f.percentile_approx("seconds", share, 10_000).alias(f"p{share * 100:g}") for share in _SHARES]
    return taken.groupBy(*(by or (*_PLACE, *_LINK, "outcome"))).agg(
        f.count("*").alias("deliveries"),
        f.avg("seconds").alias("mean"),
        *parts,
        f.max("seconds").alias("most"),
    )


_SHARES: Final = (0.5, 0.9, 0.99, 0.999)


def throughput(observations: DataFrame, every: str = "1 second", *by: str) -> DataFrame:
    """Deliveries and octets begun in each stretch of time.

    Args:
        observations: of `observe`.
        every: the length of a stretch, such as "100 milliseconds".
        by: columns of `deliveries` to tell apart, by default the link.
    """
    stretch = f.window("began", every)
    return (
        deliveries(observations)
        .where("began is not null")
        .groupBy(stretch, *(by or (*_PLACE, *_LINK)))
        .agg(f.count("*").alias("deliveries"), f.sum("octets").alias("octets"))
        .withColumn("began", f.col("window.start"))
        .drop("window")
    )


def credit(observations: DataFrame) -> DataFrame:
    """The credit of links over time: ``before`` and behind (``credit``) each flow that the receiver sent, and
    when it was used up.
    """
    return _of(observations, "credit", "time", "packet")


def starvation(observations: DataFrame) -> DataFrame:
    """The intervals in which a sender had no credit, from its attach or the transfer that used it up to the
    flow that gave some.

    ``sent_after`` is how many seconds after that the sender sent: if that is next to nothing, it was waiting.
    ``ended`` is null where credit never came, ``sent_after`` where nothing was sent.
    """
    return _of(observations, "starvation", "packet")


def window_stalls(observations: DataFrame) -> DataFrame:
    """The intervals in which an end of a session might send no transfer, for the other end's incoming-window
    was used up; the columns are those of `starvation`.
    """
    return _of(observations, "stall", "packet")


def unsettled(observations: DataFrame) -> DataFrame:
    """The most deliveries of each link that were unsettled at a time, when that was, and how many never were
    settled.
    """
    names = (*_PLACE, *_LINK, "most_unsettled", "most_unsettled_at", "unsettled", "deliveries")
    return _of(observations, "link").select(*names)


def violations(observations: DataFrame) -> DataFrame:
    """What broke the protocol: who is to blame, the rule, and the frame that broke it.

    The frame is told by its ``packet``, ``direction`` and ``offset``, as a row of the capture has them, and
    by its number among the frames of the connection, as ``amqpforge decode --check`` has it.
    """
    return _of(observations, "violation", "time", "packet", "direction", "offset", "frame")


def unknown(observations: DataFrame) -> DataFrame:
    """What cannot be followed, since the frames that began it were not captured."""
    return _of(observations, "unknown", "time", "packet", "direction", "offset", "frame")


def owed(observations: DataFrame) -> DataFrame:
    """What the ends still had to send when their connection was over."""
    return _of(observations, "owed")


def redeliveries(observations: DataFrame) -> DataFrame:
    """The transfers of messages that were delivered before, and of deliveries that are resumed.

    A message tells that by the delivery-count of its header (``delivery_count``, null where no message is
    known), so the frames have to be read with the option ``sections``, as they are unless it is turned off;
    without it only resumed deliveries are found.
    """
    return _of(observations, "redelivery", "time", "packet", "direction", "offset", "frame")


def errors(frames: DataFrame) -> DataFrame:
    """The errors that the ends told each other, one row each, in any dialect.

    ``name`` is the frame that carried one, ``condition`` what it says: a condition of AMQP 1.0, a reply-code
    of the class and method dialects, the code of a SASL outcome. What could not be decoded is there too, with
    the condition "undecodable".

    Args:
        frames: rows of ``format("amqp_capture")``, or a digest of them.
    """
    return (
        digest(frames)
        .where("condition is not null")
        .select(
            *_PLACE,
            *("time", "packet", "direction", "offset", "channel", "name", "condition", "description"),
        )
    )


def errors_by_condition(frames: DataFrame) -> DataFrame:
    """How often each error was told, by frame and condition, and when first and last; the ``file``,
    ``stream``, ``packet`` and ``description`` of the first.
    """
    first = ("file", "stream", "packet", "description")
    return (
        errors(frames)
        .groupBy("name", "condition")
        .agg(
            f.count("*").alias("count"),
            f.min("time").alias("first"),
            f.max("time").alias("last"),
            f.min(f.struct("time", *first)).alias("one"),
        )
        .select("name", "condition", "count", "first", "last", *(f"one.{name}" for name in first))
    )


def _seconds(began: str, ended: str) -> Column:
    return (f.unix_micros(ended) - f.unix_micros(began)) / 1e6


def _per(count: Column, seconds: Column) -> Column:
    return f.when(seconds > 0, count / seconds)

"""What a session of Spark is measured with; each job checks what came of it, outside of the time it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation, functions

from benchmarks.spark.contents import BODY_SIZE, filler
from benchmarks.spark.handed_over import NAME, HandedOver
from benchmarks.spark.usage import Meter, confined

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ALWAYS = ("_rest", "_corrupt")
"""The columns that rows have besides those that are asked for."""

PERFORMATIVES = ("open", "begin", "attach", "flow", "transfer", "disposition", "detach", "end", "close")


class WrongRowsError(Exception):
    """There are other rows than there should be."""


def capture(
    spark: SparkSession, path: str, columns: Mapping[str, str], tasks: int, cpus: int | None
) -> dict[str, float]:
    """Read a capture into nowhere.

    Args:
        spark: the session.
        path: of the capture.
        columns: the options that say which columns are wanted.
        tasks: how many, if the capture is large enough.
        cpus: how many processors Spark may use, the JVM and all that belongs to it; None: any.

    Returns:
        What it costs, and how many rows there are.
    """
    return _written(lambda: _frames(spark, path, columns, tasks), cpus)


def hand_over(
    spark: SparkSession, path: str, tasks: int, cpus: int | None, folder: str | None = None
) -> dict[str, float]:
    """Read rows that are there already.

    Args:
        spark: the session.
        path: of the file that has them (:mod:`.handed_over`).
        tasks: how many.
        cpus: how many processors Spark may use, the JVM and all that belongs to it; None: any.
        folder: into which they are written as Parquet; None: into nowhere.

    Returns:
        What it costs, and how many rows there are.
    """
    spark.dataSource.register(HandedOver)
    return _written(lambda: spark.read.format(NAME).options(path=path, tasks=tasks).load(), cpus, folder)


def _written(load: Callable[[], DataFrame], cpus: int | None, folder: str | None = None) -> dict[str, float]:
    """Write rows to Parquet in a folder, or into nowhere; returns what that costs, and how many they are."""
    seen = Observation()
    with confined(cpus):
        meter = Meter()
        writer = load().observe(seen, functions.count("*").alias("rows")).write.mode("overwrite")
        if folder is None:
            writer.format("noop").save()
        else:
            writer.parquet(folder)
        used = meter.stop()
    return {**used, "rows": seen.get["rows"]}


def check_capture(
    spark: SparkSession, path: str, columns: Mapping[str, str], tasks: int, expected: Mapping[str, int]
) -> dict[str, float]:
    """See that a capture has the right frames.

    Args:
        spark: the session.
        path: of the capture.
        columns: the options that say which columns are wanted; messages are looked at, too, if they have one.
        tasks: how many, if the capture is large enough.
        expected: how many frames there are by performative; each transfer has a whole message, with a number
            as its id, from 0 or 1 up.

    Returns:
        How many rows there are, those of no performative among them.

    Raises:
        WrongRowsError: the rows are others.
    """
    frames = _frames(spark, path, columns, tasks)
    found = {str(row["name"]): int(row["count"]) for row in frames.groupBy("name").count().collect()}
    _compare("frames", {name: found[name] for name in PERFORMATIVES if name in found}, expected)
    if "message" in frames.columns:
        number = functions.col("message.properties.message_id.decimal").cast("long")
        rows = frames.where("name = 'transfer'").select(number.alias("number"))
        _check_numbers(rows, functions.col("number"), expected["transfer"])
    return {"rows": sum(found.values())}


def _frames(spark: SparkSession, path: str, columns: Mapping[str, str], tasks: int) -> DataFrame:
    return spark.read.format("amqp_capture").options(**columns, minPartitions=tasks).load(path)


def spooled(
    spark: SparkSession, port: int, address: str, spool: str, folder: str, count: int, columns: Sequence[str]
) -> dict[str, float]:
    """Write what a spool holds to Parquet; what the queue holds goes into the spool before.

    Only the reading of the segments and the writing are measured.

    Args:
        spark: the session.
        port: of the broker.
        address: the queue.
        spool: the folder of the spool.
        folder: for the rows.
        count: of the rows.
        columns: that are asked for; none: all.

    Raises:
        WrongRowsError: the rows are others.
    """
    rows = _source(spark.read, port, address, spool, columns, mode="consume").load()
    rows.rdd.getNumPartitions()  # The receiver runs once, as soon as Spark asks for the parts.
    meter = Meter()
    rows.write.mode("overwrite").parquet(folder)
    used = meter.stop()
    written = spark.read.parquet(folder)
    _check_columns(written, columns)
    number = functions.col("application_properties.number.long")
    _check_numbers(written, number, count)
    same = (
        (functions.col("body") == _body(number, BODY_SIZE))
        & (functions.col("properties.message_id.string") == functions.format_string("order-%09d", number))
        & functions.col("_corrupt").isNull()
    )
    _compare("rows that are right", {"rows": written.where(same).count()}, {"rows": count})
    return used


def stream(
    spark: SparkSession, port: int, address: str, folder: str, count: int, size: int, columns: Sequence[str]
) -> dict[str, float]:
    """Stream what a queue holds into Parquet.

    The time is that from the receipt of the first message, which each row has, to the note in the checkpoint
    that the last batch is done; ``before`` is that from the start of the query to the first message.

    Args:
        spark: the session.
        port: of the broker.
        address: the queue.
        folder: for the spool, the checkpoint and the rows.
        count: of the messages.
        size: of a body.
        columns: that are asked for, the body and the time of the receipt among them; none: all.

    Raises:
        WrongRowsError: the rows are others.
    """
    home = Path(folder)
    rows = _source(spark.readStream, port, address, str(home / "spool"), columns).load()
    meter, begin = Meter(), time.time()
    query = (
        rows.writeStream.format("parquet")
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(home / "rows"))
    )
    query.awaitTermination()
    used = meter.stop()
    notes = [path for path in (home / "checkpoint" / "commits").iterdir() if path.name.isdigit()]
    end = max(path.stat().st_mtime for path in notes)
    written = spark.read.parquet(str(home / "rows"))
    _check_columns(written, columns)
    number = functions.conv(functions.hex(functions.substring("body", 1, 8)), 16, 10).cast("long")
    _check_numbers(written, number, count)
    same = (functions.col("body") == _body(number, size)) & functions.col("_corrupt").isNull()
    _compare("rows that are right", {"rows": written.where(same).count()}, {"rows": count})
    found = written.select(functions.unix_micros(functions.min("received_at"))).first()
    first = (found[0] if found else 0) / 1e6
    return {**used, "seconds": end - first, "before": first - begin}


def write(spark: SparkSession, port: int, address: str, count: int, size: int, ids: bool) -> dict[str, float]:
    """Write rows to a queue, bodies that Spark has in its memory; in as many tasks as it has cores.

    The time is that of the call. Who takes the messages checks them.

    Args:
        spark: the session.
        port: of the broker.
        address: the queue.
        count: of the rows.
        size: of a body.
        ids: whether each message gets the id that makes it safe to repeat.
    """
    tasks = spark.sparkContext.defaultParallelism
    rows = spark.range(0, count, 1, tasks).select(_body(functions.col("id"), size).alias("body")).cache()
    rows.count()
    meter = Meter()
    rows.write.format("amqp").options(
        url=_url(port), address=address, messageId="generate" if ids else "keep"
    ).mode("append").save()
    used = meter.stop()
    rows.unpersist(blocking=True)
    return used


def _source(reader: Any, port: int, address: str, spool: str, columns: Sequence[str], **options: str) -> Any:
    """A reader, of a batch or of a stream."""
    if columns:
        options["columns"] = ",".join(columns)
    return reader.format("amqp").options(url=_url(port), address=address, spoolLocation=spool, **options)


def _url(port: int) -> str:
    return f"amqp://127.0.0.1:{port}"


def _body(number: Column, size: int) -> Column:
    """The body with a number."""
    digits = functions.lpad(functions.hex(number), 16, "0")
    return functions.concat(functions.unhex(digits), functions.lit(filler(size)))


def _check_columns(rows: DataFrame, columns: Sequence[str]) -> None:
    """See that there are the columns that were asked for, and no others."""
    expected = {*columns, *ALWAYS}
    if columns and set(rows.columns) != expected:
        raise WrongRowsError(f"columns: {sorted(rows.columns)}, not {sorted(expected)}")


def _check_numbers(rows: DataFrame, number: Column, count: int) -> None:
    """See that each number is there once, from the first one up, which is 0 or 1."""
    found = rows.select(
        functions.count(number).alias("rows"),
        functions.count_distinct(number).alias("numbers"),
        functions.min(number).alias("first"),
        functions.max(number).alias("last"),
    ).first()
    told = found.asDict() if found is not None else {}
    first = 1 if told.get("first") == 1 else 0
    _compare("rows", told, {"rows": count, "numbers": count, "first": first, "last": first + count - 1})


def _compare(what: str, found: Mapping[str, Any], expected: Mapping[str, int]) -> None:
    if dict(found) != dict(expected):
        raise WrongRowsError(f"{what}: {dict(found)}, not {dict(expected)}")

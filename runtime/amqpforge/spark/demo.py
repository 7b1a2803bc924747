"""A pipeline from end to end, on this machine: what `make run` shows, by ``python -m amqpforge.spark.demo``.

Messages go from the client to a broker in this process, from there through a stream of Spark into Parquet,
and from Parquet into a table; then a captured conversation is decoded, and a report on captures is written.
"""

from __future__ import annotations

import argparse
import io
import random
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import amqpforge
from amqpforge import blocking
from amqpforge.blocking.management import Management
from amqpforge.broker import BrokerConfig
from amqpforge.cli import main as command_line
from amqpforge.errors import AmqpforgeError, LocalError
from amqpforge.message import Message
from amqpforge.spark.progress import progress
from amqpforge.spark.report import STEPS, report
from amqpforge.spark.session import local_session
from amqpforge.streams import Streams
from amqpforge_protocol.amqp_1_0 import UInt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["main"]

_QUEUE: Final = "orders"
_GOODS: Final = {"tea": 4.20, "coffee": 6.90, "cocoa": 5.50, "mate": 7.10, "chicory": 3.30}
_COUNTRIES: Final = ("BR", "DE", "IN", "JP", "KE", "PT")
_SHOWN_LINES: Final = 6
_WIDTH: Final = 110


def main(argv: Sequence[str] | None = None) -> int:
    """Run the pipeline; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m amqpforge.spark.demo", description=__doc__)
    parser.add_argument(
        "--messages", type=int, default=20_000, metavar="N", help="to publish (default: 20000)"
    )
    parser.add_argument("--capture", required=True, metavar="FILE", help="a conversation to decode")
    parser.add_argument(
        "--report", nargs="+", metavar="PATH", help="captures to report on (default: the same)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("build/run"), metavar="FOLDER", help="written anew"
    )
    arguments = parser.parse_args(argv)
    streams = Streams()
    try:
        _run(streams, arguments)
    except (AmqpforgeError, OSError) as error:
        streams.complain(str(error))
        return 1
    return 0


class _Stage:
    """Headlines on standard output, and a bar beneath those whose length is known."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._number = 0

    def begin(self, text: str) -> float:
        """A headline; returns the time."""
        self._number += 1
        self._streams.write(f"\n{self._number}. {text}")
        self._streams.stdout.flush()
        return time.monotonic()

    def say(self, text: str) -> None:
        """A line beneath the headline."""
        self._streams.write(f"   {text}")
        self._streams.stdout.flush()


def _run(streams: Streams, arguments: argparse.Namespace) -> None:
    output: Path = arguments.output.absolute()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    stage = _Stage(streams)
    config = BrokerConfig().overridden(port=0, store=f"sqlite:{output / 'broker.db'}")
    stage.begin("A broker, in this process; it keeps messages in SQLite")
    with amqpforge.Broker(config) as broker:
        stage.say(f"listens at {broker.url}")
        began = stage.begin(f"{arguments.messages:,} orders, published with the client")
        _publish(broker.url, arguments.messages, streams)
        stage.say(_pace(arguments.messages, "accepted", began))
        began = stage.begin("Spark, on this machine")
        with local_session("amqpforge demo") as spark:
            stage.say(f"{spark.version}, {spark.sparkContext.master}, after {time.monotonic() - began:.1f} s")
            _pipeline(spark, broker.url, output, stage)
            _captures(spark, streams, arguments, output, stage)
    streams.write(f"\nThe report:       {(output / 'report.html').as_uri()}")
    streams.write(f"Orders (Parquet): {output / 'orders'}")


def _publish(url: str, count: int, streams: Streams) -> None:
    """Publish orders, durable ones; a message is a map of typed values with properties."""
    with blocking.connect(url) as connection:
        with Management(connection) as management:
            management.declare_queue(_QUEUE, durable=True)
        with connection.sender(_QUEUE) as sender:
            sender.send_many(_watched(_orders(count), count, streams))


def _orders(count: int) -> Iterator[Message]:
    chance = random.Random(20_000)
    goods = list(_GOODS)
    for number in range(count):
        article, pieces = chance.choice(goods), chance.randint(1, 9)
        yield Message(
            {
                "order": number,
                "article": article,
                "pieces": UInt(pieces),
                "gift": chance.random() < 0.1,
                "note": "with care" if pieces > 7 else None,
            },
            message_id=f"order-{number}",
            subject="placed",
            creation_time=datetime.now(UTC),
            application_properties={
                "country": chance.choice(_COUNTRIES),
                "pieces": UInt(pieces),
                "amount": round(_GOODS[article] * pieces, 2),
            },
            durable=True,
        )


def _watched(messages: Iterator[Message], count: int, streams: Streams) -> Iterator[Message]:
    """The messages, with a bar while they go, where a person looks and rich is there to draw it."""
    if not streams.stderr.isatty():
        return messages
    try:
        from rich.console import Console
        from rich.progress import track
    except ImportError:
        return messages
    return iter(track(messages, "  ", count, console=Console(file=streams.stderr), transient=True))


def _pipeline(spark: SparkSession, url: str, output: Path, stage: _Stage) -> None:
    """From the queue into Parquet, and from there into a table."""
    from pyspark.sql import functions as f

    began = stage.begin("The queue, as a stream, into Parquet")
    properties = {name: f.col(f"application_properties.{name}") for name in ("country", "pieces", "amount")}
    query = (
        spark.readStream.format("amqp")
        .options(url=url, address=_QUEUE, spoolLocation=str(output / "spool"))
        .load()
        .withColumns({"country": properties["country"].string, "amount": properties["amount"].double})
        .withColumn("pieces", properties["pieces"].long)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(output / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(output / "orders"))
    )
    query.awaitTermination()
    orders = spark.read.parquet(str(output / "orders"))
    stage.say(_pace(orders.count(), "rows", began))
    stage.begin("What was ordered, by country")
    sums = orders.groupBy("country").agg(
        f.count("*").alias("orders"),
        f.sum("pieces").alias("pieces"),
        f.sum("amount").alias("amount"),
    )
    for row in sums.orderBy(f.desc("amount")).collect():
        counts = f"{row['orders']:>6,} orders  {row['pieces']:>7,} pieces"
        stage.say(f"{row['country']}  {counts}  {row['amount']:>12,.2f}")


def _captures(
    spark: SparkSession, streams: Streams, arguments: argparse.Namespace, output: Path, stage: _Stage
) -> None:
    """A conversation as lines, and the report."""
    stage.begin(f"A captured conversation: amqpforge decode {arguments.capture}")
    decoded = io.StringIO()
    if command_line(["decode", arguments.capture], stdout=decoded, stderr=streams.stderr):
        raise LocalError(f"{arguments.capture} could not be decoded")
    lines = decoded.getvalue().splitlines()
    for line in lines[:_SHOWN_LINES]:
        stage.say(line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}...")
    if len(lines) > _SHOWN_LINES:
        stage.say(f"... and {len(lines) - _SHOWN_LINES:,} more lines")
    paths = arguments.report or [arguments.capture]
    began = stage.begin(f"The report on {' '.join(paths)}")
    with progress(streams, len(STEPS)) as shown:
        report(spark, paths, output / "report.html", told=shown.begin)
    stage.say(f"written in {time.monotonic() - began:.1f} s")


def _pace(count: int, what: str, began: float) -> str:
    took = time.monotonic() - began
    return f"{count:,} {what} in {took:.1f} s, {count / took:,.0f} a second"


if __name__ == "__main__":
    sys.exit(main())

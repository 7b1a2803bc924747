"""``writeStream.format("amqp")``: micro-batches, and what comes of one that is written again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from amqpforge.testing import ThreadedBroker
from amqpforge_protocol.amqp_1_0 import AmqpError, Transfer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Query:
    """A stream of lines of text files into a queue, which can be run as often as one likes."""

    def __init__(self, spark: SparkSession, folder: Path, broker: ThreadedBroker, queue: str) -> None:
        self.spark = spark
        self.lines = folder / "lines"
        self.checkpoint = folder / f"checkpoint-{queue}"
        self.lines.mkdir(exist_ok=True)
        self.options = {"url": broker.url, "address": queue, "checkpointLocation": str(self.checkpoint)}

    def add(self, first: int, count: int) -> None:
        text = "".join(f"{number}\n" for number in range(first, first + count))
        (self.lines / f"{first}.txt").write_text(text)

    def run(self, *, mode: str = "append", table: DataFrame | None = None, **options: Any) -> None:
        """Write what is there, and end."""
        stream = table if table is not None else self.read().select(F.col("value").alias("body"))
        query = (
            stream.writeStream.format("amqp")
            .options(**self.options | options)
            .outputMode(mode)
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(60)
            assert not query.isActive
        finally:
            query.stop()

    def read(self) -> DataFrame:
        return self.spark.readStream.text(str(self.lines))

    def forget_last_commit(self) -> None:
        """As if Spark had been killed between the commit of the sink and its own."""
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


def counted(broker: ThreadedBroker, queue: str) -> Counter[Any]:
    return Counter(int(message.body) for message in broker.messages(queue))


def test_each_micro_batch_goes_on_from_the_last(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, broker, "q")
    query.add(0, 100)
    query.run()
    query.add(100, 100)
    query.run()
    assert counted(broker, "q") == Counter(range(200))
    ids = [str(message.message_id).split(":") for message in broker.messages("q")]
    assert {batch for _, batch, *_ in ids} == {"0", "1"}
    assert len({name for name, *_ in ids}) == 1


def test_a_micro_batch_that_is_written_again_leaves_no_duplicates_where_they_are_detected(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, broker, "once")
    query.add(0, 100)
    query.run()
    query.forget_last_commit()
    query.add(100, 100)
    query.run()
    assert counted(broker, "once") == Counter(range(200))
    assert broker.queue("once").counters.duplicates == 100


def test_a_micro_batch_that_is_written_again_leaves_duplicates_where_they_are_not_detected(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, broker, "q")
    query.add(0, 100)
    query.run()
    query.forget_last_commit()
    query.run()
    assert counted(broker, "q") == Counter([*range(100), *range(100)])


def test_a_query_that_failed_goes_on_where_it_was(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, broker, "once")
    query.add(0, 100)
    broker.script.on(Transfer, skip=40).refuse(AmqpError.RESOURCE_LIMIT_EXCEEDED, "enough")
    with pytest.raises(
        PySparkException, match=r"rejected \(amqp:resource-limit-exceeded: enough\) by 'once'"
    ):
        query.run()
    assert set(counted(broker, "once")) == set(range(40))
    broker.script.clear()
    query.run()
    assert counted(broker, "once") == Counter(range(100))


def test_transactions_of_a_stream(spark: SparkSession, broker: ThreadedBroker, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, broker, "q")
    query.add(0, 100)
    broker.script.on(Transfer, skip=40).refuse(AmqpError.RESOURCE_LIMIT_EXCEEDED, "enough")
    with pytest.raises(PySparkException, match="partition 0"):
        query.run(transactional="true")
    assert not counted(broker, "q")
    broker.script.clear()
    query.run(transactional="true")
    assert counted(broker, "q") == Counter(range(100))


def test_a_whole_result_is_sent_with_each_micro_batch(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, broker, "q")
    for first in (0, 100):
        query.add(first, 100)
        sums = query.read().groupBy().agg(F.sum("value").cast("long").alias("body_value"))
        query.run(mode="complete", table=sums)
    assert sorted(counted(broker, "q")) == [sum(range(100)), sum(range(200))]


def test_a_wrong_option_ends_the_query_before_anything_is_sent(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, broker, "q")
    query.add(0, 10)
    with pytest.raises(PySparkException, match="option 'adress' is not known for writing a stream"):
        query.run(adress="q")
    assert broker.accepted == 0

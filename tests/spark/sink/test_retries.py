"""What tasks that run again leave at the broker: with duplicate detection, without it, in transactions.

Each test that shows that nothing comes twice stands beside one that shows that it does otherwise.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from amqpforge.broker import BrokerConfig, ListenerConfig
from amqpforge.testing import ScriptedBroker, ThreadedBroker
from amqpforge_protocol.amqp_1_0 import AmqpError, Open, Transfer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 400


def numbers(spark: SparkSession, count: int = COUNT, partitions: int = 1) -> DataFrame:
    return spark.range(0, count, 1, partitions).select(F.col("id").alias("body_value"))


def write(table: DataFrame, broker: ThreadedBroker, address: str, **options: Any) -> None:
    options |= {"url": broker.url, "address": address, "window": "20"}
    table.write.format("amqp").options(**options).mode("append").save()


def counted(broker: ThreadedBroker, queue: str) -> Counter[Any]:
    return Counter(message.body for message in broker.messages(queue))


def kill_the_worker(broker: ThreadedBroker, *, after: int) -> list[int]:
    """Kill the Python process of the task that sends the transfer behind so many; gives its number."""
    workers: dict[int, int] = {}
    killed: list[int] = []

    def learn(seen: Any) -> None:
        workers[seen.connection.number] = seen.performative.properties["pid"]

    def kill(seen: Any) -> None:
        killed.append(workers[seen.connection.number])
        os.kill(killed[0], signal.SIGKILL)

    broker.script.on(Open).do(learn)
    broker.script.on(Transfer, skip=after, times=1).do(kill)
    return killed


def test_a_killed_worker_leaves_no_duplicates_where_they_are_detected(
    spark: SparkSession, broker: ThreadedBroker
) -> None:
    killed = kill_the_worker(broker, after=150)
    write(numbers(spark), broker, "once")
    assert killed
    assert broker.accepted == 2
    assert counted(broker, "once") == Counter(range(COUNT))
    assert broker.queue("once").counters.duplicates >= 130


def test_a_killed_worker_leaves_duplicates_where_they_are_not_detected(
    spark: SparkSession, broker: ThreadedBroker
) -> None:
    kill_the_worker(broker, after=150)
    write(numbers(spark), broker, "q")
    found = counted(broker, "q")
    assert set(found) == set(range(COUNT))
    assert found.total() >= COUNT + 130


def test_without_ids_duplicates_cannot_be_detected(spark: SparkSession, broker: ThreadedBroker) -> None:
    kill_the_worker(broker, after=150)
    write(numbers(spark), broker, "once", messageId="keep")
    assert counted(broker, "once").total() >= COUNT + 130


def test_a_killed_worker_leaves_nothing_of_its_transaction(
    spark: SparkSession, broker: ThreadedBroker
) -> None:
    killed = kill_the_worker(broker, after=150)
    write(numbers(spark), broker, "q", transactional="true", messageId="keep")
    assert killed
    assert broker.accepted == 2
    assert counted(broker, "q") == Counter(range(COUNT))


def test_a_partition_is_all_there_or_not_at_all(spark: SparkSession, broker: ThreadedBroker) -> None:
    # The last row of the second partition is larger than the queue takes.
    broker.declare_queue("small", max_bytes=60_000)
    table = spark.range(0, 100, 1, 2).select(
        F.when(F.col("id") == 99, F.repeat(F.lit("x"), 100_000))
        .otherwise(F.col("id").cast("string"))
        .alias("body")
    )
    with pytest.raises(PySparkException, match="partition 1"):
        write(table, broker, "small", transactional="true")
    assert sorted(int(body) for body in counted(broker, "small")) == list(range(50))


def test_a_partition_without_a_transaction_is_there_in_part(
    spark: SparkSession, broker: ThreadedBroker
) -> None:
    broker.script.on(Transfer, skip=30).refuse(AmqpError.NOT_ALLOWED)
    with pytest.raises(PySparkException, match="partition 0, row "):
        write(numbers(spark, 100), broker, "once")
    assert sorted(counted(broker, "once")) == list(range(30))


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[ThreadedBroker]:
    """A broker that keeps durable messages when it is started again."""
    config = BrokerConfig(listeners=(ListenerConfig(port=0),), store=f"sqlite:{tmp_path / 'store.db'}")
    with ScriptedBroker.threaded(config) as broker:
        broker.declare_queue("once", durable=True, duplicate_window=100_000)
        broker.declare_queue("q", durable=True)
        yield broker


def restart(broker: ThreadedBroker, *, after: int) -> list[Thread]:
    """Start the broker again when so many transfers have come."""
    threads: list[Thread] = []

    def begin(seen: object) -> None:
        threads.append(Thread(target=broker.restart))
        threads[0].start()

    broker.script.on(Transfer, skip=after, times=1).do(begin)
    return threads


def test_a_broker_that_restarts_has_each_row_once(spark: SparkSession, lasting: ThreadedBroker) -> None:
    restarting = restart(lasting, after=150)
    write(numbers(spark).withColumn("durable", F.lit(True)), lasting, "once")
    for thread in restarting:
        thread.join(30)
    assert lasting.accepted == 2
    assert counted(lasting, "once") == Counter(range(COUNT))


def test_a_broker_that_restarts_rolls_back_and_the_task_runs_again(
    spark: SparkSession, lasting: ThreadedBroker
) -> None:
    restarting = restart(lasting, after=150)
    write(numbers(spark).withColumn("durable", F.lit(True)), lasting, "q", transactional="true")
    for thread in restarting:
        thread.join(30)
    assert counted(lasting, "q") == Counter(range(COUNT))


def test_a_broker_that_stays_away_is_a_clear_failure(spark: SparkSession) -> None:
    with ScriptedBroker.threaded() as gone:
        url = gone.url
    writer = numbers(spark, 10).write.format("amqp").options(url=url, address="q", startTimeout="0.5")
    with pytest.raises(PySparkException, match=r"partition 0: there is no connection: .*127.0.0.1"):
        writer.mode("append").save()

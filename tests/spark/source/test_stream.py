"""``spark.readStream.format("amqp")``."""

from __future__ import annotations

import json
import pickle
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from amqpforge.spark.source.rounds import AmqpRoundReader
from amqpforge.spark.source.segment import Segment
from amqpforge.spark.source.stream import AmqpStreamReader, SegmentPartition, split
from amqpforge.testing import ScriptedBroker, ThreadedBroker
from amqpforge_spark.amqp_1_0 import MESSAGE
from pyspark_amqp import DefaultSource

from .scene import NO_MESSAGE, options, publish, publish_no_message, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

N = 1000


pickled: Callable[[object], bytes] = cloudpickle.dumps


class Job:
    """A query from the queue ``q`` to Parquet files, with a checkpoint and a spool of its own."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, **options: str) -> None:
        self.spark = spark
        self.folder = folder
        self.given = {
            "url": url,
            "address": "q",
            "spoolLocation": str(folder / "spool"),
            "startTimeout": "20",
        } | options

    def start(self, *, once: bool = False) -> StreamingQuery:
        stream = self.spark.readStream.format("amqp").options(**self.given).load()
        writer = (
            stream.writeStream.format("parquet")
            .option("path", str(self.folder / "out"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
        )
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
        return writer.start()

    def run(self) -> StreamingQuery:
        """Take what is there."""
        query = self.start(once=True)
        assert query.awaitTermination(60)
        error = query.exception()
        if error is not None:
            raise error
        return query

    def numbers(self) -> list[int]:
        """What has come out."""
        if not list((self.folder / "out" / "_spark_metadata").glob("[0-9]*")):
            return []
        frame = self.spark.read.parquet(str(self.folder / "out"))
        return sorted(int(bytes(row.body)) for row in frame.select("body").collect())


@pytest.fixture
def job(spark: SparkSession, broker: ThreadedBroker, tmp_path: Path) -> Iterator[Job]:
    yield Job(spark, broker.url, tmp_path)
    for query in spark.streams.active:
        query.stop()


def sources(query: StreamingQuery) -> list[dict[str, Any]]:
    return [json.loads(progress.json)["sources"][0] for progress in query.recentProgress]


def test_available_now_takes_each_message_once(job: Job, broker: ThreadedBroker) -> None:
    job.given["maxRowsPerBatch"] = "300"
    publish(broker.url, N)
    query = job.run()
    assert job.numbers() == list(range(N))
    assert len(broker.queue("q")) == 0
    batches = [source["numInputRows"] for source in sources(query) if source["numInputRows"]]
    assert sum(batches) == N
    assert max(batches) <= 300
    figures = sources(query)[-1]["latestOffset"]
    assert figures["rows"] == N
    assert figures["droppedDuplicates"] == figures["unsettled"] == 0
    assert list(sources(query)[-1]["endOffset"]) == ["query", "next"]

    publish(broker.url, 50, start=N)
    job.run()
    assert job.numbers() == list(range(N + 50))
    job.run()
    assert job.numbers() == list(range(N + 50))


@pytest.mark.parametrize("place", ["driver", "executors"])
def test_a_stream_has_the_columns_that_are_named(job: Job, broker: ThreadedBroker, place: str) -> None:
    """Others after a restart: what is in the spool is whole."""
    job.given |= {"receiveOn": place, "columns": "body, address"}
    publish(broker.url, 2)
    publish_no_message(broker.url)
    job.run()
    frame = job.spark.read.parquet(str(job.folder / "out"))
    assert frame.schema == StructType([MESSAGE[name] for name in ("body", "address", "_rest", "_corrupt")])
    *good, bad = sorted(map(tuple, frame.collect()), key=lambda row: (row[0] is None, row[0]))
    assert good == [(b"0", "q", None, None), (b"1", "q", None, None)]
    assert (*bad[:3], bytes(bad[3].octets)) == (None, "q", None, NO_MESSAGE)

    job.given["columns"] = "_corrupt, body, body_kind"
    publish(broker.url, 1, start=2)
    job.run()
    both = job.spark.read.option("mergeSchema", "true").parquet(str(job.folder / "out"))
    found = both.where("_corrupt IS NULL").select("body", "address", "body_kind").collect()
    assert sorted(map(tuple, found)) == [(b"0", "q", None), (b"1", "q", None), (b"2", None, "data")]


def rows(query: StreamingQuery) -> int:
    """What a query has read so far."""
    return sum(source["numInputRows"] for source in sources(query))


def test_a_stream_goes_on_when_the_broker_and_the_query_come_back(job: Job, broker: ThreadedBroker) -> None:
    publish(broker.url, N)
    query = job.start()
    until(lambda: rows(query) == N, "the first rows")
    for connection in broker.connections:
        connection.cut()
    publish(broker.url, N, start=N)
    until(lambda: rows(query) >= 2 * N, "rows after the cut")
    query.stop()
    until(lambda: broker.queue("q").consumers == 0, "the end of the receiver")
    publish(broker.url, N, start=2 * N)
    job.run()
    assert job.numbers() == list(range(3 * N))
    assert len(list((job.folder / "spool").glob("*.arrow"))) < 10


_TERMINATED_TWICE = """
import json, os, signal, sys
from pyspark.sql.streaming.datasource import ReadAllAvailable
from amqpforge.spark.source.live import Live
from amqpforge.spark.source.options import ReadOptions
from amqpforge.spark.source.stream import AmqpStreamReader

def terminate():
    os.kill(os.getpid(), signal.SIGTERM)

def terminated_stop(self, stop=Live.stop):
    terminate()  # Spark sends it twice.
    stop(self)

Live.stop = terminated_stop
reader = AmqpStreamReader(ReadOptions.for_stream(json.loads(sys.argv[1])))
try:
    start, limit = reader.initialOffset(), ReadAllAvailable()
    while reader.latestOffset(start, limit) == start:
        pass
    terminate()
finally:
    reader.stop()
"""


def test_what_spark_terminates_gives_its_links_back(broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, 10)
    given = {"url": broker.url, "address": "q", "spoolLocation": str(tmp_path / "spool")}
    done = subprocess.run(
        [sys.executable, "-c", _TERMINATED_TWICE, json.dumps(given)], check=False, timeout=60
    )
    assert done.returncode == 128 + signal.SIGTERM
    assert broker.queue("q").consumers == 0
    assert len(broker.queue("q")) == 0


def test_nobody_is_there(spark: SparkSession, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        job = Job(spark, f"amqp://127.0.0.1:{free.getsockname()[1]}", tmp_path, startTimeout="1")
        with pytest.raises(
            Exception, match="no way to receive for 1 s, which the option 'startTimeout' sets"
        ):
            job.run()


def test_two_queries_with_one_spool(job: Job, broker: ThreadedBroker) -> None:
    publish(broker.url, 10)
    job.run()
    (job.folder / "checkpoint").rename(job.folder / "mine")
    publish(broker.url, 10, start=10)
    with pytest.raises(Exception, match=r"belongs to the query .*each query, which means each checkpoint"):
        job.run()
    shutil.rmtree(job.folder / "checkpoint")
    (job.folder / "mine").rename(job.folder / "checkpoint")
    job.run()
    assert job.numbers() == list(range(20))


def test_a_spool_that_was_emptied(job: Job, broker: ThreadedBroker) -> None:
    publish(broker.url, 10)
    job.run()
    shutil.rmtree(job.folder / "spool")
    with pytest.raises(Exception, match="it is not the one that the checkpoint goes with, or it was emptied"):
        job.run()


def test_an_option_that_is_not_known(job: Job) -> None:
    job.given["adress"] = "q"
    with pytest.raises(Exception, match="option 'adress' is not known for reading a stream"):
        job.run()


def test_a_password_is_nowhere(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = "open-sesame"
    with ScriptedBroker.threaded(passwords={"me": secret}) as broker:
        broker.declare_queue("q")
        with pytest.raises(Exception, match="Authentication") as caught:
            Job(spark, broker.url, tmp_path / "wrong", user="me", password=secret + "x").run()
        assert secret not in str(caught.value)
        job = Job(spark, broker.url, tmp_path / "right", user="me", password=secret)
        broker.put("q", b"1")
        query = job.run()
        assert job.numbers() == [1]
        stream = spark.readStream.format("amqp").options(**job.given).load()
        stream.explain(True)
        spark.read.format("amqp").options(
            url=broker.url, address="q", user="me", password=secret
        ).load().explain("extended")
        assert all(secret not in progress.json for progress in query.recentProgress)
    shown = capfd.readouterr()
    assert "== Analyzed Logical Plan ==" in shown.out
    assert secret not in shown.out + shown.err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if secret.encode() in path.read_bytes()]


def test_what_goes_to_tasks_has_no_password() -> None:
    given = {"url": "amqp://x", "address": "q", "spoolLocation": "/s", "user": "me", "password": "geheim"}
    source = DefaultSource(dict(given))
    reader = source.streamReader(MESSAGE)
    assert b"geheim" not in pickled((reader, source))
    assert b"geheim" not in pickle.dumps(SegmentPartition("/s", ("1.arrow",)))
    again = pickle.loads(pickle.dumps(reader))
    assert isinstance(again, AmqpStreamReader)


@pytest.mark.parametrize("place", ["driver", "executors"])
def test_what_goes_to_tasks_has_the_columns(broker: ThreadedBroker, tmp_path: Path, place: str) -> None:
    publish(broker.url, 1)
    given = {"url": broker.url, "address": "q", "spoolLocation": str(tmp_path / "spool")}
    source = DefaultSource(given | {"receiveOn": place, "columns": "body"})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, AmqpStreamReader | AmqpRoundReader)
    try:
        reader.prepareForTriggerAvailableNow()
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        parts = reader.partitions(start, end)
        task = pickle.loads(pickled(reader))
        (batch,) = [batch for part in parts for batch in task.read(part)]
    finally:
        reader.stop()
    assert batch.to_pydict() == {"body": [b"0"], "_rest": [None], "_corrupt": [None]}


def test_making_readers_does_nothing(tmp_path: Path) -> None:
    given = {"url": "amqp://127.0.0.1:1", "address": "q", "spoolLocation": str(tmp_path / "spool")}
    reader = DefaultSource(dict(given)).streamReader(MESSAGE)
    reader.getDefaultReadLimit()
    reader.stop()
    pickle.loads(pickle.dumps(reader)).stop()
    assert not (tmp_path / "spool").exists()
    assert options("amqp://127.0.0.1:1", tmp_path / "spool").spool == str(tmp_path / "spool")


def test_parts_are_worth_a_task_each() -> None:
    segments = [Segment(number, 5000, 1000) for number in range(10)] + [Segment(10, 1, 1 << 30)]
    parts = split("/s", segments)
    assert [len(part.names) for part in parts] == [4, 4, 2, 1]
    assert [name for part in parts for name in part.names] == [one.name for one in segments]
    assert {part.location for part in parts} == {"/s"}
    assert split("/s", []) == []

"""A spool that is full, gone, or used by two queries at once: a clear failure, and nothing is lost."""

from __future__ import annotations

import gc
import threading
import warnings
from functools import partial, partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from amqpforge.errors import OperationTimedOut
from amqpforge.loop_thread import LoopThread
from amqpforge.spark.source import live as receiver
from amqpforge.spark.source.live import Live
from amqpforge.spark.source.segment import SpoolError
from amqpforge.spark.source.spool import Spool
from amqpforge.spark.source.storage import Folder
from amqpforge.testing import ThreadedBroker
from amqpforge_protocol.amqp_1_0 import Attach, Begin, Disposition, Flow, Open, ProtocolHeader, Role, SaslInit

from .child import start
from .scene import bodies, options, publish, receiving, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

N = 500
_PATIENCE = 60


def take_the_rest(broker: ThreadedBroker, spool: Path) -> None:
    with receiving(options(broker.url, spool), once=True) as live:
        until(lambda: live.is_over, "the end", live)
        live.check()


def test_a_disk_that_is_full_for_real(
    broker: ThreadedBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The system lets the process write so much into a file, and no more."""
    publish(broker.url, N)
    spool = tmp_path / "spool"
    given = {"url": broker.url, "address": "q", "spoolLocation": str(spool)}
    full = start(given, most_octets=10_000)
    assert full.wait(_PATIENCE) == 1
    assert "SpoolError: writing" in (said := capfd.readouterr().err)
    assert "File too large" in said
    until(lambda: broker.queue("q").depth == N, "the return of the messages")
    take_the_rest(broker, spool)
    assert bodies(spool) == list(range(N))


def test_a_folder_that_goes_away_and_comes_back(broker: ThreadedBroker, tmp_path: Path) -> None:
    """As a mount does."""
    spool, away = tmp_path / "spool", tmp_path / "away"
    publish(broker.url, N)
    with receiving(options(broker.url, spool)) as live:
        until(lambda: live.intake.progress.rows == N and not live.spool.unconfirmed, "the first half", live)
        spool.rename(away)
        publish(broker.url, N, start=N)
        until(lambda: live.is_over, "the end")
        with pytest.raises(SpoolError, match=r"writing .* failed: No such file or directory"):
            live.check()
    until(lambda: broker.queue("q").depth == N, "the return of the messages")
    away.rename(spool)
    take_the_rest(broker, spool)
    assert sorted(bodies(spool)) == list(range(2 * N))


def test_a_disk_that_does_not_answer_keeps_the_spool(
    broker: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopping gives up in the end, and leaves the spool to what is still written there."""
    writing, answer, write = threading.Event(), threading.Event(), Folder.write

    def hang(self: Folder, name: str, octets: pa.Buffer) -> None:
        writing.set()
        answer.wait(_PATIENCE)
        write(self, name, octets)

    monkeypatch.setattr(Folder, "write", hang)
    monkeypatch.setattr(receiver, "_END", 0.1)
    monkeypatch.setattr(LoopThread, "end", partialmethod(LoopThread.end, timeout=0.1))
    publish(broker.url, 1)
    live = Live(options(broker.url, tmp_path / "spool"))
    try:
        assert writing.wait(_PATIENCE)
        with pytest.raises(OperationTimedOut, match="'amqpforge spark receiver' does not end within"):
            live.stop()
        with pytest.raises(SpoolError, match="is in use by process"):
            Spool(Folder(tmp_path / "spool"), timeout=0)
    finally:
        answer.set()
    until(lambda: live.is_over, "the end")
    live._thread.end(timeout=_PATIENCE)
    live.spool.close()
    assert bodies(tmp_path / "spool") == [0]
    until(lambda: broker.queue("q").depth == 0, "settling")


def test_two_receivers_with_one_spool(
    broker: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is told so, and the first goes on."""
    monkeypatch.setattr(receiver, "Spool", partial(Spool, timeout=0.2))
    given = options(broker.url, tmp_path / "spool")
    with receiving(given) as first:
        with pytest.raises(SpoolError, match=r"is in use by process \d+ on .*: give each query"):
            Live(given)
        publish(broker.url, N)
        until(lambda: first.intake.progress.rows == N, "all rows", first)
    assert bodies(tmp_path / "spool") == list(range(N))


def query(
    spark: SparkSession, broker: ThreadedBroker, folder: Path, name: str, **given: Any
) -> StreamingQuery:
    """A query with a checkpoint of its own."""
    source = {"url": broker.url, "address": "q", "spoolLocation": str(folder / "spool")} | given
    return (
        spark.readStream.format("amqp")
        .options(**source)
        .load()
        .writeStream.format("parquet")
        .options(path=str(folder / name), checkpointLocation=str(folder / f"checkpoint-{name}"))
        .start()
    )


@pytest.mark.slow
def test_two_queries_with_one_spool_at_a_time(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    publish(broker.url, N)
    first = query(spark, broker, tmp_path, "first")
    try:
        until(lambda: len(broker.queue("q")) == 0, "the first rows")
        second = query(spark, broker, tmp_path, "second")
        with pytest.raises(Exception, match=r"is in use by process \d+ on .*: give each query a 'spool"):
            second.awaitTermination(_PATIENCE)
        publish(broker.url, N, start=N)
        until(lambda: len(broker.queue("q")) == 0, "the other rows")
        first.processAllAvailable()
    finally:
        first.stop()
    found = spark.read.parquet(str(tmp_path / "first")).select("body").collect()
    assert sorted(int(bytes(row.body)) for row in found) == list(range(2 * N))


def test_several_queries_share_a_queue(spark: SparkSession, broker: ThreadedBroker, tmp_path: Path) -> None:
    """Each with a spool of its own."""
    names = ("one", "two")
    queries = [
        query(spark, broker, tmp_path, name, spoolLocation=str(tmp_path / f"spool-{name}"), credit="20")
        for name in names
    ]
    try:
        until(lambda: broker.queue("q").consumers == 2, "both links")
        publish(broker.url, N)
        until(lambda: len(broker.queue("q")) == 0, "settling")
        for one in queries:
            one.processAllAvailable()
    finally:
        for one in queries:
            one.stop()
    shares = [spark.read.parquet(str(tmp_path / name)).select("body").collect() for name in names]
    assert all(shares)
    assert sorted(int(bytes(row.body)) for share in shares for row in share) == list(range(N))


def test_what_is_in_the_spool_is_served_while_the_broker_is_away(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    """Then the query fails, and says why; when the broker is back it goes on."""
    publish(broker.url, N)
    first = query(spark, broker, tmp_path, "out")
    until(lambda: len(broker.queue("q")) == 0, "the first rows")
    first.processAllAvailable()
    first.stop()
    with receiving(options(broker.url, tmp_path / "spool")) as live:
        publish(broker.url, N, start=N)
        until(lambda: live.intake.progress.rows == N and not live.spool.unconfirmed, "spooling", live)
    away = broker.script.on(ProtocolHeader).cut()
    second = query(spark, broker, tmp_path, "out", startTimeout="2")
    with pytest.raises(Exception, match="no way to receive for 2 s, which the option 'startTimeout' sets"):
        second.awaitTermination(_PATIENCE)
    assert away.acted > 1, "it has tried again"
    away.cancel()

    def numbers() -> list[int]:
        found = spark.read.parquet(str(tmp_path / "out")).select("body").collect()
        return sorted(int(bytes(row.body)) for row in found)

    assert numbers() == list(range(2 * N))
    publish(broker.url, N, start=2 * N)
    third = query(spark, broker, tmp_path, "out")
    try:
        until(lambda: len(broker.queue("q")) == 0, "the last rows")
        third.processAllAvailable()
    finally:
        third.stop()
    assert numbers() == list(range(3 * N))


@pytest.mark.parametrize("moment", [ProtocolHeader, SaslInit, Open, Begin, Attach, Flow, Disposition])
def test_stopping_at_any_moment_leaves_nothing_open(
    broker: ThreadedBroker, tmp_path: Path, moment: type[Any]
) -> None:
    publish(broker.url, N)
    seen = threading.Event()
    fields: dict[str, Any] = {"role": Role.RECEIVER} if moment is Disposition else {}
    broker.script.on(moment, times=1, **fields).do(lambda _: seen.set())
    live = Live(options(broker.url, tmp_path / "spool", credit=20))
    assert seen.wait(_PATIENCE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        live.stop()
        assert live.is_over
        del live
        gc.collect()
    assert not [one for one in caught if issubclass(one.category, ResourceWarning)]
    take_the_rest(broker, tmp_path / "spool")
    assert sorted(bodies(tmp_path / "spool")) == list(range(N))

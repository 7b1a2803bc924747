"""kill -9 of the Python process of a task, again and again: it is run again, on the same files."""

from __future__ import annotations

import os
import random
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amqpforge.testing import ThreadedBroker

from .fragile import DestructiveSource, FragileSource, deaths, plan_deaths
from .scene import publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: ``make chaos`` asks for more.
ROUNDS = int(os.environ.get("AMQPFORGE_SPARK_CHAOS_ROUNDS", "5"))
N = 400 * ROUNDS
_PATIENCE = 120 + 10 * ROUNDS


def run(spark: SparkSession, broker: ThreadedBroker, folder: Path, source: type[FragileSource]) -> None:
    """Take what is there; tasks have about four batches of rows, and none is hit twice."""
    chance = random.Random(ROUNDS)
    plan_deaths(folder, list(accumulate(chance.randrange(6, 9) for _ in range(ROUNDS))))
    publish(broker.url, N)
    spark.dataSource.register(source)
    query = (
        spark.readStream.format(source.name())
        .options(
            url=broker.url,
            address="q",
            spoolLocation=str(folder / "spool"),
            maxRowsPerBatch="200",
            credit="100",
        )
        .load()
        .writeStream.format("parquet")
        .options(path=str(folder / "out"), checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(_PATIENCE)
    finally:
        query.stop()


def test_a_task_that_is_killed_is_run_again(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    run(spark, broker, tmp_path, FragileSource)
    assert deaths(tmp_path) == ROUNDS
    found = spark.read.parquet(str(tmp_path / "out")).select("body").collect()
    assert sorted(int(bytes(row.body)) for row in found) == list(range(N))
    assert len(broker.queue("q")) == 0


def test_a_task_that_takes_away_what_it_reads_is_found_out(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="is not there: the spool has to be on storage"):
        run(spark, broker, tmp_path, DestructiveSource)
    assert deaths(tmp_path) > 0

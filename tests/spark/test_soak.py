"""Many messages, once, from a broker with a store through a stream into Parquet, in bounded space.

``make soak`` asks for a million.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

import amqpforge
from amqpforge import blocking
from tests.spark.processes import RECEIVER, find, peak
from tests.spark.source.lasting import lasting
from tests.spark.source.scene import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

N = int(os.environ.get("AMQPFORGE_SOAK_MESSAGES", "100000"))
PADDING = bytes(200)
SPOOL = 4 << 20
"""Octets that may wait in the spool."""
MOST_SPOOL = 3 * SPOOL
"""With what is committed and not yet deleted, and one segment beyond the limit."""
MOST_MEMORY = 400 << 20
_PATIENCE = 60.0 + N / 1000
_log = logging.getLogger("soak")


def send(url: str, failures: list[BaseException]) -> None:
    """Send the messages: bodies of a number and padding."""
    try:
        with blocking.connect(url) as connection, connection.sender("q") as sender:
            for start in range(0, N, 5000):
                sender.send_many(
                    [
                        amqpforge.Message(b"%012d" % number + PADDING, message_id=str(number), durable=True)
                        for number in range(start, min(start + 5000, N))
                    ]
                )
    except BaseException as error:
        failures.append(error)
        raise


@contextmanager
def sending(url: str) -> Iterator[Callable[[], None]]:
    """Send while the block lasts; what is given tells if that has failed."""
    failures: list[BaseException] = []

    def check() -> None:
        assert not failures

    thread = threading.Thread(target=send, args=(url, failures))
    thread.start()
    try:
        yield check
    finally:
        thread.join()


class Watch:
    """The most that a query was seen to need.

    Attributes:
        spool: octets of the files of its spool.
        memory: octets of the process that receives.
    """

    def __init__(self, query: StreamingQuery, spool: Path) -> None:
        self.spool = self.memory = 0
        self._query = query
        self._folder = spool
        self._receivers: list[int] = []

    def received(self) -> int:
        """How many messages the query has received; looks at what it needs too."""
        assert self._query.isActive, self._query.exception()
        sizes = 0
        for path in self._folder.glob("*.arrow"):
            try:
                sizes += path.stat().st_size
            except FileNotFoundError:
                continue
        self.spool = max(self.spool, sizes)
        self._receivers = self._receivers or find(RECEIVER)
        self.memory = max(self.memory, *map(peak, self._receivers), 0)
        progress = self._query.lastProgress
        if progress is None:
            return 0
        told: dict[str, Any] = json.loads(progress.json)["sources"][0]["latestOffset"] or {}
        return int(told.get("rows", 0))


def test_each_message_once_in_bounded_space(
    spark: SparkSession, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    out, spool = tmp_path / "out", tmp_path / "spool"
    with lasting(tmp_path / "broker", "q") as broker, sending(broker.url) as check:
        query = (
            spark.readStream.format("amqp")
            .options(url=broker.url, address="q", spoolLocation=str(spool), spoolMaxBytes=str(SPOOL))
            .load()
            .select(F.substring(F.col("body").cast("string"), 1, 12).cast("long").alias("number"), "_corrupt")
            .writeStream.format("parquet")
            .option("path", str(out))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        watch = Watch(query, spool)
        try:

            def is_received() -> bool:
                check()
                return watch.received() >= N

            until(is_received, "the last message", patience=_PATIENCE)
            query.processAllAvailable()
        finally:
            query.stop()
        until(lambda: broker.messages("q") == 0, "settling")
    for name, octets in (("spool", watch.spool), ("memory of the receiver", watch.memory)):
        record_property(name, octets)
        _log.info("%d messages, %s: at most %.1f MiB", N, name, octets / (1 << 20))
    found = spark.read.parquet(str(out)).agg(
        F.count("number"), F.count_distinct("number"), F.min("number"), F.max("number"), F.count("_corrupt")
    )
    assert tuple(found.collect()[0]) == (N, N, 0, N - 1, 0)
    assert SPOOL < watch.spool < MOST_SPOOL
    assert 0 < watch.memory < MOST_MEMORY

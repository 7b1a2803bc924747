"""A peer that turns out to speak 0-9-1 is named: by a batch, by a stream, and by what writes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE = 60
SAYS = r"AMQP 0-9-1|0\.9\.1|0-9-1"


@pytest.fixture
def url() -> Iterator[str]:
    """A peer that answers each header with that of 0-9-1, and closes, as RabbitMQ does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(8)
                    peer.sendall(b"AMQP\x00\x00\x09\x01")

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"amqp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)  # It ends the accept.
        thread.join()


def test_by_a_batch(spark: SparkSession, url: str) -> None:
    with pytest.raises(Exception, match=SAYS):
        spark.read.format("amqp").options(url=url, address="q").load().count()


def test_by_a_stream(spark: SparkSession, url: str, tmp_path: Path) -> None:
    query = (
        spark.readStream.format("amqp")
        .options(url=url, address="q", spoolLocation=str(tmp_path / "spool"))
        .load()
        .writeStream.format("parquet")
        .options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
        .start()
    )
    with pytest.raises(Exception, match=SAYS):
        query.awaitTermination(_PATIENCE)


def test_by_what_writes(spark: SparkSession, url: str) -> None:
    table = spark.range(1).selectExpr("id AS body_value")
    with pytest.raises(Exception, match=SAYS):
        table.write.format("amqp").options(url=url, address="q").mode("append").save()

"""Every type of AMQP, nulls and large bodies: from a queue into rows, and from rows into a queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from amqpforge import Message
from amqpforge.testing import ScriptedBroker, ThreadedBroker
from amqpforge_protocol.amqp_1_0 import Disposition, Role
from tests.spark.processes import RECEIVER, find, peak

from .everything import ENVELOPE, compound, forward, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEN = 10 << 20
"""Octets of a large body."""
LARGE = 24
"""Messages with one: more than the memory that receiving may take."""
MOST_MEMORY = 220 << 20


@pytest.fixture
def broker() -> Iterator[ThreadedBroker]:
    """With the queues ``q`` and ``r``."""
    with ScriptedBroker.threaded() as broker:
        broker.declare_queue("q")
        broker.declare_queue("r")
        yield broker


def node(broker: ThreadedBroker, address: str) -> dict[str, str]:
    return {"url": broker.url, "address": address}


def rows(spark: SparkSession, broker: ThreadedBroker, address: str) -> list[dict[str, Any]]:
    """What a node holds, as rows, but for what is about deliveries; in the order of what they are."""
    frame = spark.read.format("amqp").options(**node(broker, address)).load().drop(*ENVELOPE)
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=repr)


def test_rows_written_and_read_again_are_the_same_rows(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    sent = [*plain(), *compound()]
    for message in sent:
        broker.put("q", message)
    octets = sorted(message.encode() for message in broker.messages("q"))
    before = rows(spark, broker, "q")
    assert len(before) == len(sent)
    forward(spark, tmp_path, node(broker, "q"), node(broker, "r"))
    assert len(broker.queue("q")) == 0
    assert rows(spark, broker, "r") == before
    assert sorted(message.encode() for message in broker.messages("r")) == octets


def test_large_bodies_take_little_memory(
    spark: SparkSession,
    broker: ThreadedBroker,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """They come in many frames; what is under way at a time is what the credit allows."""
    for number in range(LARGE):
        broker.put("q", Message(number.to_bytes(1, "big") * TEN, message_id=str(number)))
    most = 0

    def watch(_: object) -> None:
        nonlocal most
        most = max([most, *map(peak, find(RECEIVER))])

    broker.script.on(Disposition, role=Role.RECEIVER).do(watch)
    source = node(broker, "q") | {"credit": "2", "maxRowsPerBatch": "4"}
    forward(spark, tmp_path, source, node(broker, "r") | {"window": "2"})
    found = {str(message.message_id): message.body for message in broker.messages("r")}
    assert sorted(map(int, found)) == list(range(LARGE))
    assert all(body == int(id).to_bytes(1, "big") * TEN for id, body in found.items())
    record_property("memory of the receiver", most)
    assert 0 < most < MOST_MEMORY


def test_what_is_no_message_stops_neither_rows_nor_query(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    """It is a row of its own, or is rejected, as the query likes it."""
    poison = Message.from_octets(b"\x00\x53", 0x7F00)
    for options, wanted in (({}, [False, True, False]), ({"undecodable": "reject"}, [False, False])):
        folder = tmp_path / str(len(wanted))
        for message in (Message(b"1"), poison, Message(b"2")):
            broker.put("q", message)
        given = node(broker, "q") | {"spoolLocation": str(folder / "spool")} | options
        query = (
            spark.readStream.format("amqp")
            .options(**given)
            .load()
            .writeStream.format("parquet")
            .options(path=str(folder / "out"), checkpointLocation=str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        assert query.exception() is None
        found = spark.read.parquet(str(folder / "out")).collect()
        assert sorted(row._corrupt is not None for row in found) == sorted(wanted)
        assert {bytes(row.body) for row in found if row._corrupt is None} == {b"1", b"2"}
        assert [bytes(row._corrupt.octets) for row in found if row._corrupt] == [b"\x00\x53"] * sum(wanted)
        assert len(broker.queue("q")) == 0
    assert broker.queue("q").counters.rejected == 1


def test_several_addresses_and_patterns_in_a_stream(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    for number, name in enumerate(("orders.a", "orders.b", "paid,late", "other")):
        broker.declare_queue(name)
        broker.put(name, Message(b"%d" % number))
    broker.declare_queue("out")
    source = node(broker, '["orders.?", "paid,late"]')
    forward(spark, tmp_path, source, node(broker, "out"))
    assert sorted(message.body for message in broker.messages("out")) == [b"0", b"1", b"2"]
    assert len(broker.queue("other")) == 1

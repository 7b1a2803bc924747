"""``spark.read.format("amqp")``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StructType

import amqpforge
import amqpforge_protocol.amqp_1_0 as amqp
from amqpforge import blocking
from amqpforge.broker.config import BrokerConfig
from amqpforge.broker.limits import BrokerLimits
from amqpforge.testing import ScriptedBroker, ThreadedBroker
from amqpforge_spark.amqp_1_0 import MESSAGE

from .scene import NO_MESSAGE, publish, publish_no_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

N = 1500


def read(spark: SparkSession, broker: ThreadedBroker, **options: str) -> DataFrame:
    given = {"url": broker.url, "address": "q"} | options
    return spark.read.format("amqp").options(**given).load()


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(bytes(row.body)) for row in frame.select("body").collect())


def test_a_batch_copies_what_is_there(spark: SparkSession, broker: ThreadedBroker) -> None:
    publish(broker.url, N)
    broker.declare_queue("other")
    publish(broker.url, 10, start=N, address="other")
    frame = read(spark, broker, address="q,oth*", credit="400")
    assert numbers(frame) == list(range(N + 10))
    assert numbers(frame.where("address = 'other'")) == list(range(N, N + 10))
    row = frame.where("properties.message_id.string = 'q/7'").first()
    assert row is not None
    assert (row.address, bytes(row.body), row.body_kind, row._corrupt) == ("q", b"7", "data", None)
    assert broker.queue("q").depth == N


def test_a_batch_copies_all_that_a_peer_has_which_limits_what_is_unsettled(spark: SparkSession) -> None:
    with ScriptedBroker.threaded(BrokerConfig(limits=BrokerLimits(unsettled_per_link=50))) as broker:
        broker.declare_queue("q")
        publish(broker.url, N)
        assert numbers(read(spark, broker, credit="400")) == list(range(N))


def test_an_empty_node_has_no_rows(spark: SparkSession, broker: ThreadedBroker) -> None:
    assert read(spark, broker).count() == 0


def test_what_cannot_be_decoded_is_a_row(spark: SparkSession, broker: ThreadedBroker) -> None:
    publish(broker.url, 1)
    publish_no_message(broker.url)
    rows = read(spark, broker).select("body", "_corrupt").collect()
    assert [row._corrupt is None for row in rows] == [True, False]
    assert bytes(rows[1]._corrupt.octets) == NO_MESSAGE


@pytest.mark.parametrize("mode", ["browse", "consume"])
def test_a_batch_has_the_columns_that_are_named(
    mode: str, spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    publish(broker.url, 2)
    with blocking.connect(broker.url) as connection, connection.sender("q") as sender:
        annotated = amqp.Message(message_annotations={amqp.ULong(7): "b"}, body=[amqp.Data(b"2")])
        sender.send(amqpforge.Message.from_octets(amqp.encode_message(annotated)))
    publish_no_message(broker.url)
    given = {"spoolLocation": str(tmp_path / "spool")} if mode == "consume" else {}
    frame = read(spark, broker, mode=mode, columns="body, address", **given)
    assert frame.schema == StructType([MESSAGE[name] for name in ("body", "address", "_rest", "_corrupt")])
    rest = '{"message_annotations":[[{"type":"ulong","value":"7"},"b"]]}'
    *good, bad = [tuple(row) for row in frame.collect()]
    assert good == [(b"0", "q", None, None), (b"1", "q", None, None), (b"2", "q", rest, None)]
    assert (*bad[:3], bytes(bad[3].octets)) == (None, "q", None, NO_MESSAGE)


def test_a_batch_consumes_into_a_spool(spark: SparkSession, broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, N)
    given = {"mode": "consume", "spoolLocation": str(tmp_path / "spool")}
    frame = read(spark, broker, **given)
    assert numbers(frame) == list(range(N))
    assert len(broker.queue("q")) == 0
    publish(broker.url, 10, start=N)
    assert numbers(frame) == list(range(N))
    assert numbers(read(spark, broker, **given)) == list(range(N + 10))


def test_a_batch_of_more_than_the_spool_may_hold(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    """Nothing makes room while a batch is read: it is an error, and what was taken comes later."""
    publish(broker.url, N)
    given = {"mode": "consume", "spoolLocation": str(tmp_path / "spool"), "credit": "10"}
    with pytest.raises(Exception, match=r"the peer has more: the option 'spoolMaxBytes' is 1000\. Give it"):
        read(spark, broker, **given, spoolMaxBytes="1000").count()
    assert 0 < len(broker.queue("q")) < N
    assert numbers(read(spark, broker, **given)) == list(range(N))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"adress": "x"}, "option 'adress' is not known for reading a batch"),
        ({"columns": "bodi"}, "option 'columns' names 'bodi', which is not known"),
        ({"url": "amqp://me:geheim@localhost"}, "option 'url' names a user"),
        ({"address": "nowhere"}, "nowhere"),
        (
            {"user": "me", "passwordEnv": "NO_SUCH_VARIABLE"},
            "names 'NO_SUCH_VARIABLE', which is not set here",
        ),
    ],
)
def test_what_is_wrong_is_said(
    spark: SparkSession, broker: ThreadedBroker, options: dict[str, str], says: str
) -> None:
    with pytest.raises(Exception) as caught:
        read(spark, broker, **options).count()
    assert says in str(caught.value)
    assert "geheim" not in str(caught.value)

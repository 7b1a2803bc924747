"""``df.write.format("amqp")`` in a real Spark session: what arrives, and what is not accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from amqpforge import blocking
from amqpforge.message import Message
from amqpforge.testing import ScriptedBroker, ThreadedBroker
from amqpforge_protocol.amqp_1_0 import AmqpError, Attach, Data, Transfer, UInt
from amqpforge_spark.amqp_1_0 import MessageColumns
from tests.interop import rabbitmq
from tests.spark.sink.test_encoding import VALUES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).select(F.col("id").alias("body_value"))


def write(table: DataFrame, broker: ThreadedBroker, address: str | None = "q", **options: Any) -> None:
    options |= {"url": broker.url} | ({} if address is None else {"address": address})
    table.write.format("amqp").options(**options).mode("append").save()


def bodies(broker: ThreadedBroker, queue: str = "q") -> list[Any]:
    return [message.body for message in broker.messages(queue)]


def as_read(spark: SparkSession, octets: list[bytes], address: str) -> DataFrame:
    """Rows as the source gives them."""
    columns = MessageColumns()
    for one in octets:
        columns.append(one, address=address, link="l", delivery_tag=b"t", received_at=1)
    return spark.createDataFrame(pa.Table.from_batches([columns.finish()]))


def test_rows_arrive_with_ids_of_their_own(spark: SparkSession, broker: ThreadedBroker) -> None:
    table = numbers(spark, 500, 3).withColumn("subject", F.lit("a subject"))
    write(table, broker)
    messages = broker.messages("q")
    assert sorted(message.body for message in messages) == list(range(500))
    assert {message.subject for message in messages} == {"a subject"}
    assert len({str(message.message_id) for message in messages}) == 500
    writes = {tuple(str(message.message_id).split(":")[:2]) for message in messages}
    assert {partition for _, partition in writes} == {"0", "1", "2"}
    assert len({name for name, _ in writes}) == 1
    assert broker.accepted == 3


def test_two_writes_of_one_table_are_two_sets_of_messages(
    spark: SparkSession, broker: ThreadedBroker
) -> None:
    write(numbers(spark, 10), broker, "once")
    write(numbers(spark, 10), broker, "once")
    assert len(bodies(broker, "once")) == 20


def test_a_write_with_a_name_can_be_done_again(spark: SparkSession, broker: ThreadedBroker) -> None:
    write(numbers(spark, 10), broker, "once", writeId="nightly-7")
    write(numbers(spark, 10), broker, "once", writeId="nightly-7")
    assert sorted(bodies(broker, "once")) == list(range(10))


def test_messages_that_were_read_arrive_as_they_were(spark: SparkSession, broker: ThreadedBroker) -> None:
    sent = [Message(value, message_id=f"m{number}").encode() for number, value in enumerate(VALUES)]
    sent.append(
        Message(
            [Data(b"a"), Data(b"b")],
            message_id="all",
            priority=7,
            application_properties={"u": UInt(1), "n": None},
            annotations={"x-opt-a": 1},
            footer={"x-opt-f": b"f"},
            group_sequence=4,
        ).encode()
    )
    write(as_read(spark, sent, "q").coalesce(1), broker, address=None)
    assert [message.encode() for message in broker.messages("q")] == sent


def test_what_one_queue_holds_is_copied_into_another(spark: SparkSession, broker: ThreadedBroker) -> None:
    for number, value in enumerate(VALUES):
        broker.put("q", Message(value, message_id=f"m{number}", annotations={"x-opt-a": number}))
    rows = spark.read.format("amqp").options(url=broker.url, address="q").load()
    write(rows, broker, "dead")
    sent = {str(one.message_id): one.encode() for one in broker.messages("q")}
    assert {str(one.message_id): one.encode() for one in broker.messages("dead")} == sent
    assert len(sent) == len(VALUES)


def test_nulls_and_an_address_in_each_row(spark: SparkSession, broker: ThreadedBroker) -> None:
    rows = [("q", "one", None), ("dead", None, "s"), ("q", "two", "t")]
    table = spark.createDataFrame(rows, "address string, body_value string, subject string").coalesce(1)
    write(table, broker, address=None, messageId="keep")
    assert [(one.body, one.subject) for one in broker.messages("q")] == [("one", None), ("two", "t")]
    (other,) = broker.messages("dead")
    assert (other.body, other.subject, other.message_id) == (None, "s", None)


def test_a_body_of_ten_mebioctets(spark: SparkSession, broker: ThreadedBroker) -> None:
    table = spark.range(3).select(F.repeat(F.lit("x"), 10 << 20).cast("binary").alias("body")).coalesce(1)
    write(table, broker)
    assert [len(body) for body in bodies(broker)] == [10 << 20] * 3


def test_a_table_that_does_not_fit_is_refused_before_anything_is_sent(
    spark: SparkSession, broker: ThreadedBroker
) -> None:
    with pytest.raises(PySparkException, match=r"column 'colour' \(string\) has no place in a message"):
        write(numbers(spark, 5).withColumn("colour", F.lit("red")), broker)
    assert broker.accepted == 0


def test_overwriting_is_refused(spark: SparkSession, broker: ThreadedBroker) -> None:
    writer = numbers(spark, 5).write.format("amqp").options(url=broker.url, address="q")
    with pytest.raises(PySparkException, match="a write does not empty a node"):
        writer.mode("overwrite").save()


def test_a_rejected_row_fails_with_its_place_and_the_condition(
    spark: SparkSession, broker: ThreadedBroker
) -> None:
    broker.script.on(Transfer, skip=7).refuse(AmqpError.NOT_ALLOWED, "only seven")
    with pytest.raises(PySparkException) as caught:
        write(numbers(spark, 20, 1), broker)
    text = str(caught.value)
    assert "partition 0, row 0: it was rejected (amqp:not-allowed: only seven) by 'q'" in text
    assert broker.accepted == 4, "each attempt has a connection of its own"


def test_rejected_rows_go_to_the_dead_letter_address(spark: SparkSession, broker: ThreadedBroker) -> None:
    broker.script.on(Transfer, skip=7, times=2).refuse(AmqpError.NOT_ALLOWED)
    write(numbers(spark, 20, 1), broker, deadLetterAddress="dead")
    assert sorted(bodies(broker) + bodies(broker, "dead")) == list(range(20))
    assert len(bodies(broker, "dead")) == 2


def test_a_password_is_shown_nowhere(
    spark: SparkSession, capfd: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    secret = "hush-hush"
    with ScriptedBroker.threaded(passwords={"me": secret}) as broker:
        broker.declare_queue("q")
        broker.script.on(Attach).refuse("amqp:unauthorized-access")
        with pytest.raises(PySparkException) as caught:
            write(numbers(spark, 1, 1), broker, user="me", password=secret, allowInsecurePlain="true")
        broker.script.clear()
        file = tmp_path / "password"
        file.write_text(secret + "\n")
        write(numbers(spark, 1, 1), broker, user="me", passwordFile=str(file), allowInsecurePlain="true")
        assert bodies(broker) == [0]
    assert "amqp:unauthorized-access" in str(caught.value)
    shown = capfd.readouterr()
    session: Any = spark
    executions = session._jsparkSession.sharedState().statusStore().executionsList()
    plans = "".join(
        one.physicalPlanDescription() + one.details()
        for one in map(executions.apply, range(executions.size()))
    )
    assert "amqp" in plans
    assert secret not in str(caught.value) + shown.out + shown.err + plans


# --- RabbitMQ ---


def test_rows_arrive_at_rabbitmq(spark: SparkSession, rabbit: rabbitmq.Broker) -> None:
    address = rabbit.declare("sink")
    table = spark.range(0, 300, 1, 2).select(
        F.col("id").cast("string").cast("binary").alias("body"),
        F.lit("text/plain").alias("content_type"),
        F.lit(True).alias("durable"),
        F.create_map(F.lit("id"), F.col("id")).alias("application_properties"),
    )
    table.write.format("amqp").options(
        url=rabbit.url, address=address, user=rabbitmq.USER, password=rabbitmq.PASSWORD
    ).mode("append").save()
    assert rabbit.depth("sink") == 300
    with (
        blocking.connect(rabbit.url, username=rabbitmq.USER, password=rabbitmq.PASSWORD) as connection,
        connection.receiver(address) as receiver,
    ):
        got = [receiver.receive().message for _ in range(300)]
    assert sorted(int(message.body) for message in got) == list(range(300))
    assert all(message.application_properties == {"id": int(message.body)} for message in got)
    assert {(message.content_type, message.durable) for message in got} == {("text/plain", True)}
    assert len({str(message.message_id) for message in got}) == 300


def test_rabbitmq_has_no_transactions_and_that_is_said(spark: SparkSession, rabbit: rabbitmq.Broker) -> None:
    address = rabbit.declare("transactional")
    writer = numbers(spark, 10, 1).write.format("amqp").options(url=rabbit.url, address=address)
    with pytest.raises(PySparkException, match="transactional=true needs a peer that has transactions"):
        writer.options(transactional="true", timeout="5").mode("append").save()
    assert rabbit.depth("transactional") == 0

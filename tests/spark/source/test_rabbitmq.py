"""Reading and writing with RabbitMQ, which refuses settle mode second, keeps no links, and is better not
drained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amqpforge import Message, blocking
from amqpforge_protocol.amqp_1_0 import encode_message
from tests.interop import rabbitmq
from tests.interop.certificates import make
from tests.interop.stacks import need

from .everything import compound, forward, plain
from .scene import bodies, options, receiving, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N = 500
TEN = 10 << 20
SPOILT = ("list-1", "array-0", "sequences", "annotated", "several", None)
"""Messages that RabbitMQ 3.10 does not pass on as they are: it drops the connection of who sends lists of
several elements, arrays or sequences, turns round the order of sections of data, and makes the name of the
queue the subject of what has no properties.
"""


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rabbitmq.Broker]:
    """A RabbitMQ broker."""
    need(rabbitmq.what_is_missing())
    certificates = make(tmp_path_factory.mktemp("certificates"))
    with rabbitmq.broker(tmp_path_factory.mktemp("rabbitmq"), certificates) as running:
        yield running


def test_each_message_once(rabbit: rabbitmq.Broker, tmp_path: Path) -> None:
    address = rabbit.declare("spooled")
    for number in range(N):
        rabbit.publish("spooled", b"%d" % number, message_id=str(number))
    given = options(
        rabbit.url, tmp_path / "spool", address=address, user="guest", password="guest", credit=100
    )
    with receiving(given) as live:
        until(lambda: live.intake.progress.rows > N // 2, "some rows", live)
    with receiving(given, once=True) as live:
        until(lambda: live.is_over, "the end", live)
        live.check()
        assert not live.spool.unconfirmed
    assert sorted(bodies(tmp_path / "spool")) == list(range(N))
    assert rabbit.depth("spooled") == 0


def test_several_links(rabbit: rabbitmq.Broker, tmp_path: Path) -> None:
    """It ends the session of who asks for settle mode second, and with it the links that are there."""
    addresses = [rabbit.declare(name) for name in ("left", "right")]
    for number in range(100):
        rabbit.publish(("left", "right")[number % 2], b"%d" % number, message_id=str(number))
    given = options(
        rabbit.url,
        tmp_path / "spool",
        address=",".join(addresses),
        user="guest",
        password="guest",
        receivers=2,
    )
    with receiving(given, once=True) as live:
        until(lambda: live.is_over, "the end", live)
        live.check()
        assert live.intake.progress.connections == 1
    assert sorted(bodies(tmp_path / "spool")) == list(range(100))


def node(rabbit: rabbitmq.Broker, address: str) -> dict[str, str]:
    return {"url": rabbit.url, "address": address, "user": rabbitmq.USER, "password": rabbitmq.PASSWORD}


def bare(message: Message) -> bytes:
    """A message without what belongs to its way through a broker."""
    sections = replace(message.sections, header=None, delivery_annotations={}, message_annotations={})
    return encode_message(sections)


def take(rabbit: rabbitmq.Broker, address: str, count: int) -> list[Message]:
    """Take so many messages from a node."""
    with (
        blocking.connect(rabbit.url, username=rabbitmq.USER, password=rabbitmq.PASSWORD) as connection,
        connection.receiver(address) as receiver,
    ):
        return [receiver.receive().message for _ in range(count)]


def send(rabbit: rabbitmq.Broker, address: str, messages: list[Message]) -> None:
    with (
        blocking.connect(rabbit.url, username=rabbitmq.USER, password=rabbitmq.PASSWORD) as connection,
        connection.sender(address) as sender,
    ):
        for message in messages:
            sender.send(message)


def test_what_goes_through_rows_is_what_goes_through_rabbitmq_alone(
    spark: SparkSession, rabbit: rabbitmq.Broker, tmp_path: Path
) -> None:
    """It changes messages by itself: those that it was sent are compared with those that went on by rows."""
    sent = [message for message in (*plain(), *compound()) if message.message_id not in SPOILT]
    alone, source, sink = (rabbit.declare(name) for name in ("alone", "source", "sink"))
    send(rabbit, alone, sent)
    send(rabbit, source, sent)
    forward(spark, tmp_path, node(rabbit, source), node(rabbit, sink))
    assert rabbit.depth("source") == 0
    assert rabbit.depth("sink") == rabbit.depth("alone") == len(sent)
    once, twice = (sorted(map(bare, take(rabbit, name, len(sent)))) for name in (alone, sink))
    assert twice == once


def test_bodies_of_ten_mebioctets(spark: SparkSession, rabbit: rabbitmq.Broker, tmp_path: Path) -> None:
    source, sink = rabbit.declare("large"), rabbit.declare("larger")
    send(rabbit, source, [Message(bytes([number]) * TEN, message_id=str(number)) for number in range(4)])
    forward(spark, tmp_path, node(rabbit, source) | {"credit": "2"}, node(rabbit, sink) | {"window": "2"})
    found = {str(message.message_id): message.body for message in take(rabbit, sink, 4)}
    assert found == {str(number): bytes([number]) * TEN for number in range(4)}

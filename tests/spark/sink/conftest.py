"""Brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amqpforge.testing import ScriptedBroker, ThreadedBroker
from tests.interop import rabbitmq
from tests.interop.certificates import make
from tests.interop.stacks import need


@pytest.fixture
def broker() -> Iterator[ThreadedBroker]:
    """With the queues ``q`` and ``dead``, and ``once``, which drops what repeats a message-id."""
    with ScriptedBroker.threaded() as broker:
        broker.declare_queue("q")
        broker.declare_queue("dead")
        broker.declare_queue("once", duplicate_window=100_000)
        yield broker


@pytest.fixture(scope="session")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rabbitmq.Broker]:
    """A RabbitMQ broker."""
    need(rabbitmq.what_is_missing())
    certificates = make(tmp_path_factory.mktemp("certificates"))
    with rabbitmq.broker(tmp_path_factory.mktemp("rabbitmq"), certificates) as running:
        yield running

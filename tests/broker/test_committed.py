"""Who wants to know whether work succeeded uses a transaction: a commit is answered once it is stored."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import amqpforge
from amqpforge.broker.broker import Broker
from amqpforge.broker.config import BrokerConfig, ListenerConfig
from amqpforge.broker.settings import QueueSettings
from tests.client.loops import in_loop


def a_broker(folder: Path) -> Broker:
    return Broker(BrokerConfig(listeners=(ListenerConfig(port=0),), store=f"sqlite:{folder / 'broker.db'}"))


async def stored(folder: Path, copy: Path) -> int:
    """How many messages are in the files of a broker that goes on running."""
    shutil.copytree(folder, copy)
    async with a_broker(copy) as broker:
        queue = broker.hosts["/"].queues.get("q")  # It may be on its way there, too.
        return 0 if queue is None else queue.ready


@in_loop
@pytest.mark.spec("A-CLASS-012")
async def test_a_commit_is_answered_once_its_messages_are_in_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "running"
    folder.mkdir()
    async with a_broker(folder) as broker:
        broker.hosts["/"].declare_queue("q", QueueSettings(durable=True))
        async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
            async with connection.transaction() as transaction:
                for number in range(10):
                    message = amqpforge.Message(number, durable=True)
                    await sender.send(message, transaction=transaction)
                assert await stored(folder, tmp_path / "before") == 0
            assert await stored(folder, tmp_path / "after") == 10

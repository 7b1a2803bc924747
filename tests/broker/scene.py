"""A broker with somebody on it who does nothing wrong, and is not to suffer from those who do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import amqpforge
from amqpforge import Connection, Message, Receiver, Sender
from amqpforge.broker.broker import Broker
from amqpforge.broker.config import BrokerConfig, ListenerConfig, VirtualHostConfig
from amqpforge.broker.limits import BrokerLimits
from amqpforge.broker.settings import QueueSettings

__all__ = ["HONEST", "Scene", "scene"]

HONEST = {"kept": QueueSettings(durable=True), "live": QueueSettings()}
"""The queues of whoever does nothing wrong."""
_PATIENCE = 5.0


class Scene:
    """A broker that runs, and a client on it.

    Attributes:
        broker: the broker.
        connection: the client's connection.
        accepted: the bodies of the durable messages that the broker has accepted from the client.
    """

    def __init__(self, broker: Broker, connection: Connection) -> None:
        self.broker = broker
        self.connection = connection
        self.accepted: list[int] = []
        self._there: Sender | None = None
        self._kept: Sender | None = None
        self._back: Receiver | None = None

    @property
    def url(self) -> str:
        return self.broker.url

    async def works(self) -> None:
        """The client is served: a durable message is accepted, and another one comes back to it."""
        if self._there is None or self._kept is None or self._back is None:
            self._there = await self.connection.sender("live")
            self._kept = await self.connection.sender("kept")
            self._back = await self.connection.receiver("live")
        number = len(self.accepted)
        await self._kept.send(Message(number, durable=True), timeout=_PATIENCE)
        self.accepted.append(number)
        await self._there.send(Message(number), timeout=_PATIENCE)
        assert (await self._back.receive(timeout=_PATIENCE)).message.body == number


@asynccontextmanager
async def scene(
    folder: Path,
    *,
    limits: Mapping[str, Any] | None = None,
    queues: Mapping[str, QueueSettings] | None = None,
    passwords: Mapping[str, str] | None = None,
    login: Mapping[str, Any] | None = None,
    host: Mapping[str, Any] | None = None,
    **config: Any,
) -> AsyncIterator[Scene]:
    """Run a broker with a store on disk; see before, after, and after a restart that the client is served.

    Args:
        folder: for the store; there is no restart if ``store`` says that it is in memory.
        limits: of the broker.
        queues: besides those of the client.
        passwords: users.
        login: how the client logs in.
        host: more about the virtual host.
        config: more about the broker.
    """
    config["listeners"] = (ListenerConfig(port=0),)
    config["limits"] = BrokerLimits(**(limits or {}))
    config["virtual_hosts"] = {"/": VirtualHostConfig(queues={**HONEST, **(queues or {})}, **(host or {}))}
    config.setdefault("store", f"sqlite:{folder / 'broker.db'}")
    async with (
        Broker(BrokerConfig(**config), passwords=passwords) as broker,
        amqpforge.connect(broker.url, reconnect=None, **(login or {})) as connection,
    ):
        on = Scene(broker, connection)
        await on.works()
        yield on
        await on.works()
    if config["store"] == "memory":
        return
    async with Broker(BrokerConfig(**config), passwords=passwords) as broker:
        assert broker.hosts["/"].queue("kept").ready == len(on.accepted)
        async with (
            amqpforge.connect(broker.url, reconnect=None, **(login or {})) as connection,
            connection.receiver("kept") as receiver,
        ):
            there = [(await receiver.receive(timeout=_PATIENCE)).message.body for _ in on.accepted]
    assert there == on.accepted

"""The stage of the scenarios that a client plays with our broker."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count as numbers
from pathlib import Path
from typing import Any

from amqpforge import Connection, Message, connect
from amqpforge.broker.amqp_1_0.head import Head
from amqpforge.broker.broker import Broker
from amqpforge.broker.config import BrokerConfig, ListenerConfig
from amqpforge.broker.exchanges import Binding, Destination
from amqpforge.broker.host import VirtualHost
from amqpforge.broker.settings import ExchangeSettings, QueueSettings
from tests.interop.certificates import Certificates
from tests.interop.handles import ForeignClient
from tests.interop.relay import Relay
from tests.interop.stacks import Kind

SECONDS = 5.0
"""What each step of our side may take."""

_numbers = numbers(1)


def configured(
    *, listeners: Sequence[ListenerConfig] = (ListenerConfig(port=0),), **options: Any
) -> BrokerConfig:
    """How a broker on a free port is set up."""
    return BrokerConfig(listeners=listeners, **options)


@dataclass(frozen=True, slots=True)
class Ground:
    """A broker, and what stands between it and the client."""

    broker: Broker
    relay: Relay
    _own: list[Connection] = field(default_factory=list[Connection])

    @property
    def host(self) -> VirtualHost:
        """The usual virtual host."""
        return self.broker.hosts["/"]

    @property
    def heads(self) -> list[Head]:
        """The connections of clients, without our own."""
        service = self.broker._amqp_1_0
        assert service is not None
        return [head for head in service.heads if head.peer != "set up"]

    async def own(self) -> Connection:
        """A connection to set up and to look with, past the relay."""
        if not self._own or not self._own[0].is_open:
            self._own[:] = [await connect(self.broker.url, container_id="set up", timeout=SECONDS)]
        return self._own[0]

    async def leave(self) -> None:
        """Close what was opened to set up."""
        for connection in self._own:
            await connection.close()

    def queue(self, name: str, **settings: Any) -> str:
        """Make a queue with a name that begins so, and return its address."""
        full = f"{name}-{next(_numbers)}"
        self.host.declare_queue(full, QueueSettings(**settings))
        return full

    def exchange(self, name: str, type: str, **settings: Any) -> str:
        """Make an exchange with a name that begins so, and return the name."""
        full = f"{name}-{next(_numbers)}"
        self.host.declare_exchange(full, ExchangeSettings(type=type, **settings))
        return full

    def bind(self, exchange: str, queue: str, key: str = "") -> None:
        """Have messages of an exchange go to a queue."""
        self.host.bind(Binding(exchange, Destination.queue(queue), key))

    def depth(self, queue: str) -> int:
        """How many messages are in a queue, with those that are on their way to a consumer."""
        found = self.host.queue(queue)
        return found.ready + found.unacknowledged

    async def holds(self, queue: str, count: int) -> None:
        """Wait until so many messages are in a queue: what happens to durable ones is so once the store has
        it, and outcomes that clients do not wait for may be on their way.
        """
        await self.until(lambda: self.depth(queue) == count)

    async def put(self, queue: str, *messages: Message) -> None:
        """Put messages into a queue."""
        async with (await self.own()).sender(queue) as sender:
            await sender.send_many(messages)

    async def put_series(self, queue: str, count: int, **fields: Any) -> None:
        """Put messages into a queue whose ids are ``m-0`` and so on."""
        await self.put(queue, *(Message("x", message_id=f"m-{number}", **fields) for number in range(count)))

    async def messages(self, queue: str) -> list[Message]:
        """What is in a queue and not on its way; it stays there."""
        ready = self.host.queue(queue).ready
        async with (await self.own()).receiver(queue, mode="copy", credit=max(ready, 1)) as receiver:
            return [(await receiver.receive()).message for _ in range(ready)]

    async def ids(self, queue: str) -> list[object]:
        """The ids of the messages in a queue."""
        return [message.message_id for message in await self.messages(queue)]

    async def until(self, done: Callable[[], object]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(SECONDS):
            while not done():
                await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Caller:
    """A client, and our broker.

    Attributes:
        kind: whose client it is.
        client: the client.
        certificates: for TLS.
        shared: a broker that all scenarios use which do not need one of their own.
        folder: for the stores of these.
        capture: what is said in this scenario is recorded there.
    """

    kind: Kind
    client: ForeignClient
    certificates: Certificates
    shared: Broker
    folder: Path
    capture: Path

    def new_store(self) -> str:
        """A store on disk that nobody has used."""
        return f"sqlite:{self.folder / f'store-{next(_numbers)}.db'}"

    @asynccontextmanager
    async def ground(
        self,
        config: BrokerConfig | None = None,
        *,
        passwords: Mapping[str, str] | None = None,
        connects: bool = True,
        **options: Any,
    ) -> AsyncIterator[Ground]:
        """A broker, to which the client is connected until the end of the block, if it ``connects``.

        Args:
            config: of a broker of its own; None: the shared one.
            passwords: of its users.
            connects: whether the client is connected, and closes its connection in the end.
            options: how the client connects.
        """
        async with self._broker(config, passwords) as broker, self.between(broker) as ground:
            if connects:
                await to_thread(self.client.connect, ground.relay.url, **options)
            yield ground
            if connects:
                await to_thread(self.client.close)
                await ground.until(lambda: not ground.heads)

    @asynccontextmanager
    async def between(self, broker: Broker) -> AsyncIterator[Ground]:
        """A relay in front of a broker."""
        async with Relay(broker.ports[0].number, self.capture) as relay:
            ground = Ground(broker, relay)
            try:
                yield ground
            finally:
                await ground.leave()

    @asynccontextmanager
    async def _broker(
        self, config: BrokerConfig | None, passwords: Mapping[str, str] | None
    ) -> AsyncIterator[Broker]:
        if config is None and passwords is None:
            yield self.shared
            return
        async with Broker(config or configured(), passwords=passwords) as own:
            yield own

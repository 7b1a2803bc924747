"""The listening end of ours: the engine on the transport of the client, as a node that accepts every link."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from amqpforge.engine.connection import Connection
from amqpforge.engine.container import Container
from amqpforge.engine.events import Attached, Closed, Deliveries, Opened
from amqpforge.engine.layers import LayerFailed, ServerSecurity, ServerStack
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.message import Message
from amqpforge.sasl import Authenticator
from amqpforge.transport import Driver
from amqpforge_protocol.amqp_1_0 import Accepted
from benchmarks.messaging.work import WINDOW, Answer, Inbox, Job, Meter


class _Anonymous(Authenticator):
    mechanisms: Sequence[str] = ("ANONYMOUS",)


class _Node:
    """One accepted connection; a sender on it is given credit, and its messages are accepted if right."""

    def __init__(self, job: Job) -> None:
        self.inbox = Inbox(job)
        self.over: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._engine = Connection(ConnectionSettings(), Container("node"), is_server=True)
        stack = ServerStack(self._engine, ServerSecurity(authenticator=_Anonymous()))
        self.driver = Driver(stack, self._report)
        self._engine.notify = self.driver.wake
        self._accepted = Accepted()
        self._meter: Meter | None = None
        self._result: dict[str, Any] = {}

    def _report(self, events: Sequence[Any]) -> None:
        try:
            for event in events:
                self._react(event)
        except Exception as error:
            if not self.over.done():
                self.over.set_exception(error)
            self.driver.abort()

    def _react(self, event: Any) -> None:
        if isinstance(event, Deliveries):
            for delivery in event.deliveries:
                self.inbox.take(Message.from_octets(delivery.payload).body)
                delivery.settle(self._accepted)
            if self.inbox.is_full and self._meter is not None:
                self._result = self._meter.stop()
        elif isinstance(event, Opened):
            self._engine.open()
        elif isinstance(event, Attached) and isinstance(event.link, Receiver):
            event.link.prefetch = WINDOW
            event.link.attach()
            self._meter = Meter()
        elif isinstance(event, LayerFailed):
            raise event.error
        elif isinstance(event, Closed) and not self.over.done():
            self.over.set_result(self._result)


async def _serve(job: Job, answer: Answer) -> dict[str, Any]:
    """Listen, tell the port, and serve one connection to its end."""
    node = _Node(job)
    server = await asyncio.get_running_loop().create_server(lambda: node.driver, "127.0.0.1", 0)
    answer({"port": server.sockets[0].getsockname()[1]})
    try:
        result = await node.over
        await node.driver.lost
    finally:
        server.close()
    return result


def listen(job: Job, answer: Answer) -> dict[str, Any]:
    """Listen, tell the port, and answer what one client opens; take in what it sends, if anything."""
    return asyncio.run(_serve(job, answer))

"""What drives the engine of a connection whose transport is a relay: of the test node, and of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

from amqpforge.broker.amqp_1_0.transport import ServerDriver
from amqpforge.transport import Driver

if TYPE_CHECKING:
    from amqpforge.broker.admission import Guest
    from amqpforge.broker.amqp_1_0.service import Service
    from amqpforge.broker.listener import Port

    from .served import ServedConnection

__all__ = ["BrokerDriver", "RelayedDriver"]


class RelayedDriver(Driver):
    """A driver that leaves TLS to the relay, which sees what is inside.

    A frame is answered before the next one is looked at: what a script meets does not depend on how the
    transport has cut the stream.
    """

    connection: ServedConnection

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._flush()

    async def secure(self, context: SSLContext, name: str | None, first: bytes) -> str | None:
        return await self.connection.relay.secure(context, first)


class BrokerDriver(RelayedDriver, ServerDriver):
    """The broker's own, with the script between the engine and the head: it may refuse what is asked for."""

    def __init__(
        self,
        connection: ServedConnection,
        service: Service,
        port: Port,
        transport: asyncio.Transport,
        guest: Guest,
    ) -> None:
        self.connection = connection
        super().__init__(service, port, transport, guest)

    def _take(self, events: Sequence[Any]) -> None:
        self.connection.report(events, super()._take)

"""A connection of a client to a broker under a script."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .drivers import BrokerDriver
from .served import ServedConnection

if TYPE_CHECKING:
    from amqpforge.broker.admission import Guest
    from amqpforge.broker.amqp_1_0.head import Head
    from amqpforge.broker.amqp_1_0.service import Service
    from amqpforge.broker.listener import Port

    from .stand import Stand

__all__ = ["BrokerConnection"]


class BrokerConnection(ServedConnection):
    """One connection that the broker has accepted."""

    def __init__(
        self, stand: Stand[Any], service: Service, port: Port, transport: asyncio.Transport, guest: Guest
    ) -> None:
        super().__init__(stand, None, service.settings.max_frame_size)
        self._driver = BrokerDriver(self, service, port, transport, guest)
        self.engine = self.head.engine

    @property
    def head(self) -> Head:
        """What the broker does for it."""
        return self._driver.head

    @property
    def user(self) -> str | None:
        return self._driver.user

    def new_driver(self, peer_name: str | None) -> asyncio.Protocol:
        return self._driver

    def wake(self) -> None:
        self._driver.wake()

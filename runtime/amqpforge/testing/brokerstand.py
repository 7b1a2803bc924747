"""A broker for tests: the real one, with a script between it and its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqpforge.broker.broker import Broker
from amqpforge.broker.config import DEFAULT_VHOST, BrokerConfig, ListenerConfig
from amqpforge.broker.errors import InvalidArgument, NotFound
from amqpforge.broker.exchanges import Binding, Destination
from amqpforge.broker.settings import ExchangeSettings, QueueSettings
from amqpforge.errors import LocalError
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import ProtocolHeader, ProtocolId

from .brokerconnection import BrokerConnection
from .brokerqueue import BrokerQueue
from .stand import Stand

if TYPE_CHECKING:
    from amqpforge.broker.admission import Guest
    from amqpforge.broker.amqp_1_0.service import Service
    from amqpforge.broker.host import VirtualHost
    from amqpforge.broker.listener import Head, Port

__all__ = ["BrokerStand"]

_MEMORY: Final = "memory"
_AMQP_1_0: Final = ProtocolHeader(ProtocolId.AMQP).encode()
_EMBEDDED: Final = BrokerConfig(listeners=(ListenerConfig(port=0),), store=_MEMORY)


class BrokerStand(Stand[BrokerConnection]):
    """What :class:`ScriptedBroker` and :class:`ThreadedBroker` have in common.

    Attributes:
        broker: the broker; another one after it was started again.
    """

    def __init__(
        self,
        config: BrokerConfig | None = None,
        *,
        passwords: Mapping[str, str] | None = None,
        keep_frames: int = 10_000,
    ) -> None:
        """Describe a broker, which listens once it is entered.

        Args:
            config: how it is set up. None: in memory, on a free port of the loopback interface, and open to
                everybody there.
            passwords: users who may log in, and nobody else may. Instead of the file of users that a
                configuration names.
            keep_frames: how many frames :attr:`frames` holds at most.

        Raises:
            LocalError: what :class:`Broker` finds wrong with the configuration.
        """
        super().__init__(keep_frames)
        self._config = config or _EMBEDDED
        self._passwords = passwords
        self.broker: Broker = _Broker(self, self._config, passwords)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.broker!r}>"

    # --- where it is ---------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        return "test broker"

    @property
    def port(self) -> int:
        self.broker.core  # noqa: B018  It raises what is to be raised.
        return self.broker.ports[0].number

    @property
    def url(self) -> str:
        return self.broker.url

    # --- what it has ---------------------------------------------------------------------------------------

    def declare_queue(
        self, name: str | None = None, *, vhost: str = DEFAULT_VHOST, **settings: Any
    ) -> BrokerQueue:
        """Have a queue: a new one, or the one that is there with equal settings.

        Args:
            name: its name; None: one that the broker finds.
            vhost: the virtual host.
            settings: what it is like: the attributes of :class:`amqpforge.broker.QueueSettings`.

        Raises:
            BrokerError: there is another one of that name, or it cannot be like that.
        """
        made = QueueSettings.from_data(_known(QueueSettings, settings))
        queue = self.run(lambda: self.host(vhost).declare_queue(name, made))
        return BrokerQueue(self, queue.name, vhost)

    def declare_exchange(
        self, name: str, type: str = "direct", *, vhost: str = DEFAULT_VHOST, **settings: Any
    ) -> None:
        """Have an exchange: a new one, or the one that is there with equal settings.

        Args:
            name: its name.
            type: ``direct``, ``topic``, ``fanout`` or ``headers``.
            vhost: the virtual host.
            settings: other attributes of :class:`amqpforge.broker.ExchangeSettings`.

        Raises:
            BrokerError: there is another one of that name, or it cannot be like that.
        """
        made = ExchangeSettings(type=type, **_known(ExchangeSettings, settings))
        self.run(lambda: self.host(vhost).declare_exchange(name, made))

    def bind(
        self,
        exchange: str,
        queue: str,
        key: str = "",
        *,
        arguments: Mapping[str, Any] | None = None,
        vhost: str = DEFAULT_VHOST,
    ) -> None:
        """Have messages of an exchange go to a queue.

        Args:
            exchange: its name.
            queue: its name.
            key: the binding key, as the type of the exchange reads it.
            arguments: what else that type looks at.
            vhost: the virtual host.

        Raises:
            BrokerError: there is no such exchange or queue, or they cannot be bound so.
        """
        binding = Binding(exchange, Destination.queue(queue), key, arguments or {})
        self.run(lambda: self.host(vhost).bind(binding))

    def queue(self, name: str, *, vhost: str = DEFAULT_VHOST) -> BrokerQueue:
        """The queue of that name.

        Raises:
            NotFound: there is none.
        """
        self.run(lambda: self.host(vhost).queue(name))
        return BrokerQueue(self, name, vhost)

    @property
    def queues(self) -> list[str]:
        """The names of its queues on the usual virtual host."""
        return self.run(lambda: list(self.host(DEFAULT_VHOST).queues))

    def messages(self, address: str) -> list[Message]:
        return self.queue(address).messages()

    def put(self, address: str, message: Message | Any) -> None:
        self.queue(address).put(message)

    def host(self, name: str) -> VirtualHost:
        """A virtual host, to be used in the thread of the event loop: see :meth:`run`.

        Raises:
            LocalError: the broker does not run.
            NotFound: there is none of that name.
        """
        self.broker.core  # noqa: B018  It raises what is to be raised.
        found = self.broker.hosts.get(name)
        if found is None:
            raise NotFound(f"there is no virtual host {name!r:.80}: name it in the configuration")
        return found

    # --- its life ------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        await self.broker.start()

    async def _shut(self) -> None:
        for port in self.broker.ports:
            await port.close()

    async def _close(self) -> None:
        await self.broker.stop()

    async def _restart(self) -> None:
        self.broker.core  # noqa: B018  It raises what is to be raised.
        listeners = tuple(
            replace(port.config, host=port.host, port=port.number) for port in self.broker.ports
        )
        await self._end()
        self.broker = _Broker(self, replace(self._config, listeners=listeners), self._passwords)
        await self._open()
        self.changed()

    async def _reset(self) -> None:
        if self._config.store not in (None, _MEMORY):
            raise LocalError(
                f"the store {self._config.store} keeps what is durable: make another broker with another one"
            )
        self.script.clear()
        await self._restart()
        self.frames.clear()
        self.accepted = 0
        self._tell_errors()


class _Broker(Broker):
    """A broker whose connections pass a script."""

    def __init__(self, stand: BrokerStand, config: BrokerConfig, passwords: Mapping[str, str] | None) -> None:
        super().__init__(config, passwords=passwords)
        self._stand = stand

    def dialects(self, service: Service) -> dict[bytes, Head]:
        return {**super().dialects(service), _AMQP_1_0: partial(_serve, self._stand, service)}


def _serve(
    stand: BrokerStand, service: Service, port: Port, transport: asyncio.Transport, guest: Guest
) -> asyncio.Protocol:
    return BrokerConnection(stand, service, port, transport, guest).wire


def _known(kind: type[QueueSettings] | type[ExchangeSettings], settings: dict[str, Any]) -> dict[str, Any]:
    """Settings, if a queue or an exchange has them all.

    Raises:
        InvalidArgument: it has not.
    """
    names = sorted(field.name for field in fields(kind))
    for name in settings:
        if name not in names:
            raise InvalidArgument(f"{kind.__name__} has no {name!r}; it has {', '.join(names)}")
    return settings

"""What the head stands on in these tests: virtual hosts, and a clock that stands still."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from amqpforge.broker.access import Access
from amqpforge.broker.actor import Actor
from amqpforge.broker.amqp_1_0 import Service
from amqpforge.broker.bodies import Bodies
from amqpforge.broker.core import Core
from amqpforge.broker.errors import NotFound
from amqpforge.broker.exchanges import Binding, Destination
from amqpforge.broker.host import VirtualHost
from amqpforge.broker.limits import BrokerLimits, Usage
from amqpforge.broker.queues import Queue
from amqpforge.broker.recovery import recover
from amqpforge.broker.settings import ExchangeSettings, QueueSettings
from amqpforge.broker.store import Store
from amqpforge.broker.store.memory import MemoryStore
from tests.broker.clock import FakeClock

from .peer import Bench, Peer

DEFAULT = "/"
_PRESSURE = 10_000_000


class Admin:
    """Whoever sets the broker up."""

    def __init__(self, host: VirtualHost) -> None:
        self._host = host

    def declare_queue(self, name: str, settings: QueueSettings | None = None) -> Queue:
        return self._host.declare_queue(name, settings or QueueSettings())

    def delete_queue(self, name: str) -> None:
        self._host.delete_queue(name)

    def declare_exchange(self, name: str, settings: ExchangeSettings) -> None:
        self._host.declare_exchange(name, settings)

    def bind(self, exchange: str, queue: str, key: str = "", arguments: Any = None) -> None:
        self._host.bind(Binding(exchange, Destination.queue(queue), key, arguments or {}))


class Ground:
    """A broker without a port.

    Attributes:
        clock: its time.
        limits: how much there may be of everything.
        core: what its virtual hosts share.
        hosts: these.
        access: who may do what.
        service: its part that speaks AMQP 1.0.
        bench: carries octets between clients and broker.
        left: how many actors have left.
    """

    def __init__(
        self,
        *,
        store: Store | None = None,
        clock: FakeClock | None = None,
        access: Access | None = None,
        checks_user_id: bool = False,
        transaction_timeout: float | None = 300.0,
        **limits: int,
    ) -> None:
        self.clock = clock or FakeClock()
        self.limits = BrokerLimits(**limits)
        self.store = store or MemoryStore()
        self.usage = Usage(self.limits)
        self.core = Core(
            self.store,
            self.clock,
            Bodies(self.store, limit=_PRESSURE, on_change=self._pressed),
            self.usage,
        )
        self.hosts = recover(self.core, self.store.open(), (DEFAULT, "other"))
        self.access = access or Access()
        self.left = 0
        self.service = Service(
            cast("Any", self), checks_user_id=checks_user_id, transaction_timeout=transaction_timeout
        )
        self.service.start()
        self.bench = Bench(self.service, self.clock)

    @property
    def is_pressed(self) -> bool:
        return self.core.bodies.is_pressed

    @property
    def host(self) -> VirtualHost:
        return self.hosts[DEFAULT]

    @property
    def admin(self) -> Admin:
        return Admin(self.host)

    def actor(self, user: str | None, host: str | None, owner: object) -> Actor:
        """As the broker does it."""
        name = DEFAULT if host is None else host
        if name not in self.hosts:
            raise NotFound(f"there is no virtual host {name!r}")
        self.access.check_enter(user or "anonymous", name)
        return Actor(user or "anonymous", self.hosts[name], self.access, owner, self._leave)

    def _leave(self) -> None:
        self.left += 1

    def _pressed(self, pressed: bool) -> None:
        self.service.on_pressure(pressed)

    def press(self, pressed: bool) -> None:
        """Fill the memory, or empty it again."""
        if pressed:
            self._ballast = SimpleNamespace(payload=b"", size=3 * _PRESSURE, id=0, is_stored=False)
            self.core.bodies.hold(cast("Any", self._ballast))
        else:
            self.core.bodies.release(cast("Any", self._ballast))

    def peer(self, **options: Any) -> Peer:
        """A new client, with an open connection and a session."""
        return self.bench.peer(**options)

    def run(self) -> None:
        self.bench.run()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)
        self.run()


def a_ground(*queues: str, **options: Any) -> Ground:
    """A broker with some queues."""
    ground = Ground(**options)
    for queue in queues:
        ground.admin.declare_queue(queue)
    return ground

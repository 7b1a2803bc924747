"""The broker: its store, its virtual hosts, who may use them, and the ports that it listens on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from amqpforge.errors import LocalError
from amqpforge.loop_thread import LoopThread
from amqpforge_protocol.amqp_1_0 import ProtocolHeader, ProtocolId

from .access import ANONYMOUS, Users
from .actor import Actor
from .admission import Admission
from .amqp_1_0.management import manage
from .amqp_1_0.service import Service
from .amqp_1_0.transport import ServerDriver
from .bodies import Bodies
from .clock import LoopClock
from .config import DEFAULT_VHOST, BrokerConfig, ListenerConfig, store_at
from .core import Core
from .errors import NotFound
from .limits import Usage
from .listener import Doorman, Head, Port
from .logs import Event
from .management import Manager
from .recovery import recover
from .setup import set_up
from .store import new_store

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from .host import VirtualHost

__all__ = ["Broker"]

_EMBEDDED: Final = BrokerConfig(listeners=(ListenerConfig(port=0),), store="memory")
_STARTED: Final = "the broker has been started before: make another one"
_log = logging.getLogger("amqpforge.broker")


class Broker:
    """A broker inside this process; it runs while it is entered.

    ::

        async with Broker() as broker:
            async with amqpforge.connect(broker.url) as connection:
                ...

    In a program without an event loop ``with Broker() as broker`` gives it one, in a thread of its own. Then
    nothing but its ``url`` is for other threads.

    Attributes:
        config: how it is set up.
        store: where it keeps what survives it: ``memory``, or ``sqlite:`` and the name of a file.
        limits: how much there may be of everything.
        usage: how much there is.
        access: who may do what; may be changed while it runs.
        authenticator: who clients are.
        hosts: its virtual hosts by name; none before it is entered.
        ports: where it listens, in the order of the configuration.
        manager: answers what clients ask to have managed, in every dialect.
    """

    def __init__(
        self, config: BrokerConfig | None = None, *, passwords: Mapping[str, str] | None = None
    ) -> None:
        """Describe a broker.

        Args:
            config: how it is set up. None: in memory, on a free port of the loopback interface, and open to
                everybody there.
            passwords: users who may log in, and nobody else may; they are not kept as they are. Instead of
                the file of users that a configuration names.

        Raises:
            LocalError: the configuration would let in who is not meant, names a store that is none or files
                that cannot be used, or names users besides ``passwords``.
        """
        self.config = config = config or _EMBEDDED
        self.store = store_at(config.store or "memory", Path())
        config.check(has_users=passwords is not None)
        if passwords is not None and config.users is not None:
            raise LocalError("the configuration names a file of users: leave that or passwords out")
        self.limits = config.limits
        self.usage = Usage(config.limits)
        self.access = config.access()
        if passwords is None:
            self.authenticator = config.authenticator()
        else:
            self.authenticator = Users.from_passwords(passwords).authenticator(
                config.mechanisms, allow_anonymous=config.allow_anonymous
            )
        self.ports = tuple(Port(listener) for listener in config.listeners)
        self.hosts: Mapping[str, VirtualHost] = MappingProxyType({})
        self.sasl_is_required = config.users is not None or passwords is not None
        self.admission = Admission(self.usage)
        self.manager = Manager(self)
        self._was_started = False
        self._stopping: asyncio.Task[None] | None = None
        self._thread: LoopThread | None = None
        self._core: Core | None = None
        self._amqp_1_0: Service | None = None

    def __repr__(self) -> str:
        where = ", ".join(port.url for port in self.ports)
        return f"<Broker at {where}, {'running' if self._core is not None else 'not running'}>"

    @property
    def url(self) -> str:
        """Where to connect to: the first of its ports.

        Raises:
            LocalError: it does not run.
        """
        if self._core is None:
            raise LocalError("the broker does not run: enter it first")
        return self.ports[0].url

    @property
    def core(self) -> Core:
        """What its virtual hosts share.

        Raises:
            LocalError: it does not run.
        """
        if self._core is None:
            raise LocalError("the broker does not run: enter it first")
        return self._core

    # --- for heads -----------------------------------------------------------------------------------------

    @property
    def is_pressed(self) -> bool:
        """Whether publishers are to wait, because there are too many messages in memory."""
        return self.core.bodies.is_pressed

    def actor(self, user: str | None, host: str | None, owner: object) -> Actor:
        """A user on a virtual host.

        Args:
            user: who has logged in; None: nobody.
            host: the name of the virtual host; None: the usual one.
            owner: the connection.

        Raises:
            AccessRefused: the user has no business there.
            LimitExceeded: the user has too many connections.
            NotFound: there is no such virtual host.
        """
        name = DEFAULT_VHOST if host is None else host
        user = ANONYMOUS if user is None else user
        found = self.hosts.get(name)
        if found is None:
            raise NotFound(f"there is no virtual host {name!r:.80} here")
        self.access.check_enter(user, name)
        self.usage.take_user(user)
        return Actor(user, found, self.access, owner, partial(self.usage.give_back_user, user))

    def dialects(self, service: Service) -> dict[bytes, Head]:
        """What serves a connection, by the protocol header that asks for its dialect; the first one also
        serves those who ask for no dialect that is known.
        """
        return {ProtocolHeader(ProtocolId.AMQP).encode(): partial(ServerDriver, service)}

    # --- its life ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        if self._was_started:
            raise LocalError(_STARTED)
        thread = LoopThread("amqpforge broker")
        try:
            thread.submit(self.start()).result()
        except BaseException:
            thread.end()
            raise
        self._thread = thread
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.submit(self.stop()).result()
            finally:
                thread.end()

    async def start(self) -> None:
        """Open the store, have again what it holds, set up what the configuration names, and listen.

        Raises:
            BrokerError: the store cannot be used, or what is set up contradicts what it holds.
            LocalError: it runs already, or has run; or a port is taken, or an address is not one of this
                machine.
        """
        if self._was_started:
            raise LocalError(_STARTED)
        self._was_started = True
        store = new_store(self.store)
        recovered = store.open()
        try:
            most = self.limits.memory
            bodies = Bodies(store, limit=most // 2, high=most, low=most * 4 // 5, on_change=self._on_pressure)
            clock = LoopClock(asyncio.get_running_loop())
            core = Core(store, clock, bodies, self.usage, is_strict=self.config.strict_durability)
            self.hosts = MappingProxyType(recover(core, recovered, self.config.virtual_hosts))
            for name, config in self.config.virtual_hosts.items():
                set_up(self.hosts[name], config)
            self._core = core
            self._amqp_1_0 = service = Service(self, idle_time_out=self.config.grace.idle)
            manage(service, self.manager)
            service.start()
            self.manager.start()
            heads = self.dialects(service)
            for port in self.ports:
                await port.listen(partial(Doorman, self.admission, heads, port))
        except BaseException:
            await self._close()
            await store.close()
            raise
        for port in self.ports:
            _log.info(Event("listening", url=port.url, store=self.store))

    async def stop(self, reason: str = "the broker stops") -> None:
        """Listen no longer, close all connections, finish what the store has to write, and close it.

        What has come by now is answered first. Then clients have as long to end by themselves as the
        configuration says, before they are cut off. It goes on if the waiting for it is cancelled.
        """
        if self._core is None:
            return
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop(self._core, reason))
        await asyncio.shield(self._stopping)

    def cut(self) -> None:
        """Drop all connections at once: for when stopping takes too long. What was accepted is kept."""
        self.admission.cut()

    async def _stop(self, core: Core, reason: str) -> None:
        _log.info(Event("stopping", reason=reason))
        for port in self.ports:
            await port.close()
        self.admission.cut(spare_open=True)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.config.grace.shutdown
        await _is_in_time(deadline, _written(core))
        if self._amqp_1_0 is not None:
            for head in list(self._amqp_1_0.heads):
                head.close(reason)
        if not await _is_in_time(deadline, self.admission.wait_until_empty()):
            _log.warning(Event("clients are cut off"))
        await self._close()
        core.flush()
        await core.store.close()
        _log.info(Event("stopped"))

    async def _close(self) -> None:
        for port in self.ports:
            await port.close()
        self.admission.cut()
        await self.admission.wait_until_empty()
        if self._amqp_1_0 is not None:
            self._amqp_1_0.stop()
        self.manager.stop()
        for host in self.hosts.values():
            host.stop()
        self._core = self._amqp_1_0 = None
        self.hosts = MappingProxyType({})

    def _on_pressure(self, is_pressed: bool) -> None:
        _log.warning(Event("publishers wait: memory is full" if is_pressed else "publishers go on"))
        if self._amqp_1_0 is not None:
            self._amqp_1_0.on_pressure(is_pressed)


async def _is_in_time(deadline: float, waiting: Awaitable[None]) -> bool:
    """Wait for something, but not beyond a time of the loop; whether it happened."""
    try:
        async with asyncio.timeout_at(deadline):
            await waiting
    except TimeoutError:
        return False
    return True


async def _written(core: Core) -> None:
    """Wait until the store has all that has come so far, or has failed."""
    done = asyncio.Event()
    core.barrier(lambda _: done.set())
    await done.wait()

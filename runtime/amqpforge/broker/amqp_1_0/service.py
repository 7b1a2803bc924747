"""What all connections in AMQP 1.0 share: their links, their settings, and the nodes that they made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

from amqpforge import __version__
from amqpforge.broker.errors import InvalidArgument
from amqpforge.engine.container import Container
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge_protocol.amqp_1_0 import Role, Source, Symbol, Target

from .addresses import host_of
from .termini import Termini

if TYPE_CHECKING:
    from amqpforge.broker.broker import Broker
    from amqpforge.broker.host import VirtualHost
    from amqpforge.engine.link import Link
    from amqpforge.engine.receiver import Receiver
    from amqpforge.engine.sender import Sender

    from .head import Head
    from .links import BrokerLink
    from .nodes import Node

__all__ = ["Management", "Service"]

RELAY: Final = Symbol("ANONYMOUS-RELAY")
"""A target without an address leaves it to each message where it goes."""

_MOST_CHANNELS: Final = 65_536
_MOST_LINKS: Final = 1 << 20
_NO_LIMIT: Final = 1 << 62


class Management(Protocol):
    """The node ``$management``: makes the broker's ends of links to it, and answers their attaches.

    Both raise BrokerError to refuse a link.
    """

    def receive(self, head: Head, receiver: Receiver, target: Target) -> BrokerLink:
        """A client wants to send requests."""
        ...

    def send(self, head: Head, sender: Sender, source: Source) -> BrokerLink:
        """A client wants to receive replies."""
        ...


class Service:
    """The part of a broker that speaks AMQP 1.0.

    Attributes:
        broker: the broker.
        container: the links of all connections.
        settings: what each connection offers.
        checks_user_id: whether the user-id of a message has to be that of the user.
        transaction_timeout: seconds that a transaction may be open; None: any time.
        management: the node ``$management``; None: there is none.
        nodes: queues that were made for links, by the names of virtual host and queue.
        heads: the connections.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        checks_user_id: bool = False,
        transaction_timeout: float | None = 300.0,
        idle_time_out: float | None = 120.0,
        management: Management | None = None,
    ) -> None:
        limits = broker.limits
        self.broker = broker
        self.container = Container(f"amqpforge-{uuid4().hex}", most_links=_NO_LIMIT)
        self.checks_user_id = checks_user_id
        self.transaction_timeout = transaction_timeout
        self.management = management
        self.nodes: dict[tuple[str, str], Node] = {}
        self.heads: set[Head] = set()
        self._termini: dict[str, Termini] = {}
        self.settings = ConnectionSettings(
            max_frame_size=limits.frame_size,
            channel_max=min(limits.sessions_per_connection, _MOST_CHANNELS) - 1,
            idle_time_out=idle_time_out,
            offered_capabilities=(RELAY,),
            properties={
                Symbol("product"): "amqpforge",
                Symbol("version"): __version__,
                Symbol("platform"): "Python",
            },
            session=SessionSettings(handle_max=min(limits.links_per_connection, _MOST_CHANNELS) - 1),
        )

    @property
    def is_full(self) -> bool:
        """Whether no more links can be kept."""
        return len(self.container.links) >= _MOST_LINKS

    def termini(self, host: VirtualHost) -> Termini:
        """The termini of a virtual host that survive a restart."""
        known = self._termini.get(host.name)
        if known is None:
            known = self._termini[host.name] = Termini(host)
        return known

    def start(self) -> None:
        """The virtual hosts are there: termini that nobody comes back to begin to expire."""
        for host in self.broker.hosts.values():
            self.termini(host)

    def stop(self) -> None:
        """The broker has stopped, and no connection is left: nothing happens at set times any more."""
        for link in self.container.links.values():
            if link.context is not None:
                link.context.stop()
        for node in self.nodes.values():
            node.stop()
        for termini in self._termini.values():
            termini.stop()

    def on_pressure(self, pressed: bool) -> None:
        """The broker has too many messages in memory, or has no longer."""
        for head in list(self.heads):
            head.on_pressure(pressed)


class Scoped(Container):
    """The links of one connection's user on its virtual host, among those of all: a container-id is no
    secret, and whoever uses another one's must not get hold of his links.
    """

    __slots__ = ("_scope", "_shared")

    def __init__(self, shared: Container, scope: Callable[[], str]) -> None:
        """``scope``: what is put in front of the ids of containers; asked once the client's open is in."""
        super().__init__(shared.id)
        self._shared = shared
        self._scope = scope

    def find(self, peer: str, name: str, role: Role) -> Link | None:
        return self._shared.find(self._scope() + peer, name, role)

    def keep(self, peer: str, link: Link) -> None:
        self._shared.keep(self._scope() + peer, link)

    def suspended(self, peer: str, link: Link) -> None:
        self._shared.suspended(self._scope() + peer, link)

    def resumed(self, link: Link) -> None:
        self._shared.resumed(link)

    def forget(self, peer: str, link: Link) -> None:
        self._shared.forget(self._scope() + peer, link)


def scope_of(user: str | None, hostname: str | None) -> str:
    """What tells the links of a user on a virtual host from all others."""
    try:
        host = host_of(hostname)
    except InvalidArgument:  # The open is about to be refused.
        host = None
    return f"{'' if user is None else user}\x00{'' if host is None else host}\x00"

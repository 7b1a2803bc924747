"""A container for tests: it listens on the loopback interface, keeps queues in memory, and can misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final, Literal

from amqpforge.engine.container import Container
from amqpforge.engine.layers import ServerSecurity
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import LocalError
from amqpforge.message import Message
from amqpforge.sasl import Authenticator
from amqpforge_protocol.amqp_1_0 import Symbol

from .nodeconnection import NodeConnection
from .nodelink import NodeLink
from .queue import Queue
from .stand import Stand
from .transactions import Transactions
from .users import authenticator_of

if TYPE_CHECKING:
    from .attaching import Filter

__all__ = ["Node"]

_RELAY: Final = Symbol("ANONYMOUS-RELAY")  # A target without an address leaves it to each message.
_HOST: Final = "127.0.0.1"
_MOST_QUEUES: Final = 10_000


class Node(Stand[NodeConnection]):
    """What :class:`ScriptedNode` and :class:`ThreadedNode` have in common.

    Attributes:
        container: its links, of all its connections.
        settings: what its connections offer.
        memory_only: see the constructor; may be changed.
        credit: see the constructor; counts for links that are attached from now on.
        max_message_size: see the constructor; counts likewise.
        filters: see the constructor.
        transactions: those that are open.
    """

    def __init__(
        self,
        id: str = "node",
        *,
        queues: Iterable[str] = (),
        makes_queues: bool = True,
        credit: int = 100,
        memory_only: bool = False,
        max_message_size: int | None = None,
        filters: Mapping[str, Filter] | Mapping[Symbol, Filter] | None = None,
        users: Mapping[str, str] | None = None,
        mechanisms: Sequence[str] | None = None,
        authenticator: Authenticator | None = None,
        ssl: SSLContext | None = None,
        tls: Literal["offered", "required"] | None = None,
        settings: ConnectionSettings | None = None,
        keep_frames: int = 10_000,
    ) -> None:
        """Describe a node, which listens once it is entered.

        Args:
            id: its container-id.
            queues: addresses of queues that it has from the start.
            makes_queues: a link to an address that it has not makes a queue; else it is refused.
            credit: messages that a client may send ahead on a link; 0: none at all.
            memory_only: durable messages are refused, because they would not survive the node (section
                3.2.1).
            max_message_size: octets of a message that it takes at most; None: no limit.
            filters: what it can filter by: functions of a message and of the value that the client gave, by
                the symbolic descriptor of that value.
            users: passwords by user name; SASL is mandatory then. None: everybody is taken, without SASL too.
            mechanisms: the SASL mechanisms to offer; None: with ``users`` SCRAM-SHA-256 and PLAIN, else
                ANONYMOUS and PLAIN.
            authenticator: decides instead of ``users``, and SASL is mandatory.
            ssl: a context with a certificate: TLS from the start of each connection, if ``tls`` is None.
            tls: with ``ssl``, TLS begins after a protocol header asks for it, as clients may, or must.
            settings: what its connections offer: sizes, limits, time-outs.
            keep_frames: how many frames :attr:`frames` holds at most.

        Raises:
            LocalError: the arguments contradict each other, or a mechanism is not known.
        """
        if (tls is not None and ssl is None) or (authenticator is not None and users is not None):
            raise LocalError("tls needs ssl, and authenticator goes without users")
        super().__init__(keep_frames)
        self.container = Container(id)
        settings = settings or ConnectionSettings()
        self.settings = replace(settings, offered_capabilities=(*settings.offered_capabilities, _RELAY))
        self.credit = credit
        self.memory_only = memory_only
        self.max_message_size = max_message_size
        self.filters: Mapping[str, Filter] = {str(name): admits for name, admits in (filters or {}).items()}
        self.ssl = ssl
        self.security = ServerSecurity(
            authenticator=authenticator or authenticator_of(users, mechanisms),
            sasl_required=authenticator is not None or users is not None,
            tls=tls,
        )
        self.transactions = Transactions()
        self._makes_queues = makes_queues
        self._dynamic_numbers = count(1)
        self._queues: dict[str, Queue] = {}
        self._server: asyncio.Server | None = None
        self._port: int | None = None
        for address in queues:
            self.make_queue(address)

    # --- where it is ---------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        return f"test node {self.container.id}"

    @property
    def port(self) -> int:
        if self._port is None:
            raise LocalError("the node does not listen: enter it first")
        return self._port

    @property
    def url(self) -> str:
        scheme = "amqps" if self.ssl is not None and self.security.tls is None else "amqp"
        return f"{scheme}://{_HOST}:{self.port}"

    # --- what it has ---------------------------------------------------------------------------------------

    def queue(self, address: str) -> Queue:
        """The queue of that name; makes it if there is none."""
        return self.run(
            lambda: self._queues[address] if address in self._queues else self.make_queue(address)
        )

    @property
    def queues(self) -> list[str]:
        """The addresses of its queues."""
        return self.run(lambda: list(self._queues))

    def messages(self, address: str) -> list[Message]:
        return self.queue(address).messages()

    def put(self, address: str, message: Message | Any) -> None:
        self.queue(address).put(message)

    # --- for its connections and links ---------------------------------------------------------------------

    def make_queue(self, address: str) -> Queue:
        """A new queue."""
        queue = self._queues[address] = Queue(address, self)
        return queue

    def make_dynamic_queue(self, peer: str, link: str) -> Queue:
        """A new queue for a link, with both names in its address (section 3.5.3)."""
        return self.make_queue(f"{peer}/{link}/{next(self._dynamic_numbers)}")

    def find_queue(self, address: str) -> Queue:
        """The queue that a client means.

        Raises:
            LookupError: there is none.
        """
        found = self._queues.get(address)
        if found is not None:
            return found
        if not self._makes_queues or len(self._queues) >= _MOST_QUEUES:
            raise LookupError(f"there is no node {address!r:.80} here")
        return self.make_queue(address)

    def link_gone(self, link: NodeLink) -> None:
        """A link is closed: a queue that was made for it goes too (section 3.5.10)."""
        address = link.address
        queue = self._queues.get(address) if address is not None else None
        if queue is not None and queue.maker is link:
            del self._queues[queue.address]

    # --- its life ------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: NodeConnection(self).wire, _HOST, 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        for known in [link.context for link in self.container.links.values()]:
            if isinstance(known, NodeLink):
                known.destroy()
        if self._server is not None:
            await self._server.wait_closed()

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()

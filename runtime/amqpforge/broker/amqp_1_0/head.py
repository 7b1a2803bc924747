"""A connection of a client that speaks AMQP 1.0: what the broker does about each event of its engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from amqpforge.broker.errors import BrokerError, NotAllowed
from amqpforge.engine.connection import Connection
from amqpforge.engine.events import (
    Attached,
    Closed,
    Credit,
    Deliveries,
    Detached,
    Ended,
    Event,
    Opened,
    Updates,
)
from amqpforge.engine.unfinished import Unfinished
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import AmqpConnectionError, AmqpError, LinkError, LinkState

from .addresses import host_of
from .attaching import attach
from .conditions import error_of, told
from .links import CLOSED, BrokerLink, Ending
from .outgoing import Outgoing
from .service import Scoped, scope_of
from .transactions import Transactions

if TYPE_CHECKING:
    from amqpforge.broker.actor import Actor
    from amqpforge.engine.delivery import OutgoingDelivery
    from amqpforge.engine.link import Link

    from .service import Service

__all__ = ["Head"]

_NOT_DETACHED: Final = "too many links were refused and are not detached: detach a link that is refused"


class Head:
    """One connection.

    Whoever drives it gives each event of the engine to :meth:`on_event`, in order; calls :meth:`go_on` each
    time that what the engine had to send is on its way; and has ``wake`` called when there is more to send.

    Attributes:
        service: what all connections share.
        broker: the broker.
        engine: the endpoint, which the driver feeds.
        links: what the broker keeps of the links that are on it, or were last.
        transactions: those that are open on it.
        stalled: links that have messages to send, and wait for room.
        address: where the client is, for people.
        since: when it came, in seconds since the epoch.
        actor: the user on the virtual host; None before the open and once it is over.
        refused: why the client was not let in; None if he was, or has not asked yet.
        stir: to be called when there may be something to send; the ``wake`` of whoever drives it.
    """

    def __init__(
        self,
        service: Service,
        wake: Callable[[], None],
        user: Callable[[], str | None],
        address: str = "local",
    ) -> None:
        """``wake``: called when there is something to send; ``user``: tells who has logged in."""
        self.service = service
        self.broker = service.broker
        self._user = user
        self.stir = wake
        self.engine = Connection(
            service.settings,
            Scoped(service.container, self._scope),
            is_server=True,
            unfinished=Unfinished(self.broker.limits.unfinished_per_connection, self.broker.core.bodies.come),
        )
        self.engine.notify = self.stir
        self.links: set[BrokerLink] = set()
        self.transactions = Transactions(self)
        self.stalled: dict[BrokerLink, None] = {}
        self.address = address
        self.since = self.broker.core.clock.now()
        self.actor: Actor | None = None
        self.refused: BrokerError | None = None
        service.heads.add(self)

    def __repr__(self) -> str:
        return f"<Head of {self.peer!r:.80}, user {self._user()!r:.80}>"

    @property
    def peer(self) -> str:
        """The id of the client's container; empty before its open."""
        return self.engine.remote.container_id if self.engine.remote is not None else ""

    @property
    def working(self) -> Actor:
        """The user on the virtual host.

        Raises:
            NotAllowed: the connection is not open, or is over.
        """
        if self.actor is None:
            raise NotAllowed("the connection is not open")
        return self.actor

    def _scope(self) -> str:
        remote = self.engine.remote
        return scope_of(self._user(), remote.hostname if remote is not None else None)

    # --- what the driver tells -----------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Do what an event of the engine asks for."""
        kind = type(event)
        if kind is Deliveries:
            event = cast("Deliveries", event)
            known = event.link.context
            if isinstance(known, BrokerLink):
                known.on_deliveries(event.deliveries)
        elif kind is Updates:
            event = cast("Updates", event)
            known = event.link.context
            if isinstance(known, Outgoing):
                known.on_updates(cast("list[OutgoingDelivery]", event.deliveries))
        elif kind is Credit:
            event = cast("Credit", event)
            known = event.link.context
            if isinstance(known, Outgoing) and known.link is event.link:
                known.on_credit()
        else:
            self._react_to_endpoints(event)

    def go_on(self) -> None:
        """What the engine had to send is on its way: go on with links that waited for room."""
        if self.stalled:
            stalled, self.stalled = self.stalled, {}
            for link in stalled:
                link.go_on()

    def on_pressure(self, pressed: bool) -> None:
        """The broker has too many messages in memory, so that publishers get no credit; or has no longer."""
        for link in list(self.links):
            link.on_pressure(is_pressed=pressed)

    def close(self, text: str) -> None:
        """Close the connection, because the broker or somebody who manages it wants so."""
        if self.engine.may_write:
            self.engine.close(told(AmqpConnectionError.CONNECTION_FORCED, text))
            self.stir()

    # --- events --------------------------------------------------------------------------------------------

    def _react_to_endpoints(self, event: Event) -> None:
        if isinstance(event, Opened):
            self._open(event)
        elif isinstance(event, Attached):
            if event.link.state is LinkState.ATTACH_RCVD:
                self._attach(event)
        elif isinstance(event, Detached):
            _detached(event.link)
        elif isinstance(event, Ended):
            self._suspend(Ending.SESSION, event.session)
        elif isinstance(event, Closed):
            self.over()

    def _open(self, event: Opened) -> None:
        self.engine.open()
        try:
            self.actor = self.broker.actor(self._user(), host_of(event.open.hostname), self)
        except BrokerError as error:
            self.refused = error
            if self.engine.may_write:
                self.engine.close(error_of(error))

    def _attach(self, event: Attached) -> None:
        """Answer an attach; if the client's own limits leave no way to do so, end its session."""
        link = event.link
        session = link.session
        if self.actor is None:
            return
        if session is not None and self._has_too_many_links() and session.may_write:
            session.end(told(AmqpError.RESOURCE_LIMIT_EXCEEDED, _NOT_DETACHED))
            return
        try:
            attach(self, link, event.attach)
        except LocalError as error:
            if session is None or not session.may_write:
                raise
            if isinstance(link.context, BrokerLink):
                link.context.destroy()
            session.end(told(AmqpError.RESOURCE_LIMIT_EXCEEDED, f"the attach cannot be answered: {error}"))

    def _has_too_many_links(self) -> bool:
        """Whether there are twice as many links as there may be: they are refused, and were not detached."""
        attached = sum(len(session.links) for session in self.engine.sessions.values())
        return attached > 2 * self.broker.limits.links_per_connection

    def _suspend(self, ending: Ending, session: object = None) -> None:
        """A session is over, or all of the connection: so are the links on it, each in its own way."""
        for known in list(self.links):
            if session is not None and known.session is not session:
                continue
            if known.link.state in CLOSED:
                known.destroy()
            else:
                known.suspend(ending)

    def over(self) -> None:
        """The connection is over, perhaps before it was open. What it had open is undone; the links may come
        back on another one. Does nothing a second time.
        """
        self.service.heads.discard(self)
        for transaction in list(self.transactions.open.values()):
            self.transactions.roll_back(transaction)
        self._suspend(Ending.CONNECTION)
        self.stalled.clear()
        actor, self.actor = self.actor, None
        if actor is not None:
            actor.close()


def _detached(link: Link) -> None:
    known = link.context
    is_stolen = link.error is not None and link.error.condition == LinkError.STOLEN
    if not isinstance(known, BrokerLink) or known.link is not link or is_stolen:
        return
    if link.state in CLOSED:
        known.destroy()
    else:
        known.suspend(Ending.DETACH)

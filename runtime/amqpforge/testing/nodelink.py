"""What the node keeps of a link, and for how long: the terminus at its end (sections 3.5.3 to 3.5.6)."""

from __future__ import annotations

from asyncio import TimerHandle
from typing import TYPE_CHECKING, Final

from amqpforge.broker.amqp_1_0.links import Ending
from amqpforge_protocol.amqp_1_0 import LinkState, Source, Target, TerminusExpiryPolicy

if TYPE_CHECKING:
    from amqpforge.engine.link import Link
    from amqpforge.engine.session import Session

    from .nodeconnection import NodeConnection

__all__ = ["NodeLink"]

_DETACHED: Final = frozenset((LinkState.DETACHED, LinkState.SUSPENDED, LinkState.FAILED))
_EXPIRES: Final = {
    TerminusExpiryPolicy.LINK_DETACH: Ending.DETACH,
    TerminusExpiryPolicy.SESSION_END: Ending.SESSION,
    TerminusExpiryPolicy.CONNECTION_CLOSE: Ending.CONNECTION,
}


class NodeLink:
    """The node's end of a link, beyond what the engine knows of it.

    Attributes:
        link: its endpoint; another one after the link was stolen.
        connection: the connection that the link is on, or was on last.
        session: the session that it is on, or was on last.
        peer: the id of the client's container.
        is_gone: whether it exists no more.
    """

    def __init__(self, connection: NodeConnection, link: Link) -> None:
        self.link = link
        self.connection = connection
        self.session: Session | None = link.session
        self.peer = connection.peer
        self.is_gone = False
        self._timer: TimerHandle | None = None
        link.context = self
        connection.node_links.add(self)

    @property
    def address(self) -> str | None:
        """The address of its node; None if it has none."""
        return None

    @property
    def settings(self) -> Source | Target | None:
        """The source or target that it is, which tells when it expires."""
        return None

    def adopt(self, connection: NodeConnection, link: Link) -> None:
        """The link is attached again, maybe elsewhere."""
        self._stop_timer()
        self.connection.node_links.discard(self)
        self.link, self.session = link, link.session
        self.connection = connection
        connection.node_links.add(self)

    def attached(self) -> None:
        """The link is whole."""

    def suspend(self, ending: Ending) -> None:
        """The link is not attached any more; the terminus goes now, later, or stays, as its expiry policy has
        it.
        """
        self.detached()
        settings = self.settings
        if not self.peer or settings is None:
            self.destroy()
            return
        expires = _EXPIRES.get(settings.expiry_policy)
        if expires is None or ending < expires or self._timer is not None:
            return
        if settings.timeout == 0:
            self.destroy()
        else:
            self._timer = self.connection.loop.call_later(settings.timeout, self._expire)

    def detached(self) -> None:
        """Nothing can be sent over the link for now."""

    def destroy(self) -> None:
        """The terminus goes, and with it what is unsettled."""
        if self.is_gone:
            return
        self.is_gone = True
        self._stop_timer()
        self.connection.node_links.discard(self)
        self.detached()
        self.destroyed()
        if self.link.state in _DETACHED:
            self.link.expire()

    def destroyed(self) -> None:
        """Do what the end of the terminus asks for."""

    def _expire(self) -> None:
        self._timer = None
        self.destroy()
        self.connection.node.changed()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

"""What the broker keeps of a link, and for how long: the terminus at its end (sections 3.5.3 to 3.5.6)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from amqpforge_protocol.amqp_1_0 import AnyErrorCondition, LinkState, Source, Target, TerminusExpiryPolicy

from .conditions import told

if TYPE_CHECKING:
    from amqpforge.broker.actor import Actor
    from amqpforge.broker.clock import Timer
    from amqpforge.engine.delivery import IncomingDelivery
    from amqpforge.engine.link import Link
    from amqpforge.engine.session import Session

    from .head import Head
    from .nodes import Node
    from .termini import Identity

__all__ = ["CLOSED", "BrokerLink", "Ending"]


class Ending(IntEnum):
    """What ended for a link, the least first; the greater one implies the lesser."""

    DETACH = 0
    SESSION = 1
    CONNECTION = 2


CLOSED: Final = frozenset(
    (
        LinkState.CLOSED,
        LinkState.CLOSE_SENT,
        LinkState.CLOSE_RCVD,
        LinkState.CLOSE_CROSSED,
        LinkState.CLOSE_OWED,
        LinkState.REFUSED,
    )
)
"""States of a link whose terminus is gone, or about to go."""

_CUT_OFF: Final = frozenset((LinkState.DETACHED, LinkState.SUSPENDED, LinkState.FAILED))
_EXPIRES: Final = {
    TerminusExpiryPolicy.LINK_DETACH: Ending.DETACH,
    TerminusExpiryPolicy.SESSION_END: Ending.SESSION,
    TerminusExpiryPolicy.CONNECTION_CLOSE: Ending.CONNECTION,
}


class BrokerLink:
    """The broker's end of a link, beyond what the engine knows of it: the base of each kind of terminus.

    Attributes:
        link: its endpoint; another one after the link was stolen.
        head: the connection that it is on, or was on last.
        actor: the user there, on the virtual host.
        session: the session that it is on, or was on last.
        node: the node that it is for, which it holds on to; None: it is for none, or for one that stays.
        identity: by what the store has its terminus; None: it has it not.
        is_gone: whether the terminus exists no more.
    """

    def __init__(self, head: Head, link: Link, node: Node | None) -> None:
        self.link = link
        self.head = head
        self.actor: Actor = head.working
        self.session: Session | None = link.session
        self.node = node
        self.identity: Identity | None = None
        self.is_gone = False
        self._timer: Timer | None = None
        link.context = self
        head.links.add(self)
        if node is not None:
            node.join(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.link!r}>"

    @property
    def settings(self) -> Source | Target | None:
        """The source or target that it is, which tells when it expires; None: it goes with its session."""
        return None

    @property
    def address(self) -> str | None:
        """The address of its node, as the client has given it or was told it; None if it has none."""
        settings = self.settings
        return None if settings is None or settings.address is None else str(settings.address)

    def adopt(self, head: Head, link: Link) -> None:
        """The link is about to be attached again, maybe on another connection of the same user."""
        self._stop_timer()
        self.head.links.discard(self)
        self.head, self.actor = head, head.working
        self.link, self.session = link, link.session
        head.links.add(self)

    def attached(self) -> None:
        """Both ends are attached: traffic can begin."""

    def suspend(self, ending: Ending) -> None:
        """The link is not attached any more; the terminus goes now, later, or stays, as its expiry policy has
        it.
        """
        self.detached()
        settings = self.settings
        if settings is None or not self.head.peer:
            self.destroy()
            return
        expires = _EXPIRES.get(settings.expiry_policy)
        if expires is None or ending < expires or self._timer is not None:
            return
        if settings.timeout == 0:
            self.destroy()
        else:
            clock = self.actor.host.clock
            self._timer = clock.call_at(clock.now() + settings.timeout, self._expire)

    def detached(self) -> None:
        """Nothing can be sent over the link for now."""

    def destroy(self) -> None:
        """The terminus goes, and with it what is unsettled. Does nothing a second time."""
        if self.is_gone:
            return
        self.is_gone = True
        self._stop_timer()
        self.head.links.discard(self)
        self.detached()
        self.destroyed()
        if self.identity is not None:
            self.head.service.termini(self.actor.host).forget(self.identity)
        if self.link.state in _CUT_OFF:
            self.link.expire()
        if self.node is not None:
            self.node.leave(self)

    def destroyed(self) -> None:
        """Do what the end of the terminus asks for."""

    def close(self, condition: AnyErrorCondition, text: str) -> None:
        """Close the link, if it is attached, and let the terminus go."""
        if self.link.is_attached and self.head.engine.may_write:
            self.link.close(told(condition, text))
            self.head.stir()
        self.destroy()

    def on_deliveries(self, deliveries: list[IncomingDelivery]) -> None:
        """Whole messages have come; not on links that send."""

    def go_on(self) -> None:
        """What the connection had to send is on its way; for links that are stalled."""

    def on_pressure(self, *, is_pressed: bool) -> None:
        """The broker has too many messages in memory, or has no longer."""

    def stop(self) -> None:
        """The broker stops: what is there stays as it is."""
        self._stop_timer()

    def _expire(self) -> None:
        self._timer = None
        self.destroy()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

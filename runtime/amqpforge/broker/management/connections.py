"""Connections as they are managed, and who may manage those of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from amqpforge.broker.access import Operation
from amqpforge.broker.errors import AccessRefused

if TYPE_CHECKING:
    from amqpforge.broker.actor import Actor

__all__ = ["ADMINISTRATION", "ManagedConnection", "check_administrator", "may_administrate"]

ADMINISTRATION: Final = "$management"
"""The name that stands for the virtual host as a whole where permissions are looked at: who may read it sees
the connections of other users and how much of the broker is in use, who may configure it may close them.
"""


class ManagedConnection(Protocol):
    """A connection, as its head shows it."""

    @property
    def id(self) -> str:
        """What names it, as long as the broker runs."""
        ...

    @property
    def owner(self) -> object:
        """What its consumers have as their owner."""
        ...

    @property
    def user(self) -> str:
        """Who has logged in."""
        ...

    @property
    def vhost(self) -> str:
        """The name of its virtual host."""
        ...

    @property
    def protocol(self) -> str:
        """The dialect, such as ``AMQP 1.0``."""
        ...

    @property
    def peer(self) -> str:
        """What the client calls itself."""
        ...

    @property
    def address(self) -> str:
        """Where the client is, for people."""
        ...

    @property
    def since(self) -> float:
        """When it came, in seconds since the epoch."""
        ...

    @property
    def product(self) -> str | None:
        """What the client says it is; None if it says nothing."""
        ...

    @property
    def sessions(self) -> int:
        """How many sessions or channels it has."""
        ...

    @property
    def links(self) -> int:
        """How many links, or consumers, it has."""
        ...

    @property
    def frames_received(self) -> int:
        """Frames that have come."""
        ...

    @property
    def frames_sent(self) -> int:
        """Frames that have gone."""
        ...

    @property
    def octets_sent(self) -> int:
        """Octets that have gone."""
        ...

    def close(self, text: str) -> None:
        """Close it, and tell the client why."""
        ...


def check_administrator(actor: Actor, operation: Operation) -> None:
    """Raises AccessRefused unless the user may do this to the virtual host as a whole."""
    actor.check(operation, ADMINISTRATION)


def may_administrate(actor: Actor, operation: Operation) -> bool:
    """Whether the user may do this to the virtual host as a whole."""
    try:
        check_administrator(actor, operation)
    except AccessRefused:
        return False
    return True

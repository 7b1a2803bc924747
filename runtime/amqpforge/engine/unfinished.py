"""The account of messages of which not all is in: a peer that never ends them must not fill the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from amqpforge_protocol.amqp_1_0 import AmqpError

from .tables import LinkFault

if TYPE_CHECKING:
    from .delivery import IncomingDelivery

__all__ = ["Unfinished", "discount", "keep", "let_go"]

_SMALL: Final = 4096
"""Pieces of a message are put together up to so many octets: each takes more memory than its octets."""


def _always(_octets: int) -> bool:
    return True


class Unfinished:
    """How many octets the receivers of a connection keep of messages that are not whole yet.

    What streams is not counted: the session's window bounds it.

    Attributes:
        octets: how many these are, 0 or more.
    """

    __slots__ = ("_limit", "_whole", "octets")

    def __init__(self, limit: int | None = None, whole: Callable[[int], bool] = _always) -> None:
        """Take the bounds.

        Args:
            limit: octets, 0 or more; None: any number.
            whole: what keeps account of many connections. It is called with each change; of one that is above
                0 it says whether there is room for it, and counts it only then.
        """
        self._limit = limit
        self._whole = whole
        self.octets = 0

    def take(self, octets: int) -> bool:
        """Count some more, 1 or more; returns whether there is room: nothing is counted if there is none."""
        limit = self._limit
        if limit is not None and self.octets + octets > limit:
            return False
        if not self._whole(octets):
            return False
        self.octets += octets
        return True

    def give_back(self, octets: int) -> None:
        """Count so many less, of those that were taken."""
        self.octets -= octets
        self._whole(-octets)


def keep(delivery: IncomingDelivery, payload: bytes) -> None:
    """Keep a piece of a message, on a link that is attached, until the rest is in.

    Raises:
        LinkFault: there is no room for it.
    """
    link = delivery.link
    if not payload or link.session is None:
        return
    if not link.session.connection.unfinished.take(len(payload)):
        raise LinkFault(
            link,
            AmqpError.RESOURCE_LIMIT_EXCEEDED,
            "there is no room for more of messages that are not whole: end those that are begun first",
        )
    delivery.kept += len(payload)
    parts = delivery.parts
    if parts and len(parts[-1]) < _SMALL:
        parts[-1] += payload
    else:
        delivery.add(payload)


def let_go(delivery: IncomingDelivery) -> None:
    """The pieces of a message are of no more use."""
    delivery.parts = ()
    discount(delivery)


def discount(delivery: IncomingDelivery) -> None:
    """What is kept of a message does not count for the connection any more, which its link may be leaving."""
    session = delivery.link.session
    if delivery.kept and session is not None:
        session.connection.unfinished.give_back(delivery.kept)
        delivery.kept = 0

"""What an engine tells whoever drives it: small objects, in the order in which things happened.

Deliveries and news of deliveries come in batches: one object for all that one call of ``receive`` brought for
a link, as long as nothing else happened to the link meanwhile. What only moved counters is no event of its
own: :class:`Credit` comes at most once for a link and a batch, :class:`FlowReceived` once for each flow of a
sender, and the numbers are read from the link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from amqpforge.errors import ConnectionClosed, LinkDetached, SessionEnded
    from amqpforge_protocol.amqp_1_0 import Attach, Begin, Open

    from .delivery import IncomingDelivery, OutgoingDelivery
    from .link import Link
    from .receiver import Receiver
    from .sender import Sender
    from .session import Session

__all__ = [
    "Attached",
    "Begun",
    "Closed",
    "Credit",
    "Deliveries",
    "Detached",
    "Ended",
    "Event",
    "FlowReceived",
    "Opened",
    "Partial",
    "Updates",
]


@dataclass(slots=True)
class Opened:
    """The peer's open is in. A peer that was connected to answers it with its own open now."""

    open: Open


@dataclass(slots=True)
class Closed:
    """The connection is over, or about to be: nothing more comes in.

    ``error`` says why, and is None for a close without an error. ``by_peer``: the peer closed, or its
    transport did.
    """

    error: ConnectionClosed | None
    by_peer: bool


@dataclass(slots=True)
class Begun:
    """The peer's begin is in: it answers ours, or it starts a session (``session.is_remote``)."""

    session: Session
    begin: Begin


@dataclass(slots=True)
class Ended:
    """The session is over: its links are suspended. ``error`` says why, and is None for an end without an
    error.
    """

    session: Session
    error: SessionEnded | None
    by_peer: bool


@dataclass(slots=True)
class Attached:
    """The peer's attach is in.

    In state ATTACH_RCVD the link awaits ``attach`` or ``refuse``; in ATTACHED it is whole. With
    ``is_refused`` the peer has no terminus for it, and its closing detach follows.
    """

    link: Link
    attach: Attach
    is_refused: bool


@dataclass(slots=True)
class Detached:
    """The link is detached, closed or suspended, as its state says; ``error`` says why, None for no error.

    ``by_peer``: the peer detached it, or attached it elsewhere, and not we.
    """

    link: Link
    error: LinkDetached | None
    by_peer: bool


@dataclass(slots=True)
class Deliveries:
    """Whole messages that came in on a link, in order."""

    link: Receiver
    deliveries: list[IncomingDelivery]


@dataclass(slots=True)
class Partial:
    """Octets of a message came in on a link that streams: the first ones, or more of it, or its abort."""

    delivery: IncomingDelivery


@dataclass(slots=True)
class Updates:
    """The peer told the state of deliveries of a link, or settled them; or what we sent was given up
    (``is_lost``). A delivery may be named more than once.
    """

    link: Link
    deliveries: list[OutgoingDelivery] | list[IncomingDelivery]


@dataclass(slots=True)
class Credit:
    """The receiver's flow changed what a sender may send."""

    link: Sender


@dataclass(slots=True)
class FlowReceived:
    """The sender told its flow state: what is available, or that it is drained."""

    link: Receiver


Event: TypeAlias = (
    Opened
    | Closed
    | Begun
    | Ended
    | Attached
    | Detached
    | Deliveries
    | Partial
    | Updates
    | Credit
    | FlowReceived
)

"""What may come over a link in all: a share of a micro-batch, which credit keeps to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from amqpforge.engine.flow import distance
from amqpforge.engine.receiver import Receiver as ReceiverEnd
from amqpforge_protocol.amqp_1_0 import Attach

if TYPE_CHECKING:
    from amqpforge.engine.delivery import IncomingDelivery
    from amqpforge.engine.peer_end import PeerEnd

__all__ = ["Limit", "Share", "ShareEnd"]

_FIRST: Final = 100
"""Messages that are asked for before it is known how large they are."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What may be taken.

    Attributes:
        rows: messages at most, 0 or more.
        octets: octets of them at most, but for a single message that has more.
    """

    rows: int
    octets: int

    def without(self, rows: int, octets: int) -> Limit:
        """What is left of it when so much was taken."""
        left = self.octets - octets
        return Limit(max(self.rows - rows, 0) if left > 0 else 0, max(left, 0))

    def __bool__(self) -> bool:
        return self.rows > 0


class Share:
    """What came over a link, and what may still come.

    Attributes:
        is_full: nothing more is taken.
    """

    def __init__(self, limit: Limit) -> None:
        """``limit``: what may come in all."""
        self._limit = limit
        self._rows = 0
        self._octets = 0
        self.is_full = not limit

    @property
    def most(self) -> int:
        """Messages that are worth asking for, those that came among them: as many as the limit allows if they
        have the size that messages had so far.
        """
        rows, octets = self._rows, self._octets
        if self.is_full:
            return rows
        fitting = _FIRST if not rows else max((self._limit.octets - octets) * rows // max(octets, 1), 1)
        return rows + min(self._limit.rows - rows, fitting)

    def take(self, deliveries: Sequence[IncomingDelivery]) -> int:
        """Take messages from the first one on; returns how many it has room for."""
        limit = self._limit
        for count, delivery in enumerate(deliveries):
            octets = self._octets + delivery.size
            if self.is_full or (octets > limit.octets and self._rows):
                self.is_full = True
                return count
            self._rows += 1
            self._octets = octets
            self.is_full = self._rows >= limit.rows or octets >= limit.octets
        return len(deliveries)


class ShareEnd(ReceiverEnd):
    """The engine's end of a link that gives no more credit than its share is worth."""

    __slots__ = ("_began", "_window", "share")

    def __init__(self, name: str, *, share: Share, window: int, **options: Any) -> None:
        """Make one.

        Args:
            name: of the link.
            share: what may come over it.
            window: messages that may be under way.
            options: those of the engine's receiver.
        """
        super().__init__(name, **options)
        self.share = share
        self._window = window
        self._began: int | None = None

    def learn(self, attach: Attach, remote: PeerEnd) -> None:
        super().learn(attach, remote)
        self._began = attach.initial_delivery_count

    def grant(self) -> None:
        """Give credit for what is worth asking for, and has not come."""
        count = self.flow_state.delivery_count
        if self.prefetch is not None and count is not None and self._began is not None:
            missing = self.share.most - distance(self._began, count)
            if missing <= self.link_credit:
                return
            self.prefetch = min(self._window, self.held + missing)
        super().grant()

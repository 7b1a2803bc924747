"""Messages on their way into the spool: those that came, shared out to the segments that they will be in."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from .segment import Rows

if TYPE_CHECKING:
    from amqpforge.engine.delivery import IncomingDelivery

    from .spool import Link

__all__ = ["Gathered", "Gathering"]


@dataclass(slots=True)
class Gathering:
    """A segment to be.

    Attributes:
        rows: its messages.
        deliveries: the same ones, as they came in.
        octets: of all payloads.
    """

    rows: Rows = field(default_factory=Rows)
    deliveries: list[IncomingDelivery] = field(default_factory=list)
    octets: int = 0

    def add(self, link: Link, received: int, deliveries: Sequence[IncomingDelivery]) -> None:
        """Add messages that came over a link at one time: ``received``, microseconds since 1970."""
        rows, count = self.rows, len(deliveries)
        payloads = [one.payload for one in deliveries]
        rows.addresses += [link.address] * count
        rows.links += [link.name] * count
        rows.tags += [one.tag for one in deliveries]
        rows.received += [received] * count
        rows.formats += [one.message_format for one in deliveries]
        rows.payloads += payloads
        self.deliveries += deliveries
        self.octets += sum(map(len, payloads))


class Gathered:
    """Segments to be, oldest first; each but the last one is full."""

    def __init__(self, most_rows: int, most_octets: int) -> None:
        """Begin with none.

        Args:
            most_rows: messages of a segment at most.
            most_octets: octets of its payloads at most, but for a single message that has more.
        """
        self._most_rows = most_rows
        self._most_octets = most_octets
        self._segments: deque[Gathering] = deque()

    def __bool__(self) -> bool:
        return bool(self._segments)

    def has(self, rows: int) -> bool:
        """Whether the first segment is full, or has at least so many messages."""
        segments = self._segments
        return len(segments) > 1 or (bool(segments) and len(segments[0].deliveries) >= rows)

    def add(self, link: Link, deliveries: Sequence[IncomingDelivery]) -> None:
        """Add messages that came just now over a link."""
        received = time.time_ns() // 1000
        segments = self._segments
        while deliveries:
            count = self._fitting(segments[-1], deliveries) if segments else 0
            if not count:
                segments.append(Gathering())
                count = max(self._fitting(segments[-1], deliveries), 1)
            segments[-1].add(link, received, deliveries[:count])
            deliveries = deliveries[count:]

    def _fitting(self, gathering: Gathering, deliveries: Sequence[IncomingDelivery]) -> int:
        """How many of these messages, from the first on, a segment has room for."""
        room = self._most_octets - gathering.octets
        count = 0
        for delivery in islice(deliveries, self._most_rows - len(gathering.deliveries)):
            room -= len(delivery.payload)
            if room < 0:
                break
            count += 1
        return count

    def take(self) -> Gathering:
        """Take the first segment out; there is one."""
        return self._segments.popleft()

    def clear(self) -> None:
        """Drop all."""
        self._segments.clear()

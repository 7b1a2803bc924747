"""An outcome between the moment it is noted and the one it is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0 import MessageEvent

    from .entry import Entry
    from .hooks import Death
    from .queue import Queue

__all__ = ["Settlement"]


@dataclass(slots=True)
class Settlement:
    """An outcome that is noted in a unit, and is to become true with it.

    Attributes:
        queue: where.
        entry: of which entry.
        event: what the state of the entry will do.
        death: why the entry will leave; None: it will not, or because it was accepted.
        delivery_count: what the entry had before.
        annotations: what the entry had before.
    """

    queue: Queue
    entry: Entry
    event: MessageEvent
    death: Death | None
    delivery_count: int
    annotations: bytes | None

"""What a queue asks of the broker."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqpforge.broker.message import Facts, Message
    from amqpforge.broker.store import Unit

    from .entry import Entry
    from .queue import Queue

__all__ = ["Death", "Hooks"]


class Death(Enum):
    """Why a queue gives a message up."""

    EXPIRED = "expired"
    """It has outlived its time."""
    REJECTED = "rejected"
    """A consumer has rejected it."""
    MAX_LENGTH = "maxlen"
    """The queue was too long."""
    DELIVERY_LIMIT = "delivery-limit"
    """Too many deliveries have failed."""


class Hooks(Protocol):
    """The broker, or the virtual host, as its queues see it. None of these raises an exception."""

    def unit(self) -> Unit:
        """Where a queue notes what it changes by itself; the broker commits it before long."""
        ...

    def facts(self, entry: Entry) -> Facts:
        """What selectors look at of a message: of its payload, and of what this queue knows of it."""
        ...

    def dead_letter(self, queue: Queue, entry: Entry, reason: Death, unit: Unit) -> None:
        """A message goes to the dead-letter exchange of a queue, which has one.

        It is published anew, as a message of its own with a new id; all that this takes is noted in
        ``unit``, where the queue notes that the message has left it. Its delivery-count counts this delivery.
        """
        ...

    def gone(self, message: Message) -> None:
        """No queue holds a message any more: it is to be forgotten, in the store too if it is there."""
        ...

    def unused(self, queue: Queue) -> None:
        """Nobody has used a queue for so long that it is to be deleted."""
        ...

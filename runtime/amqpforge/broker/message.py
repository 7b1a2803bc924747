"""A message as the broker holds it: octets that it does not look into, and the few facts that it works by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

__all__ = ["Facts", "Form", "Message"]

Facts: TypeAlias = Callable[[str], object]
"""The value that a name stands for in a selector; None where the message has no such value."""


class Form(Protocol):
    """How the octets of one kind of message are read; a head brings one for its dialect."""

    @property
    def number(self) -> int:
        """What tells the form in a store: 0 is AMQP 1.0."""
        ...

    def facts(self, payload: bytes) -> Facts:
        """What selectors can look at.

        Octets that cannot be read have no facts: every name gives None.
        """
        ...

    def changed(self, payload: bytes, failures: int, annotations: bytes | None) -> bytes:
        """A message as one queue has it. Octets that cannot be read stay as they are.

        Args:
            payload: as it came.
            failures: how many deliveries from the queue have failed.
            annotations: those that were added there, in the form's own octets; None: none.
        """
        ...

    def dead_letter(
        self, payload: bytes, failures: int, annotations: bytes | None, queue: str, reason: str
    ) -> bytes:
        """The payload of the dead letter that a message becomes, which tells the queue and the reason. Octets
        that cannot be read stay as they are.

        The first three arguments are those of :meth:`changed`.
        """
        ...

    def headers(self, payload: bytes) -> Mapping[str, Any]:
        """What headers exchanges look at: the application's own properties, by name; empty if there are none,
        or the octets cannot be read.
        """
        ...


class Message:
    """One message, however many queues it is on.

    Attributes:
        id: its number in the broker, rising in the order in which messages came; 0 before it is published.
            In every queue it is the message's place: a message that comes back is where it was.
        form: how its octets are read.
        payload: its octets, in the form's own way, without what changes from hop to hop; None while they
            are on disk alone.
        size: how many octets that are.
        durable: whether it is to survive a restart, in queues that do.
        priority: 0 to 255.
        expires_at: when it dies, in seconds since the epoch; None: never.
        exchange: the name of the exchange that it was published to; empty: the default exchange.
        key: its routing key.
        references: how many queues hold it.
        is_stored: whether the store has it, or is about to.
        died_in: the numbers of the queues that it has left as a dead letter since it was last rejected,
            as far as this process knows.
    """

    __slots__ = (
        "died_in",
        "durable",
        "exchange",
        "expires_at",
        "form",
        "id",
        "is_stored",
        "key",
        "payload",
        "priority",
        "references",
        "size",
    )

    def __init__(
        self,
        form: Form,
        payload: bytes,
        *,
        exchange: str = "",
        key: str = "",
        durable: bool = False,
        priority: int = 4,
        expires_at: float | None = None,
    ) -> None:
        self.id = 0
        self.form = form
        self.payload: bytes | None = payload
        self.size = len(payload)
        self.durable = durable
        self.priority = priority
        self.expires_at = expires_at
        self.exchange = exchange
        self.key = key
        self.references = 0
        self.is_stored = False
        self.died_in: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"<Message {self.id}, {self.size} octets, key {self.key!r:.80}>"

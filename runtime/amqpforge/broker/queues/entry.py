"""A message on one queue: the state that it has there, and what that queue knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    IGNORED,
    MESSAGE_INITIAL,
    MESSAGE_TRANSITIONS,
    MessageEvent,
    MessageState,
)

if TYPE_CHECKING:
    from amqpforge.broker.message import Message

    from .consumer import Consumer

__all__ = ["Entry"]

_NEXT: Final = tuple(
    tuple(MessageState(after) if after >= 0 else after for after in row) for row in MESSAGE_TRANSITIONS
)
"""The table of states, with members of the enumeration in it: these are not looked up for each move."""


class Entry:
    """One message on one queue. There may be millions: everything but the message is small or shared.

    Attributes:
        message: the message, which other queues may hold as well.
        state: what may be done with it here (AMQP 1.0, section 3.3).
        holder: the consumer that has acquired it; None while nobody has.
        delivery_count: how many deliveries from this queue have failed, 0 at first.
        expires_at: when it dies here, in seconds since the epoch; None: never.
        annotations: those that outcomes have added, in the octets of the message's form; None: none.
        barred: the consumers that it is undeliverable to; None: it goes to everybody.
        was_acquired: whether a consumer may have had it before the present one, if any.
    """

    __slots__ = (
        "annotations",
        "barred",
        "delivery_count",
        "expires_at",
        "holder",
        "message",
        "state",
        "was_acquired",
    )

    def __init__(
        self,
        message: Message,
        expires_at: float | None = None,
        delivery_count: int = 0,
        annotations: bytes | None = None,
        was_acquired: bool = False,
    ) -> None:
        self.message = message
        self.state = MESSAGE_INITIAL
        self.holder: Consumer | None = None
        self.delivery_count = delivery_count
        self.expires_at = expires_at
        self.annotations = annotations
        self.barred: set[Consumer] | None = None
        self.was_acquired = was_acquired

    def move(self, event: MessageEvent) -> None:
        """Take the state that follows.

        Raises:
            LocalError: nothing of the kind can happen in this state.
        """
        after = _NEXT[self.state][event]
        if isinstance(after, MessageState):
            self.state = after
        elif after != IGNORED:
            raise LocalError(f"{self!r} cannot {event.name}")

    def __repr__(self) -> str:
        return f"<Entry of message {self.message.id}, {self.state.name}>"

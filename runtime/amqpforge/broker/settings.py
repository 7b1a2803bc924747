"""How queues and exchanges are declared: the choices that a client has, the same in every dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Final, Self

from .errors import InvalidArgument

__all__ = ["ExchangeSettings", "Overflow", "QueueSettings"]


_MOST: Final = 1 << 53
"""The greatest number of anything: one that every reader of JSON gets right."""

_COUNTS: Final = {
    "max_length": (1, _MOST),
    "max_bytes": (1, _MOST),
    "priority_levels": (1, 256),
    "delivery_limit": (1, 0xFFFF_FFFF),
    "duplicate_window": (0, 1_000_000),
}
_SECONDS: Final = {"grace": 0.0, "message_ttl": 0.0, "expires": 0.001, "acquisition_timeout": 0.001}


class Overflow(Enum):
    """What happens when one more message would make a queue too long."""

    REJECT = "reject"
    """The new message is refused, in all queues that it is for."""
    DROP_OLDEST = "drop-oldest"
    """The oldest message that nobody has acquired is dropped."""
    DEAD_LETTER = "dead-letter"
    """That message goes to the dead-letter exchange."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """What a queue is like. Declaring a queue again succeeds only with equal settings.

    Attributes:
        durable: it is there again after a restart, with its durable messages.
        private: it has one consumer at a time; another one is turned away.
        exclusive: only the connection that declared it can use it, and it goes with that connection.
        auto_delete: it goes once its last consumer has left, after ``grace`` seconds.
        grace: seconds, from 0.
        max_length: messages that it holds at most, 1 or more; None: no limit of its own.
        max_bytes: octets of messages that it holds at most, 1 or more; None: no limit of its own.
        overflow: what happens beyond these.
        message_ttl: seconds that a message lives in it at most, from 0; None: as long as the message says.
        expires: seconds, above 0, after which it goes if it has had no consumer and was not declared again;
            None: it stays.
        priority_levels: how many levels of priority it tells apart, 1 to 256 (AMQP 1.0, section 3.2.1).
        dead_letter_exchange: where messages go that expire, are rejected, or exceed a limit; None: they are
            dropped. The empty name is the default exchange.
        dead_letter_key: the routing key that they have there; None: their own.
        delivery_limit: deliveries, 1 or more, that may fail before a message is dead-lettered; None: any
            number.
        duplicate_window: how many message-ids it remembers, so that a message that repeats one of them is
            dropped; 0: none.
        acquisition_timeout: seconds, above 0, that a consumer may hold a message unsettled before it is taken
            back as one whose delivery failed; None: any time.
    """

    durable: bool = False
    private: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    grace: float = 5.0
    max_length: int | None = None
    max_bytes: int | None = None
    overflow: Overflow = Overflow.REJECT
    message_ttl: float | None = None
    expires: float | None = None
    priority_levels: int = 1
    dead_letter_exchange: str | None = None
    dead_letter_key: str | None = None
    delivery_limit: int | None = None
    duplicate_window: int = 0
    acquisition_timeout: float | None = None

    def __post_init__(self) -> None:
        """Raises InvalidArgument for a value out of its range, and for choices that contradict each other."""
        for name, (least, most) in _COUNTS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise InvalidArgument(f"{name} of a queue is {least} to {most}, not {value}")
        for name, shortest in _SECONDS.items():
            value = getattr(self, name)
            if value is not None and not shortest <= value <= _MOST:
                raise InvalidArgument(f"{name} of a queue is {shortest:g} to {_MOST} seconds, not {value}")
        if self.durable and self.exclusive:
            raise InvalidArgument("an exclusive queue goes with its connection, so it cannot be durable")
        if self.overflow is Overflow.DEAD_LETTER and self.dead_letter_exchange is None:
            raise InvalidArgument("overflow into a dead-letter exchange needs dead_letter_exchange")

    def to_data(self) -> dict[str, Any]:
        """JSON values that say all of it."""
        data = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**data, "overflow": self.overflow.value}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_data` wrote; what is missing is as it usually is.

        Raises:
            InvalidArgument: a value is not possible.
        """
        known = {one.name: data[one.name] for one in fields(cls) if one.name in data}
        try:
            if "overflow" in known:
                known["overflow"] = Overflow(known["overflow"])
            return cls(**known)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"these are no settings of a queue: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeSettings:
    """What an exchange is like. Declaring one again succeeds only with equal settings.

    Attributes:
        type: the name of its type: ``direct``, ``topic``, ``fanout``, ``headers``, or one that was added.
        durable: it is there again after a restart.
        auto_delete: it goes once nothing is bound to it any more.
        internal: clients cannot publish to it; messages come from other exchanges only.
        arguments: what its type needs to know.
    """

    type: str = "direct"
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])

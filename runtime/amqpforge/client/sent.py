"""A message on its way, until it is known what became of it."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, TypeAlias

from amqpforge.engine.delivery import OutgoingDelivery
from amqpforge.errors import AmqpforgeError
from amqpforge_protocol.amqp_1_0 import OutgoingDeliveryState, TransactionalState

from .outcomes import Outcome

__all__ = ["Sent", "Waiter"]

_NOT_SENT: Final = OutgoingDeliveryState.NOT_SENT


class Teller(Protocol):
    """Who wants to know what becomes of many messages."""

    def _told(self, sent: Sent, /) -> None:
        """It is known what became of one."""


Waiter: TypeAlias = asyncio.Future[Outcome] | Teller
"""Who wants to know what becomes of a message."""


class Sent:
    """A message on its way, over as many links as that takes, and who wants to know what becomes of it.

    Attributes:
        delivery: the engine's; another one after the message was sent again.
        settled: whether it was sent settled.
        result: the outcome, or an error; meaningless before ``is_told``.
        is_told: whether it is known what became of it.
    """

    __slots__ = ("_waiter", "delivery", "is_told", "result", "settled")

    def __init__(self, delivery: OutgoingDelivery, waiter: Waiter) -> None:
        self.delivery = delivery
        delivery.context = self
        self.settled = delivery.settled
        self.result: Outcome | AmqpforgeError = None
        self.is_told = False
        self._waiter = waiter

    @property
    def can_be_repeated(self) -> bool:
        """Whether it can be sent again on another link: it is at hand, is no part of a transaction that is
        rolled back by now, and is not meant to be sent once at most.
        """
        delivery = self.delivery
        if delivery.payload is None or type(delivery.state) is TransactionalState:
            return False
        return not self.settled or delivery.progress is _NOT_SENT

    def tell(self, outcome: Outcome, error: AmqpforgeError | None) -> None:
        """It is known what became of it."""
        self.result = outcome if error is None else error
        self.is_told = True
        waiter = self._waiter
        if not isinstance(waiter, asyncio.Future):
            waiter._told(self)
        elif not waiter.done():
            if error is None:
                waiter.set_result(outcome)
            else:
                waiter.set_exception(error)

"""What a queue asks of a consumer; the head of a dialect makes one of each link, subscription or the like."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqpforge.broker.message import Facts

    from .entry import Entry

__all__ = ["Condition", "Consumer"]


class Condition(Protocol):
    """A late binding: which messages a consumer is for."""

    def admits(self, facts: Facts) -> bool:
        """Whether a message is one of them; the same as long as its facts are."""
        ...


class Consumer(ABC):
    """Takes messages from one queue.

    The queue calls a consumer at any time, also within calls that the consumer makes. A consumer may settle
    what it gets within :meth:`deliver`; everything else of the queue can be called there too, but serves
    nobody before that returns. None of its methods raises an exception: it would reach whoever has just
    published.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What people know it by."""

    @property
    def owner(self) -> object:
        """The connection that it belongs to; what an exclusive queue compares with its own."""
        return None

    @property
    def selector(self) -> Condition | None:
        """Which messages it is for, the same as long as it is attached; None: all."""
        return None

    @property
    def is_browser(self) -> bool:
        """Whether it looks at messages without acquiring them; the same as long as it is attached."""
        return False

    @property
    @abstractmethod
    def has_credit(self) -> bool:
        """Whether it takes one more message now.

        It is asked often. Once this has been False the queue does not ask again before ``Queue.wake``.
        """

    @abstractmethod
    def deliver(self, entry: Entry) -> None:
        """Take a message; it is ACQUIRED already, and held by this consumer, unless that is a browser."""

    @abstractmethod
    def withdraw(self, entry: Entry) -> None:
        """A message that it holds is the queue's again: it held it too long, or the queue is deleted.

        What it says of the message from now on changes nothing.
        """

    @abstractmethod
    def cancel(self) -> None:
        """The queue is deleted; the consumer is attached no more."""

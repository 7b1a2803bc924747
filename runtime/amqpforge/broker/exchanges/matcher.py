"""What a type of exchange is: code that finds the bindings whose condition a message meets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .values import check_key

if TYPE_CHECKING:
    from amqpforge.broker.message import Message

    from .binding import Binding

__all__ = ["Matcher"]


class Matcher(ABC):
    """The bindings of one exchange, found by what a message is like.

    It can look at whatever it likes: the key, the headers, the size, the payload, or things outside.
    """

    __slots__ = ()

    def validate(self, binding: Binding) -> None:
        """See that a binding means something to this type.

        Raises:
            InvalidArgument: it does not.
        """
        check_key(binding.key)

    @abstractmethod
    def add(self, binding: Binding) -> None:
        """Take a binding that was validated, and that it does not have."""

    @abstractmethod
    def remove(self, binding: Binding) -> None:
        """Let go of a binding that it has; the object may be an equal one."""

    @abstractmethod
    def match(self, message: Message) -> Iterable[Binding]:
        """The bindings that a message follows, each once, always in the same order.

        The payload of the message is at hand.

        Raises:
            BrokerError: the exchange refuses the message.
        """

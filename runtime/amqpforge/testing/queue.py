"""A queue in memory: messages in the order in which they came, and the links that take them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import Accepted, AmqpError, Error, Modified, Rejected, Released

from .loop import in_loop
from .stored import StoredMessage

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnyOutcome

    from .stand import Stand

__all__ = ["Consumer", "Queue"]

_KEPT: Final = 10_000  # messages that are gone, for tests to look at


class Consumer(Protocol):
    """What a queue asks of a link that takes messages out of it."""

    @property
    def wants(self) -> bool:
        """Whether it has credit."""
        ...

    def admits(self, message: StoredMessage) -> bool:
        """Whether a message may go to it."""
        ...

    def take(self, message: StoredMessage) -> None:
        """Send a message, which it has acquired."""
        ...

    def offer(self, message: StoredMessage) -> None:
        """A message is new in the queue; a link that copies notes it."""
        ...

    def browse(self) -> None:
        """A link that copies sends what it has noted, as far as it has credit."""
        ...


class Queue:
    """A node that stores messages.

    Attributes:
        address: its name.
        answer: the outcome for each message that comes over a link: an outcome, or a function of the message.
            Only a message that is accepted is stored.
        capacity: messages that it holds at most; one more is rejected.
        maker: the link that it was made for, and goes with; None: it stays.
        retired: messages that are gone, with the outcome that they had; of many the last ones.
        arrived: how many messages came over links so far.
    """

    def __init__(self, address: str, stand: Stand[Any], *, capacity: int = 100_000) -> None:
        self.address = address
        self.answer: AnyOutcome | Callable[[Message], AnyOutcome] = Accepted()
        self.capacity = capacity
        self.maker: object = None
        self.retired: deque[StoredMessage] = deque(maxlen=_KEPT)
        self.arrived = 0
        self.stand = stand
        self._numbers = count(1)
        self._stored: dict[int, StoredMessage] = {}
        self._available: list[int] = []  # a heap, so that what comes back is in its old place
        self._consumers: deque[Consumer] = deque()

    def __repr__(self) -> str:
        return f"<Queue {self.address!r}, {len(self._stored)} messages>"

    def __len__(self) -> int:
        return len(self._stored)

    @in_loop
    def stored(self) -> list[StoredMessage]:
        """What is in the queue, in order, with what is on its way to a receiver that has not settled it."""
        return [self._stored[number] for number in sorted(self._stored)]

    @in_loop
    def messages(self) -> list[Message]:
        """The messages of :meth:`stored`."""
        return [stored.message for stored in self.stored()]

    @in_loop
    def put(self, message: Message | Any) -> StoredMessage:
        """Put a message in; what is no Message becomes the body of one.

        Raises:
            EncodeError: a value has no AMQP type.
        """
        whole = message if isinstance(message, Message) else Message(message)
        return self.add(StoredMessage(whole.encode(), whole.message_format))

    @in_loop
    def clear(self) -> int:
        """Drop what is in the queue and not on its way; returns how many messages that were."""
        dropped, self._available = self._available, []
        for number in dropped:
            del self._stored[number]
        self.stand.changed()
        return len(dropped)

    # --- messages that come over links ---------------------------------------------------------------------

    def judge(self, stored: StoredMessage) -> AnyOutcome:
        """The outcome of a message that came over a link; what is accepted has to be added."""
        self.arrived += 1
        if len(self._stored) >= self.capacity:
            text = f"the queue {self.address!r} is full: it holds {self.capacity} messages"
            return Rejected(error=Error(condition=AmqpError.RESOURCE_LIMIT_EXCEEDED, description=text))
        return self.answer(stored.message) if callable(self.answer) else self.answer

    def add(self, stored: StoredMessage) -> StoredMessage:
        """Put a message behind all others."""
        stored.number = next(self._numbers)
        self._stored[stored.number] = stored
        heappush(self._available, stored.number)
        for consumer in self._consumers:
            consumer.offer(stored)
        self.dispatch()
        self.stand.changed()
        return stored

    def conclude(self, stored: StoredMessage, outcome: AnyOutcome, link: object) -> None:
        """A message that a link had acquired has an outcome: it goes, or comes back, changed as that says."""
        stored.apply(outcome, link)
        stored.is_acquired = False
        if isinstance(outcome, Released | Modified):
            heappush(self._available, stored.number)
            self.dispatch()
        else:
            stored.outcome = outcome
            del self._stored[stored.number]
            self.retired.append(stored)
        self.stand.changed()

    # --- links that take messages --------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Messages that nobody has acquired."""
        return len(self._available)

    def attach(self, consumer: Consumer) -> None:
        """A link takes messages from now on, if it does not do so already."""
        if consumer not in self._consumers:
            self._consumers.append(consumer)

    def detach(self, consumer: Consumer) -> None:
        """A link takes no more messages."""
        if consumer in self._consumers:
            self._consumers.remove(consumer)

    def dispatch(self) -> None:
        """Give out what is available, one message to each link in turn."""
        for consumer in list(self._consumers):
            consumer.browse()
        idle = 0
        while self._available and idle < len(self._consumers):
            consumer = self._consumers[0]
            self._consumers.rotate(-1)
            idle = 0 if self._serve(consumer) else idle + 1

    def _serve(self, consumer: Consumer) -> bool:
        """Give a link the first message that may go to it; returns whether there was one."""
        if not consumer.wants:
            return False
        passed: list[int] = []
        found = None
        while self._available and found is None:
            number = heappop(self._available)
            if consumer.admits(self._stored[number]):
                found = self._stored[number]
            else:
                passed.append(number)
        for number in passed:
            heappush(self._available, number)
        if found is not None:
            consumer.take(found)
        return found is not None

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self.stored())

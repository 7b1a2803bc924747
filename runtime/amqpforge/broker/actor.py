"""A user on a virtual host, over one connection: does what the user has a right to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .access import Operation, written
from .errors import LimitExceeded, NotFound
from .exchanges import Binding, Chain, DestinationKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .access import Access
    from .core import Told
    from .exchanges import Exchange
    from .host import VirtualHost
    from .message import Message
    from .queues import Consumer, Entry, Outcome, Queue
    from .settings import ExchangeSettings, QueueSettings
    from .traffic import Published
    from .transaction import Transaction

__all__ = ["Actor"]


class Actor:
    """What heads work with. All methods raise AccessRefused where the user has no right to what they do, and
    else what the method of the virtual host does that has the same name.

    Attributes:
        user: who it is.
        host: the virtual host.
        owner: the connection.
    """

    def __init__(
        self, user: str, host: VirtualHost, access: Access, owner: object, left: Callable[[], None]
    ) -> None:
        """``left``: called once when the connection is over."""
        self.user = user
        self.host = host
        self.owner = owner
        self._access = access
        self._left = left
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Actor {self.user!r} on {self.host.name!r}>"

    def close(self) -> None:
        """The connection is over; does nothing a second time."""
        if not self._is_closed:
            self._is_closed = True
            self.host.release_owner(self.owner)
            self._left()

    def check(self, operation: Operation, name: str) -> None:
        """Raises AccessRefused unless the user may do this to the queue or exchange of that name."""
        self._access.check(self.user, self.host.name, operation, name)

    # --- what there is -------------------------------------------------------------------------------------

    def declare_queue(
        self, name: str | None, settings: QueueSettings | None = None, *, passive: bool = False
    ) -> Queue:
        """Have a queue, or look for one: what is looked for need not be configured.

        One with a dead-letter exchange passes messages on: that takes reading it, and writing where they go.
        """
        if name and not passive:
            self.check(Operation.CONFIGURE, name)
        if settings is not None and settings.dead_letter_exchange is not None and not passive:
            if name:
                self.check(Operation.READ, name)
            self.check(
                Operation.WRITE, written(settings.dead_letter_exchange, settings.dead_letter_key or "")
            )
        return self.host.declare_queue(name, settings, passive=passive, owner=self.owner)

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; returns how many messages were in it."""
        self.check(Operation.CONFIGURE, name)
        return self.host.delete_queue(name, if_unused=if_unused, if_empty=if_empty, owner=self.owner)

    def purge_queue(self, name: str) -> int:
        """Drop the messages of a queue that nobody holds; returns how many these were."""
        self.check(Operation.READ, name)
        return self.host.purge_queue(name, owner=self.owner)

    def declare_exchange(
        self, name: str, settings: ExchangeSettings | None = None, *, passive: bool = False
    ) -> Exchange:
        """Have an exchange, or look for one."""
        if not passive:
            self.check(Operation.CONFIGURE, name)
        return self.host.declare_exchange(name, settings, passive=passive)

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange."""
        self.check(Operation.CONFIGURE, name)
        self.host.delete_exchange(name, if_unused=if_unused)

    def bind(self, bound: Binding | Chain) -> None:
        """Have a binding: that takes reading where messages come from, and writing where they go."""
        self._check_ends(bound)
        self.host.bind(bound)

    def unbind(self, bound: Binding | Chain) -> None:
        """Have a binding no longer."""
        self._check_ends(bound)
        self.host.unbind(bound)

    def _check_ends(self, bound: Binding | Chain) -> None:
        if isinstance(bound, Chain):
            sources, name, is_queue = [step.exchange for step in bound.steps], bound.queue, True
        else:
            sources, name = [bound.source], bound.destination.name
            is_queue = bound.destination.kind is DestinationKind.QUEUE
        for source in sources:
            self.check(Operation.READ, source)
        self.check(Operation.WRITE, name)
        if is_queue:
            self.host.queue(name).check_owner(self.owner)

    # --- messages ------------------------------------------------------------------------------------------

    def readable(self, name: str) -> Queue:
        """A queue to consume from, which has room for one more consumer."""
        self.check(Operation.READ, name)
        queue = self.host.queue(name)
        queue.check_owner(self.owner)
        most = self.host.core.usage.limits.consumers_per_queue
        if queue.consumer_count >= most:
            raise LimitExceeded(
                f"the limit consumers_per_queue is {most}, and queue {name!r:.80} has so many: wait until "
                "one has left, or raise the limit"
            )
        return queue

    def check_target(self, exchange: str, key: str | None) -> None:
        """Whether messages may be published to an exchange with this key; None: with any key."""
        if exchange or key is not None:
            self.check(Operation.WRITE, written(exchange, key or ""))
        if exchange not in self.host.wiring.exchanges:
            raise NotFound(f"there is no exchange {exchange!r:.80} in the virtual host {self.host.name!r}")

    def publish(
        self,
        message: Message,
        message_id: bytes | None,
        done: Published,
        transaction: Transaction | None = None,
    ) -> None:
        """Publish a message where :meth:`check_target` has found nothing against it."""
        if transaction is not None:
            done(None, transaction.publish(message, message_id))
        else:
            self.host.traffic.publish(message, message_id, done)

    def settle(
        self,
        queue: Queue,
        entries: Iterable[Entry],
        consumer: Consumer,
        outcome: Outcome,
        told: Told | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """A consumer says what became of messages that it holds: the same of all of them."""
        if transaction is not None:
            transaction.settle(queue, entries, consumer, outcome)
        else:
            self.host.traffic.settle(queue, entries, consumer, outcome, told)

    def transaction(self) -> Transaction:
        """Work that becomes true as a whole, or not at all."""
        return self.host.traffic.transaction()

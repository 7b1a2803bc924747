"""A queue of a broker under a script, as a test looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqpforge.broker.amqp_1_0.form import FORM, arrive, opened
from amqpforge.broker.message import Message as BrokerMessage
from amqpforge.message import Message

from .loop import in_loop

if TYPE_CHECKING:
    from amqpforge.broker.errors import BrokerError
    from amqpforge.broker.host import VirtualHost
    from amqpforge.broker.queues import Queue
    from amqpforge.broker.queues.counters import Counters

    from .brokerstand import BrokerStand

__all__ = ["BrokerQueue"]


class BrokerQueue:
    """A queue by its name; all methods raise NotFound once it is deleted.

    Attributes:
        stand: what the broker belongs to.
        name: its name in its virtual host.
        vhost: the name of that.
    """

    def __init__(self, stand: BrokerStand, name: str, vhost: str) -> None:
        self.stand = stand
        self.name = name
        self.vhost = vhost

    def __repr__(self) -> str:
        return f"<BrokerQueue {self.name!r}>"

    @in_loop
    def __len__(self) -> int:
        """How many messages are in it, with those that are on their way to a receiver."""
        queue = self._queue
        return queue.ready + queue.unacknowledged

    @property
    def depth(self) -> int:
        """Messages that nobody has acquired."""
        return self.stand.run(lambda: self._queue.ready)

    @property
    def consumers(self) -> int:
        """How many links take messages out of it."""
        return self.stand.run(lambda: self._queue.consumer_count)

    @property
    def counters(self) -> Counters:
        """What has happened on it, in numbers that go on counting."""
        return self.stand.run(lambda: self._queue.counters)

    @in_loop
    def messages(self) -> list[Message]:
        """What is in it, in the order of delivery, with what is on its way to a receiver."""
        bodies = self._host.core.bodies
        found: list[Message] = []
        for entry in self._queue:
            payload = FORM.changed(bodies.payload(entry.message), entry.delivery_count, entry.annotations)
            message_format, octets = opened(payload)
            found.append(Message.from_octets(octets, message_format))
        return found

    @in_loop
    def put(self, message: Message | Any) -> None:
        """Publish a message to it; what is no Message becomes the body of one.

        A durable message in a store on disk is there once that has it.

        Raises:
            BrokerError: the queue refuses it.
            EncodeError: a value has no AMQP type.
        """
        whole = message if isinstance(message, Message) else Message(message)
        arrival = arrive(whole.encode(), whole.message_format)
        host = self._host
        made = BrokerMessage(
            FORM,
            arrival.payload,
            key=self._queue.name,
            durable=arrival.durable,
            priority=arrival.priority,
            expires_at=arrival.expires_at(host.clock.now()),
        )
        refused: list[BrokerError] = []

        def done(error: BrokerError | None, _: int) -> None:
            if error is not None:
                refused.append(error)
            self.stand.changed()

        host.traffic.publish(made, arrival.message_id, done)
        if refused:
            raise refused[0]

    @in_loop
    def clear(self) -> int:
        """Drop what is in it and not on its way; returns how many messages that were."""
        return self._host.purge_queue(self.name, owner=self._queue.owner)

    @property
    def _host(self) -> VirtualHost:
        return self.stand.host(self.vhost)

    @property
    def _queue(self) -> Queue:
        return self._host.queue(self.name)

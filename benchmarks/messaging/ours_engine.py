"""Two of our engines joined in memory."""

from __future__ import annotations

from typing import Any

from amqpforge.engine.connection import Connection
from amqpforge.engine.container import Container
from amqpforge.engine.events import Attached, Deliveries, Opened, Updates
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import Accepted, SenderSettleMode, Source, Target
from benchmarks.messaging.work import WINDOW, Answer, Inbox, Job, Meter, WrongMessageError

NOW = 0.0
"""No time passes in memory."""


class _Server:
    """The end that receives: answers what the other opens, and accepts each message that is right."""

    def __init__(self, job: Job) -> None:
        self.connection = Connection(ConnectionSettings(), Container("server"), is_server=True)
        self.inbox = Inbox(job)
        self._accepted = Accepted()

    def react(self) -> None:
        """Deal with what came in since the last call."""
        for event in self.connection.events():
            if isinstance(event, Deliveries):
                for delivery in event.deliveries:
                    self.inbox.take(Message.from_octets(delivery.payload).body)
                    delivery.settle(self._accepted)
            elif isinstance(event, Opened):
                self.connection.open()
            elif isinstance(event, Attached) and isinstance(event.link, Receiver):
                event.link.prefetch = WINDOW
                event.link.attach()


class _Client:
    """The end that sends."""

    def __init__(self, job: Job) -> None:
        self.connection = Connection(ConnectionSettings(), Container("client"))
        self.connection.open()
        session = self.connection.session()
        session.begin()
        mode = SenderSettleMode.SETTLED if job.settled else SenderSettleMode.UNSETTLED
        self.sender = Sender(
            "bench", source=Source(), target=Target(address=job.address), snd_settle_mode=mode
        )
        session.attach(self.sender)
        self.settled = 0

    def react(self) -> None:
        """Count what the other end has settled."""
        for event in self.connection.events():
            if isinstance(event, Updates):
                for delivery in event.deliveries:
                    if not isinstance(delivery.remote_state, Accepted):
                        raise WrongMessageError(f"a message became {delivery.remote_state}")
                    self.settled += delivery.remote_settled


def _move(source: Connection, target: Connection) -> bool:
    """Hand over what one end has to send; tells whether that was anything."""
    octets = source.data_to_send(NOW)
    if octets:
        target.receive(octets, NOW)
    return bool(octets)


def _attach(client: _Client, server: _Server) -> None:
    """Exchange frames until there is credit."""
    is_moving = True
    while is_moving and not client.sender.link_credit:
        is_moving = _move(client.connection, server.connection)
        server.react()
        is_moving = _move(server.connection, client.connection) or is_moving
        client.react()


def joined(job: Job, answer: Answer) -> dict[str, Any]:
    """Send all messages from one engine to the other.

    Raises:
        WrongMessageError: one arrived wrong, or the engines came to a stop.
    """
    client, server = _Client(job), _Server(job)
    _attach(client, server)
    sender, inbox, bodies = client.sender, server.inbox, job.bodies()
    sent = 0
    is_moving = True
    meter = Meter()
    while not inbox.is_full or client.settled < sent:
        if not is_moving:
            raise WrongMessageError(f"stopped after {inbox.count} messages, {client.settled} of them settled")
        while sent < job.count and sender.link_credit > 0 and (job.settled or sent - client.settled < WINDOW):
            sender.send(Message(bodies[sent]).encode())
            sent += 1
        is_moving = _move(client.connection, server.connection)
        server.react()
        is_moving = _move(server.connection, client.connection) or is_moving
        client.react()
        if job.settled:
            client.settled = sent
    return meter.stop()

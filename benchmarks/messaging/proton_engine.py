"""Two engines of python-qpid-proton joined in memory: no sockets, no reactor."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from benchmarks.messaging.work import WINDOW, Answer, Inbox, Job, Meter, WrongMessageError

proton = import_module("proton")


class _End:
    """One engine: a connection with its transport, and the events of both."""

    def __init__(self, mode: int) -> None:
        self.connection = proton.Connection()
        self.collector = proton.Collector()
        self.connection.collect(self.collector)
        self.transport = proton.Transport(mode)
        self.transport.bind(self.connection)
        self.connection.open()

    def deliveries(self) -> Iterator[Any]:
        """The deliveries that the events since the last call tell of; all other events are dropped."""
        peek, pop, wanted = self.collector.peek, self.collector.pop, proton.Event.DELIVERY
        while (event := peek()) is not None:
            if event.type is wanted:
                yield event.delivery
            pop()

    def move(self, other: _End) -> bool:
        """Hand over to the other end what this one has to send; tells whether that was anything."""
        source, target = self.transport, other.transport
        is_moved = False
        while (size := min(source.pending(), target.capacity())) > 0:
            octets = source.peek(size)
            target.push(octets)
            source.pop(len(octets))
            is_moved = True
        return is_moved


def _attach(job: Job, client: _End, server: _End) -> tuple[Any, Any]:
    """A sender of the client's and the server's receiver of it, with credit."""
    session = client.connection.session()
    session.open()
    sender = session.sender("bench")
    sender.target.address = job.address
    sender.snd_settle_mode = sender.SND_SETTLED if job.settled else sender.SND_UNSETTLED
    sender.open()
    client.move(server)
    receiver = server.connection.link_head(0)
    receiver.session.open()
    receiver.target.copy(receiver.remote_target)
    receiver.open()
    receiver.flow(WINDOW)
    server.move(client)
    return sender, receiver


def joined(job: Job, answer: Answer) -> dict[str, Any]:
    """Send all messages from one engine to the other.

    Raises:
        WrongMessageError: one arrived wrong, or the engines came to a stop.
    """
    client, server = _End(proton.Transport.CLIENT), _End(proton.Transport.SERVER)
    sender, receiver = _attach(job, client, server)
    bodies, inbox = job.bodies(), Inbox(job)
    sent = settled = 0
    is_moving = True
    meter = Meter()
    while not inbox.is_full or settled < sent:
        if not is_moving:
            raise WrongMessageError(f"stopped after {inbox.count} messages, {settled} of them settled")
        while sent < job.count and sender.credit > 0 and (job.settled or sent - settled < WINDOW):
            sender.send(proton.Message(body=bodies[sent], inferred=True))
            sent += 1
        is_moving = client.move(server)
        for delivery in server.deliveries():
            _take(delivery, inbox)
        if receiver.credit < WINDOW // 2:
            receiver.flow(WINDOW - receiver.credit)
        is_moving = server.move(client) or is_moving
        settled = sent if job.settled else settled + _settle(client)
    return meter.stop()


def _take(delivery: Any, inbox: Inbox) -> None:
    if delivery.readable and not delivery.partial:
        message = proton.Message()
        message.decode(delivery.link.recv(delivery.pending))
        delivery.link.advance()
        inbox.take(bytes(message.body))
        delivery.update(proton.Delivery.ACCEPTED)
        delivery.settle()


def _settle(client: _End) -> int:
    """Settle what the other end has accepted; returns how many."""
    count = 0
    for delivery in client.deliveries():
        if delivery.updated and delivery.settled:
            if delivery.remote_state != proton.Delivery.ACCEPTED:
                raise WrongMessageError(f"a message became {delivery.remote_state}")
            delivery.settle()
            count += 1
    return count

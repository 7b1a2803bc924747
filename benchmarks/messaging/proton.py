"""python-qpid-proton as a worker: its reactor over sockets, and two of its engines joined in memory.

The library is imported by name, so that checks of types do the same whether it is installed or not.
"""

from __future__ import annotations

import gc
import time
from importlib import import_module, metadata
from typing import Any, ClassVar

from benchmarks.messaging.proton_engine import joined
from benchmarks.messaging.work import WINDOW, Answer, Inbox, Job, Meter, resident_octets

proton = import_module("proton")
handlers = import_module("proton.handlers")
reactor = import_module("proton.reactor")

LABEL = f"python-qpid-proton {metadata.version('python-qpid-proton')}"


class _Peer:
    """What the handlers of events share: a link that fails raises, which ends the container's run."""

    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, job: Job, answer: Answer) -> None:
        super().__init__(**self.options)
        self.job = job
        self.answer = answer
        self.result: dict[str, Any] = {}

    def connect(self, event: Any) -> Any:
        return event.container.connect(f"127.0.0.1:{self.job.port}", reconnect=False)

    def delivery_mode(self) -> Any:
        return reactor.AtMostOnce() if self.job.settled else reactor.AtLeastOnce()

    def on_transport_error(self, event: Any) -> None:
        raise ConnectionError(str(event.transport.condition))

    def on_link_error(self, event: Any) -> None:
        raise ConnectionError(str(event.link.remote_condition))

    def on_session_error(self, event: Any) -> None:
        raise ConnectionError(str(event.session.remote_condition))

    def on_connection_error(self, event: Any) -> None:
        raise ConnectionError(str(event.connection.remote_condition))


def _run(peer: type[_Peer], job: Job, answer: Answer) -> dict[str, Any]:
    """Run a container with such a peer as its handler until nothing is left to do."""
    handler: Any = type(peer.__name__, (peer, handlers.MessagingHandler), {})(job, answer)
    reactor.Container(handler).run()
    result: dict[str, Any] = handler.result
    return result


class _Listening(_Peer):
    """Accepts one connection with all its links, and ends with it."""

    def on_start(self, event: Any) -> None:
        self.acceptor = event.container.listen("127.0.0.1:0")
        self.answer({"port": self.acceptor._selectable.getsockname()[1]})  # no public way tells it

    def on_connection_opened(self, event: Any) -> None:
        self.acceptor.close()

    def on_link_opening(self, event: Any) -> None:
        event.link.source.copy(event.link.remote_source)
        event.link.target.copy(event.link.remote_target)


class _Receiving(_Peer):
    """Takes the messages in, each accepted once it is found right."""

    options: ClassVar[dict[str, Any]] = {"prefetch": WINDOW, "auto_accept": False}

    def on_link_opened(self, event: Any) -> None:
        self.inbox = Inbox(self.job)
        self.meter = Meter()

    def on_message(self, event: Any) -> None:
        self.inbox.take(bytes(event.message.body))
        event.delivery.update(proton.Delivery.ACCEPTED)
        event.delivery.settle()
        if self.inbox.is_full:
            self.result = {**self.meter.stop(), "times": self.inbox.times}
            self.finish(event)

    def finish(self, event: Any) -> None:
        """Whoever opened the connection closes it."""


class _Accepting(_Listening, _Receiving):
    """A node that takes in what one sender sends."""


class _Fetching(_Receiving):
    """A client that receives from a node."""

    def on_start(self, event: Any) -> None:
        connection = self.connect(event)
        event.container.create_receiver(connection, self.job.address, options=self.delivery_mode())

    def finish(self, event: Any) -> None:
        event.connection.close()


class _Sending(_Peer):
    """A client that sends as fast as credit and window allow; the run ends with the answer to its close."""

    def on_start(self, event: Any) -> None:
        self.bodies = self.job.bodies()
        self.sent = self.settled = 0
        self.times: list[int] = []
        connection = self.connect(event)
        event.container.create_sender(connection, self.job.address, options=self.delivery_mode())

    def on_link_opened(self, event: Any) -> None:
        self.meter = Meter()

    def on_sendable(self, event: Any) -> None:
        self.fill(event.sender)

    def fill(self, sender: Any) -> None:
        bound = len(self.bodies)
        if not self.job.settled:
            bound = min(bound, self.settled + WINDOW)
        for number in range(self.sent, min(bound, self.sent + sender.credit)):
            if self.job.timed:
                self.times.append(time.monotonic_ns())
            sender.send(proton.Message(body=self.bodies[number], inferred=True, durable=self.job.durable))
            self.sent = number + 1
        if self.job.settled and self.sent == len(self.bodies):
            sender.connection.close()

    def on_settled(self, event: Any) -> None:
        self.settled += 1
        if self.settled == len(self.bodies):
            event.connection.close()
        elif self.sent < len(self.bodies):
            self.fill(event.sender)

    def on_rejected(self, event: Any) -> None:
        raise ConnectionError("a message was rejected")

    def on_released(self, event: Any) -> None:
        raise ConnectionError("a message was released")

    def on_connection_closed(self, event: Any) -> None:
        self.result = {**self.meter.stop(), "times": self.times}


class _RoundTrips(_Peer):
    """A client that sends one message at a time and waits for its outcome."""

    def on_start(self, event: Any) -> None:
        self.bodies = self.job.bodies()
        self.micros: list[float] = []
        self.begin = 0
        event.container.create_sender(self.connect(event), self.job.address, options=self.delivery_mode())

    def on_sendable(self, event: Any) -> None:
        if not self.begin:
            self.send(event.sender)

    def send(self, sender: Any) -> None:
        self.begin = time.perf_counter_ns()
        sender.send(proton.Message(body=self.bodies[len(self.micros)], inferred=True))

    def on_accepted(self, event: Any) -> None:
        self.micros.append((time.perf_counter_ns() - self.begin) / 1000)
        if len(self.micros) < len(self.bodies):
            self.send(event.sender)
        else:
            event.connection.close()
            self.result = {"micros": self.micros}


class _Links(_Peer):
    """A client that opens sending links in one session, then as many again, which are the ones that count."""

    def on_start(self, event: Any) -> None:
        self.opened = 0
        self.resident: list[int | None] = []
        self.connection = self.connect(event)
        self.open_links(event.container)

    def open_links(self, container: Any) -> None:
        for number in range(self.job.count):
            container.create_sender(self.connection, self.job.address, name=f"{self.opened}-{number}")

    def on_link_opened(self, event: Any) -> None:
        self.opened += 1
        if self.opened % self.job.count == 0:
            gc.collect()
            self.resident.append(resident_octets())
            if self.opened == self.job.count:
                self.open_links(event.container)
            else:
                self.result = dict(zip(("before", "after"), self.resident, strict=True))
                self.connection.close()


def accept(job: Job, answer: Answer) -> dict[str, Any]:
    """Listen, tell the port, and take in what one client sends."""
    return _run(_Accepting, job, answer)


def listen(job: Job, answer: Answer) -> dict[str, Any]:
    """Listen, tell the port, and answer what one client opens."""
    return _run(_Listening, job, answer)


def send(job: Job, answer: Answer) -> dict[str, Any]:
    """Send all messages to a node."""
    return _run(_Sending, job, answer)


def fetch(job: Job, answer: Answer) -> dict[str, Any]:
    """Receive all messages from a node."""
    return _run(_Fetching, job, answer)


def round_trips(job: Job, answer: Answer) -> dict[str, Any]:
    """Send one message at a time, each after the outcome of the one before."""
    return _run(_RoundTrips, job, answer)


def links(job: Job, answer: Answer) -> dict[str, Any]:
    """Memory before and after many links are opened."""
    return _run(_Links, job, answer)


ROLES = {
    "accept": accept,
    "fetch": fetch,
    "joined": joined,
    "links": links,
    "listen": listen,
    "round trips": round_trips,
    "send": send,
}

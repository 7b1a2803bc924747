"""A broker as small as one can be on the reactor of python-qpid-proton, to measure ours against.

It stands for the example broker of that project, which is not part of the installed package, and does for
each message what that one does: it decodes it, appends it to a queue in memory, accepts it, encodes it again
for a consumer that has credit, and holds it until the consumer has settled. It knows neither transactions
nor redelivery.

The library is imported by name, so that checks of types do the same whether it is installed or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any

proton = import_module("proton")
handlers = import_module("proton.handlers")
reactor = import_module("proton.reactor")

LABEL = f"a small broker on python-qpid-proton {metadata.version('python-qpid-proton')}"


class _Queue:
    """Messages in their order, and who wants them."""

    def __init__(self) -> None:
        self.messages: deque[Any] = deque()
        self.consumers: list[Any] = []


class _Node:
    """What happens on all connections."""

    def __init__(self, say: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(auto_accept=False)  # type: ignore[call-arg]  # the other base is known by name alone
        self._say = say
        self._queues: dict[str, _Queue] = {}
        self._held: dict[Any, Any] = {}

    def on_start(self, event: Any) -> None:
        acceptor = event.container.listen("127.0.0.1:0")
        self._say({"label": LABEL, "port": acceptor._selectable.getsockname()[1]})  # no public way tells it

    def _queue(self, address: str) -> _Queue:
        return self._queues.setdefault(address, _Queue())

    def on_link_opening(self, event: Any) -> None:
        link = event.link
        if link.is_sender:
            link.source.address = link.remote_source.address
            self._queue(link.source.address).consumers.append(link)
        else:
            link.target.address = link.remote_target.address

    def on_link_closing(self, event: Any) -> None:
        for queue in self._queues.values():
            queue.consumers = [consumer for consumer in queue.consumers if consumer != event.link]

    def _forget(self, event: Any) -> None:
        for queue in self._queues.values():
            queue.consumers = [
                consumer for consumer in queue.consumers if consumer.connection != event.connection
            ]

    on_connection_closing = _forget
    on_disconnected = _forget

    def on_message(self, event: Any) -> None:
        queue = self._queue(event.link.target.address)
        queue.messages.append(event.message)
        for consumer in queue.consumers:
            self._serve(queue, consumer)
        event.delivery.update(proton.Delivery.ACCEPTED)
        event.delivery.settle()

    def on_sendable(self, event: Any) -> None:
        self._serve(self._queue(event.link.source.address), event.link)

    def _serve(self, queue: _Queue, consumer: Any) -> None:
        while queue.messages and consumer.credit:
            message = queue.messages.popleft()
            self._held[consumer.send(message)] = message

    def on_settled(self, event: Any) -> None:
        self._held.pop(event.delivery, None)
        event.delivery.settle()


def serve(say: Callable[[dict[str, Any]], None]) -> None:
    """Serve until a signal ends the process; ``say`` gets the name and the port."""
    node: Any = type("Node", (_Node, handlers.MessagingHandler), {})(say)
    reactor.Container(node).run()

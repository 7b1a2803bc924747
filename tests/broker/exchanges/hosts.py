"""A virtual host's wiring with queues that are names, and messages of headers alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import amqpforge_protocol.amqp_1_0 as amqp
from amqpforge.broker.exchanges import Binding, Destination, Wiring
from amqpforge.broker.message import Facts, Message
from amqpforge.broker.settings import ExchangeSettings

__all__ = ["HeadersForm", "QueueName", "bound", "host", "message", "routed"]


@dataclass(frozen=True)
class QueueName:
    """As much of a queue as the wiring looks at."""

    name: str


class HeadersForm:
    """The payload is an AMQP map: the headers."""

    number = 200

    def facts(self, payload: bytes) -> Facts:
        return self.headers(payload).get

    def changed(self, payload: bytes, failures: int, annotations: bytes | None) -> bytes:
        return payload

    def dead_letter(
        self, payload: bytes, failures: int, annotations: bytes | None, queue: str, reason: str
    ) -> bytes:
        return payload

    def headers(self, payload: bytes) -> Mapping[str, Any]:
        headers: Mapping[str, Any] = amqp.decode_value(payload)[0]
        return headers


FORM = HeadersForm()


def message(exchange: str, key: str = "", headers: Mapping[str, Any] | None = None) -> Message:
    return Message(FORM, amqp.encode_value(dict(headers or {})), exchange=exchange, key=key)


def host(*queues: str, **exchanges: str) -> Wiring[QueueName]:
    """A virtual host with queues, and with exchanges by name and type."""
    wiring = Wiring[QueueName]()
    for queue in queues:
        wiring.add_queue(QueueName(queue))
    for name, type_ in exchanges.items():
        wiring.declare(name, ExchangeSettings(type=type_))
    return wiring


def bound(wiring: Wiring[QueueName], source: str, queue: str, key: str = "", **arguments: object) -> Binding:
    """Bind a queue; underscores in the names of arguments are hyphens."""
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    binding = Binding(source, Destination.queue(queue), key, named)
    assert wiring.bind(binding)
    return binding


def routed(
    wiring: Wiring[QueueName], exchange: str, key: str = "", headers: Mapping[str, Any] | None = None
) -> list[str]:
    """The names of the queues that a message is for, in order."""
    return [queue.name for queue in wiring.route(message(exchange, key, headers))]

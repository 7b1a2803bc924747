"""What each kind of thing shows of itself: a function for each attribute, so that only those that are asked
for are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from amqpforge.broker.errors import InvalidArgument
from amqpforge.broker.exchanges import Binding, Chain
from amqpforge.broker.queues import Consumer, Counters, Queue
from amqpforge.broker.settings import QueueSettings

if TYPE_CHECKING:
    from amqpforge.broker.exchanges import Exchange

    from .rates import Sampler

__all__ = [
    "BINDING",
    "CONNECTION",
    "CONSUMER",
    "Served",
    "View",
    "chosen",
    "exchange_view",
    "queue_view",
    "shown",
]

View: TypeAlias = Mapping[str, Callable[[Any], Any]]
"""How each attribute is found, by name."""


class Served(NamedTuple):
    """A consumer where it is: of which queue, and on which connection; None: on none that is known."""

    queue: Queue
    consumer: Consumer
    connection: str | None


def queue_view(sampler: Sampler) -> View:
    """What a queue shows."""
    settings: dict[str, Callable[[Queue], Any]] = {
        one.name: attrgetter(f"settings.{one.name}") for one in fields(QueueSettings)
    }
    settings["overflow"] = attrgetter("settings.overflow.value")
    return {
        "name": attrgetter("name"),
        **settings,
        "messages": lambda queue: queue.ready + queue.unacknowledged,
        "messages_ready": attrgetter("ready"),
        "messages_unacknowledged": attrgetter("unacknowledged"),
        "bytes": attrgetter("bytes"),
        "consumers": attrgetter("consumer_count"),
        "totals": _totals_of_queue,
        "rates": sampler.rates_of,
    }


def exchange_view(sampler: Sampler) -> View:
    """What an exchange shows."""
    return {
        "name": attrgetter("name"),
        "type": attrgetter("settings.type"),
        "durable": attrgetter("settings.durable"),
        "auto_delete": attrgetter("settings.auto_delete"),
        "internal": attrgetter("settings.internal"),
        "arguments": lambda exchange: dict(exchange.settings.arguments),
        "bindings": lambda exchange: len(exchange.bindings),
        "totals": _totals_of_exchange,
        "rates": sampler.rates_of,
    }


CONNECTION: Final[View] = {
    name: attrgetter(name)
    for name in (
        "id",
        "user",
        "vhost",
        "protocol",
        "peer",
        "address",
        "since",
        "product",
        "sessions",
        "links",
        "frames_received",
        "frames_sent",
        "octets_sent",
    )
}

CONSUMER: Final[View] = {
    "queue": attrgetter("queue.name"),
    "name": attrgetter("consumer.name"),
    "connection": attrgetter("connection"),
    "is_browser": attrgetter("consumer.is_browser"),
    "has_selector": lambda served: served.consumer.selector is not None,
}

BINDING: Final[View] = {
    "source": lambda bound: bound.steps[0].exchange if isinstance(bound, Chain) else bound.source,
    "destination_type": lambda bound: "queue" if isinstance(bound, Chain) else bound.destination.kind.value,
    "destination": lambda bound: bound.queue if isinstance(bound, Chain) else bound.destination.name,
    "key": lambda bound: bound.steps[0].key if isinstance(bound, Chain) else bound.key,
    "arguments": lambda bound: dict(_condition(bound).arguments),
    "steps": lambda bound: _steps(bound) if isinstance(bound, Chain) else None,
}


def chosen(view: View, names: Sequence[str] | None) -> View:
    """The attributes that are wanted, each once; None, or none: all.

    Raises:
        InvalidArgument: there is no such attribute.
    """
    if not names:
        return view
    unknown = [name for name in names if name not in view]
    if unknown:
        raise InvalidArgument(
            f"'attributeNames' has {unknown[0]!r:.80}, which is no attribute here: {', '.join(view)}"
        )
    return {name: view[name] for name in dict.fromkeys(names)}


def shown(view: View, thing: object) -> dict[str, Any]:
    """The attributes of a thing."""
    return {name: find(thing) for name, find in view.items()}


def _totals_of_queue(queue: Queue) -> dict[str, int]:
    return {name: getattr(queue.counters, name) for name in _COUNTERS}


def _totals_of_exchange(exchange: Exchange) -> dict[str, int]:
    return {name: getattr(exchange, name) for name in ("incoming", "outgoing", "unroutable", "refused")}


def _condition(bound: Binding | Chain) -> Any:
    return bound.steps[0] if isinstance(bound, Chain) else bound


def _steps(chain: Chain) -> list[dict[str, Any]]:
    return [
        {"source": step.exchange, "key": step.key, "arguments": dict(step.arguments)} for step in chain.steps
    ]


_COUNTERS: Final = tuple(one.name for one in fields(Counters))

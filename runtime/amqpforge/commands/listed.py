"""What `amqpforge admin` shows of each kind of thing, in columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amqpforge.commands.tables import Column

__all__ = ["LISTS", "SUMS"]


def _rate(name: str) -> Callable[[Any], object]:
    """The rate of a counter over the shortest window."""
    return lambda thing: thing.rates["10s"].get(name)


def _features(thing: Any) -> str:
    names = ("durable", "private", "exclusive", "auto_delete", "internal", "is_browser", "has_selector")
    shown = [name.removeprefix("is_").removeprefix("has_") for name in names if getattr(thing, name, False)]
    return ", ".join(shown).replace("_", "-")


def _arguments(binding: Any) -> str:
    if binding.steps is not None:
        return f"a chain of {len(binding.steps)} conditions"
    return ", ".join(f"{name}={value}" for name, value in binding.arguments.items())


SUMS: Final = (Column("", lambda line: line[0]), Column("", lambda line: line[1]))
LISTS: Final[dict[str, tuple[Column, ...]]] = {
    "queues": (
        Column("QUEUE", lambda queue: queue.name),
        Column("READY", lambda queue: queue.messages_ready, True),
        Column("HELD", lambda queue: queue.messages_unacknowledged, True),
        Column("OCTETS", lambda queue: queue.bytes, True),
        Column("CONSUMERS", lambda queue: queue.consumers, True),
        Column("IN/S", _rate("published"), True),
        Column("OUT/S", _rate("delivered"), True),
        Column("FEATURES", _features),
    ),
    "exchanges": (
        Column("EXCHANGE", lambda exchange: exchange.name or "(default)"),
        Column("TYPE", lambda exchange: exchange.type),
        Column("FEATURES", _features),
        Column("BINDINGS", lambda exchange: exchange.bindings, True),
        Column("IN/S", _rate("incoming"), True),
        Column("OUT/S", _rate("outgoing"), True),
        Column("UNROUTABLE", lambda exchange: exchange.totals.get("unroutable"), True),
    ),
    "bindings": (
        Column("EXCHANGE", lambda binding: binding.source),
        Column("KEY", lambda binding: binding.key),
        Column("ARGUMENTS", _arguments),
        Column("TO", lambda binding: binding.destination_type),
        Column("NAME", lambda binding: binding.destination),
    ),
    "connections": (
        Column("ID", lambda connection: connection.id, True),
        Column("USER", lambda connection: connection.user),
        Column("ADDRESS", lambda connection: connection.address),
        Column("CLIENT", lambda connection: connection.peer),
        Column("PRODUCT", lambda connection: connection.product),
        Column("LINKS", lambda connection: connection.links, True),
        Column("FRAMES IN", lambda connection: connection.frames_received, True),
        Column("FRAMES OUT", lambda connection: connection.frames_sent, True),
    ),
    "consumers": (
        Column("QUEUE", lambda consumer: consumer.queue),
        Column("CONSUMER", lambda consumer: consumer.name),
        Column("CONNECTION", lambda consumer: consumer.connection, True),
        Column("FEATURES", _features),
    ),
}

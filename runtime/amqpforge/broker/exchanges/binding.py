"""Bindings: what makes an exchange pass messages on, and where to."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from amqpforge.broker.errors import InvalidArgument

from .data import arguments_from_data, arguments_to_data, field
from .values import fingerprint

__all__ = ["NO_ARGUMENTS", "Binding", "Destination", "DestinationKind"]

NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})


class DestinationKind(Enum):
    """What a message can be passed on to."""

    QUEUE = "queue"
    EXCHANGE = "exchange"


class Destination(NamedTuple):
    """A queue or an exchange, by name."""

    kind: DestinationKind
    name: str

    @classmethod
    def queue(cls, name: str) -> Destination:
        return cls(DestinationKind.QUEUE, name)

    @classmethod
    def exchange(cls, name: str) -> Destination:
        return cls(DestinationKind.EXCHANGE, name)

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name!r}"


class Binding:
    """The condition under which one exchange passes messages on to one destination. It never changes.

    Two are equal if all four attributes are; arguments compare as AMQP values (:func:`.values.canonical`).

    Attributes:
        source: the name of the exchange.
        destination: the queue or further exchange.
        key: the routing key or pattern; what it means is up to the type of the exchange.
        arguments: the rest of the condition, AMQP 1.0 values by name. A head of another dialect translates
            its own types.

    Raises:
        InvalidArgument: an argument is no AMQP value.
    """

    __slots__ = ("_hash", "_identity", "arguments", "destination", "key", "source")

    def __init__(
        self,
        source: str,
        destination: Destination,
        key: str = "",
        arguments: Mapping[str, Any] = NO_ARGUMENTS,
    ) -> None:
        self.source = source
        self.destination = destination
        self.key = key
        self.arguments = MappingProxyType(dict(arguments)) if arguments else NO_ARGUMENTS
        self._identity = (source, destination.kind.value, destination.name, key, fingerprint(arguments))
        self._hash = hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Binding) and self._identity == other._identity)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        arguments = f", {dict(self.arguments)!r:.80}" if self.arguments else ""
        return f"<Binding of {self.destination} to {self.source!r}, key {self.key!r:.80}{arguments}>"

    def to_data(self) -> dict[str, Any]:
        """JSON values that say all of it."""
        return {
            "source": self.source,
            "kind": self.destination.kind.value,
            "destination": self.destination.name,
            "key": self.key,
            "arguments": arguments_to_data(self.arguments),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Binding:
        """What ``to_data`` wrote.

        Raises:
            InvalidArgument: it did not write this.
        """
        try:
            kind = DestinationKind(field(data, "kind", str))
        except ValueError as error:
            raise InvalidArgument(f"a binding has no destination: {error}") from error
        destination = Destination(kind, field(data, "destination", str))
        arguments = arguments_from_data(field(data, "arguments", dict))
        return cls(field(data, "source", str), destination, field(data, "key", str), arguments)

"""An exchange: a named instance of a type, with its bindings. It holds no message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amqpforge.broker.errors import BrokerError
from amqpforge.broker.settings import ExchangeSettings

from .data import arguments_from_data, arguments_to_data, field
from .values import fingerprint

if TYPE_CHECKING:
    from amqpforge.broker.message import Message

    from .binding import Binding, Destination
    from .chain import Chain
    from .matcher import Matcher

__all__ = ["Exchange", "identity_of", "settings_from_data", "settings_to_data"]


class Exchange:
    """An exchange of a virtual host; what is bound to it is changed through the wiring alone.

    Attributes:
        name: its name; empty: the default exchange.
        settings: as it was declared.
        bindings: what messages can follow from here, in the order in which it was bound.
        chains: the chained bindings that have a condition here.
        part_of: the chain that it was made for, and goes with; None: it was declared.
        incoming: how many messages came.
        outgoing: how many times a message was passed on, to a queue or an exchange.
        unroutable: how many messages followed no binding.
        refused: how many messages its type refused.
    """

    __slots__ = (
        "bindings",
        "chains",
        "incoming",
        "matcher",
        "name",
        "outgoing",
        "part_of",
        "refused",
        "settings",
        "unroutable",
    )

    def __init__(
        self, name: str, settings: ExchangeSettings, matcher: Matcher, *, part_of: Chain | None = None
    ) -> None:
        self.name = name
        self.settings = settings
        self.matcher = matcher
        self.part_of = part_of
        self.bindings: dict[Binding, Binding] = {}
        self.chains: dict[Chain, None] = {}
        self.incoming = 0
        self.outgoing = 0
        self.unroutable = 0
        self.refused = 0

    def __repr__(self) -> str:
        return f"<Exchange {self.name!r}, {self.settings.type}, {len(self.bindings)} bindings>"

    @property
    def is_used(self) -> bool:
        """Whether anything is bound to it."""
        return bool(self.bindings or self.chains)

    def add(self, binding: Binding) -> None:
        """Take a binding that was validated, and that it does not have."""
        self.matcher.add(binding)
        self.bindings[binding] = binding

    def remove(self, binding: Binding) -> Binding:
        """Let go of a binding that it has; returns the one that it had, which is equal."""
        self.matcher.remove(binding)
        return self.bindings.pop(binding)

    def pass_on(self, message: Message) -> list[Destination]:
        """Where a message goes from here, each once; it is counted.

        Raises:
            BrokerError: the exchange refuses it.
        """
        self.incoming += 1
        try:
            destinations = [binding.destination for binding in self.matcher.match(message)]
        except BrokerError:
            self.refused += 1
            raise
        if len(destinations) > 1:
            destinations = list(dict.fromkeys(destinations))
        self.outgoing += len(destinations)
        self.unroutable += not destinations
        return destinations


def identity_of(settings: ExchangeSettings) -> tuple[object, ...]:
    """What is equal for equal settings, and for no others; arguments compare as AMQP values.

    Raises:
        InvalidArgument: an argument is no AMQP value.
    """
    flags = settings.durable, settings.auto_delete, settings.internal
    return settings.type, flags, fingerprint(settings.arguments)


def settings_to_data(settings: ExchangeSettings) -> dict[str, Any]:
    """JSON values that say all of the settings."""
    return {
        "type": settings.type,
        "durable": settings.durable,
        "auto_delete": settings.auto_delete,
        "internal": settings.internal,
        "arguments": arguments_to_data(settings.arguments),
    }


def settings_from_data(data: Mapping[str, Any]) -> ExchangeSettings:
    """What ``settings_to_data`` wrote.

    Raises:
        InvalidArgument: it did not write this.
    """
    return ExchangeSettings(
        type=field(data, "type", str),
        durable=field(data, "durable", bool),
        auto_delete=field(data, "auto_delete", bool),
        internal=field(data, "internal", bool),
        arguments=arguments_from_data(field(data, "arguments", dict)),
    )

"""Reading the attributes that come with a request; whatever is wrong with one is said with its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from amqpforge.broker.errors import InvalidArgument, PreconditionFailed
from amqpforge.broker.exchanges import Binding, Chain, Destination, Step
from amqpforge.broker.settings import ExchangeSettings, Overflow, QueueSettings

__all__ = ["Attributes", "bound_of", "differing", "exchange_settings", "queue_settings"]

_SECONDS: Final = ("message_ttl", "expires", "acquisition_timeout")
_COUNTS: Final = ("max_length", "max_bytes", "delivery_limit")
_FLAGS: Final = ("durable", "private", "exclusive", "auto_delete")
_TEXTS: Final = ("dead_letter_exchange", "dead_letter_key")


class Attributes:
    """The attributes of one body. Each is taken once; :meth:`finish` refuses what nobody has taken.

    An attribute that is null counts as left out.
    """

    def __init__(self, body: Mapping[str, Any], place: str = "") -> None:
        """``place``: what stands in front of the names in errors."""
        self._left = {name: value for name, value in body.items() if value is not None}
        self._known: list[str] = []
        self._place = place

    def text(self, name: str, usual: str | None = None) -> str | None:
        """A string."""
        value = self._take(name)
        if value is None:
            return usual
        if not isinstance(value, str):
            raise self._error(name, "a string", value)
        return str(value)

    def required(self, name: str) -> str:
        """A string that has to be there."""
        value = self.text(name)
        if value is None:
            raise InvalidArgument(f"the attribute {self._place + name!r} is missing: it has to be given")
        return value

    def flag(self, name: str, usual: bool = False) -> bool:
        """A boolean."""
        value = self._take(name)
        if value is None:
            return usual
        if not isinstance(value, bool):
            raise self._error(name, "a boolean", value)
        return bool(value)

    def whole(self, name: str, usual: int | None = None) -> int | None:
        """A whole number."""
        value = self._take(name)
        if value is None:
            return usual
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._error(name, "a whole number", value)
        return int(value)

    def seconds(self, name: str, usual: float | None = None) -> float | None:
        """A number of seconds."""
        value = self._take(name)
        if value is None:
            return usual
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(name, "a number of seconds", value)
        return float(value)

    def arguments(self, name: str) -> dict[str, Any]:
        """A map with strings as keys; an empty one if it is left out."""
        value = self._take(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise self._error(name, "a map with strings as keys", value)
        return {str(key): argument for key, argument in value.items()}

    def texts(self, name: str) -> list[str] | None:
        """A list of strings."""
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(element, str) for element in value):
            raise self._error(name, "a list of strings", value)
        return [str(element) for element in value]

    def maps(self, name: str) -> list[Attributes] | None:
        """A list of maps."""
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(element, Mapping) for element in value):
            raise self._error(name, "a list of maps", value)
        return [Attributes(element, f"{self._place}{name}[{at}].") for at, element in enumerate(value)]

    def finish(self) -> None:
        """Raises InvalidArgument if there is an attribute that was not asked for."""
        if self._left:
            known = ", ".join(self._known) or "none"
            name = next(iter(self._left))
            raise InvalidArgument(f"the attribute {self._place + str(name)!r:.80} is not known here: {known}")

    def _take(self, name: str) -> object:
        self._known.append(name)
        return self._left.pop(name, None)

    def _error(self, name: str, wanted: str, value: object) -> InvalidArgument:
        return InvalidArgument(f"the attribute {self._place + name!r} is {wanted}, not {value!r:.80}")


def queue_settings(attributes: Attributes) -> QueueSettings:
    """The settings of a queue, from attributes that have the names of theirs.

    Raises:
        InvalidArgument: one is malformed, out of its range, or not known.
    """
    usual = QueueSettings()
    data: dict[str, Any] = {name: attributes.flag(name) for name in _FLAGS}
    data |= {name: attributes.seconds(name) for name in _SECONDS}
    data |= {name: attributes.whole(name) for name in _COUNTS}
    data |= {name: attributes.text(name) for name in _TEXTS}
    data["grace"] = attributes.seconds("grace", usual.grace)
    for name in ("priority_levels", "duplicate_window"):
        data[name] = attributes.whole(name, getattr(usual, name))
    overflow = attributes.text("overflow", usual.overflow.value)
    attributes.finish()
    if overflow not in [one.value for one in Overflow]:
        known = ", ".join(one.value for one in Overflow)
        raise InvalidArgument(f"the attribute 'overflow' is one of {known}, not {overflow!r:.80}")
    return QueueSettings.from_data({**data, "overflow": overflow})


def exchange_settings(attributes: Attributes) -> ExchangeSettings:
    """The settings of an exchange, likewise.

    Raises:
        InvalidArgument: one is malformed, or not known.
    """
    usual = ExchangeSettings()
    settings = ExchangeSettings(
        type=attributes.text("type", usual.type) or "",
        durable=attributes.flag("durable"),
        auto_delete=attributes.flag("auto_delete"),
        internal=attributes.flag("internal"),
        arguments=attributes.arguments("arguments"),
    )
    attributes.finish()
    return settings


def differing(
    what: str,
    known: QueueSettings | ExchangeSettings,
    wanted: QueueSettings | ExchangeSettings,
    error: PreconditionFailed,
) -> PreconditionFailed:
    """The error that says which settings of a thing are others than those that it was declared with anew."""
    differences = [
        f"{one.name} is {_plain(there)}, not {_plain(asked)}"
        for one in fields(known)
        if (there := getattr(known, one.name)) != (asked := getattr(wanted, one.name))
    ]
    if not differences:
        return error
    return PreconditionFailed(
        f"{what} is there already, and its {', '.join(differences)}: declare it like that, or delete it first"
    )


def _plain(value: object) -> str:
    return repr(value.value if isinstance(value, Overflow) else value)[:80]


def bound_of(destination: Destination, attributes: Attributes) -> Binding | Chain:
    """A binding: ``source``, ``key`` and ``arguments``; or a chained one: ``steps``, each of them so.

    Raises:
        InvalidArgument: an attribute is malformed, missing or not known; a chain leads to an exchange.
    """
    steps = attributes.maps("steps")
    if steps is None:
        source, key, arguments = _condition(attributes)
        return Binding(source, destination, key, arguments)
    attributes.finish()
    if destination.kind.value != "queue":
        raise InvalidArgument("the attribute 'steps' makes a chained binding, which leads to a queue only")
    return Chain(destination.name, [Step(*_condition(step)) for step in steps])


def _condition(attributes: Attributes) -> tuple[str, str, dict[str, Any]]:
    source = attributes.required("source")
    key = attributes.text("key") or ""
    arguments = attributes.arguments("arguments")
    attributes.finish()
    return source, key, arguments

"""Reading the JSON values in which a store keeps definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from amqpforge.broker.errors import InvalidArgument
from amqpforge.notation import NotationError, from_json, to_json

__all__ = ["arguments_from_data", "arguments_to_data", "field"]

T = TypeVar("T")


def field(data: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """A member of an object.

    Raises:
        InvalidArgument: it is missing, or is of another type.
    """
    value = data.get(name)
    if type(value) is not kind:
        raise InvalidArgument(f"a definition has no {kind.__name__} called {name!r}, but {value!r:.80}")
    return value


def arguments_to_data(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, each in the notation of :mod:`amqpforge.notation`."""
    return {name: to_json(value) for name, value in arguments.items()}


def arguments_from_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """What ``arguments_to_data`` wrote.

    Raises:
        InvalidArgument: it did not write this.
    """
    try:
        return {name: from_json(value) for name, value in data.items()}
    except NotationError as error:
        raise InvalidArgument(f"a definition has arguments that are no AMQP values: {error}") from error

"""AMQP values as routing compares them, and the bounds of what is compared."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import amqpforge_protocol.amqp_1_0 as amqp
from amqpforge.broker.errors import InvalidArgument, LimitExceeded
from amqpforge_protocol.amqp_1_0 import Array, Char, Described, EncodeError, Float, Map, Timestamp

__all__ = [
    "MAX_ARGUMENTS",
    "MAX_ARGUMENT_OCTETS",
    "MAX_DEPTH",
    "MAX_OCTETS",
    "Comparable",
    "canonical",
    "check_arguments",
    "check_key",
    "check_name",
    "fingerprint",
]

MAX_OCTETS = 255
"""How long names and routing keys may be, in octets of UTF-8, as in every dialect with a short string."""
MAX_ARGUMENTS = 256
"""How many arguments a binding or an exchange may have."""
MAX_ARGUMENT_OCTETS = 65_536
"""How many octets these may take together, as an AMQP map."""
MAX_DEPTH = 16
"""How deep values within values are compared."""

Comparable = Any
"""What can be a key of a dict: equal for equal AMQP values, and for no others."""

_WHOLE = 1 << 64
_single = struct.Struct(">f")


def canonical(value: object, depth: int = MAX_DEPTH) -> Comparable:
    """What stands for an AMQP value when values are compared.

    Types come in families: all numbers compare by value, a symbol is the same as the string; a boolean, a
    timestamp and a char are no numbers or strings. A map has no order. NaN equals NaN. The result has few
    others with its hash, even if a peer chooses the values.

    Raises:
        InvalidArgument: it is no AMQP value, or is nested deeper than ``depth``.
    """
    kind = type(value)
    if kind is str or value is None or kind is bytes:
        return value
    if isinstance(value, bool):
        return "boolean", bool(value)
    if isinstance(value, Enum):
        return canonical(value.value, depth)
    if isinstance(value, Timestamp):
        return "timestamp", int(value)
    if isinstance(value, int | float | Decimal):
        return _number(value)
    if isinstance(value, Char):
        return "char", str(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, UUID):
        return "uuid", value.bytes
    return _compound(value, depth)


def fingerprint(arguments: Mapping[str, Any]) -> str:
    """A text that is the same for equal arguments, in any order, and for no others.

    Raises:
        InvalidArgument: a name is no string, a value is no AMQP value, or is nested too deep.
    """
    if not arguments:
        return ""
    values: list[tuple[str, Comparable]] = []
    for name, value in arguments.items():
        if not isinstance(name, str):
            raise InvalidArgument(f"arguments have strings as names, not {name!r:.80}")
        try:
            values.append((str(name), canonical(value)))
        except InvalidArgument as error:
            raise InvalidArgument(f"argument {name!r:.80}: {error}") from error
    return repr(sorted(values, key=lambda pair: pair[0]))


def check_name(what: str, name: str) -> None:
    """See that something may be called so: 1 to 255 octets without control characters.

    Raises:
        InvalidArgument: it may not; ``what`` says what is named.
    """
    if not 0 < _octets(name) <= MAX_OCTETS:
        raise InvalidArgument(
            f"the name of {what} has 1 to {MAX_OCTETS} octets of UTF-8, and {name[:80]!r} has {_octets(name)}"
        )
    if any(character < " " or character == "\x7f" for character in name):
        raise InvalidArgument(f"the name of {what} has no control characters, and {name[:80]!r} has")


def check_key(key: str) -> None:
    """See that a routing key is not too long.

    Raises:
        InvalidArgument: it has more than 255 octets.
    """
    # No character takes more than four octets: most keys need no look.
    if len(key) * 4 > MAX_OCTETS and _octets(key) > MAX_OCTETS:
        raise InvalidArgument(
            f"a routing key has {MAX_OCTETS} octets at most, and {key[:80]!r} has {_octets(key)}"
        )


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """See that the arguments of a binding or of settings are not too many, or too large.

    Raises:
        InvalidArgument: a name is too long, or a value cannot be.
        LimitExceeded: there are too many of them, or they are too large together.
    """
    if not arguments:
        return
    if len(arguments) > MAX_ARGUMENTS:
        raise LimitExceeded(f"{len(arguments)} arguments: {MAX_ARGUMENTS} are possible")
    for name in arguments:
        check_name("an argument", name)
    try:
        octets = len(amqp.encode_value(dict(arguments)))
    except EncodeError as error:
        raise InvalidArgument(f"the arguments are no AMQP map: {error}") from error
    if octets > MAX_ARGUMENT_OCTETS:
        raise LimitExceeded(f"arguments of {octets} octets: {MAX_ARGUMENT_OCTETS} are possible")


def _octets(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _number(value: int | float | Decimal) -> Comparable:
    """A whole number below 2^64 as an int, others as a float if they are one, or as a text.

    Python's own hashes of numbers are no secret, and with a few digits more anybody could choose any number
    of decimals that share one.
    """
    # A decimal that signals cannot even be compared with itself.
    is_nan = value.is_nan() if isinstance(value, Decimal) else value != value
    if is_nan:
        return ("nan",)
    if isinstance(value, Float):
        value = _rounded(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if -_WHOLE < value < _WHOLE and value == int(value):
        return int(value)
    return float(value) if isinstance(value, float) else _decimal(Decimal(value))


def _rounded(value: float) -> float:
    """The number that a float of 32 bits holds."""
    try:
        return float(_single.unpack(_single.pack(value))[0])
    except OverflowError as error:
        raise InvalidArgument(f"{value!r} is no float of 32 bits") from error


def _decimal(value: Decimal) -> Comparable:
    if -_WHOLE < value < _WHOLE and value == int(value):
        return int(value)
    nearest = float(value)
    if nearest == value:
        return nearest
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits))
    significant = text.strip("0")
    shift = len(text) - len(text.rstrip("0"))
    return "decimal", f"{'-' if sign else ''}{significant}e{int(exponent) + shift}"


def _compound(value: object, depth: int) -> Comparable:
    """Values that hold values, as a text: nobody can choose its hash."""
    if depth <= 0:
        raise InvalidArgument(f"values are nested {MAX_DEPTH} deep at most")
    if isinstance(value, list):
        return "list", repr([canonical(item, depth - 1) for item in value])
    if isinstance(value, Array):
        descriptor = canonical(value.descriptor, depth - 1)
        return "array", repr((descriptor, [canonical(item, depth - 1) for item in value.items]))
    if isinstance(value, dict | Map):
        pairs = [(canonical(key, depth - 1), canonical(item, depth - 1)) for key, item in value.items()]
        return "map", repr(sorted(pairs, key=repr))
    if isinstance(value, Described):
        parts = canonical(value.descriptor, depth - 1), canonical(value.value, depth - 1)
        return "described", repr(parts)
    raise InvalidArgument(f"{type(value).__name__} is no type of AMQP values that can be compared")

"""Values written in a definition: text in, a typed value or the reason why it is none out.

What a primitive type can hold is the grammar's business (``short`` has a sign in AMQP 1.0, and none in the
class/method grammar), so the tables are kept per grammar.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from uuid import UUID

from amqpforge_generator.model import Literal
from amqpforge_generator.names import SpecText

Parser = Callable[[str], Literal]

_INTEGER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|[0-9]+)")


class NotLegal(ValueError):
    """The text is no value of the type; the message says why, as the tail of a sentence."""


def parse_integer(text: str) -> int:
    """The value of a decimal or ``0x`` hexadecimal number. Raises NotLegal."""
    if not _INTEGER.fullmatch(text) or len(text) > 80:
        raise NotLegal("not a whole number")
    return int(text, 16 if "x" in text else 10)


def parse_constant(text: str) -> Literal:
    """The value of a definition: an int where it reads as one, otherwise the text."""
    try:
        return parse_integer(text)
    except NotLegal:
        return SpecText(text)


def parse_literal(text: str, primitive: str, grammar: str) -> Literal:
    """The value of ``text`` as the named primitive type of a grammar. Raises NotLegal with the reason."""
    parser = _PARSERS.get(grammar, {}).get(primitive)
    if parser is None:
        raise NotLegal(f"a value of {primitive!r} cannot be written in a definition")
    return parser(text)


def octets(text: str) -> int:
    """The size of a text on the wire, in octets of UTF-8."""
    return len(text.encode("utf-8"))


def _whole(bits: int, *, signed: bool = False) -> Parser:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def parse(text: str) -> int:
        value = parse_integer(text)
        if not low <= value <= high:
            raise NotLegal(f"outside {low} to {high}")
        return value

    return parse


def _truth(**words: bool) -> Parser:
    def parse(text: str) -> bool:
        if text not in words:
            raise NotLegal("neither 'true' nor 'false'")
        return words[text]

    return parse


def _bit(text: str) -> bool:
    if text not in ("0", "1", "true", "false"):
        raise NotLegal("neither '0' nor '1'")
    return text in ("1", "true")


def _real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise NotLegal("not a number") from None
    if not math.isfinite(value):
        raise NotLegal("not a finite number")
    return value


def _text(most: int | None = None, *, ascii_only: bool = False) -> Parser:
    def parse(text: str) -> SpecText:
        if ascii_only and not text.isascii():
            raise NotLegal("not ASCII")
        if most is not None and octets(text) > most:
            raise NotLegal(f"{octets(text)} octets long, {most} are allowed")
        return SpecText(text)

    return parse


def _character(text: str) -> SpecText:
    if len(text) != 1:
        raise NotLegal("not a single character")
    return SpecText(text)


def _uuid(text: str) -> SpecText:
    try:
        return SpecText(UUID(text).urn.removeprefix("urn:uuid:"))
    except ValueError:
        raise NotLegal("not a UUID") from None


_BOOLEAN = _truth(true=True, false=False)

_PARSERS: Mapping[str, Mapping[str, Parser]] = {
    "amqp-1.0": {
        "boolean": _BOOLEAN,
        "ubyte": _whole(8),
        "ushort": _whole(16),
        "uint": _whole(32),
        "ulong": _whole(64),
        "byte": _whole(8, signed=True),
        "short": _whole(16, signed=True),
        "int": _whole(32, signed=True),
        "long": _whole(64, signed=True),
        "timestamp": _whole(64, signed=True),
        "float": _real,
        "double": _real,
        "char": _character,
        "uuid": _uuid,
        "binary": _text(ascii_only=True),
        "string": _text(),
        "symbol": _text(ascii_only=True),
    },
    "class-method": {
        "bit": _bit,
        "octet": _whole(8),
        "short": _whole(16),
        "long": _whole(32),
        "longlong": _whole(64),
        "timestamp": _whole(64),
        "shortstr": _text(255),
        "longstr": _text(),
        "uuid": _uuid,
    },
    "control-command": {
        "bit": _bit,
        "boolean": _BOOLEAN,
        "uint8": _whole(8),
        "uint16": _whole(16),
        "uint32": _whole(32),
        "uint64": _whole(64),
        "int8": _whole(8, signed=True),
        "int16": _whole(16, signed=True),
        "int32": _whole(32, signed=True),
        "int64": _whole(64, signed=True),
        "sequence-no": _whole(32),
        "float": _real,
        "double": _real,
        "uuid": _uuid,
        "str8": _text(255),
        "str16": _text(65535),
    },
}

"""Values written in a definition: text in, a typed value or the reason why it is none out.

What a primitive type can hold follows from its wire form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from uuid import UUID

from amqpforge_generator.model import Encoding, Literal, Type
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


def parse_literal(text: str, type_: Type) -> Literal:
    """The value of ``text`` as the type. Raises NotLegal with the reason.

    The form of a primitive decides; in AMQP 1.0, where a primitive can have several forms, its name does.
    """
    forms = type_.base.encodings if type_.base is not None else ()
    parser = _of_form(forms[0]) if forms and forms[0].holds else _PARSERS.get(type_.primitive)
    if parser is None:
        raise NotLegal(f"a value of {type_.primitive!r} cannot be written in a definition")
    return parser(text)


def _of_form(form: Encoding) -> Parser | None:
    if form.holds in ("unsigned", "signed"):
        return _whole(form.width * 8, signed=form.holds == "signed")
    if form.holds == "text":
        return _text((1 << form.width * 8) - 1, form.charset or "utf-8")
    if form.holds == "binary" and form.category == "variable":
        return _text((1 << form.width * 8) - 1, "ascii")
    if form.holds == "boolean" and form.category == "bit":
        return _bit
    return _BY_CONTENT.get(form.holds)


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


def _text(most: int | None = None, charset: str = "utf-8") -> Parser:
    def parse(text: str) -> SpecText:
        try:
            size = len(text.encode(charset))
        except UnicodeEncodeError:
            raise NotLegal(f"not {charset.upper()}") from None
        if most is not None and size > most:
            raise NotLegal(f"{size} octets long, {most} are allowed")
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

_BY_CONTENT: Mapping[str, Parser] = {
    "boolean": _BOOLEAN,
    "bit": _bit,
    "float": _real,
    "serial": _whole(32),
    "timestamp-s": _whole(64),
    "timestamp-ms": _whole(64, signed=True),
    "character": _character,
    "uuid": _uuid,
}

_PARSERS: Mapping[str, Parser] = {
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
    "binary": _text(charset="ascii"),
    "string": _text(),
    "symbol": _text(charset="ascii"),
}

"""The text of a selector, cut into tokens."""

from __future__ import annotations

import re
import struct
from enum import Enum
from math import inf
from typing import Final, NamedTuple
from unicodedata import category

from .errors import SelectorError

__all__ = ["Literal", "Token", "TokenKind", "tokens_of"]

Literal = str | int | float | bool
"""What a literal stands for: a text, a whole number, a double, a truth value."""


class TokenKind(Enum):
    """What a token is."""

    NAME = "a name"
    LITERAL = "a literal"
    WORD = "a reserved word"
    SIGN = "a sign"
    END = "the end"


class Token(NamedTuple):
    """A token.

    Attributes:
        kind: what it is.
        value: the name itself, the value of a literal, a word in capitals, a sign; at the end ``""``.
        position: where it begins, in characters from 0.
    """

    kind: TokenKind
    value: Literal
    position: int


_WORDS: Final = frozenset("NULL NOT AND OR BETWEEN LIKE IN IS ESCAPE".split())
_TRUTHS: Final = {"TRUE": True, "FALSE": False}
_SIGNS: Final = ("<>", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "(", ")", ",")
_INSTEAD: Final = {
    "!=": "write <>",
    "!": "write NOT",
    "==": "write =",
    "&": "write AND",
    "|": "write OR",
    "%": "there is no remainder; % is for the pattern of LIKE",
    "[": "the list of IN stands in ( )",
    ";": "a selector is one condition",
}
_BLANKS: Final = " \t\f\r\n"

# No part can match in two ways, and all that follow the digits are optional: a match never goes back.
_NUMBER = re.compile(
    r"(?:0[xX](?P<hexadecimal>[0-9a-fA-F]+)"
    r"|(?=\.?[0-9])(?P<digits>[0-9]*)(?P<fraction>\.[0-9]*)?(?P<exponent>[eE][+-]?[0-9]+)?)"
    r"(?P<suffix>[lLfFdD])?"
)

_GREATEST: Final = (1 << 64) - 1  # a ulong
_MOST_DIGITS: Final = 24  # of a whole number, leading zeros apart: more than octal digits of the greatest


def tokens_of(text: str) -> list[Token]:
    """Cut ``text`` into its tokens; the last one is the end.

    Raises:
        SelectorError: a character that no token begins with, a malformed number, a quote that is not closed.
    """
    found: list[Token] = []
    position = 0
    while position < len(text):
        first = text[position]
        if first in _BLANKS:
            position += 1
            continue
        if first in "'\"":
            value, stop = _quoted(text, position)
            kind = TokenKind.LITERAL if first == "'" else TokenKind.NAME
            found.append(Token(kind, value, position))
        elif number := _NUMBER.match(text, position):
            stop = number.end()
            found.append(Token(TokenKind.LITERAL, _number(number), position))
        elif _begins_name(first):
            token, stop = _word(text, position)
            found.append(token)
        else:
            sign = _sign(text, position)
            found.append(Token(TokenKind.SIGN, sign, position))
            stop = position + len(sign)
        position = stop
    found.append(Token(TokenKind.END, "", len(text)))
    return found


def _quoted(text: str, start: int) -> tuple[str, int]:
    """What stands between the quote at ``start`` and its partner, and the offset behind it.


    Two quotes in a row stand for one. ``'`` encloses a text, ``"`` a name, which is not empty.
    """
    quote = text[start]
    stop = text.find(quote, start + 1)
    while stop >= 0 and text[stop + 1 : stop + 2] == quote:
        stop = text.find(quote, stop + 2)
    if stop < 0:
        what = "text" if quote == "'" else "name"
        raise SelectorError(f"the {what} is not closed; end it with {quote}", start, text)
    inner = text[start + 1 : stop].replace(quote * 2, quote)
    if not inner and quote == '"':
        raise SelectorError(
            "a name in quotes is empty; a text, which may be, stands in '', not in \"\"", start, text
        )
    return inner, stop + 1


def _word(text: str, start: int) -> tuple[Token, int]:
    stop = start + 1
    while _continues_name(text[stop : stop + 1]):
        stop += 1
    word = text[start:stop]
    # Some letters beyond ASCII have an ASCII capital.
    capitals = word.upper() if word.isascii() else word
    if capitals in _TRUTHS:
        return Token(TokenKind.LITERAL, _TRUTHS[capitals], start), stop
    if capitals in _WORDS:
        return Token(TokenKind.WORD, capitals, start), stop
    return Token(TokenKind.NAME, word, start), stop


def _begins_name(character: str) -> bool:
    """Letters, letter numbers, currency signs, connectors such as ``_``: what Java's names begin with."""
    return category(character) in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc")


def _continues_name(character: str) -> bool:
    """As at the start, with digits and combining marks; also the dot, for names such as ``amqp.subject``.

    The end of the text, as an empty character, continues nothing.
    """
    if not character:
        return False
    return character == "." or _begins_name(character) or category(character) in ("Nd", "Mn", "Mc")


def _sign(text: str, start: int) -> str:
    for wrong, instead in _INSTEAD.items():
        if text.startswith(wrong, start):
            raise SelectorError(f"{wrong} means nothing here; {instead}", start, text)
    for sign in _SIGNS:
        if text.startswith(sign, start):
            return sign
    raise SelectorError(
        f"{text[start]!r} begins nothing known; a text stands in '...', an unusual name in \"...\"",
        start,
        text,
    )


# ---- numbers, as Java writes them ----


def _number(found: re.Match[str]) -> int | float:
    hexadecimal, digits, fraction, exponent, suffix = found.groups()
    start, text = found.start(), found.string
    is_long = suffix is not None and suffix in "lL"
    is_whole = hexadecimal or (fraction is None and exponent is None and (suffix is None or is_long))
    if (is_long and not is_whole) or _continues_name(text[found.end() : found.end() + 1]):
        raise SelectorError(
            "the number is malformed; write it like 57, 0x39, 57L, 5.7, 5.7E3, 5.7f, and a blank behind it",
            start,
            text,
        )
    if hexadecimal:
        return _whole(hexadecimal, 16, start, text)
    if is_whole:
        return _whole(digits, 8 if len(digits) > 1 and digits[0] == "0" else 10, start, text)
    value = float(f"{digits}{fraction or ''}{exponent or ''}")
    if suffix is not None and suffix in "fF":
        value = _single(value, start, text)
    if value == inf:
        raise SelectorError("the number is too large for a double", start, text)
    return value


def _whole(digits: str, base: int, start: int, text: str) -> int:
    significant = digits.lstrip("0") or "0"
    try:
        value = int(significant, base) if len(significant) <= _MOST_DIGITS else _GREATEST + 1
    except ValueError:
        raise SelectorError(
            "a whole number that begins with 0 is octal, with digits 0 to 7", start, text
        ) from None
    if value > _GREATEST:
        raise SelectorError(
            f"the whole number is larger than {_GREATEST}; write it with .0 as a double", start, text
        )
    return value


def _single(value: float, start: int, text: str) -> float:
    """The value rounded to 32 bits, which is what a property of AMQP's float type holds."""
    try:
        rounded: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        raise SelectorError("the number is too large for a float; leave out the f", start, text) from None
    return rounded

"""Names and free text of definitions: the only two ways in which words of an XML file travel towards the
output.

A *name* is checked against a small alphabet and split into words, so that every identifier made from it is
legal. *Free text* (prose, symbols, string values) may hold anything; it travels as ``SpecText``, which no
template can print by accident.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn, SupportsIndex

from amqpforge_generator.document import Location
from amqpforge_generator.errors import Problems
from amqpforge_generator.model import Name

_LEGAL = re.compile(r"[A-Za-z0-9]+(?:[-_. ]+[A-Za-z0-9]+)*")
_SEPARATORS = re.compile(r"[-_. ]+")


class SpecText(str):
    """Free text from a definition file, which must not reach the output as it is.

    It compares, hashes and matches like the string it is; what makes a new string of it keeps the mark, and
    turning it into plain text on the way (``str()``, formatting, and with them a template's ``{{ }}``, ``~``
    and ``join``) raises TypeError. A filter that makes a literal or a comment starts from ``plain``.
    """

    __slots__ = ()

    def __new__(cls, text: str = "") -> SpecText:
        return str.__new__(cls, text.plain if isinstance(text, SpecText) else text)

    @property
    def plain(self) -> str:
        """The text as an ordinary string: for the filters that make a literal or a comment of it."""
        return str.__str__(self)

    def _refuse(self) -> NoReturn:
        raise TypeError(
            f"free text of a definition ({self!r}) goes out through a literal or comment filter alone"
        )

    def __str__(self) -> str:
        self._refuse()

    def __format__(self, format_spec: str) -> str:
        self._refuse()

    def format(self, *args: object, **kwargs: object) -> str:
        self._refuse()

    def __mod__(self, value: Any) -> str:
        self._refuse()

    def __add__(self, other: str) -> SpecText:
        return SpecText(str.__add__(self, other))

    def __radd__(self, other: str) -> SpecText:
        return SpecText(str.__add__(other, self))

    def __mul__(self, count: SupportsIndex) -> SpecText:
        return SpecText(str.__mul__(self, count))

    def __getitem__(self, key: SupportsIndex | slice) -> SpecText:
        return SpecText(str.__getitem__(self, key))

    def lower(self) -> SpecText:
        return SpecText(str.lower(self))

    def upper(self) -> SpecText:
        return SpecText(str.upper(self))

    def title(self) -> SpecText:
        return SpecText(str.title(self))

    def capitalize(self) -> SpecText:
        return SpecText(str.capitalize(self))

    def strip(self, chars: str | None = None) -> SpecText:
        return SpecText(str.strip(self, chars))

    def lstrip(self, chars: str | None = None) -> SpecText:
        return SpecText(str.lstrip(self, chars))

    def rstrip(self, chars: str | None = None) -> SpecText:
        return SpecText(str.rstrip(self, chars))

    def replace(self, old: str, new: str, count: SupportsIndex = -1) -> SpecText:
        return SpecText(str.replace(self, old, new, count))


def split_words(text: str) -> tuple[str, ...]:
    """The lower-case words of a name, or nothing when the name is not legal.

    Legal are ASCII letters and digits, with ``-``, ``_``, ``.`` and space between them. A name that starts
    with a digit gets the word ``n`` in front, because no identifier may start with one.
    """
    if not _LEGAL.fullmatch(text):
        return ()
    words = tuple(_SEPARATORS.split(text.lower()))
    return ("n", *words) if words[0][0].isdigit() else words


def make_name(text: str, what: str, at: Location, problems: Problems) -> Name:
    """The Name of ``what`` (such as ``field``); a name with no words, and a problem, when the text is not
    legal.

    An empty text is no problem here: the reader has reported the missing attribute.
    """
    words = split_words(text)
    if text and not words:
        problems.add(
            at,
            f"{what} name {text!r} is not legal: a name is made of letters and digits, "
            "with '-', '_', '.' or spaces between them",
        )
    return Name(text, words)

"""A selector: its text, and whether it admits a message."""

from __future__ import annotations

from .errors import SelectorError
from .limits import DEFAULT_SELECTOR_LIMITS, SelectorLimits
from .operands import Facts
from .parser import parse

__all__ = ["Selector"]


class Selector:
    """A condition on the facts of a message. Two selectors are equal if their texts are.

    The text is parsed once, into functions; nothing of it is kept or looked at when a message is judged.
    A text without anything but blanks admits every message, as JMS says.

    Args:
        text: the condition, as ``docs/selectors.md`` describes it.
        limits: how large the text may be.

    Raises:
        SelectorError: the text is no selector; the error says where and why.
    """

    __slots__ = ("_condition", "_names", "_text")

    def __init__(self, text: str, limits: SelectorLimits = DEFAULT_SELECTOR_LIMITS) -> None:
        if not isinstance(text, str):
            raise SelectorError(f"it is of type {type(text).__name__}; give a str", 0, "")
        self._text = str(text)
        self._condition, self._names = parse(self._text, limits)

    @property
    def text(self) -> str:
        """The text as it was given."""
        return self._text

    @property
    def names(self) -> frozenset[str]:
        """The names that stand in it, without quotes: nothing else of a message matters to it."""
        return self._names

    def admits(self, facts: Facts) -> bool:
        """Whether the condition is true; one that is false or unknown admits nothing.

        Args:
            facts: gives the value of a name, or None if the message has none. What it raises goes through.
        """
        return self._condition(facts) is True

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Selector({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Selector) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

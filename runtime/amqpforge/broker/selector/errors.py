"""What is wrong with the text of a selector."""

from __future__ import annotations

from amqpforge.errors import AmqpforgeError

__all__ = ["SelectorError"]

_SHOWN = 24  # characters of the text that an error quotes


class SelectorError(AmqpforgeError, ValueError):
    """The text is no selector.

    Attributes:
        problem: what is wrong, and what to do about it.
        position: where, in characters from 0; the length of the text if something is missing at its end.
    """

    def __init__(self, problem: str, position: int, text: str) -> None:
        rest = text[position : position + _SHOWN]
        where = f"at offset {position}, before {rest!r}" if rest else f"at its end, offset {position}"
        super().__init__(f"the selector, {where}: {problem}")
        self.problem = problem
        self.position = position

"""How large a selector may be: whoever attaches chooses it, and the broker evaluates it for every message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULT_SELECTOR_LIMITS", "SelectorLimits"]

_DEEPEST: Final = 100
"""The most levels that can be allowed: each costs up to five nested calls, of Python's 1,000."""


@dataclass(frozen=True, slots=True)
class SelectorLimits:
    """Bounds on the text of a selector.

    Attributes:
        length: characters of the text, 1 or more.
        nesting: parentheses within parentheses, 1 to 100.
        items: values in the list of one IN, 1 or more.
        pattern: characters of the pattern of one LIKE, 1 or more. Matching takes time in proportion to the
            value, and at worst to the value times a 64th of the pattern.

    Raises:
        ValueError: a bound is out of its range.
    """

    length: int = 8192
    nesting: int = 64
    items: int = 1024
    pattern: int = 1024

    def __post_init__(self) -> None:
        if min(self.length, self.nesting, self.items, self.pattern) < 1 or self.nesting > _DEEPEST:
            raise ValueError(f"{self}: each bound is 1 or more, and nesting at most {_DEEPEST}")


DEFAULT_SELECTOR_LIMITS: Final = SelectorLimits()

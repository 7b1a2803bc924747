"""What the process of a query knows of a node: whether it is worth a round, and whether it is through."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .record import Round

__all__ = ["Node"]

_AGAIN: Final = 1.0
"""Seconds between rounds with a node that does not tell what it has, and had nothing in the last one."""
_CHECK: Final = 10.0
"""Seconds between rounds with a node that tells what may not be true."""


@dataclass(slots=True)
class Node:
    """What is known of a node.

    Attributes:
        told: the messages that it has, as it told last; None: it does not tell.
        is_honest: whether it told a number above 0 once, so that a 0 can be believed.
        had: whether there was something in its last round; there may be before the first one.
        before: what it told before its last round.
        began: when that began.
        wanted: with ``Trigger.AvailableNow``: messages to be taken yet; None: until it has no more.
        is_through: with ``Trigger.AvailableNow``: there is no more to be taken.
    """

    told: int | None = None
    is_honest: bool = False
    had: bool = True
    before: int | None = 0
    began: float = field(default_factory=time.monotonic)
    wanted: int | None = None
    is_through: bool = False

    def tell(self, count: int | None) -> None:
        """Note what it tells."""
        self.told = count
        self.is_honest = self.is_honest or bool(count)

    def is_due(self, now: float) -> bool:
        """Whether a round is worth it."""
        if self.told is None:
            return self.had or now - self.began >= _AGAIN
        if self.told and (self.had or self.told != self.before):
            return True
        # Nothing, as it says, or what a filter does not let through.
        return not (self.told == 0 and self.is_honest) and now - self.began >= _CHECK

    def begin(self, now: float) -> None:
        """A round begins."""
        self.before, self.began, self.had = self.told, now, False

    def end(self, rounds: Sequence[Round]) -> None:
        """A round is over; ``rounds``: what its slots had. A round of few rows has none for some slots."""
        if not any(one.was_asked for one in rounds):
            self.had = True
            return
        came = sum(one.came for one in rounds)
        self.had = came > 0
        if self.wanted is not None:
            self.wanted -= came
        is_taken = self.wanted is not None and self.wanted <= 0
        self.is_through = not came or is_taken or all(one.is_dry for one in rounds if one.was_asked)

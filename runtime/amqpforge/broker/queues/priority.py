"""Which priorities count as one, where only so many levels are told apart (AMQP 1.0, section 3.2.1)."""

from __future__ import annotations

__all__ = ["level"]

_DISTINCT = 10
"""From this number of levels on, each of the lowest priorities has its own."""


def level(priority: int, levels: int) -> int:
    """The level of a priority: 0, the lowest, to ``levels - 1``.

    With fewer than 10 levels they lie around the middle of the priorities 0 to 9, what is below and above
    falling to the outermost; with more, priorities count up from 0.

    Args:
        priority: 0 to 255.
        levels: how many are told apart, 1 to 256.

    Raises:
        ValueError: a number is out of its range.
    """
    if not 0 <= priority <= 255:
        raise ValueError(f"a priority is 0 to 255, not {priority}")
    if not 1 <= levels <= 256:
        raise ValueError(f"there are 1 to 256 levels of priority, not {levels}")
    lowest = 0 if levels >= _DISTINCT else 5 - (levels + 1) // 2
    return min(max(priority - lowest, 0), levels - 1)

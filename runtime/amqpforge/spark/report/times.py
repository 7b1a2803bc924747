"""Times and lengths of time, as the page says them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["duration", "moment", "stamp"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0))
_DIGITS: Final = 3


def moment(micros: int) -> datetime:
    """A time in UTC of microseconds since 1970; the last one that there is for what lies behind it."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def stamp(micros: int) -> str:
    """The same as text, as plotly reads it."""
    return f"{moment(micros):%Y-%m-%d %H:%M:%S.%f}"


def duration(seconds: float | None) -> str:
    """A length of time in the unit that suits it, to three digits; a dash if there is none."""
    if seconds is None:
        return "–"
    for unit, size in _UNITS:
        count = float(f"{seconds / size:.{_DIGITS}g}")  # Rounded first: it may be one of the next unit.
        if count < (60 if unit == "s" else 1000):
            return f"{count:g} {unit}"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min")) if hours else ((minutes, "min"), (rest, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)

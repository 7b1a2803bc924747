"""Reading the options of a data source, as Spark gives them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from amqpforge.errors import LocalError

__all__ = ["OptionError", "OptionReader"]

_SIZE: Final = re.compile(r"(\d{1,18})([kmg]?)", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class OptionError(LocalError, ValueError):
    """An option of a data source is wrong. The text names it, and never shows a password.

    Attributes:
        option: its name.
    """

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"option {option!r} {problem}")
        self.option = option


class OptionReader:
    """Options as Spark gives them, names without regard to case and values as text, checked one by one."""

    def __init__(self, options: Mapping[str, str], known: Collection[str], *, purpose: str) -> None:
        """Take the options.

        Args:
            options: as Spark gives them.
            known: the names that are known.
            purpose: what they are for, for the error.

        Raises:
            OptionError: one is not known.
        """
        self._values = {name.lower(): value for name, value in options.items()}
        names = {name.lower() for name in known}
        for name in sorted(self._values):
            if name not in names:
                raise OptionError(name, f"is not known for {purpose}; {_suggestion(name, sorted(known))}")

    def text(self, name: str, default: str | None = None) -> str | None:
        """An option as it is; one that is empty counts as not given."""
        return self._values.get(name.lower()) or default

    def required(self, name: str, why: str) -> str:
        """An option that has to be there.

        Raises:
            OptionError: it is not; ``why`` says what it is for.
        """
        value = self.text(name)
        if value is None:
            raise OptionError(name, f"is missing: {why}")
        return value

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """One of several words.

        Raises:
            OptionError: it is another one.
        """
        value = (self.text(name) or default).lower()
        known = list(choices)
        if value not in known:
            raise OptionError(name, f"is {' or '.join(known)}, not {value!r:.80}")
        return value

    def names(self, name: str, known: Sequence[str]) -> tuple[str, ...] | None:
        """Names of what is known, with commas between them, in their order; None: the option is not there.

        Raises:
            OptionError: one is empty, not known, or there twice.
        """
        value = self._values.get(name.lower())
        if value is None:
            return None
        found: list[str] = []
        for one in (part.strip() for part in value.split(",")):
            if not one:
                problem = f"is names with commas between them, none of which is empty, not {value!r:.80}"
                raise OptionError(name, f"{problem}; {_suggestion(one, known)}")
            if one not in known:
                raise OptionError(name, f"names {one!r:.80}, which is not known; {_suggestion(one, known)}")
            if one in found:
                raise OptionError(name, f"names {one!r} twice: once is enough")
            found.append(one)
        return tuple(found)

    def flag(self, name: str, *, default: bool) -> bool:
        """``true`` or ``false``.

        Raises:
            OptionError: it is neither.
        """
        return self.choice(name, ("true", "false"), "true" if default else "false") == "true"

    def count(self, name: str, default: int | None, *, most: int = (1 << 31) - 1) -> int | None:
        """A whole number, at least 1.

        Raises:
            OptionError: it is none, or more than ``most``.
        """
        value = self.text(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdecimal() and len(value) <= 18 and 1 <= int(value) <= most):
            raise OptionError(name, f"is a whole number from 1 to {most}, not {value!r:.80}")
        return int(value)

    def octets(self, name: str, default: int | None) -> int | None:
        """A number of octets, at least 1; ``k``, ``m`` and ``g`` stand for the powers of 1024.

        Raises:
            OptionError: it is none.
        """
        value = self.text(name)
        if value is None:
            return default
        found = _SIZE.fullmatch(value)
        if found is None or not int(found[1]):
            raise OptionError(name, f"is a number of octets such as 1048576 or 512m, not {value!r:.80}")
        return int(found[1]) * _UNITS[found[2].lower()]

    def seconds(self, name: str, default: float) -> float:
        """A number of seconds, more than 0.

        Raises:
            OptionError: it is none.
        """
        value = self.text(name)
        if value is None:
            return default
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not (number > 0 and math.isfinite(number)):
            raise OptionError(name, f"is a number of seconds above 0, not {value!r:.80}")
        return number


def _suggestion(name: str, known: Sequence[str]) -> str:
    """What is known in the place of a name, and which of it may be meant."""
    near = get_close_matches(name.lower(), known, n=1)
    meant = f". Is {near[0]!r} meant?" if near else ""
    return f"known are {', '.join(known)}{meant}"

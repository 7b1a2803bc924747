"""Problems of definition files: each with its place, all of them reported in one run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from amqpforge_generator.document import Location


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong with a definition; prints as ``file:line: message``."""

    at: Location
    message: str

    def __str__(self) -> str:
        return f"{self.at}: {self.message}"


class SpecErrors(Exception):
    """A set of definitions that cannot be used; ``problems`` holds every reason, in file and line order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(sorted(set(problems)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Problems:
    """Collects problems while reading and resolving goes on, so that one run shows all of them."""

    def __init__(self) -> None:
        self._found: set[Problem] = set()
        self.is_partial = False
        """Whether a file could not be read, so that what it defines seems to be missing."""

    def add(self, at: Location, message: str) -> None:
        """Record a problem; the same message at the same place counts once."""
        self._found.add(Problem(at, message))

    def add_unknown(self, at: Location, message: str, near: str, otherwise: str = "") -> None:
        """Record that something refers to what nobody defines; ``near`` is the `suggestion`, if there is one.

        Without one it is passed over as long as a file could not be read: what it defines is not missing, and
        a hundred such complaints would bury the one that matters.
        """
        if near or not self.is_partial:
            self.add(at, message + (near or otherwise))

    def __len__(self) -> int:
        return len(self._found)

    def sorted(self) -> tuple[Problem, ...]:
        """All problems, in file, line and message order."""
        return tuple(sorted(self._found))

    def has_file(self, file: str) -> bool:
        """Whether any problem lies in the named file."""
        return any(problem.at.file == file for problem in self._found)

    def raise_if_any(self) -> None:
        """Raise SpecErrors when there is at least one problem."""
        if self._found:
            raise SpecErrors(self._found)


def suggestion(word: str, known: Iterable[str]) -> str:
    """The tail of a message: ``; did you mean 'x'?`` for the known word closest to ``word``, or nothing."""
    close = get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""

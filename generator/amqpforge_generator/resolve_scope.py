"""What every part of resolution shares: the names seen so far, and the reading of plain attributes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from amqpforge_generator.document import Location, RawType
from amqpforge_generator.errors import Problems, suggestion
from amqpforge_generator.literals import NotLegal, parse_integer
from amqpforge_generator.model import Archetype, Type


@dataclass(slots=True)
class Scope:
    """What resolution shares: the grammar, every type and archetype by XML name, and where problems go."""

    grammar: str
    problems: Problems
    types: dict[str, Type] = field(default_factory=dict)
    raw: list[tuple[RawType, Type]] = field(default_factory=list)
    archetypes: dict[str, Archetype] = field(default_factory=dict)

    def find(self, name: str, at: Location, use: str) -> Type | None:
        """The type of that name; when there is none, a problem that starts with ``use`` (``field 'x'``)."""
        found = self.types.get(name)
        if found is None and name:
            near = suggestion(name, self.types)
            self.problems.add_unknown(at, f"{use} has the unknown type {name!r}", near)
        return found


def number(text: str, what: str, at: Location, scope: Scope) -> int:
    """A whole number of the definition, or 0 and a problem."""
    try:
        return parse_integer(text)
    except NotLegal as reason:
        if text:
            scope.problems.add(at, f"{what} {text!r} is {reason}")
        return 0


def flag(text: str | None, what: str, at: Location, scope: Scope) -> bool:
    """A truth value of the definition; absent means false."""
    if text not in (None, "true", "false", "1", "0"):
        scope.problems.add(at, f"{what} is {text!r}, neither 'true' nor 'false'")
    return text in ("true", "1")


def one_of(text: str | None, words: Iterable[str], what: str, at: Location, scope: Scope) -> str | None:
    """A word of a closed vocabulary, or None and a problem."""
    if text is None or text in words:
        return text
    if text:
        scope.problems.add(at, f"{what} {text!r} is not known{suggestion(text, words)}")
    return None

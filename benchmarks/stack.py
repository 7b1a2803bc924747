"""What a stack under test offers, and how its results are held against the values of a case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.case import Case, Composite


class WrongResultError(Exception):
    """A stack decoded to other values, or encoded other values, than the case has."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call to time: ``call(argument)``.

    Attributes:
        call: the function, a stack's own where one call of it does the work.
        argument: its only argument, made beforehand.
        plain: turns its result into values as a :class:`Case` has them: a mapping of fields or sections.
    """

    call: Callable[[Any], Any]
    argument: Any
    plain: Callable[[Any], Mapping[str, Any]]


@dataclass(slots=True)
class Stack:
    """An implementation of a dialect, with its operations by case name and direction.

    Attributes:
        key: short name, for columns and JSON.
        label: name and version.
        operations: by case name, then ``decode``, ``encode`` or ``read``. A missing one is shown as a gap;
            reading what ours has encoded is checked and not timed.
        is_target: whether the targets speak of this stack.
    """

    key: str
    label: str
    operations: dict[str, dict[str, Operation]] = field(default_factory=dict)
    is_target: bool = True


def check(case: Case, direction: str, stack: Stack) -> None:
    """Run an operation once and hold its result against the case.

    Raises:
        WrongResultError: a field of the case is missing or differs, or the operation raised an exception.
    """
    operation = stack.operations[case.name][direction]
    what = f"{stack.key} {direction} {case.name}"
    try:
        found = operation.plain(operation.call(operation.argument))
    except Exception as error:
        raise WrongResultError(f"{what}: {type(error).__name__}: {error}") from error
    for name, expected in case.values.items():
        if name not in found or not same(expected, found[name]):
            raise WrongResultError(f"{what}: {name} is {found.get(name)!r}, not {expected!r}")


def same(expected: Any, found: Any) -> bool:
    """Whether a result holds the expected value; text may be held as its octets, as one peer does."""
    if isinstance(expected, Composite):
        return (
            isinstance(found, Composite)
            and found.code == expected.code
            and all(same(value, found.fields.get(name)) for name, value in expected.fields.items())
        )
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping):
            return False
        named = {str(key, "utf-8") if isinstance(key, bytes) else key: value for key, value in found.items()}
        return all(name in named and same(value, named[name]) for name, value in expected.items())
    if isinstance(expected, str):
        return isinstance(found, (str, bytes)) and expected == (
            found if isinstance(found, str) else str(found, "utf-8")
        )
    if isinstance(expected, bool):
        return found is expected
    if isinstance(expected, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    return bool(expected == found)

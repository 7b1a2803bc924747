"""What a selector is built of: operands that are functions of a message's facts.

Each function here takes operands and gives one that evaluates them. Rows of AND, OR, + and * are one operand
each, however long, so that evaluation calls no deeper than parentheses go.

Conditions evaluate to True, False, or None: unknown.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from .like import Pattern
from .tokens import Literal
from .values import Number, Relation, add, compare, divide, is_usable, multiply, negate, number, subtract

__all__ = [
    "RELATIONS",
    "Evaluate",
    "Facts",
    "Operand",
    "Sort",
    "arithmetic",
    "between",
    "comparison",
    "condition",
    "inside",
    "junction",
    "like",
    "literal",
    "name",
    "negation",
    "null_test",
    "signed",
]

Facts = Callable[[str], object]
"""The value of a name; None: the message has none."""

Evaluate = Callable[[Facts], object]


class Sort(Enum):
    """What can be known of an operand without a message."""

    ANY = auto()
    TEXT = auto()
    NUMBER = auto()
    TRUTH = auto()


@dataclass(slots=True)
class Operand:
    """A part of a selector.

    Attributes:
        evaluate: its value for a message.
        sort: what the value is, unless it is None.
        position: where in the text it begins.
        name: the name that it is, and nothing else; None: it is something else.
        literal: the literal that it is; None: it is something else.
        is_bare: whether it is a comparison or another test that no parentheses enclose.
        row: the operators of a row that it is: AND, OR, + (and -) or * (and /); empty: it is none.
        parts: what stands in the row, and ``evaluate`` goes through; of arithmetic: behind the first operand.
    """

    evaluate: Evaluate
    sort: Sort
    position: int
    name: str | None = None
    literal: Literal | None = None
    is_bare: bool = False
    row: str = ""
    parts: list[tuple[str, Evaluate]] | None = None


RELATIONS: Final[dict[str, Relation]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED: Final[dict[Relation, Relation]] = {
    operator.lt: operator.gt,
    operator.le: operator.ge,
    operator.gt: operator.lt,
    operator.ge: operator.le,
}
_COMPUTE: Final[dict[str, Callable[[Number, Number], Number | None]]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
}
_ROWS: Final = {"+": "+", "-": "+", "*": "*", "/": "*"}


# ---- names and literals ----


def name(identifier: str, position: int) -> Operand:
    """The value that a message has under a name."""
    return Operand(lambda facts: facts(identifier), Sort.ANY, position, name=identifier)


def literal(value: Literal, position: int) -> Operand:
    """A value that stands in the text."""
    if isinstance(value, bool):
        sort = Sort.TRUTH
    else:
        sort = Sort.TEXT if isinstance(value, str) else Sort.NUMBER
    return Operand(lambda _facts: value, sort, position, literal=value)


# ---- conditions ----


def condition(operand: Operand) -> Evaluate:
    """What an operand says as a condition: of a name, unknown if its value is no truth value."""
    if operand.sort is Sort.TRUTH:
        return operand.evaluate
    value_of = operand.evaluate

    def truth(facts: Facts) -> bool | None:
        value = value_of(facts)
        return value if isinstance(value, bool) else None

    return truth


def junction(word: str, left: Operand, right: Operand) -> Operand:
    """AND or OR over conditions: a value that decides it ends it, an unknown one counts if none decides."""
    part = (word, condition(right))
    if left.row == word and left.parts is not None:
        left.parts.append(part)
        return left
    parts = [(word, condition(left)), part]
    deciding = word == "OR"

    def joined(facts: Facts) -> bool | None:
        result: bool | None = not deciding
        for _, evaluate in parts:
            found = evaluate(facts)
            if found is deciding:
                return deciding
            if found is None:
                result = None
        return result

    return Operand(joined, Sort.TRUTH, left.position, row=word, parts=parts)


def negation(operand: Operand, position: int, *, is_negative: bool) -> Operand:
    """NOT over a condition, or an even number of them."""
    truth = condition(operand)

    def negated(facts: Facts) -> bool | None:
        found = truth(facts)
        return None if found is None else not found

    return Operand(negated if is_negative else truth, Sort.TRUTH, position)


def _comparing(evaluate: Evaluate, operand: Operand) -> Operand:
    return Operand(evaluate, Sort.TRUTH, operand.position, is_bare=True)


def comparison(relation: Relation, left: Operand, right: Operand) -> Operand:
    """A relation between two values; a name and a literal are compared without detours."""
    if left.literal is not None and right.name is not None:
        mirrored = comparison(_MIRRORED.get(relation, relation), right, left)
        mirrored.position = left.position
        return mirrored
    if left.name is not None and right.literal is not None and not isinstance(right.literal, bool):
        return _comparing(_against_literal(relation, left.name, right.literal), left)
    left_of, right_of = left.evaluate, right.evaluate
    return _comparing(lambda facts: compare(relation, left_of(facts), right_of(facts)), left)


def _against_literal(relation: Relation, identifier: str, value: str | int | float) -> Evaluate:
    if isinstance(value, str):

        def compare_text(facts: Facts) -> object:
            found = facts(identifier)
            return relation(found, value) if isinstance(found, str) else compare(relation, found, value)

        return compare_text
    alike = type(value)

    def compare_number(facts: Facts) -> object:
        found = facts(identifier)
        if isinstance(found, alike) and found is not True and found is not False:
            return relation(found, value)
        return compare(relation, found, value)

    return compare_number


def between(value: Operand, low: Operand, high: Operand, *, is_negative: bool) -> Operand:
    """``value >= low AND value <= high``, or ``value < low OR value > high``."""
    value_of, low_of, high_of = value.evaluate, low.evaluate, high.evaluate
    first, second = (operator.lt, operator.gt) if is_negative else (operator.ge, operator.le)

    def within(facts: Facts) -> bool | None:
        found = value_of(facts)
        above = compare(first, found, low_of(facts))
        if above is is_negative:
            return is_negative
        below = compare(second, found, high_of(facts))
        if below is is_negative:
            return is_negative
        return None if above is None or below is None else not is_negative

    return _comparing(within, value)


def inside(value: Operand, items: list[Literal], *, is_negative: bool) -> Operand:
    """Whether the value equals one of the items; NOT IN is its negation."""
    texts = frozenset(item for item in items if isinstance(item, str))
    others = [item for item in items if not isinstance(item, str)]
    value_of = value.evaluate

    def is_inside(facts: Facts) -> bool | None:
        found = value_of(facts)
        if isinstance(found, str):
            return (found in texts) is not is_negative
        if not is_usable(found):
            return None
        return any(compare(operator.eq, found, item) for item in others) is not is_negative

    return _comparing(is_inside, value)


def like(value: Operand, pattern: Pattern, *, is_negative: bool) -> Operand:
    """Whether the value is a text that matches; NOT LIKE is its negation."""
    value_of, matches = value.evaluate, pattern.matches

    def is_like(facts: Facts) -> bool | None:
        found = value_of(facts)
        if isinstance(found, str):
            return matches(found) is not is_negative
        return is_negative if is_usable(found) else None

    return _comparing(is_like, value)


def null_test(identifier: str, position: int, *, is_negative: bool) -> Operand:
    """Whether the message has no value under a name; this is never unknown."""
    return Operand(
        lambda facts: (facts(identifier) is None) is not is_negative, Sort.TRUTH, position, is_bare=True
    )


# ---- arithmetic ----


def arithmetic(sign: str, left: Operand, right: Operand) -> Operand:
    """``+ - * /`` from left to right; no value if an operand is no number."""
    row = _ROWS[sign]
    if left.row == row and left.parts is not None:
        left.parts.append((sign, right.evaluate))
        return left
    parts = [(sign, right.evaluate)]
    first = left.evaluate

    def computed(facts: Facts) -> Number | None:
        result = number(first(facts))
        for operation, evaluate in parts:
            other = number(evaluate(facts))
            if result is None or other is None:
                return None
            result = _COMPUTE[operation](result, other)
        return result

    return Operand(computed, Sort.NUMBER, left.position, row=row, parts=parts)


def signed(operand: Operand, position: int, *, is_negative: bool) -> Operand:
    """A number behind a row of signs, which count as one."""
    if isinstance(operand.literal, (int, float)):
        return literal(negate(operand.literal) if is_negative else operand.literal, position)
    value_of = operand.evaluate

    def turn(facts: Facts) -> Number | None:
        found = number(value_of(facts))
        return negate(found) if is_negative and found is not None else found

    return Operand(turn, Sort.NUMBER, position)

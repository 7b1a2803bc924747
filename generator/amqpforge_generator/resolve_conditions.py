"""Conditions and rules resolved: the checks on values, and the prose that only people can check."""

from __future__ import annotations

import re
from collections.abc import Iterable

from amqpforge_generator.document import Location, RawAssert, RawRule
from amqpforge_generator.model import Assertion, Literal, Rule
from amqpforge_generator.names import SpecText, make_name, split_words
from amqpforge_generator.resolve_scope import Scope, number, one_of

_CHECKS = ("notnull", "length", "ne", "le", "ge", "regexp", "syntax")


def assertion(raw: RawAssert, scope: Scope) -> Assertion:
    """A condition with its operand typed by the check."""
    one_of(raw.check, _CHECKS, "check", raw.at, scope)
    check = f"check {raw.check!r}"
    operand: Literal | None = None
    given = raw.pattern if raw.check == "syntax" else raw.value
    if raw.check == "notnull":
        if raw.value is not None:
            scope.problems.add(raw.at, f"{check} takes no value")
    elif raw.check in _CHECKS and given is None:
        wanted = "f:regexp, the rule as a pattern" if raw.check == "syntax" else "a value"
        scope.problems.add(raw.at, f"{check} needs {wanted}")
    elif raw.check in ("regexp", "syntax"):
        operand = SpecText(given or "")
        _check_pattern(given or "", raw.at, scope)
    elif raw.check in ("le", "ge") and split_words(given or "") and not (given or "")[0].isdigit():
        operand = SpecText(given or "")
    elif raw.check in _CHECKS:
        operand = number(given or "", f"{check}: value", raw.at, scope)
    if raw.check == "syntax" and raw.rule is None:
        scope.problems.add(raw.at, f"{check} needs the name of its rule")
    for attribute, present in (("rule", raw.rule), ("f:regexp", raw.pattern)):
        if present is not None and raw.check in _CHECKS[:-1]:
            scope.problems.add(raw.at, f"{check} takes no {attribute}")
    return Assertion(check=raw.check, operand=operand, at=raw.at, rule=SpecText(raw.rule or ""))


def resolve_rules(raws: Iterable[RawRule], scope: Scope) -> tuple[Rule, ...]:
    """Rules with their names."""
    return tuple(
        Rule(
            name=make_name(raw.name, "rule", raw.at, scope.problems),
            on_failure=make_name(raw.on_failure, "constant", raw.at, scope.problems)
            if raw.on_failure
            else None,
            doc=raw.doc,
            at=raw.at,
        )
        for raw in raws
    )


def _check_pattern(text: str, at: Location, scope: Scope) -> None:
    try:
        re.compile(text)
    except re.error as error:
        scope.problems.add(at, f"regular expression {text!r} is not legal: {error.msg}")

"""Random selectors against a tiny evaluator that says what the rules say; random text against the parser."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amqpforge.broker.selector import Selector, SelectorError
from tests.broker.selector.rounds import MANY
from tests.broker.selector.test_like import obvious

Tree = tuple[Any, ...]
Facts = dict[str, Any]

# ---- trees: an operator and its operands; ("name", n), ("literal", v) ----

NAMES = ("a", "b", "c", "d")
TEXTS = st.text("ab'_%", max_size=3)
NUMBERS = st.one_of(
    st.integers(0, 9), st.sampled_from([2**63 - 1, 2**63, 2**64 - 1]), st.sampled_from([0.0, 0.5, 2.0, 1e300])
)
VALUES = st.one_of(
    st.none(),
    TEXTS,
    NUMBERS,
    st.integers(-9, 9),
    st.booleans(),
    st.binary(max_size=1),
    st.sampled_from([Decimal("0.5"), Decimal(2), Decimal("NaN"), float("nan"), float("-inf")]),
)

names = st.tuples(st.just("name"), st.sampled_from(NAMES))
literals = st.tuples(st.just("literal"), st.one_of(TEXTS, NUMBERS, st.booleans()))
numeric = st.recursive(
    st.one_of(names, st.tuples(st.just("literal"), NUMBERS)),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*/"), inner, inner), st.tuples(st.sampled_from(("minus", "plus")), inner)
    ),
    max_leaves=4,
)
tests = st.one_of(
    names,
    st.tuples(st.just("literal"), st.booleans()),
    st.tuples(st.sampled_from(("=", "<>")), st.one_of(literals, numeric), st.one_of(literals, numeric)),
    st.tuples(st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), numeric, numeric),
    st.tuples(st.sampled_from(("BETWEEN", "NOT BETWEEN")), numeric, numeric, numeric),
    st.tuples(
        st.sampled_from(("IN", "NOT IN")),
        st.one_of(literals, numeric),
        st.lists(st.one_of(TEXTS, NUMBERS, st.booleans()), min_size=1, max_size=3),
    ),
    st.tuples(st.sampled_from(("LIKE", "NOT LIKE")), names, st.text("ab_%", max_size=4)),
    st.tuples(st.sampled_from(("IS NULL", "IS NOT NULL")), names),
)
conditions = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(("AND", "OR", "=", "<>")), inner, inner), st.tuples(st.just("NOT"), inner)
    ),
    max_leaves=8,
)

# ---- text: parentheses only where the precedence needs them ----

RANK = {"OR": 1, "AND": 2, "NOT": 3, "+": 5, "-": 5, "*": 6, "/": 6, "minus": 7, "plus": 7}
COMPARING = 4
ATOM = 8


def rank(tree: Tree) -> int:
    return ATOM if tree[0] in ("name", "literal") else RANK.get(str(tree[0]), COMPARING)


def text(tree: Tree) -> str:
    operator, *operands = tree
    own = rank(tree)

    def part(operand: Tree, least: int) -> str:
        inner = text(operand)
        return inner if rank(operand) >= least else f"({inner})"

    match operator:
        case "name":
            return str(operands[0])
        case "literal":
            return literal(operands[0])
        case "NOT":
            return f"NOT {part(operands[0], own)}"
        case "minus" | "plus":
            return f"{'-' if operator == 'minus' else '+'} {part(operands[0], ATOM)}"
        case "BETWEEN" | "NOT BETWEEN":
            low, high = part(operands[1], 5), part(operands[2], 5)
            return f"{part(operands[0], 5)} {operator} {low} AND {high}"
        case "IN" | "NOT IN":
            return f"{part(operands[0], 5)} {operator} ({', '.join(map(literal, operands[1]))})"
        case "LIKE" | "NOT LIKE":
            return f"{part(operands[0], ATOM)} {operator} {literal(operands[1])}"
        case "IS NULL" | "IS NOT NULL":
            return f"{part(operands[0], ATOM)} {operator}"
    left = own + 1 if own == COMPARING else own
    return f"{part(operands[0], left)} {operator} {part(operands[1], own + 1)}"


def literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).upper()


# ---- what a tree says of facts ----


def value(tree: Tree, facts: Facts) -> Any:
    operator, *operands = tree
    match operator:
        case "name":
            return facts.get(str(operands[0]))
        case "literal":
            return operands[0]
        case "minus" | "plus" | "*" | "/" | "+" | "-":
            found = [number(value(operand, facts)) for operand in operands]
            return None if None in found else computed(str(operator), found)
    return truth(tree, facts)


def number(found: Any) -> Any:
    if isinstance(found, (str, bool, bytes)) or found is None:
        return None
    return float("nan") if isinstance(found, Decimal) and found.is_nan() else found


def alike(found: list[Any]) -> list[Any]:
    return [float(each) for each in found] if any(isinstance(each, float) for each in found) else found


def computed(operator: str, found: list[Any]) -> Any:
    left, right = alike(found if len(found) == 2 else [0, *found])
    match operator:
        case "minus":
            result = -right
        case "plus" | "+":
            result = left + right
        case "-":
            result = left - right
        case "*":
            result = left * right
        case _ if right == 0:
            return None
        case _ if isinstance(left, int) and isinstance(right, int):
            result = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        case _:
            result = left / right
    is_long = not isinstance(result, int) or -(2**63) <= result < 2**64
    return result if is_long else float(result)


def compared(operator: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None or isinstance(left, bytes) or isinstance(right, bytes):
        return None
    for kind in (str, bool):
        if isinstance(left, kind) or isinstance(right, kind):
            is_equality = operator in ("=", "<>") and isinstance(left, kind) and isinstance(right, kind)
            return is_equality and (left == right) is (operator == "=")
    x, y = alike([number(left), number(right)])
    results: dict[str, bool] = {
        "=": x == y,
        "<>": x != y,
        "<": x < y,
        "<=": x <= y,
        ">": x > y,
        ">=": x >= y,
    }
    return results[operator]


def both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def opposite(found: bool | None) -> bool | None:
    return None if found is None else not found


def either(left: bool | None, right: bool | None) -> bool | None:
    return opposite(both(opposite(left), opposite(right)))


def truth(tree: Tree, facts: Facts) -> bool | None:
    operator, *operands = tree
    if operator in ("AND", "OR", "NOT"):
        found = [truth(operand, facts) for operand in operands]
        return opposite(found[0]) if operator == "NOT" else (both if operator == "AND" else either)(*found)
    first = value(operands[0], facts) if isinstance(operands[0], tuple) else None
    match operator:
        case "name" | "literal":
            own = value(tree, facts)
            return own if isinstance(own, bool) else None
        case "IS NULL":
            return first is None
        case "IS NOT NULL":
            return first is not None
        case "LIKE":
            if first is None or isinstance(first, bytes):
                return None
            return isinstance(first, str) and obvious(str(operands[1]), first)
        case "IN":
            found = [compared("=", first, item) for item in operands[1]]
            return None if None in found else True in found
        case "NOT LIKE" | "NOT IN":
            return opposite(truth((str(operator)[4:], *operands), facts))
        case "BETWEEN" | "NOT BETWEEN":
            low, high = (value(operand, facts) for operand in operands[1:])
            if operator == "BETWEEN":
                return both(compared(">=", first, low), compared("<=", first, high))
            return either(compared("<", first, low), compared(">", first, high))
    return compared(str(operator), first, value(operands[1], facts))


@MANY
@given(conditions, st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_a_random_selector_says_what_its_tree_says(tree: Tree, facts: Facts) -> None:
    expected = truth(tree, facts)
    written = text(tree)
    assert Selector(written).admits(facts.get) is (expected is True), written
    assert Selector(f"NOT ({written})").admits(facts.get) is (expected is False), written


@MANY
@given(conditions, st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_blanks_and_capitals_change_nothing(tree: Tree, facts: Facts) -> None:
    pieces = text(tree).split("'")
    spread = "'".join(
        piece if index % 2 else piece.lower().replace(" ", "\t\n ") for index, piece in enumerate(pieces)
    )
    assert Selector(spread).admits(facts.get) is (truth(tree, facts) is True)


PIECES = (
    "a b 'x' 'l%' \"q\" 1 0x1f 2.5 1e 09 TRUE NULL NOT AND OR BETWEEN LIKE IN IS ESCAPE "
    "= <> < <= ( ) , + - * / ! % ' \" ."
)


@MANY
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES.split()), max_size=14).map(" ".join)))
def test_garbage_is_a_selector_or_a_selector_error(garbage: str) -> None:
    try:
        selector = Selector(garbage)
    except SelectorError as error:
        position = error.position
    else:
        position = 0
        selector.admits({"a": 1, "b": "x", "q": True}.get)
    assert 0 <= position <= len(garbage)

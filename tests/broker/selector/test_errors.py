"""What is no selector is refused: what is wrong, where, and what to do."""

from __future__ import annotations

from typing import cast

import pytest

from amqpforge.broker.selector import Selector, SelectorError, SelectorLimits
from amqpforge.errors import AmqpforgeError

#: The text, the offset of the error, a piece of what it says.
WRONG = [
    ("a =", 3, "a value is missing"),
    ("a = 1 AND", 9, "a value is missing"),
    ("NOT", 3, "a value is missing"),
    ("-", 1, "a value is missing"),
    ("(", 1, "a value is missing"),
    ("= 1", 0, "a value is due here, not ="),
    ("a = = 1", 4, "a value is due here, not ="),
    ("()", 1, "a value is due here, not )"),
    ("a = AND b", 4, 'a name like a reserved word stands in "..."'),
    ("in = 1", 0, 'a name like a reserved word stands in "..."'),
    ("NULL = a", 0, "ask for it with IS NULL"),
    ("a = null", 4, "ask for it with IS NULL"),
    ("a = NOT b", 4, "put it in ( )"),
    ("1 + NOT b = 1", 4, "put it in ( )"),
    ("a BETWEEN NOT b AND 2", 10, "put it in ( )"),
    ("a b", 2, "an operator is due here"),
    ("a 'b'", 2, "an operator is due here"),
    ("a = 1 (b = 2)", 6, "an operator is due here"),
    ("a, b", 1, "an operator is due here"),
    ("a ESCAPE '!'", 2, "an operator is due here"),
    ("a NULL", 2, "an operator is due here"),
    ("(a = 1", 0, "this ( is not closed"),
    ("a = (1 + (2)", 4, "this ( is not closed"),
    ("a = 1)", 5, "this ) closes nothing"),
    ("a = 'x", 4, "the text is not closed; end it with '"),
    ("a = 'x''", 4, "the text is not closed; end it with '"),
    ('"a = 1', 0, 'the name is not closed; end it with "'),
    ('"" = 1', 0, "a name in quotes is empty"),
    ("a != 1", 2, "write <>"),
    ("a == 1", 2, "write ="),
    ("!a", 0, "write NOT"),
    ("a && b", 2, "write AND"),
    ("a || b", 2, "write OR"),
    ("a % 2 = 0", 2, "there is no remainder"),
    ("a IN ['x']", 5, "the list of IN stands in ( )"),
    ("a = 1;", 5, "a selector is one condition"),
    ("a = #1", 4, "begins nothing known"),
    ("a = \\1", 4, "begins nothing known"),
    ("a = 1\u00a0", 5, "begins nothing known"),
    ("a = .", 4, "begins nothing known"),
    ("a = \u0665", 4, "begins nothing known"),
    ("a = .\u0665", 4, "begins nothing known"),
    ("a = 5x", 4, "the number is malformed"),
    ("a = 5.x", 4, "the number is malformed"),
    ("a = 5..0", 4, "the number is malformed"),
    ("a = 1.2.3", 4, "the number is malformed"),
    ("a = 1E", 4, "the number is malformed"),
    ("a = 0x", 4, "the number is malformed"),
    ("a = 0xG", 4, "the number is malformed"),
    ("a = 1.0L", 4, "the number is malformed"),
    ("a = 1E3L", 4, "the number is malformed"),
    ("a = 5Ld", 4, "the number is malformed"),
    ("a = 09", 4, "is octal"),
    ("a = 18446744073709551616", 4, "larger than 18446744073709551615"),
    ("a = 0x10000000000000000", 4, "larger than 18446744073709551615"),
    (f"a = {'9' * 8000}", 4, "larger than 18446744073709551615"),
    ("a = 1E400", 4, "too large for a double"),
    (f"a = {'9' * 8000}.", 4, "too large for a double"),
    ("a = 1E39f", 4, "too large for a float"),
    ("a = 1E400f", 4, "too large for a double"),
    ("5", 0, "a condition is due here, not a number"),
    ("'x'", 0, "a condition is due here, not a text"),
    ("a + 1", 0, "a condition is due here, not a number"),
    ("a AND 'x'", 6, "a condition is due here, not a text"),
    ("1 OR a", 0, "a condition is due here, not a number"),
    ("NOT -a", 4, "a condition is due here, not a number"),
    ("(a + 1) AND b", 0, "a condition is due here, not a number"),
    ("a < 'x'", 4, "a number is due here, not a text"),
    ("'x' >= a", 0, "a number is due here, not a text"),
    ("a + 'x' = 1", 4, "a number is due here, not a text"),
    ("-'x' = 1", 1, "a number is due here, not a text"),
    ("a BETWEEN 'a' AND 'z'", 18, "a number is due here, not a text"),
    ("a BETWEEN 'a' AND 5", 10, "a number is due here, not a text"),
    ("'b' BETWEEN 1 AND 5", 0, "a number is due here, not a text"),
    ("a > TRUE", 4, "a number is due here, not a condition"),
    ("-TRUE = 1", 1, "a number is due here, not a condition"),
    ("(a = 1) + 1 = 2", 0, "a number is due here, not a condition"),
    ("a IS NULL + 1", 0, "a number is due here, not a condition"),
    ("a = 1 = 2", 0, "in ( ) only"),
    ("a < b < c", 0, "in ( ) only"),
    ("a IS NULL = TRUE", 0, "in ( ) only"),
    ("TRUE = a IS NULL", 0, "in ( ) only"),
    ("a = 1 IN (TRUE)", 0, "in ( ) only"),
    ("a BETWEEN 1", 2, "BETWEEN takes two bounds"),
    ("a BETWEEN 1 OR b", 2, "BETWEEN takes two bounds"),
    ("(a BETWEEN 1) AND b", 3, "BETWEEN takes two bounds"),
    ("a NOT BETWEEN 1 = 2 AND 3", 2, "BETWEEN takes two bounds"),
    ("a NOT = 1", 6, "BETWEEN, IN or LIKE is due here"),
    ("a NOT", 5, "BETWEEN, IN or LIKE is due here"),
    ("a IS", 4, "NULL or NOT NULL is due here"),
    ("a IS TRUE", 5, "NULL or NOT NULL is due here"),
    ("a IS NOT 'NULL'", 9, "NULL is due here"),
    ("5 IS NULL", 2, "IS NULL asks about a name"),
    ("a + 1 IS NULL", 6, "IS NULL asks about a name"),
    ("(a + 1) IS NULL", 8, "IS NULL asks about a name"),
    ("a IN 'x'", 5, "the list of IN, which begins with ("),
    ("a IN ()", 6, "texts, numbers, TRUE and FALSE only"),
    ("a IN ('x',)", 10, "texts, numbers, TRUE and FALSE only"),
    ("a IN (b)", 6, "texts, numbers, TRUE and FALSE only"),
    ("a IN (NULL)", 6, "texts, numbers, TRUE and FALSE only"),
    ("a IN (-'x')", 7, "texts, numbers, TRUE and FALSE only"),
    ("a IN (-TRUE)", 7, "texts, numbers, TRUE and FALSE only"),
    ("a IN (1 2)", 8, ", or ) is due here"),
    ("a IN (1", 7, ", or ) is due here"),
    ("a LIKE b", 7, "the pattern of LIKE is due here, in quotes"),
    ("a LIKE", 6, "the pattern of LIKE is due here, in quotes"),
    ('a LIKE "b"', 7, "the pattern of LIKE is due here, in quotes"),
    ("5 LIKE '5'", 0, "LIKE matches a name or a text"),
    ("a LIKE 'x' ESCAPE", 17, "the escape character is due here"),
    ("a LIKE 'x' ESCAPE ''", 18, "one character"),
    ("a LIKE 'x' ESCAPE '!!'", 18, "one character"),
    ("a LIKE 'x!' ESCAPE '!'", 7, "stands before % or _ or itself"),
    ("a LIKE '!x' ESCAPE '!'", 7, "stands before % or _ or itself"),
]


@pytest.mark.parametrize(("text", "position", "problem"), WRONG)
def test_an_error_says_what_and_where(text: str, position: int, problem: str) -> None:
    with pytest.raises(SelectorError) as caught:
        Selector(text)
    assert problem in caught.value.problem
    assert caught.value.position == position
    assert f"offset {position}" in str(caught.value)
    assert caught.value.problem in str(caught.value)


def test_an_error_is_a_value_error_and_one_of_this_package() -> None:
    with pytest.raises(SelectorError) as caught:
        Selector("a = ")
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, AmqpforgeError)


def test_an_error_quotes_a_little_of_the_text() -> None:
    with pytest.raises(SelectorError) as caught:
        Selector("a = " + "#" * 8000)
    assert "####" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_selector_is_made_of_text() -> None:
    with pytest.raises(SelectorError, match="of type bytes; give a str"):
        Selector(cast("str", b"a = 1"))


@pytest.mark.parametrize("text", ["\u0131s = 1", "I\u017f = 1", "L\u0131KE = 1"])
def test_a_reserved_word_is_ascii(text: str) -> None:
    assert Selector(text).names == {text.partition(" ")[0]}


# ---- limits ----


def refused(text: str, limits: SelectorLimits) -> SelectorError:
    with pytest.raises(SelectorError) as caught:
        Selector(text, limits)
    return caught.value


def test_the_length_is_bounded() -> None:
    limits = SelectorLimits(length=10)
    assert Selector("a = 123456", limits).names == {"a"}
    error = refused("a = 1234567", limits)
    assert error.position == 10
    assert "11 characters, and 10 are allowed" in error.problem
    assert "8192 are allowed" in refused(" " * 8193, SelectorLimits()).problem


def test_parentheses_nest_to_a_bound() -> None:
    limits = SelectorLimits(nesting=3)
    assert Selector("(((a))) OR (((b)))", limits).admits({"b": True}.get)
    error = refused("((((a))))", limits)
    assert error.position == 3
    assert "deeper than the 3 levels" in error.problem


def test_the_list_of_in_is_bounded() -> None:
    limits = SelectorLimits(items=3)
    assert Selector("a IN (1, 2, 3)", limits).admits({"a": 3}.get)
    error = refused("a IN (1, 2, 3, 4)", limits)
    assert error.position == 15
    assert "more than the 3 values" in error.problem


def test_a_pattern_is_bounded() -> None:
    limits = SelectorLimits(pattern=3)
    assert Selector("a LIKE '%bc'", limits).admits({"a": "abc"}.get)
    error = refused("a LIKE '%bcd'", limits)
    assert error.position == 7
    assert "4 characters, and 3 are allowed" in error.problem


@pytest.mark.parametrize(
    "bounds", [{"length": 0}, {"nesting": 0}, {"nesting": 101}, {"items": 0}, {"pattern": -1}]
)
def test_a_bound_has_a_range(bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="each bound is 1 or more, and nesting at most 100"):
        SelectorLimits(**bounds)


@pytest.mark.parametrize(
    "text",
    [
        "a AND " * 1364 + "a",
        "a OR " * 1637 + "a",
        "b + " * 2000 + "b > 0",
        "b * " * 2000 + "b = 1",
        "- " * 4000 + "b = 1",
        "NOT " * 2046 + "a",
        "(" * 64 + "a" + ")" * 64,
        "".join(("NOT a OR a AND TRUE = (", *["NOT a OR a AND TRUE = ("] * 63, "a", ")" * 64)),
        "".join(("1 = 2 - 1 * - (", *["2 - 1 * - ("] * 63, "b", ")" * 64, " OR TRUE")),
    ],
)
def test_long_rows_and_deep_nests_stay_within_the_stack(text: str) -> None:
    selector = Selector(text)
    assert selector.admits({"a": True, "b": 1}.get)

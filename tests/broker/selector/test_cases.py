"""The table of cases, and what a selector tells of itself."""

from __future__ import annotations

import pytest

from amqpforge.broker.selector import Selector
from tests.broker.selector.cases import CASES, MESSAGE


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_a_case_of_the_table(text: str, expected: bool | None) -> None:
    assert Selector(text).admits(MESSAGE.get) is (expected is True)
    if text.strip():
        assert Selector(f"NOT ({text})").admits(MESSAGE.get) is (expected is False)


def test_the_table_is_large_and_has_no_case_twice() -> None:
    assert len(CASES) >= 300
    assert {expected for _, expected in CASES} == {True, False, None}


def test_a_selector_tells_its_text_and_its_names() -> None:
    selector = Selector('a = 1 OR "b c" IS NULL AND a <> amqp.subject')
    assert selector.text == str(selector) == 'a = 1 OR "b c" IS NULL AND a <> amqp.subject'
    assert selector.names == {"a", "b c", "amqp.subject"}
    assert Selector("").names == Selector("TRUE").names == frozenset()


def test_selectors_are_equal_if_their_texts_are() -> None:
    assert Selector("a = 1") == Selector("a = 1")
    assert len({Selector("a = 1"), Selector("a = 1"), Selector("a = 2")}) == 2
    assert Selector("a = 1") != Selector("a  = 1")
    assert Selector("a = 1") != "a = 1"


def test_only_the_names_that_decide_are_looked_up() -> None:
    asked: list[str] = []

    def facts(name: str) -> object:
        asked.append(name)
        return name == "b"

    assert Selector("a AND c OR b OR d").admits(facts)
    assert asked == ["a", "b"]


def test_what_facts_raise_goes_through() -> None:
    def facts(name: str) -> object:
        raise LookupError(name)

    with pytest.raises(LookupError, match="a"):
        Selector("a = 1").admits(facts)


def test_numbers_beyond_every_type_of_amqp_are_judged_too() -> None:
    facts = {"huge": 10**400, "low": -(10**400)}.get
    assert Selector("huge > 1.5 AND low < 1.5 AND huge > low AND huge + 1 > 1").admits(facts)

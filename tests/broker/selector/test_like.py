"""Patterns against an obvious matcher, and their cost counted."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from amqpforge.broker.selector.like import Pattern
from tests.broker.selector.rounds import MANY


def obvious(pattern: str, text: str) -> bool:
    """Whether a pattern without escapes fits, by trying each way."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(obvious(pattern[1:], text[skipped:]) for skipped in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and obvious(pattern[1:], text[1:])


@MANY
@given(st.text("ab_%", max_size=8), st.text("abc_%", max_size=9))
@example("%a_b%", "aaxab")
@example("a%a", "a")
@example("%ab%ab%", "abab")
@example("%_a%_a", "aaa")
@example("%a_%", "aa")
@example("%a_a%", "baaab")
@example("_%_%_", "ab")
def test_a_pattern_fits_what_the_obvious_matcher_fits(pattern: str, text: str) -> None:
    assert Pattern(pattern).matches(text) is obvious(pattern, text)


@MANY
@given(st.text("ab_%!", max_size=8))
def test_escaped_text_fits_itself_alone(text: str) -> None:
    escaped = "".join(f"!{character}" if character in "_%!" else character for character in text)
    assert Pattern(escaped, "!").matches(text)
    assert not Pattern(escaped, "!").matches(text + "a")
    assert Pattern(f"%{escaped}%", "!").matches(f"b{text}a")


class Counted(str):
    """Text that counts how often a character of it is looked at."""

    __slots__ = ("looks",)
    looks: int

    def __getitem__(self, index: object) -> str:
        self.looks += 1
        return super().__getitem__(index)  # type: ignore[index]


def test_no_character_is_looked_at_twice_for_pieces_with_holes() -> None:
    for pattern in ("%" + "a_" * 200 + "b%", "%a_%" * 200 + "b_%", "%_" * 300 + "b%"):
        text = Counted("a" * 5000)
        text.looks = 0
        assert not Pattern(pattern).matches(text)
        assert text.looks <= 5001

"""SASLprep (RFC 4013): its own examples, and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge.sasl import saslprep


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
    ],
)
def test_the_examples_of_the_rfc(text: str, prepared: str) -> None:
    assert saslprep(text) == prepared


@pytest.mark.parametrize("text", ["\u0007", "\u0627\u0031", "a\u00a0\u0007"])
def test_what_the_rfc_forbids(text: str) -> None:
    with pytest.raises(ValueError, match="RFC 4013"):
        saslprep(text)


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("a\u00a0b", "a b"),
        ("a\u3000b", "a b"),
        ("\u200d\ufe0fx", "x"),
        ("\ufb01", "fi"),
        ("e\u0301", "\u00e9"),
        ("\u05d0\u05d1", "\u05d0\u05d1"),
        ("\u0627 1 \u0628", "\u0627 1 \u0628"),
        ("", ""),
    ],
)
def test_characters_are_mapped_and_composed(text: str, prepared: str) -> None:
    assert saslprep(text) == prepared


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a\u007f", "prohibits"),
        ("\u0085", "prohibits"),
        ("\ue000", "prohibits"),
        ("\ufdd0", "prohibits"),
        (chr(0xD800), "prohibits"),
        ("\ufffc", "prohibits"),
        ("\u2ff0", "prohibits"),
        ("\u202e", "prohibits"),
        ("\U000e0041", "prohibits"),
        ("\U0001f600", "Unicode 3.2"),
        ("\u0627a\u0628", "directions"),
        ("1\u0627", "directions"),
    ],
)
def test_other_characters_are_refused_without_being_shown(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        saslprep(text)
    assert str(caught.value).isascii()


@given(st.text(max_size=20))
def test_what_is_prepared_stays_as_it_is(text: str) -> None:
    try:
        prepared = saslprep(text)
    except ValueError:
        return
    assert saslprep(prepared) == prepared

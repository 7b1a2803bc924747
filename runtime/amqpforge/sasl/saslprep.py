"""SASLprep, the profile of stringprep for user names and passwords (RFC 4013)."""

from __future__ import annotations

import stringprep
from typing import Final
from unicodedata import ucd_3_2_0

__all__ = ["saslprep"]

_PROHIBITED: Final = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(text: str) -> str:
    """The text in the one form in which it is compared and hashed, as a stored string (RFC 3454 section 7).

    Raises:
        ValueError: it holds a character that is prohibited, or not assigned in Unicode 3.2, or it mixes
            directions of writing. The message holds nothing of the text, which may be a password.
    """
    if text.isascii() and text.isprintable():
        return text
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    normal = ucd_3_2_0.normalize("NFKC", mapped)
    for character in normal:
        if any(prohibits(character) for prohibits in _PROHIBITED):
            raise ValueError("a character that SASLprep prohibits (RFC 4013 section 2.3)")
        if stringprep.in_table_a1(character):
            raise ValueError(
                "a character that Unicode 3.2 has not got, such as an emoji (RFC 4013 section 2.5)"
            )
    _check_directions(normal)
    return normal


def _check_directions(text: str) -> None:
    """What is written from right to left stands alone, and at both ends (RFC 3454 section 6)."""
    leftwards = [stringprep.in_table_d1(character) for character in text]
    if not any(leftwards):
        return
    if any(map(stringprep.in_table_d2, text)) or not (leftwards[0] and leftwards[-1]):
        raise ValueError("directions of writing that must not be mixed (RFC 4013 section 2.4)")

"""The patterns of LIKE: ``%`` stands for any characters or none, ``_`` for one character.

The pattern is cut at its ``%`` into pieces. The first and the last are compared where they have to stand;
the others are sought from left to right, each at the first place it fits, which is never a wrong place for
those that follow. So no character of a value is looked at again for another try of an earlier piece. A piece
without ``_`` is found by ``str.find``; one with ``_`` by an automaton whose states are the bits of one whole
number.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Pattern", "PatternError"]


class PatternError(ValueError):
    """The escape character stands where it escapes nothing."""


class _Piece(Protocol):
    """What stands between two ``%``; ``length`` is the number of characters that it fits."""

    length: int

    def fits(self, text: str, begin: int) -> bool:
        """Whether ``text``, which is long enough, has it at ``begin``."""
        ...

    def seek(self, text: str, begin: int, stop: int) -> int:
        """The offset behind its first place within ``begin`` and ``stop``; -1: there is none."""
        ...


class Pattern:
    """A pattern, ready to be matched in linear time.

    Args:
        pattern: the pattern.
        escape: the character that takes its meaning from a following ``%``, ``_`` or escape character; None:
            there is none.

    Raises:
        PatternError: the escape character is followed by something else, or by nothing.
    """

    __slots__ = ("_first", "_last", "_length", "_middle")

    def __init__(self, pattern: str, escape: str | None = None) -> None:
        first, *others = [_piece(characters) for characters in _cut(pattern, escape)]
        self._first = first
        self._last = others[-1] if others else None
        self._middle = [piece for piece in others[:-1] if piece.length]
        self._length = first.length + sum(piece.length for piece in others)

    def matches(self, text: str) -> bool:
        """Whether all of ``text`` is as the pattern says."""
        last = self._last
        if last is None:
            return len(text) == self._length and self._first.fits(text, 0)
        stop = len(text) - last.length
        if len(text) < self._length or not self._first.fits(text, 0) or not last.fits(text, stop):
            return False
        begin = self._first.length
        for piece in self._middle:
            begin = piece.seek(text, begin, stop)
            if begin < 0:
                return False
        return True


def _cut(pattern: str, escape: str | None) -> list[list[str | None]]:
    """The characters of each piece, None for any character; one piece more than there are ``%``."""
    pieces: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following not in ("%", "_", escape):
                raise PatternError("the escape character in the pattern stands before % or _ or itself")
            pieces[-1].append(following)
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if character == "_" else character)
    return pieces


def _piece(characters: list[str | None]) -> _Piece:
    known = [character for character in characters if character is not None]
    return _Plain("".join(known)) if len(known) == len(characters) else _Holed(characters)


class _Plain:
    """Characters that are all given."""

    __slots__ = ("_characters", "length")

    def __init__(self, characters: str) -> None:
        self._characters = characters
        self.length = len(characters)

    def fits(self, text: str, begin: int) -> bool:
        return text.startswith(self._characters, begin)

    def seek(self, text: str, begin: int, stop: int) -> int:
        found = text.find(self._characters, begin, stop)
        return found if found < 0 else found + self.length


class _Holed:
    """Characters of which some may be any.

    Bit i of a state says that the last i + 1 characters of the text are as the piece begins.
    """

    __slots__ = ("_after", "_any", "_characters", "length")

    def __init__(self, characters: list[str | None]) -> None:
        self._characters = characters
        self.length = len(characters)
        self._any = sum(1 << index for index, character in enumerate(characters) if character is None)
        self._after: dict[str, int] = {}
        for index, character in enumerate(characters):
            if character is not None:
                self._after[character] = self._after.get(character, self._any) | 1 << index

    def fits(self, text: str, begin: int) -> bool:
        return all(
            character is None or character == text[begin + index]
            for index, character in enumerate(self._characters)
        )

    def seek(self, text: str, begin: int, stop: int) -> int:
        complete = 1 << (self.length - 1)
        state = 0
        for index in range(begin, stop):
            state = (state << 1 | 1) & self._after.get(text[index], self._any)
            if state & complete:
                return index + 1
        return -1

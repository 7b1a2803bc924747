"""Bodies that a test can predict: the programs in ``peers`` make the same octets."""

from __future__ import annotations

from hashlib import sha256

PERIOD = 251
"""A prime, so that no power of two, hence no frame size, maps the body onto itself."""


def octets(number: int, size: int) -> bytes:
    """The body of message ``number``: ``size`` octets that count up modulo 251, beginning at the number."""
    start = number % PERIOD
    return (bytes(range(PERIOD)) * (size // PERIOD + 2))[start : start + size]


def digest(number: int, size: int) -> str:
    """The SHA-256 of that body, in hexadecimal digits."""
    return sha256(octets(number, size)).hexdigest()

"""Message-ids that are the same each time a task runs: a retry repeats messages and makes no new ones.

An id says which write, which batch of it, which partition, which row, and has a digest of the message. With
the digest a retry whose rows come in another order, as behind a shuffle, never takes the id of another row:
two messages with one id have the same octets. So whoever drops what repeats an id loses nothing: each run of
the task has as many ids for equal rows as there are equal rows.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

__all__ = ["DIGITS", "row_id", "sealed"]

DIGITS: Final = 12
"""Hexadecimal digits of the digest."""

_OPEN: Final = "0" * DIGITS


def row_id(prefix: str, row: int) -> str:
    """The id of a row before its message is known: with zeros in place of the digest.

    Args:
        prefix: the write, the batch and the partition.
        row: the place of the row in the partition, from 0.
    """
    return f"{prefix}:{row}:{_OPEN}"


def sealed(octets: bytes, open_id: str) -> bytes:
    """A message with the digest in its id.

    Args:
        octets: the message, with an id that :func:`row_id` made.
        open_id: that id.
    """
    text = open_id.encode()
    end = octets.index(text) + len(text)
    digest = blake2b(octets, digest_size=DIGITS // 2).hexdigest().encode()
    return octets[: end - DIGITS] + digest + octets[end:]

"""What a capture file holds, whatever its format: packets with a time and a link type."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MAX_PACKET", "Packet"]

MAX_PACKET = 64 * 1024 * 1024
"""Octets that one packet record or block may claim; more is taken for a damaged file before anything is
allocated.
"""


class Packet(NamedTuple):
    """One captured packet.

    `time` counts nanoseconds since 1970-01-01 00:00 UTC (None where the format has no time), `link_type` is
    the number from the LINKTYPE registry that says how `data` begins, and `data` holds what was captured,
    perhaps less than was sent. `offset` is where its record or block begins in the input.
    """

    time: int | None
    link_type: int
    data: bytes
    offset: int

"""What a receiver has done so far."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Progress"]


@dataclass(slots=True)
class Progress:
    """What was done so far, in numbers that go on counting.

    Attributes:
        rows: messages that went into the spool.
        octets: their octets.
        rejected: messages that could not be decoded and were rejected.
        redelivered: messages that the peer has flagged as delivered before.
        duplicates: messages that were in the spool already, and were dropped.
        resumed: messages of the spool that the peer settled when their link was attached again.
        connections: how often there was a connection.
    """

    rows: int = 0
    octets: int = 0
    rejected: int = 0
    redelivered: int = 0
    duplicates: int = 0
    resumed: int = 0
    connections: int = 0

"""What has happened on a queue, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Counters"]


@dataclass(slots=True)
class Counters:
    """Since the queue was made, or since the broker was started.

    Attributes:
        published: messages that came.
        delivered: times that a consumer has acquired one.
        redelivered: those of them that were not the first for the message.
        accepted: messages that a consumer has accepted.
        rejected: messages that a consumer has rejected.
        expired: messages that have outlived their time.
        dead_lettered: messages that went to the dead-letter exchange, for whatever reason.
        dropped: messages given up that did not go there.
        purged: messages that were purged.
        duplicates: messages that were turned away because they repeat a message-id.
    """

    published: int = 0
    delivered: int = 0
    redelivered: int = 0
    accepted: int = 0
    rejected: int = 0
    expired: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    purged: int = 0
    duplicates: int = 0

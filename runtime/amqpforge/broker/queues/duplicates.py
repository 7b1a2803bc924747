"""The message-ids that a queue has had lately: a message that repeats one of them is dropped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from amqpforge.broker.store import Unit

__all__ = ["Duplicates"]

_LONGEST: Final = 64
"""Octets of a message-id that is kept as it is; of a longer one a digest is kept."""


class Duplicates:
    """The last message-ids of a queue, so many at most.

    Message-ids are octets that tell ids of different types apart, as a head makes them.

    Attributes:
        forgotten: how many messages did not come to be.
    """

    __slots__ = ("_bound", "_known", "_last", "_queue", "_since", "forgotten")

    def __init__(self, queue: int, bound: int) -> None:
        """``queue``: its number; ``bound``: how many message-ids are kept, from 0."""
        self._queue = queue
        self._bound = bound
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._last = 0
        self.forgotten = 0
        self._since = 0  # how many the store got since it was told to forget some

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, message_id: bytes) -> bool:
        return bool(self._known) and _short(message_id) in self._known

    def remember(self, message_id: bytes, unit: Unit | None) -> None:
        """There is a message with this id. ``unit`` notes it; None: it is not to survive a restart."""
        if not self._bound:
            return
        self._last += 1
        key = _short(message_id)
        self._known[key] = self._last
        self._known.move_to_end(key)
        if len(self._known) > self._bound:
            self._known.popitem(last=False)
        if unit is None:
            return
        unit.remember(self._queue, key, self._last)
        self._since += 1
        # The store may have some more than the window, so that it need not forget one for each that comes.
        if self._since > self._bound // 8:
            self._since = 0
            unit.outgrow(self._queue, next(iter(self._known.values())) - 1)

    def forget(self, message_id: bytes) -> None:
        """The message with this id did not come to be."""
        self.forgotten += 1
        self._known.pop(_short(message_id), None)

    def restore(self, remembered: Iterable[tuple[bytes, int]]) -> None:
        """What a store has kept, in the order of the numbers."""
        for key, number in remembered:
            self._known[key] = self._last = number
            self._known.move_to_end(key)
            if len(self._known) > self._bound:
                self._known.popitem(last=False)


def _short(message_id: bytes) -> bytes:
    return message_id if len(message_id) <= _LONGEST else b"#" + blake2b(message_id, digest_size=32).digest()

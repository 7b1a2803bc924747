"""What a group of units comes to: what a store has to write so that all of them are true at once.

A message that came and went within the group costs nothing, and what was changed twice is written once. What
is taken away is written before what is put in, so the order between units is kept: a thing that left and came
back is there, one that came and left is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amqpforge.broker.store.base import Unit

__all__ = ["Changes", "only_removes"]

OPERATION_OCTETS = 64
"""What one operation counts in a group beside the payload: about what it takes up in the file."""

REMOVALS = frozenset({"forget", "dequeue", "outgrow", "drop_queue", "undefine"})


def only_removes(unit: Unit) -> bool:
    """Whether a unit does nothing but take things away: done later, it is as good."""
    return all(name in REMOVALS for name, _ in unit.operations)


class Changes:
    """The sum of units.

    Attributes:
        octets: about how much the units hold, in octets.
        messages: rows of new messages without their payloads, by id.
        bodies: their payloads, by id.
        forgotten: ids of messages to remove.
        entries: rows to put in or to replace, by queue and message: queue, message, expires_at, delivery
            count and annotations.
        left: queues and messages whose entries go.
        changed: new delivery counts and annotations, by queue and message.
        dropped: queues that go with all that they hold.
        outgrown: the number up to which message-ids go, by queue.
        remembers: new message-ids, by queue and number.
        undefined: kinds and names that go.
        defined: data of things that are there, in JSON, by kind and name.
    """

    __slots__ = (
        "_take",
        "bodies",
        "changed",
        "defined",
        "dropped",
        "entries",
        "forgotten",
        "left",
        "messages",
        "octets",
        "outgrown",
        "remembers",
        "undefined",
    )

    def __init__(self) -> None:
        self.octets = 0
        self.messages: dict[int, tuple[Any, ...]] = {}
        self.bodies: dict[int, bytes] = {}
        self.forgotten: set[int] = set()
        self.entries: dict[tuple[int, int], tuple[Any, ...]] = {}
        self.left: set[tuple[int, int]] = set()
        self.changed: dict[tuple[int, int], tuple[int, bytes | None]] = {}
        self.dropped: set[int] = set()
        self.outgrown: dict[int, int] = {}
        self.remembers: dict[tuple[int, int], bytes] = {}
        self.undefined: set[tuple[str, str]] = set()
        self.defined: dict[tuple[str, str], str] = {}
        self._take: dict[str, Callable[..., None]] = {
            "add": self._add,
            "forget": self._forget,
            "enqueue": self._enqueue,
            "dequeue": self._dequeue,
            "change": self._change,
            "remember": self._remember,
            "outgrow": self._outgrow,
            "drop_queue": self._drop_queue,
            "define": self._define,
            "undefine": self._undefine,
        }

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(
            self.messages
            or self.forgotten
            or self.entries
            or self.left
            or self.changed
            or self.dropped
            or self.outgrown
            or self.remembers
            or self.undefined
            or self.defined
        )

    def take(self, unit: Unit) -> None:
        """Add what a unit does."""
        take = self._take
        for name, arguments in unit.operations:
            take[name](*arguments)
        self.octets += OPERATION_OCTETS * len(unit.operations)

    @property
    def remembered(self) -> Iterator[tuple[int, int, bytes]]:
        """Rows of message-ids that are not outgrown already: queue, number, message-id."""
        outgrown = self.outgrown
        for (queue, number), message_id in self.remembers.items():
            if number > outgrown.get(queue, number - 1):
                yield queue, number, message_id

    def _add(
        self,
        message: int,
        form: int,
        priority: int,
        expires_at: float | None,
        exchange: str,
        key: str,
        payload: bytes,
    ) -> None:
        self.messages[message] = (message, form, priority, expires_at, exchange, key, len(payload))
        self.bodies[message] = payload
        self.octets += len(payload)

    def _forget(self, message: int) -> None:
        if self.messages.pop(message, None) is None:
            self.forgotten.add(message)
        else:
            del self.bodies[message]

    def _enqueue(self, queue: int, message: int, expires_at: float | None, delivery_count: int) -> None:
        self.entries[queue, message] = (queue, message, expires_at, delivery_count, None)

    def _dequeue(self, queue: int, message: int) -> None:
        place = queue, message
        # An entry that is new here, of a message that is new here, is not in the file; any other may be.
        if self.entries.pop(place, None) is None or message not in self.messages:
            self.changed.pop(place, None)
            self.left.add(place)

    def _change(self, queue: int, message: int, delivery_count: int, annotations: bytes | None) -> None:
        place = queue, message
        entry = self.entries.get(place)
        if entry is None:
            self.changed[place] = delivery_count, annotations
        else:
            self.entries[place] = (*entry[:3], delivery_count, annotations)

    def _remember(self, queue: int, message_id: bytes, number: int) -> None:
        self.remembers[queue, number] = message_id
        self.octets += len(message_id)

    def _outgrow(self, queue: int, number: int) -> None:
        self.outgrown[queue] = max(number, self.outgrown.get(queue, number))

    def _drop_queue(self, queue: int) -> None:
        self.dropped.add(queue)
        self.outgrown.pop(queue, None)
        for rows in (self.entries, self.changed, self.remembers):
            for place in [place for place in rows if place[0] == queue]:
                del rows[place]

    def _define(self, kind: str, name: str, data: str) -> None:
        self.defined[kind, name] = data
        self.octets += len(data)

    def _undefine(self, kind: str, name: str) -> None:
        self.defined.pop((kind, name), None)
        self.undefined.add((kind, name))

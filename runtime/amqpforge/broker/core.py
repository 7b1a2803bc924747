"""What all virtual hosts of a broker share: its store, its clock, the payloads in memory, and its numbers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from .store import Unit
from .store.changes import only_removes

if TYPE_CHECKING:
    from .bodies import Bodies
    from .clock import Clock
    from .errors import BrokerError, StoreError
    from .limits import Usage
    from .message import Message
    from .queues import Entry, Queue
    from .store import Store

__all__ = ["Core", "Placed", "Told", "Work", "nowhere"]

_log = logging.getLogger("amqpforge.broker")

Told: TypeAlias = "Callable[[BrokerError | None], None]"
"""Called once it is known whether something is safe: with None, or with what went wrong."""


class Placed:
    """A message that has its places in queues, where nobody sees it before the store has it.

    Attributes:
        message: the message.
        entries: where.
        message_id: what it was remembered by; None: nothing.
        is_kept: whether the store is to have it.
    """

    __slots__ = ("entries", "is_kept", "message", "message_id")

    def __init__(
        self,
        message: Message,
        entries: list[tuple[Queue, Entry]],
        message_id: bytes | None,
        is_kept: bool,
    ) -> None:
        self.message = message
        self.entries = entries
        self.message_id = message_id
        self.is_kept = is_kept

    @property
    def is_orphaned(self) -> bool:
        """Whether all its queues were deleted before anybody could see it."""
        return bool(self.entries) and not self.message.references

    def show(self, bodies: Bodies) -> None:
        """The store has what it is to have: let the message be seen."""
        message = self.message
        message.is_stored = self.is_kept
        for queue, entry in self.entries:
            queue.confirm(entry)
        if self.is_kept:
            bodies.stored(message)

    def take_back(self, bodies: Bodies) -> None:
        """The store could not be written: the message was never there."""
        for queue, entry in self.entries:
            queue.cancel(entry, self.message_id)
        bodies.release(self.message)


class Work(Unit):
    """A unit, and what is to happen once it is committed.

    Attributes:
        placed: messages that can be seen then.
        told: whom to tell after that, in order.
    """

    __slots__ = ("placed", "told")

    def __init__(self) -> None:
        super().__init__()
        self.placed: list[Placed] = []
        self.told: list[Told] = []


class _Nowhere(list[Any]):
    """Operations of which no store wants to know."""

    def append(self, _operation: Any) -> None:
        """Forget it."""


def nowhere() -> Work:
    """A unit of which no store is going to know."""
    work = Work()
    work.operations = _Nowhere()
    return work


class Core:
    """The ground on which virtual hosts stand.

    What clients do in one turn of the event loop is collected in two units, which are committed at its end:
    what comes, and what goes. What goes can be made good later if the disk is full, so the two are apart.

    Attributes:
        store: where units go.
        clock: what time it is.
        bodies: the payloads that are in memory.
        usage: how much there is of everything, and how much there may be.
        is_strict: whether durable messages are refused where they would not survive a restart.
    """

    def __init__(
        self, store: Store, clock: Clock, bodies: Bodies, usage: Usage, *, is_strict: bool = False
    ) -> None:
        self.is_strict = is_strict
        self.store = store
        self.clock = clock
        self.bodies = bodies
        self.usage = usage
        self._messages = count(1)
        self._queues = count(1)
        self._coming = self.work()
        self._going = self.work()
        self._unwritten: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._owed: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._refusal: BrokerError | None = None  # of the latest that is owed
        self._is_due = False
        self._fault = ""

    def next_message(self) -> int:
        """The id of a new message, above all others."""
        return next(self._messages)

    def next_queue(self) -> int:
        """The number of a new queue."""
        return next(self._queues)

    def go_on_from(self, message: int, queue: int) -> None:
        """These are the greatest numbers that the store has."""
        self._messages = count(message + 1)
        self._queues = count(queue + 1)

    # --- units ---------------------------------------------------------------------------------------------

    def work(self) -> Work:
        """A new unit; it notes nothing if nothing is going to survive."""
        return Work() if self.store.is_durable else nowhere()

    def coming(self) -> Work:
        """The unit for what comes in this turn."""
        if not self._is_due:
            self._expect()
        return self._coming

    def going(self) -> Work:
        """The unit for what goes in this turn."""
        if not self._is_due:
            self._expect()
        return self._going

    def _expect(self) -> None:
        self._is_due = True
        self.clock.call_at(0.0, self.flush)  # now, even if somebody sets the clock back at this moment

    def flush(self) -> None:
        """Commit what this turn has brought so far."""
        self._is_due = False
        for name in ("_coming", "_going"):
            work: Work = getattr(self, name)
            if work or work.placed or work.told:
                setattr(self, name, self.work())
                self._commit(work)

    def commit(self, work: Work, told: Told | None = None) -> None:
        """Commit a unit of its own, behind what this turn has brought so far."""
        self.flush()
        if told is not None:
            work.told.append(told)
        self._commit(work)

    def barrier(self, told: Told) -> None:
        """Have somebody told once all that was done so far is safe."""
        self.commit(self.work(), partial(self._passed, told))

    def _passed(self, told: Told, error: BrokerError | None) -> None:
        told(self._refusal if error is None and self._owed else error)

    def _commit(self, work: Work) -> None:
        if self._owed and (not work or not only_removes(work)):
            owed = self.work()
            for (kind, name), data in self._owed.items():
                owed.define(kind, name, data)
            work.operations[:0] = owed.operations
            work.told.insert(0, partial(self._paid, dict(self._owed)))
        self.store.commit(work, partial(self._committed, work))

    def _committed(self, work: Work, error: StoreError | None) -> None:
        self._note_fault(work, error)
        for placed in work.placed:
            try:
                self._conclude(placed, error)
            except Exception:  # A mistake with one client's message is not to cost the others theirs.
                _log.exception("what was to be done after a message was written failed")
        for told in work.told:
            try:
                told(error)
            except Exception:
                _log.exception("what was to be told after a commit could not be")

    def _conclude(self, placed: Placed, error: StoreError | None) -> None:
        if error is not None:
            placed.take_back(self.bodies)
            return
        if placed.is_kept and placed.is_orphaned:
            self.going().forget(placed.message.id)
        placed.show(self.bodies)

    # --- definitions ---------------------------------------------------------------------------------------

    def define(self, kind: str, name: str, data: Mapping[str, Any], told: Told | None = None) -> None:
        """Have the store know of a thing that is there now; ``told`` once it does, or with the reason.

        What it could not be told then it is told with whatever is written next: it must not have messages of
        a queue that it does not know.
        """
        work = self.work()
        work.define(kind, name, data)
        self._unwritten[kind, name] = data
        work.told.append(partial(self._defined, kind, name, data))
        self.commit(work, told)

    def undefine(self, kind: str, name: str, work: Work) -> None:
        """Have the store forget a thing with a unit."""
        self._unwritten.pop((kind, name), None)
        self._owed.pop((kind, name), None)
        work.undefine(kind, name)

    def _defined(self, kind: str, name: str, data: Mapping[str, Any], error: BrokerError | None) -> None:
        thing = kind, name
        if self._unwritten.get(thing) is data:  # else it is gone, or another one, by now
            del self._unwritten[thing]
            self._owed.pop(thing, None)
            if error is not None:
                self._owed[thing] = data
                self._refusal = error

    def _paid(self, owed: Mapping[tuple[str, str], Mapping[str, Any]], error: BrokerError | None) -> None:
        if error is None:
            for thing, data in owed.items():
                if self._owed.get(thing) is data:
                    del self._owed[thing]

    def _note_fault(self, work: Work, error: StoreError | None) -> None:
        """Log what is wrong with the store once, and not for each unit as long as it is."""
        if self._fault and error is None and only_removes(work):
            return  # There is room for that on a disk that is full.
        fault = "" if error is None else str(error)
        if fault and fault != self._fault:
            _log.error("%s", fault)
        self._fault = fault

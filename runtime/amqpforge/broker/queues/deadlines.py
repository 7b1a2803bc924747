"""What a queue does at set times: give up messages that have died, and take back those held too long."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from .alarm import Alarm

if TYPE_CHECKING:
    from amqpforge.broker.clock import Clock

    from .entry import Entry

__all__ = ["Expiry", "Locks"]

_SPARE: Final = 64
"""Times of messages that are gone which are kept in any case."""


class Expiry:
    """When the messages of a queue die; the alarm rings at the first of these times.

    The times of messages that are gone for another reason stay for a while: half of all and a few at most.
    """

    __slots__ = ("_alarm", "_heap", "_is_there", "_living")

    def __init__(self, clock: Clock, ring: Callable[[], None], is_there: Callable[[int], bool]) -> None:
        """``is_there`` tells whether the queue has a message with a key."""
        self._alarm = Alarm(clock, ring)
        self._heap: list[tuple[float, int]] = []
        self._is_there = is_there
        self._living = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, when: float, key: int) -> None:
        """A message dies at this time."""
        self._living += 1
        heappush(self._heap, (when, key))
        self.arm()

    def restore(self, times: Iterable[tuple[float, int]]) -> None:
        """Many messages die at these times; there was none yet."""
        self._heap = list(times)
        self._living = len(self._heap)
        heapify(self._heap)
        self.arm()

    def forget(self) -> None:
        """A message that would die is gone from the queue."""
        self._living -= 1
        if len(self._heap) > 2 * self._living + _SPARE:
            self._heap = [item for item in self._heap if self._is_there(item[1])]
            heapify(self._heap)

    def pop(self, now: float) -> int | None:
        """The key of a message whose time has come, which may be gone; None: there is none."""
        if self._heap and self._heap[0][0] <= now:
            return heappop(self._heap)[1]
        return None

    def arm(self) -> None:
        """Ring when the first time comes."""
        if self._heap:
            self._alarm.set(self._heap[0][0])

    def stop(self) -> None:
        """Ring no more."""
        self._alarm.clear()


class Locks:
    """How long entries have been held; the alarm rings when the first has been so for too long."""

    __slots__ = ("_alarm", "_clock", "_deadlines", "_timeout")

    def __init__(self, clock: Clock, timeout: float | None, ring: Callable[[], None]) -> None:
        """``timeout``: seconds that an entry can be held; None: any time."""
        self._clock = clock
        self._timeout = timeout
        self._alarm = Alarm(clock, ring)
        # The timeout is one for all: in the order of acquisition is in the order of the deadlines.
        self._deadlines: OrderedDict[Entry, float] = OrderedDict()

    def add(self, entry: Entry) -> None:
        """An entry is held from now on."""
        if self._timeout is not None:
            self._deadlines[entry] = self._clock.now() + self._timeout
            self.arm()

    def discard(self, entry: Entry) -> None:
        """An entry is held no more, or not to be taken back."""
        if self._deadlines:
            self._deadlines.pop(entry, None)

    def pop(self, now: float) -> Entry | None:
        """An entry that has been held for too long; None: there is none."""
        entry = next(iter(self._deadlines), None)
        if entry is None or self._deadlines[entry] > now:
            return None
        del self._deadlines[entry]
        return entry

    def arm(self) -> None:
        """Ring when the first deadline comes."""
        if self._deadlines:
            self._alarm.set(self._deadlines[next(iter(self._deadlines))])

    def stop(self) -> None:
        """Ring no more."""
        self._alarm.clear()

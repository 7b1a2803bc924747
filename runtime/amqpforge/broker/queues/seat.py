"""What a queue knows of one consumer: when its turn is, and which messages it has looked at."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from .stock import RANK_BITS

if TYPE_CHECKING:
    from .consumer import Consumer
    from .entry import Entry
    from .shelf import Shelf

__all__ = ["Returned", "Seat"]

_SPARE: Final = 64
_LEAST: Final = 1024


class Returned:
    """The keys of entries that came back, for consumers that choose and had looked at them before.

    They are numbered from 0 on, and each consumer knows how far it has heard them. Old ones are dropped when
    they become more than the entries that there are: a consumer that has not heard them looks at everything
    again, which is as much work as they would have been.
    """

    __slots__ = ("_keys", "start")

    def __init__(self) -> None:
        self._keys: list[int] = []
        self.start = 0

    @property
    def end(self) -> int:
        """The number that the next one gets."""
        return self.start + len(self._keys)

    def add(self, key: int, ready: int) -> None:
        """An entry came back; ``ready`` entries can be had now."""
        if len(self._keys) >= max(_LEAST, 2 * ready):
            self.start = self.end
            self._keys.clear()
        self._keys.append(key)

    def __getitem__(self, number: int) -> int:
        return self._keys[number - self.start]


class Seat:
    """A consumer's place at a queue.

    Attributes:
        consumer: who sits there.
        turn: when it was served last, or came: who has the least number is next.
        barred: the entries that are undeliverable to it.
        is_browser: what the consumer says.
        selector: what the consumer says.
        heard: how far it has heard what came back.
    """

    __slots__ = (
        "_finds",
        "_heap",
        "_reached",
        "barred",
        "consumer",
        "heard",
        "is_browser",
        "selector",
        "turn",
    )

    def __init__(self, consumer: Consumer, heard: int) -> None:
        self.consumer = consumer
        self.turn = 0
        self.barred: set[Entry] = set()
        self.is_browser = consumer.is_browser
        self.selector = consumer.selector
        self.heard = heard
        self._reached: dict[int, int] = {}  # by rank: the last key that it has looked at
        self._finds: set[int] = set()  # keys of what came back and suits it; it may be gone again
        self._heap: list[int] = []  # the same, and some that are no such keys any more

    @property
    def is_choosy(self) -> bool:
        """Whether it may have to pass over entries."""
        return self.is_browser or self.selector is not None or bool(self.barred)

    def forget(self, heard: int) -> None:
        """Look at everything again."""
        self._reached.clear()
        self._finds.clear()
        self._heap.clear()
        self.heard = heard

    def has_passed(self, key: int) -> bool:
        """Whether it has looked at an entry with this key, or would have."""
        return key <= self._reached.get(key >> RANK_BITS, 0)

    def look(self, after: Callable[[int], tuple[int, Entry] | None]) -> tuple[int, Entry] | None:
        """The first entry that it has not looked at, and its key."""
        found = after(0)
        while found is not None:
            reached = self._reached.get(found[0] >> RANK_BITS, 0)
            if found[0] > reached:
                return found
            found = after(reached)
        return None

    def reach(self, key: int) -> None:
        """It has looked at the entry with this key, which :meth:`look` has found."""
        self._reached[key >> RANK_BITS] = key

    def judge(self, key: int, suits: bool, ready: Shelf) -> None:
        """An entry that came back suits it, or does not; what was found of it before counts no longer."""
        if not suits:
            self._finds.discard(key)
        elif key not in self._finds:
            if len(self._heap) > 2 * len(ready) + _SPARE:
                self._finds = {one for one in self._finds if one in ready}
                self._heap = sorted(self._finds)
            self._finds.add(key)
            heappush(self._heap, key)

    def found(self, ready: Shelf) -> tuple[int, Entry] | None:
        """The first of the entries that came back and suit it, and its key."""
        while self._heap:
            key = self._heap[0]
            entry = ready.get(key) if key in self._finds else None
            if entry is not None:
                return key, entry
            heappop(self._heap)
            self._finds.discard(key)
        return None

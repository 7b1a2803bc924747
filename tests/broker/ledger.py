"""What has to be in which queue, told from what a broker has said before it was killed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

__all__ = ["Change", "Ledger", "Place"]

Place: TypeAlias = tuple[str, int]
"""The name of a queue, and the number of a message."""

PRODUCERS = 10
"""A number tells its producer by its last digit; those of one producer rise in the order of publishing."""


class Change:
    """What becomes true as a whole, or not at all: where messages are then, and where no more.

    Attributes:
        places: what is true of each place if it happens; the contrary if it does not.
        happened: whether it did; None: not known.
    """

    def __init__(self, places: Mapping[Place, bool]) -> None:
        self.places = dict(places)
        self.happened: bool | None = None

    def __repr__(self) -> str:
        return f"<Change {self.places}, happened: {self.happened}>"


class Ledger:
    """Keeps account of the messages of durable queues.

    Args:
        unordered: queues whose messages do not come in the order of their numbers, as dead letters.

    Attributes:
        true: where messages are, as far as that is known.
        doubts: how often a restart has shown whether a change has happened: that it did not, and that it did.
    """

    def __init__(self, unordered: Collection[str] = ()) -> None:
        self._unordered = unordered
        self.true: set[Place] = set()
        self.doubts = [0, 0]
        self._open: dict[Place, Change] = {}

    def begin(self, places: Mapping[Place, bool]) -> Change:
        """A change is asked for."""
        change = Change(places)
        for place in places:
            assert place not in self._open
            self._open[place] = change
        return change

    def decide(self, change: Change, happened: bool) -> None:
        """The broker has said what became of a change."""
        assert change.happened in (None, happened), f"{change} is told otherwise"
        if change.happened is not None:
            return
        change.happened = happened
        for place, is_there in change.places.items():
            del self._open[place]
            if is_there is happened:
                self.true.add(place)
            else:
                self.true.discard(place)

    def saw(self, place: Place) -> None:
        """The broker has delivered a message: what was not kept is not to be seen."""
        change = self._open.get(place)
        if change is not None:
            assert change.places[place], f"{place} is delivered again after its outcome was told"
            self.decide(change, True)
        assert place in self.true, f"{place} is delivered, and is not there"

    def check(self, found: Mapping[str, Sequence[int]]) -> None:
        """Hold what queues contain after a restart against what was said: there once, in order, or not."""
        present = {(queue, number) for queue, numbers in found.items() for number in numbers}
        for change in dict.fromkeys(self._open.values()):
            happened = {(place in present) is is_there for place, is_there in change.places.items()}
            assert len(happened) == 1, f"{change} has happened by half"
            has_happened = happened.pop()
            self.doubts[has_happened] += 1
            self.decide(change, has_happened)
        assert present - self.true == set(), "these are not to be there"
        assert self.true - present == set(), "these are lost"
        for queue, numbers in found.items():
            assert len(set(numbers)) == len(numbers), f"{queue} has messages twice"
            for producer in range(0 if queue in self._unordered else PRODUCERS):
                of_one = [number for number in numbers if number % PRODUCERS == producer]
                assert of_one == sorted(of_one), f"{queue} has the messages of {producer} out of order"

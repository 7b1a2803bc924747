"""Who gets which message: consumers take turns, and each gets the first message that there is for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias

from .alarm import Alarm
from .seat import Returned, Seat

if TYPE_CHECKING:
    from amqpforge.broker.clock import Clock
    from amqpforge.broker.message import Facts

    from .consumer import Consumer
    from .entry import Entry
    from .stock import Stock

__all__ = ["Dispatcher"]

_STEPS: Final = 1000
"""Deliveries, and looks at messages, of one run; what is left is done a moment later, so that other queues
and connections are not kept waiting.
"""

_Row: TypeAlias = "OrderedDict[Seat, None]"
"""Seats in the order of their turns."""


class Dispatcher:
    """Serves the consumers of one queue.

    Consumers that have credit stand in two rows, both in the order of turns: those that take whatever is
    next, and those that choose: by a selector, because a message is undeliverable to them, or as browsers. Of
    the first row only the first consumer is looked at; of the second one each has to look at each message,
    but once, and rests until there is another one. Consumers without credit stand in no row and cost nothing.
    """

    def __init__(
        self,
        stock: Stock,
        clock: Clock,
        facts: Callable[[Entry], Facts],
        give: Callable[[Entry, Consumer], bool],
    ) -> None:
        """``give`` makes a consumer the holder of an entry, or says that the entry has died."""
        self._stock = stock
        self._clock = clock
        self._facts = facts
        self._give = give
        self._alarm = Alarm(clock, self.run)
        self._seats: dict[Consumer, Seat] = {}
        self._takers: _Row = OrderedDict()
        self._choosers: _Row = OrderedDict()
        self._resting: _Row = OrderedDict()
        self._returned = Returned()
        self._rows = (self._takers, self._choosers, self._resting)
        self._turns = count(1)
        self._is_running = False
        self._is_stirred = False
        self._steps = 0

    def __len__(self) -> int:
        return len(self._seats)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(list(self._seats))

    def __contains__(self, consumer: object) -> bool:
        return consumer in self._seats

    def attach(self, consumer: Consumer) -> None:
        """A consumer comes, without credit."""
        self._seats[consumer] = Seat(consumer, self._returned.end)

    def detach(self, consumer: Consumer) -> None:
        """A consumer goes; nothing happens if it is not there."""
        seat = self._seats.pop(consumer, None)
        if seat is not None:
            self._step_out(seat)
            for entry in seat.barred:
                if entry.barred is not None:
                    entry.barred.discard(consumer)

    def wake(self, consumer: Consumer) -> None:
        """A consumer may have credit again."""
        seat = self._seats.get(consumer)
        if seat is not None and not any(seat in row for row in self._rows):
            self._line_up(seat)
        self.run()

    def stop(self) -> None:
        """Serve nobody any more."""
        self._alarm.clear()
        for consumer in list(self._seats):
            self.detach(consumer)

    # --- what happens to entries

    def came(self) -> None:
        """There is a new entry."""
        self._is_stirred = True

    def came_back(self, key: int) -> None:
        """An entry that was held is ready again."""
        self._is_stirred = True
        if self._seats:
            self._returned.add(key, len(self._stock.ready))

    def bar(self, entry: Entry, consumer: Consumer) -> None:
        """An entry is undeliverable to a consumer."""
        seat = self._seats.get(consumer)
        if seat is not None:
            if entry.barred is None:
                entry.barred = set()
            entry.barred.add(consumer)
            seat.barred.add(entry)
            if seat in self._takers:
                self._step_out(seat)
                self._line_up(seat)

    def left(self, entry: Entry) -> None:
        """An entry that was undeliverable to some has left the queue."""
        for consumer in entry.barred or ():
            seat = self._seats[consumer]
            seat.barred.discard(entry)
            if not seat.is_choosy and self._step_out(seat):
                self._line_up(seat)
        entry.barred = None

    # --- serving

    def run(self) -> None:
        """Deliver what can be delivered."""
        if self._is_running:
            return
        self._is_running = True
        self._steps = _STEPS
        try:
            while self._steps > 0:
                if self._is_stirred:
                    self._is_stirred = False
                    self._stir()
                self._serve()
                if not self._is_stirred:
                    break
            if self._steps <= 0:
                self._alarm.set(self._clock.now())
        finally:
            self._is_running = False

    def _serve(self) -> None:
        """Serve one after the other as long as there is something; those that find nothing rest."""
        while self._steps > 0 and (seat := self._next()) is not None:
            entry = self._choose(seat) if seat.is_choosy else self._stock.ready.first()
            if entry is not None:
                self._deliver(seat, entry)
            elif self._steps > 0:
                del self._choosers[seat]
                self._resting[seat] = None

    def _stir(self) -> None:
        """Those that rest go to the front of their row, as they were."""
        while self._resting:
            seat, _ = self._resting.popitem()
            self._choosers[seat] = None
            self._choosers.move_to_end(seat, last=False)

    def _next(self) -> Seat | None:
        """Whose turn it is, among those for whom there may be something."""
        taker = self._first(self._takers) if self._stock.ready else None
        chooser = self._first(self._choosers) if self._choosers else None
        if taker is None or chooser is None:
            return taker or chooser
        return taker if taker.turn < chooser.turn else chooser

    def _first(self, row: _Row) -> Seat | None:
        """The first one of a row that has credit; those that have none leave it."""
        while row:
            seat = next(iter(row))
            if seat.consumer.has_credit:
                return seat
            del row[seat]
        return None

    def _step_out(self, seat: Seat) -> bool:
        """A seat leaves its row; returns False if it was in none."""
        for row in self._rows:
            if seat in row:
                del row[seat]
                return True
        return False

    def _line_up(self, seat: Seat) -> None:
        """A seat goes to the end of its row."""
        seat.turn = next(self._turns)
        row = self._choosers if seat.is_choosy else self._takers
        row[seat] = None
        row.move_to_end(seat)

    def _deliver(self, seat: Seat, entry: Entry) -> None:
        self._steps -= 1
        if seat.is_browser or self._give(entry, seat.consumer):
            self._line_up(seat)
            seat.consumer.deliver(entry)

    # --- choosing

    def _choose(self, seat: Seat) -> Entry | None:
        """The first entry for a consumer that chooses; None: there is none, or no step is left to find it."""
        return self._browse(seat) if seat.is_browser else self._select(seat)

    def _browse(self, seat: Seat) -> Entry | None:
        now = self._clock.now()
        while self._steps > 0 and (found := seat.look(self._stock.after)) is not None:
            self._steps -= 1
            key, entry = found
            seat.reach(key)
            if (entry.expires_at is None or entry.expires_at >= now) and self._suits(seat, entry):
                return entry
        return None

    def _select(self, seat: Seat) -> Entry | None:
        ready = self._stock.ready
        if not self._hear(seat):
            return None
        back = seat.found(ready)
        while self._steps > 0:
            ahead = seat.look(ready.after)
            if ahead is None or back is not None and back[0] < ahead[0]:
                return None if back is None else back[1]
            self._steps -= 1
            seat.reach(ahead[0])
            if self._suits(seat, ahead[1]):
                return ahead[1]
        return None

    def _hear(self, seat: Seat) -> bool:
        """Look at the entries that came back after the consumer had looked at them; False: not at all yet."""
        if seat.heard < self._returned.start:
            seat.forget(self._returned.end)
        while seat.heard < self._returned.end:
            if self._steps <= 0:
                return False
            self._steps -= 1
            key = self._returned[seat.heard]
            seat.heard += 1
            entry = self._stock.ready.get(key) if seat.has_passed(key) else None
            if entry is not None:
                seat.judge(key, self._suits(seat, entry), self._stock.ready)
        return True

    def _suits(self, seat: Seat, entry: Entry) -> bool:
        if entry in seat.barred:
            return False
        return seat.selector is None or seat.selector.admits(self._facts(entry))

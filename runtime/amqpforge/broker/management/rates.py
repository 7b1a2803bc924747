"""How much happens in a second: told from totals that are looked at now and then.

Nothing is done for a message. Every few seconds the totals of all queues and exchanges are noted, a thousand
at a time, so that a broker with very many of them is not held up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from amqpforge.broker.exchanges import Exchange
from amqpforge.broker.queues import Queue

if TYPE_CHECKING:
    from amqpforge.broker.clock import Clock, Timer
    from amqpforge.broker.host import VirtualHost

__all__ = ["EXCHANGE_FIGURES", "PERIOD", "QUEUE_FIGURES", "WINDOWS", "Rates", "Sampler"]

WINDOWS: Final = (10, 60, 600)
"""Seconds that a rate is the mean of, at least; at most twice as many, and a few more. In the time before a
thing was made, or the broker was started, nothing has happened.
"""

PERIOD: Final = 5.0
"""Seconds from one look at the totals to the next."""

QUEUE_FIGURES: Final = ("published", "delivered", "accepted")
"""The counters of a queue that have rates."""

EXCHANGE_FIGURES: Final = ("incoming", "outgoing", "unroutable")
"""Those of an exchange."""

Rates: TypeAlias = "dict[str, dict[str, float]]"
"""By the window, such as ``10s``, and the name of the counter: how much it has grown in a second."""

_AT_ONCE: Final = 1000
_NOTHING: Final = (0, 0, 0)


class _Mark(NamedTuple):
    """What totals were at a time."""

    time: float
    totals: tuple[int, ...]


class _Track:
    """The totals of one thing in the past: for each window two marks, at least that far apart."""

    __slots__ = ("_earlier", "_later")

    def __init__(self, mark: _Mark) -> None:
        """Begin with what has not changed up to this mark for longer than any window."""
        self._earlier = [_Mark(mark.time - window, mark.totals) for window in WINDOWS]
        self._later = [mark] * len(WINDOWS)

    def add(self, mark: _Mark) -> bool:
        """Note what the totals are now; returns whether they have changed within any window."""
        is_moving = False
        for at, window in enumerate(WINDOWS):
            if mark.time - self._later[at].time >= window:
                self._earlier[at], self._later[at] = self._later[at], mark
            is_moving = is_moving or self._earlier[at].totals != mark.totals
        return is_moving

    def rates(self, mark: _Mark, names: Iterable[str]) -> Rates:
        """How fast the totals have grown up to now."""
        found: Rates = {}
        for earlier, window in zip(self._earlier, WINDOWS, strict=True):
            spent = max(mark.time - earlier.time, window)  # The clock on the wall may have been put back.
            grown = zip(names, mark.totals, earlier.totals, strict=True)
            found[f"{window}s"] = {
                name: max(0.0, round((now - then) / spent, 3)) for name, now, then in grown
            }
        return found


class Sampler:
    """Looks at the totals of all queues and exchanges, and tells the rates.

    Of what does not change nothing is kept but the totals.
    """

    def __init__(self, clock: Clock, hosts: Callable[[], Mapping[str, VirtualHost]]) -> None:
        self._clock = clock
        self._hosts = hosts
        self._last: dict[object, tuple[int, ...]] = {}
        self._looked = 0.0  # When that was.
        self._tracks: dict[object, _Track] = {}
        self._next: dict[object, tuple[int, ...]] = {}
        self._things: Iterator[tuple[object, tuple[int, ...]]] = iter(())
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to look."""
        self._looked = self._clock.now()
        self._begin()

    def stop(self) -> None:
        """Look no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def rates_of(self, thing: Queue | Exchange) -> Rates:
        """The rates of a queue or an exchange."""
        names = QUEUE_FIGURES if isinstance(thing, Queue) else EXCHANGE_FIGURES
        return self._rates(thing, totals_of(thing), names)

    def rates_of_host(self, host: VirtualHost, totals: tuple[int, ...]) -> Rates:
        """The rates of all queues of a virtual host together, whose totals are these now."""
        return self._rates(host, totals, QUEUE_FIGURES)

    def _rates(self, thing: object, totals: tuple[int, ...], names: Iterable[str]) -> Rates:
        track = self._tracks.get(thing) or _Track(_Mark(self._looked, self._last.get(thing, _NOTHING)))
        return track.rates(_Mark(self._clock.now(), totals), names)

    def _begin(self) -> None:
        self._next = {}
        self._things = _totals(list(self._hosts().values()))
        self._go_on()

    def _go_on(self) -> None:
        """Look at some more; what was not looked at in this round is gone, and forgotten at its end."""
        now, seen = self._clock.now(), len(self._next)
        for thing, totals in islice(self._things, _AT_ONCE):
            self._next[thing] = totals
            track = self._tracks.get(thing)
            if track is None:
                last = self._last.get(thing, _NOTHING)  # What is new began with nothing.
                if last == totals:
                    continue
                track = self._tracks[thing] = _Track(_Mark(self._looked, last))
            if not track.add(_Mark(now, totals)):
                del self._tracks[thing]
        if len(self._next) - seen < _AT_ONCE:
            self._end(now)
        else:
            self._timer = self._clock.call_at(now, self._go_on)

    def _end(self, now: float) -> None:
        self._last, self._next, self._looked = self._next, {}, now
        for thing in [one for one in self._tracks if one not in self._last]:
            del self._tracks[thing]
        self._timer = self._clock.call_at(now + PERIOD, self._begin)


def totals_of(thing: Queue | Exchange) -> tuple[int, ...]:
    """The totals that have rates."""
    if isinstance(thing, Queue):
        counters = thing.counters
        return counters.published, counters.delivered, counters.accepted
    return thing.incoming, thing.outgoing, thing.unroutable


def _totals(hosts: list[VirtualHost]) -> Iterator[tuple[object, tuple[int, ...]]]:
    """All that has rates; things that go meanwhile are told all the same."""
    for host in hosts:
        published = delivered = accepted = 0
        for queue in list(host.queues.values()):
            counters = queue.counters
            totals = counters.published, counters.delivered, counters.accepted
            published += totals[0]
            delivered += totals[1]
            accepted += totals[2]
            yield queue, totals
        yield host, (published, delivered, accepted)
        for exchange in list(host.wiring.exchanges.values()):
            yield exchange, totals_of(exchange)

"""Interleaved timing: stacks take turns in many short rounds, so what slows the machine slows all alike.

Each round times every stack a few times in turn and keeps its best; the round's ratio is that of the bests.
Reported are the medians over the rounds. Which stack begins changes from round to round.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from statistics import median
from time import perf_counter_ns
from typing import Any

from benchmarks.stack import Operation

TURNS = 3
"""How often each stack is timed in a round, in turn with the others; the best counts."""


TRIES = 5
"""How often a number of calls is timed to find out how many fill a turn; the best counts."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: ``rounds`` rounds, each turn about ``turn_seconds`` long."""

    rounds: int = 60
    turn_seconds: float = 0.0012


QUICK = Effort(rounds=12, turn_seconds=0.0006)


@dataclass(frozen=True, slots=True)
class Timing:
    """Result for one operation of one stack.

    Attributes:
        micros: median time of a call, in microseconds.
        ratio: median over the rounds of its time divided by that of the first stack; 1.0 for the first.
    """

    micros: float
    ratio: float


def _run(call: Callable[[Any], Any], argument: Any, number: int) -> int:
    """Nanoseconds for ``number`` calls."""
    loop = repeat(None, number)
    begin = perf_counter_ns()
    for _ in loop:
        call(argument)
    return perf_counter_ns() - begin


def _calls_for(operation: Operation, seconds: float) -> int:
    """How many calls take about ``seconds``; warms the operation up, too.

    The best of several timings counts: if one that the machine stalled were believed, a stack would make
    so few calls in all of its turns that each is a cold one, and seem several times slower than it is.
    """
    number = 1
    while True:
        spent = min([_run(operation.call, operation.argument, number) for _ in range(TRIES)])
        if spent > seconds * 1e9 / 4:
            return max(1, round(number * seconds * 1e9 / spent))
        number *= 2


@contextmanager
def _no_collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def compare(operations: dict[str, Operation], effort: Effort) -> dict[str, Timing]:
    """Time operations that do the same, by stack; ratios are to the first."""
    keys = list(operations)
    best: dict[str, list[float]] = {key: [] for key in keys}
    with _no_collector():
        numbers = {key: _calls_for(operations[key], effort.turn_seconds) for key in keys}
        for number in range(effort.rounds):
            turn = number % len(keys)
            order = keys[turn:] + keys[:turn]
            spent: dict[str, list[float]] = {key: [] for key in keys}
            for key in order * TURNS:
                operation = operations[key]
                nanos = _run(operation.call, operation.argument, numbers[key])
                spent[key].append(nanos / numbers[key] / 1000)
            for key in keys:
                best[key].append(min(spent[key]))
    base = best[keys[0]]
    return {
        key: Timing(
            median(best[key]), median([other / own for other, own in zip(best[key], base, strict=True)])
        )
        for key in keys
    }

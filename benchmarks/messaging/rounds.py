"""Stacks take turns in several short rounds, so what slows the machine slows all alike.

Which stack begins changes from round to round. Reported are medians over the rounds; a ratio is the median of
the ratios within each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from benchmarks.messaging.rows import IN_MEMORY, KINDS, PEER_TO_PEER, Kind, Measure, Row
from benchmarks.messaging.stacks import OURS, PROTON, RHEA, Pair, pairs
from benchmarks.stack import WrongResultError
from tests.interop import rabbitmq
from tests.interop.certificates import make
from tests.interop.rabbitmq import Broker

PROGRAMS = (OURS, PROTON, RHEA)
"""The stacks, ours first."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure.

    Attributes:
        rounds: how often each stack has its turn in a row.
        messages: how many messages make one turn, where a kind of row does not want fewer.
        warm_up: messages that each stack sends and receives in memory, and again over TCP, before anything
            counts: what compiles while it runs, as Node does, is several times slower at first.
        has_broker: whether a broker is started for the rows that need one.
    """

    rounds: int = 5
    messages: int = 10_000
    warm_up: int = 10_000
    has_broker: bool = True


QUICK = Effort(rounds=1, messages=1000, warm_up=2000, has_broker=False)


class Titled(Protocol):
    """A row of any table."""

    @property
    def title(self) -> str:
        """What it is called in tables."""
        ...

    def facts(self) -> dict[str, Any]:
        """What tells it from other rows, as plain data."""
        ...


@dataclass(frozen=True, slots=True)
class Line:
    """One number of one row.

    Attributes:
        row: what was measured.
        measure: which number of it.
        values: medians, by stack.
        ratios: how many times as good as a stack ours is, by stack without ours.
    """

    row: Titled
    measure: Measure
    values: dict[str, float]
    ratios: dict[str, float]


@dataclass(frozen=True, slots=True)
class Findings:
    """All that was measured: what it is called, the lines, and the labels of the stacks by their keys."""

    title: str
    lines: list[Line]
    labels: dict[str, str]


def measure_peers(chosen: Sequence[str] | None, effort: Effort, say: Say) -> Findings:
    """Measure the rows of the chosen kinds, or of all.

    Raises:
        WrongResultError: a message arrived changed, out of order or not at all, or ours does not start.
        ChildError: a worker or the broker broke.
    """
    kinds = [kind for kind in KINDS if not chosen or kind.case in chosen]
    if not effort.has_broker and not chosen:
        kinds = [kind for kind in kinds if not kind.needs_broker]
    with ExitStack() as stack:
        found = stack.enter_context(pairs(PROGRAMS, say))
        if not found or found[0].program is not OURS:
            raise WrongResultError("our own worker does not start")
        broker = None
        if any(kind.needs_broker for kind in kinds):
            broker = _broker(stack, say)
        rows = [
            Row(kind, size, settled, broker)
            for kind in kinds
            if broker is not None or not kind.needs_broker
            for size in kind.sizes
            for settled in kind.settle_modes
        ]
        _warm_up(found, effort)
        lines = [line for row in rows for line in lines_of(row, found, effort)]
        return Findings("Whole peers", lines, {pair.program.key: pair.client.label for pair in found})


def _broker(stack: ExitStack, say: Say) -> Broker | None:
    """A broker that runs until the stack is left; None if it is not installed."""
    missing = rabbitmq.what_is_missing()
    if missing is not None:
        say(f"left out: RabbitMQ ({missing})")
        return None
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="benchmark-rabbitmq-")))
    return stack.enter_context(rabbitmq.broker(folder, make(folder)))


def _can(pair: Pair, kind: Kind) -> bool:
    return kind.roles <= pair.client.roles


def _warm_up(found: Sequence[Pair], effort: Effort) -> None:
    for kind in (PEER_TO_PEER, IN_MEMORY):
        for pair in found:
            if _can(pair, kind):
                kind.run(pair, Row(kind, 100, settled=False), effort.warm_up)


def lines_of(row: Row, found: Sequence[Pair], effort: Effort) -> Iterator[Line]:
    """Measure a row with all stacks that can do it, and give each of its numbers."""
    count = row.kind.count(effort.messages)
    runs = {
        pair.program.key: partial(row.kind.run, pair, row, count) for pair in found if _can(pair, row.kind)
    }
    return medians(row, row.kind.measures, runs, row.kind.rounds or effort.rounds)


def medians(
    row: Titled, measures: Sequence[Measure], runs: Mapping[str, Callable[[], dict[str, float]]], rounds: int
) -> Iterator[Line]:
    """Let stacks take turns: ``runs`` has what runs each of them once, ours first."""
    found: dict[str, list[dict[str, float]]] = {key: [] for key in runs}
    keys = list(runs)
    for number in range(rounds):
        turn = number % len(keys) if keys else 0
        for key in keys[turn:] + keys[:turn]:
            found[key].append(runs[key]())
    for measure in measures:
        yield _line(row, measure, {key: [run[measure.key] for run in own] for key, own in found.items()})


def _line(row: Titled, measure: Measure, found: dict[str, list[float]]) -> Line:
    """The medians of what was found by stack, round after round."""
    ratios = {}
    for key, peers in found.items():
        if key != OURS.key and OURS.key in found:
            in_turn = zip(found[OURS.key], peers, strict=True)
            ratios[key] = median([measure.ratio(ours, peer) for ours, peer in in_turn])
    return Line(row, measure, {key: median(values) for key, values in found.items()}, ratios)

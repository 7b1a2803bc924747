"""Turns that are taken, the figures that come of them, and how these are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from statistics import median
from typing import Any

Run = Callable[[], Mapping[str, float]]
Samples = Mapping[str, Sequence[Mapping[str, float]]]
"""What was measured, by who has measured it: the numbers of each round."""


def turns(runs: Mapping[str, Run], rounds: int) -> Samples:
    """Let all have their turn in each round; who begins changes from round to round."""
    found: dict[str, list[Mapping[str, float]]] = {key: [] for key in runs}
    keys = list(runs)
    for number in range(rounds):
        turn = number % len(keys)
        for key in keys[turn:] + keys[:turn]:
            found[key].append(runs[key]())
    return found


@dataclass(frozen=True, slots=True)
class Line:
    """A figure.

    Attributes:
        title: what was measured.
        unit: what it is counted in.
        ours: the median of the rounds.
        peer: what it is held against; None: a target in its own unit, or nothing.
        theirs: the median of the peer's rounds.
        ratio: the median of the ratios within the rounds; above 1 ours is the better one.
        target: what the ratio has to be at least; without a peer, what ours has to be.
    """

    title: str
    unit: str
    ours: float
    peer: str | None = None
    theirs: float | None = None
    ratio: float | None = None
    target: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether the target is; None: there is none."""
        reached = self.ours if self.peer is None else self.ratio
        return None if self.target is None or reached is None else reached >= self.target

    def text(self) -> str:
        """The figure for people."""
        beside = ""
        if self.theirs is not None and self.ratio is not None:
            beside = f"{_number(self.theirs):>10}  {self.ratio:>5.2f}x"
        verdict = ""
        if self.target is not None:
            verdict = f"  >= {self.target:,g} {'met' if self.is_met else 'not met'}"
        against = f" / {self.peer}" if self.peer else ""
        return (
            f"{self.title + against:<68}{self.unit:>9}{_number(self.ours):>10}{beside:>18}{verdict}".rstrip()
        )


HEAD = f"{'Spark':<68}{'':>9}{'ours':>10}{'peer':>10}{'ratio':>8}  target"
"""What stands above the figures."""


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def numbers(samples: Sequence[Mapping[str, float]], name: str) -> list[float]:
    """One number of the samples, round by round."""
    return [sample[name] for sample in samples]


def alone(title: str, unit: str, values: Sequence[float], target: float | None = None) -> Line:
    """The figure of what has no peer."""
    return Line(title, unit, median(values), target=target)


def beside(
    title: str,
    unit: str,
    number: str,
    ours: Sequence[Mapping[str, float]],
    peer: tuple[str, Sequence[Mapping[str, float]]],
    target: float | None = None,
    *,
    more_is_better: bool = False,
) -> Line:
    """A figure held against a peer's.

    Args:
        title: what was measured.
        unit: what it is counted in.
        number: which number of the samples.
        ours: the samples, round by round.
        peer: what the peer is called, and its samples of the same rounds.
        target: what the ratio has to be at least.
        more_is_better: whether it is a speed; if not, it is a cost.
    """
    name, samples = peer
    mine, theirs = numbers(ours, number), numbers(samples, number)
    pairs = list(zip(mine, theirs, strict=True) if more_is_better else zip(theirs, mine, strict=True))
    ratio = median([better / worse if worse else inf for better, worse in pairs])
    return Line(title, unit, median(mine), name, median(theirs), ratio, target)


def as_json(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The figures as plain data."""
    return [
        {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(line).items()}
        for line in lines
    ]

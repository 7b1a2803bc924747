"""The measurements as a table beside the targets, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.cases import Case
from benchmarks.processes import Figure
from benchmarks.stack import Stack
from benchmarks.timing import Timing

TARGETS: dict[tuple[str, str], dict[str, float]] = {
    ("performative", "decode"): {"pyamqp": 1.5, "proton": 6.0},
    ("performative", "encode"): {"pyamqp": 10.0, "proton": 4.0},
    ("message", "decode"): {"pyamqp": 2.0, "proton": 2.0},
    ("message", "encode"): {"pyamqp": 2.0, "proton": 2.0},
}
"""How many times as fast as a peer ours is meant to be, by kind of case and direction."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case in one direction: timings by stack."""

    case: Case
    direction: str
    timings: dict[str, Timing]

    def target(self, key: str) -> float | None:
        """What the ratio to a stack is meant to be, or None."""
        return TARGETS[self.case.kind, self.direction].get(key)


def table(rows: list[Row], stacks: list[Stack]) -> list[str]:
    """The lines of the ratio table, and below it the stacks that no target speaks of."""
    peers = [stack for stack in stacks[1:] if stack.is_target]
    lines = [f"{'':<20}{'ours':>9}" + "".join(f"{peer.key:>15}{'ratio':>9}{'target':>16}" for peer in peers)]
    for row in rows:
        name, ours = f"{row.direction} {row.case.name}", row.timings["ours"]
        cells = "".join([_cell(row, peer) for peer in peers])
        lines.append(f"{name:<20}{ours.micros:>6.2f} us{cells}".rstrip())
    others = [
        f"  {row.direction} {row.case.name}, {stack.label}: {timing.micros:.2f} us, {timing.ratio:.2f}x"
        for stack in stacks[1:]
        if not stack.is_target
        for row in rows
        if (timing := row.timings.get(stack.key)) is not None
    ]
    return [*lines, "", "Without a target:", *others] if others else lines


def _cell(row: Row, peer: Stack) -> str:
    timing = row.timings.get(peer.key)
    if timing is None:
        return " " * 40
    target = row.target(peer.key)
    verdict = "" if target is None else f">= {target:g} {'met' if timing.ratio >= target else 'not met'}"
    return f"{timing.micros:>12.2f} us{timing.ratio:>8.2f}x{verdict:>16}"


def as_json(rows: list[Row], stacks: list[Stack], figures: list[Figure]) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "stacks": {stack.key: stack.label for stack in stacks},
        "rows": [
            {
                "case": row.case.name,
                "direction": row.direction,
                "microseconds": {key: round(timing.micros, 4) for key, timing in row.timings.items()},
                "ratios": {
                    key: round(timing.ratio, 3) for key, timing in row.timings.items() if key != "ours"
                },
                "targets": {key: row.target(key) for key in row.timings if row.target(key) is not None},
            }
            for row in rows
        ],
        "processes": [
            {
                "name": figure.name,
                "value": round(figure.value, 4),
                "unit": figure.unit,
                "budget": figure.budget,
            }
            for figure in figures
        ],
    }

"""The measurements as a table beside the targets, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import Case
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


def table(rows: Iterable[Row], stacks: list[Stack]) -> list[str]:
    """The lines of the ratio table."""
    peers = stacks[1:]
    header = f"{'case':<20}{'ours':>9}"
    lines = [
        header
        + "".join(f"{peer.key:>15}{'ratio':>9}{'target' if peer.is_target else '':>14}" for peer in peers)
    ]
    lines.append("-" * len(lines[0]))
    for row in rows:
        line = f"{row.direction + ' ' + row.case.name:<20}{row.timings['ours'].micros:>6.2f} us"
        for peer in peers:
            line += _cell(row, peer)
        lines.append(line.rstrip())
    return lines


def _cell(row: Row, peer: Stack) -> str:
    timing = row.timings.get(peer.key)
    if timing is None:
        return " " * 38
    target = row.target(peer.key)
    verdict = ""
    if target is not None:
        verdict = f">={target:g} {'met' if timing.ratio >= target else 'NOT MET'}"
    return f"{timing.micros:>12.2f} us{timing.ratio:>8.2f}x{verdict:>14}"


def as_json(rows: Iterable[Row], stacks: list[Stack]) -> dict[str, Any]:
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
    }

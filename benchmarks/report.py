"""The measurements as tables beside the targets, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.case import Case
from benchmarks.processes import Figure
from benchmarks.stack import Stack
from benchmarks.timing import Timing


@dataclass(frozen=True, slots=True)
class Row:
    """One case in one direction: timings by stack, and what the ratios to some of them are meant to be."""

    case: Case
    direction: str
    timings: Mapping[str, Timing]
    targets: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    """What was measured of one dialect: the rows, and the stacks, ours first."""

    dialect: str
    rows: list[Row]
    stacks: list[Stack]

    def lines(self) -> list[str]:
        """The ratio table, and below it the stacks that no target speaks of."""
        peers = [stack for stack in self.stacks[1:] if stack.is_target]
        titles = "".join(f"{peer.key:>15}{'ratio':>9}{'target':>16}" for peer in peers)
        lines = [f"{self.dialect:<26}{'ours':>9}{titles}"]
        for row in self.rows:
            name, ours = f"{row.direction} {row.case.name}", row.timings["ours"]
            cells = "".join([_cell(row, peer) for peer in peers])
            lines.append(f"{name:<26}{ours.micros:>6.2f} us{cells}".rstrip())
        others = [
            f"  {row.direction} {row.case.name}, {stack.label}: {timing.micros:.2f} us, {timing.ratio:.2f}x"
            for stack in self.stacks[1:]
            if not stack.is_target
            for row in self.rows
            if (timing := row.timings.get(stack.key)) is not None
        ]
        return [*lines, "", "Without a target:", *others] if others else lines


def _cell(row: Row, peer: Stack) -> str:
    timing = row.timings.get(peer.key)
    if timing is None:
        return " " * 40
    target = row.targets.get(peer.key)
    verdict = "" if target is None else f">= {target:g} {'met' if timing.ratio >= target else 'not met'}"
    return f"{timing.micros:>12.2f} us{timing.ratio:>8.2f}x{verdict:>16}"


def as_json(tables: list[Table], figures: list[Figure]) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "stacks": {table.dialect: {stack.key: stack.label for stack in table.stacks} for table in tables},
        "rows": [_row(table.dialect, row) for table in tables for row in table.rows],
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


def _row(dialect: str, row: Row) -> dict[str, Any]:
    return {
        "dialect": dialect,
        "case": row.case.name,
        "direction": row.direction,
        "microseconds": {key: round(timing.micros, 4) for key, timing in row.timings.items()},
        "ratios": {key: round(timing.ratio, 3) for key, timing in row.timings.items() if key != "ours"},
        "targets": {key: target for key, target in row.targets.items() if key in row.timings},
    }

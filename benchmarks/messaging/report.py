"""What was measured of whole peers as a table, and as plain data."""

from __future__ import annotations

from typing import Any

from benchmarks.messaging.rounds import Findings, Line

OURS = "ours"


def lines(findings: Findings) -> list[str]:
    """The table: ours, then each peer with the ratio to it and what that is meant to be."""
    peers = [key for key in findings.labels if key != OURS]
    titles = "".join(f"{key:>14}{'ratio':>8}{'target':>14}" for key in peers)
    head = f"{findings.title:<48}{'':>5}{'ours':>10}{titles}"
    return [head, *(_line(line, peers) for line in findings.lines)]


def _line(line: Line, peers: list[str]) -> str:
    title = ", ".join(part for part in (line.row.title, line.measure.title) if part)
    cells = "".join(_cell(line, key) for key in peers)
    ours = _number(line.values[OURS]) if OURS in line.values else "-"
    return f"{title:<48}{line.measure.unit:>5}{ours:>10}{cells}".rstrip()


def _cell(line: Line, key: str) -> str:
    if key not in line.values:
        return f"{'-':>14}{'':>22}"
    ratio, target = line.ratios.get(key), line.measure.targets.get(key)
    verdict = ""
    if ratio is not None and target is not None:
        verdict = f">= {target:g} {'met' if ratio >= target else 'not met'}"
    return f"{_number(line.values[key]):>14}{'' if ratio is None else f'{ratio:.2f}x':>8}{verdict:>14}"


def _number(value: float) -> str:
    """Three significant places or more, thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def as_json(findings: Findings) -> dict[str, Any]:
    """The same as plain data; ratios say how many times as good as a peer ours is."""
    return {
        "stacks": findings.labels,
        "rows": [
            {
                **line.row.facts(),
                "measure": line.measure.key,
                "unit": line.measure.unit,
                "values": {key: round(value, 3) for key, value in line.values.items()},
                "ratios": {key: round(value, 3) for key, value in line.ratios.items()},
                "targets": {key: value for key, value in line.measure.targets.items() if key in line.ratios},
            }
            for line in findings.lines
        ],
    }

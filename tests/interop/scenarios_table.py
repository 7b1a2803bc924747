"""The tables of ``docs/interop.md``, read and written.

Each cell is ``works``, or a word and the number of the note that says what the peer answers: ``refuses [3]``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from tests.interop.scenarios import BROKER_ROWS, CALLERS, PEERS, ROWS, Kindness, Verdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop.md"

_KINDS: dict[str, Kindness] = {kind: kind for kind in get_args(Kindness)}
_ROW = re.compile(r"^\| (?!---)(.+) \|$", re.MULTILINE)
_CELL = re.compile(r"(\w+)(?: \[(\d+)\])?")
_NOTE = re.compile(r"^(\d+)\. (.+)$", re.MULTILINE)

Cell = tuple[str, str]
"""A scenario and a peer."""

SECTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **{section: (rows, PEERS) for section, rows in ROWS.items()},
    **{section: (rows, tuple(CALLERS)) for section, rows in BROKER_ROWS.items()},
}
"""The rows and the peers of each section."""

CELLS: list[Cell] = [(row, peer) for rows, peers in SECTIONS.values() for row in rows for peer in peers]


def read(text: str) -> dict[Cell, Verdict]:
    """The verdicts by scenario and peer.

    Raises:
        ValueError: a row has not a cell for each peer, a cell is none, or it names a note that is not there.
    """
    notes: dict[str, str] = dict(_NOTE.findall(text))
    cells: dict[Cell, Verdict] = {}
    peers: list[str] = []
    for row in _ROW.findall(text):
        name, *verdicts = row.split(" | ")
        if name == "scenario":
            peers = verdicts
            continue
        if len(verdicts) != len(peers):
            raise ValueError(f"the row {name!r} has {len(verdicts)} cells, not {len(peers)}")
        for peer, cell in zip(peers, verdicts, strict=True):
            cells[name, peer] = _verdict(cell, notes)
    return cells


def _verdict(cell: str, notes: Mapping[str, str]) -> Verdict:
    match = _CELL.fullmatch(cell)
    kind = _KINDS.get(match[1]) if match else None
    if match is None or kind is None or (match[2] is None) is not (kind == "works"):
        raise ValueError(f"{cell!r} is no cell: works, or another of {[*_KINDS]} and [the number of a note]")
    if match[2] is None:
        return Verdict(kind)
    if match[2] not in notes:
        raise ValueError(f"{cell!r} names a note that is not there")
    return Verdict(kind, notes[match[2]])


def write(verdicts: Mapping[Cell, Verdict]) -> str:
    """The tables, one a section, and the notes below them."""
    notes: dict[str, int] = {}
    lines: list[str] = []
    for section, (rows, peers) in SECTIONS.items():
        lines += [f"## {section}", "", f"| scenario | {' | '.join(peers)} |", "|---|" + "---|" * len(peers)]
        for row in rows:
            cells = [_cell(verdicts[row, peer], notes) for peer in peers if (row, peer) in verdicts]
            lines.append(f"| {row} | {' | '.join(cells)} |")
        lines.append("")
    lines += ["## Notes", "", *(f"{number}. {note}" for note, number in notes.items())]
    return "\n".join(lines) + "\n"


def _cell(verdict: Verdict, notes: dict[str, int]) -> str:
    if verdict.kind == "works":
        return verdict.kind
    return f"{verdict.kind} [{notes.setdefault(verdict.text, len(notes) + 1)}]"

"""What a page shows, as plain data: numbers, findings, figures, tables and conversations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

__all__ = ["Cell", "Column", "Content", "Conversation", "Finding", "Mood", "Table", "Tile", "shortened"]

Cell = str | int | float | None
Mood = Literal["", "good", "bad"]
_MOST_LETTERS: Final = 240


def shortened(text: str) -> str:
    """A text of a peer, cut behind 240 letters: of what it says there may be megabytes."""
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that is worth a look, and what it counts."""

    value: str
    label: str
    mood: Mood = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, and the place in `Content.conversations` of the conversation it is in."""

    title: str
    text: str
    conversation: int | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; numbers are aligned and sorted as such."""

    title: str
    kind: Literal["text", "number", "time"] = "text"
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table that sorts; `note` says what it leaves out, `bad` which rows stand out."""

    name: str
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]
    bad: frozenset[int] = frozenset()


@dataclass(slots=True)
class Conversation:
    """A connection as a sequence of frames, as the page's script has them.

    A frame is a list: time, packet, whether it comes from the client, channel, name, what its fields are in
    short, an error or None, and the fields in full; one of a single text stands for frames left out.
    """

    title: str
    client: str
    server: str
    frames: list[list[Any]] = field(default_factory=list)


@dataclass(slots=True)
class Content:
    """All that a page shows.

    `notes` say what the page leaves out for the dialects that were captured; `praise` is what stands where
    findings would if there were any; `charts` are figures of plotly by the name of their place.
    """

    title: str
    subtitle: str
    tiles: list[Tile]
    notes: list[str]
    praise: str
    findings: list[Finding]
    more_findings: int
    charts: dict[str, dict[str, Any]]
    tables: list[Table]
    conversations: list[Conversation]

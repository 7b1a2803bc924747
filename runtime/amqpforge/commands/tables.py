"""Lists as commands show them: a table for people, JSON lines for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from amqpforge.capture.text import printable
from amqpforge.notation import to_json

if TYPE_CHECKING:
    from amqpforge.streams import Streams

__all__ = ["Column", "show"]


class Column(NamedTuple):
    """One column of a table.

    Attributes:
        title: what stands above it.
        text: what stands in it, for one thing.
        is_number: whether it is lined up at its right.
    """

    title: str
    text: Callable[[Any], object]
    is_number: bool = False


def show(things: Sequence[Any], columns: Sequence[Column], streams: Streams, *, as_json: bool) -> None:
    """Write a list of dataclasses to standard output.

    Args:
        things: these.
        columns: those of the table.
        streams: those of the command.
        as_json: as JSON lines, also on a terminal.
    """
    if as_json or not streams.is_terminal():
        for thing in things:
            streams.write(json.dumps(_data(asdict(thing)), ensure_ascii=False))
    else:
        rows = [[_cell(column.text(thing)) for column in columns] for thing in things]
        for line in _rich(rows, columns, streams) or _plain(rows, columns):
            streams.write(line)
    streams.stdout.flush()


def _data(value: dict[str, Any]) -> dict[str, Any]:
    """JSON values; the arguments of exchanges and bindings, which are AMQP values, in their notation."""
    told = dict(value)
    if isinstance(told.get("arguments"), Mapping):
        told["arguments"] = {name: to_json(argument) for name, argument in told["arguments"].items()}
    if isinstance(told.get("steps"), list | tuple):
        told["steps"] = [_data(step) for step in told["steps"]]
    return told


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return printable(str(value))


def _plain(rows: Sequence[Sequence[str]], columns: Sequence[Column]) -> Iterable[str]:
    """A table of text."""
    widths = [max([len(column.title), *(len(row[at]) for row in rows)]) for at, column in enumerate(columns)]
    for row in [[column.title for column in columns], *rows]:
        cells = [
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _rich(rows: Sequence[Sequence[str]], columns: Sequence[Column], streams: Streams) -> Sequence[str] | None:
    """A table as rich makes it; None if that is not installed."""
    with suppress(ImportError):
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for at, column in enumerate(columns):
            if column.is_number:  # Numbers are never cut; names go on in the next line.
                width = max([len(column.title), *(len(row[at]) for row in rows)])
                table.add_column(column.title, justify="right", no_wrap=True, min_width=width)
            else:
                table.add_column(column.title, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        console = Console(file=streams.stdout)
        with console.capture() as captured:
            console.print(table)
        return captured.get().rstrip("\n").split("\n")
    return None

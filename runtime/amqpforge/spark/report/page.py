"""The page: one HTML file with everything in it, whatever the captures' strings are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Final

from amqpforge import __version__

from .charts import COLOURS
from .content import Cell, Column, Content, Finding, Table

__all__ = ["write_page"]

_PLACE: Final = re.compile(r"@([a-z]+)@")
_CHARTS: Final = (
    ("frames", "time", "Frames over time", ""),
    ("octets", "time", "Octets over time", ""),
    (
        "latency",
        "latency",
        "How long deliveries took to be settled",
        "Each power of ten of time has as much room.",
    ),
    (
        "credit",
        "credit",
        "Credit over time",
        "Of the six busiest links: before and behind flows, or the least and the most where there are many. "
        "The longest times in which a link had none are shaded.",
    ),
)
_SEARCHED: Final = 12


def write_page(content: Content, output: Path) -> None:
    """Write the page to a file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    text = _page(content)
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(output)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _page(content: Content) -> str:
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    sections = [_summary(content), _figures(content), _sequence(content), *map(_table, content.tables)]
    parts = {
        "title": escape(content.title),
        "subtitle": escape(content.subtitle),
        "version": escape(__version__),
        "style": _asset("page.css"),
        "links": _links(content),
        "body": "\n".join(section for section in sections if section),
        "data": _data(content),
        "plotly": get_plotlyjs(),
        "script": _asset("page.js"),
    }
    return _PLACE.sub(lambda place: parts[place[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return files(__package__ or __name__).joinpath(name).read_text(encoding="utf-8")


def _data(content: Content) -> str:
    """What the script works on, as JSON in which nothing ends the element that it stands in."""
    talks = [
        {"client": talk.client, "server": talk.server, "frames": talk.frames}
        for talk in content.conversations
    ]
    data = {"charts": content.charts, "conversations": talks, "colours": COLOURS}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _links(content: Content) -> str:
    places = [("summary", "Summary")]
    names = {"time": "Over time", "latency": "Latency", "credit": "Credit"}
    places += [(place, name) for place, name in names.items() if any(c[1] == place for c in _shown(content))]
    if content.conversations:
        places.append(("conversations", "Conversations"))
    places += [(f"table-{table.name}", table.name.capitalize()) for table in content.tables]
    return "".join(f'<li><a href="#{place}">{escape(name)}</a></li>' for place, name in places)


def _summary(content: Content) -> str:
    tiles = "".join(
        f'<div class="tile {tile.mood}"><b>{escape(tile.value)}</b><span>{escape(tile.label)}</span></div>'
        for tile in content.tiles
    )
    findings = "".join(map(_finding, content.findings))
    if not findings:
        findings = f'<li class="fine">{escape(content.praise)}</li>'
    notes = "".join(f'<li class="note">{escape(note)}</li>' for note in content.notes)
    more = content.more_findings
    rest = f'<p class="soft">And {more:,} more: see the tables below.</p>' if more else ""
    return (
        f'<div id="summary" class="tiles">{tiles}</div>'
        f'<section><h2>What stands out</h2><ul class="findings">{notes}{findings}</ul>{rest}</section>'
    )


def _finding(finding: Finding) -> str:
    link = (
        ""
        if finding.conversation is None
        else f' <a href="#conversations" data-conversation="{finding.conversation}">show the conversation</a>'
    )
    return f"<li><b>{escape(finding.title)}</b>{escape(finding.text)}{link}</li>"


def _shown(content: Content) -> list[tuple[str, str, str, str]]:
    return [chart for chart in _CHARTS if chart[0] in content.charts]


def _figures(content: Content) -> str:
    """The figures; those over time stand next to each other where there is room."""
    made: dict[str, list[str]] = {}
    for name, place, title, note in _shown(content):
        text = f'<p class="soft">{escape(note)}</p>' if note else ""
        made.setdefault(place, []).append(
            f'<div><h2>{escape(title)}</h2>{text}<div class="chart" id="chart-{name}"></div></div>'
        )
    return "\n".join(
        f'<section id="{place}"><div class="pair">{"".join(figures)}</div></section>'
        for place, figures in made.items()
    )


def _sequence(content: Content) -> str:
    if not content.conversations:
        return ""
    options = "".join(
        f'<option value="{place}">{escape(f"{talk.title}: {talk.client} and {talk.server}")}</option>'
        for place, talk in enumerate(content.conversations)
    )
    return f"""<section id="conversations"><h2>Conversations</h2>
<p class="soft">Time goes down; an arrow is a frame. What is wrong is red, dashed and marked ✕.</p>
<div class="controls">
<label>Connection <select id="conversation">{options}</select></label>
<label>Frames with <input type="search" id="frame-search" placeholder="transfer, accepted, …"></label>
</div>
<div class="scroll" id="sequence-scroll">
<div id="ends"><span></span><span id="client"></span><span id="server"></span><span></span></div>
<div id="sequence"></div>
</div>
<div id="detail" aria-live="polite"></div></section>"""


def _table(table: Table) -> str:
    heads = "".join(
        f'<th scope="col"{_class(column)}><button type="button">{escape(column.title)}</button></th>'
        for column in table.columns
    )
    rows = "".join(_row(row, table.columns, place in table.bad) for place, row in enumerate(table.rows))
    search = (
        '<div class="controls"><label>Rows with '
        f'<input type="search" id="search-rows-{table.name}"></label></div>'
        if len(table.rows) >= _SEARCHED
        else ""
    )
    note = f'<p class="soft">{escape(table.note.strip())}</p>' if table.note.strip() else ""
    return (
        f'<section id="table-{table.name}"><h2>{escape(table.title)}</h2>{note}{search}'
        f'<div class="scroll"><table class="sorts" id="rows-{table.name}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _row(row: Sequence[Cell], columns: Sequence[Column], bad: bool) -> str:
    cells = "".join(_cell(value, column) for value, column in zip(row, columns, strict=True))
    return f'<tr class="bad">{cells}</tr>' if bad else f"<tr>{cells}</tr>"


def _class(column: Column) -> str:
    return "" if column.kind == "text" else f' class="{column.kind}"'


def _cell(value: Cell, column: Column) -> str:
    """A cell; numbers have their exact value beside what is shown, to be sorted by."""
    if value is None:
        return f'<td{_class(column)} data-value=""></td>'
    if column.kind == "number":
        return f'<td class="number" data-value="{value}">{value:,.{column.digits}f}</td>'
    return f"<td{_class(column)}>{escape(str(value))}</td>"

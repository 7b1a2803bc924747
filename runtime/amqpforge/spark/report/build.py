"""From what Spark answered to what the page shows."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from . import conversations
from .charts import charts
from .content import Content, Conversation, Finding, Mood, Tile, shortened
from .gather import FOLLOWED
from .tables import ends_of, file_of, tables
from .times import duration, moment

if TYPE_CHECKING:
    from pyspark.sql import Row

    from .gather import Gathered

__all__ = ["build"]

_FINDINGS: Final = 20
_SHOWN_PATHS: Final = 3


def build(found: Gathered) -> Content:
    """All that the page shows."""
    blame = {_key(row): f"{row['text']} ({row['rule']}, by the {row['end']})" for row in found.violations}
    rows: dict[tuple[Any, Any], list[Row]] = defaultdict(list)
    for row in found.chosen:
        rows[row["file"], row["stream"]].append(row)
    several = len({row["file"] for row in found.connections}) > 1
    drawn = [row for row in found.connections if rows.get((row["file"], row["stream"]))]
    places = {(row["file"], row["stream"]): place for place, row in enumerate(drawn)}
    talks = [
        Conversation(
            conversations.title_of(row, several),
            ends_of(row["client"], row["client_container"]),
            ends_of(row["server"], row["server_container"]),
            conversations.sequence(row, rows[row["file"], row["stream"]], blame, found.schema),
        )
        for row in drawn
    ]
    findings = _findings(found, places, several)
    listed = len(found.violations)
    return Content(
        title=_title(found),
        subtitle=_subtitle(found),
        tiles=_tiles(found),
        notes=_notes(found),
        praise=_praise(found),
        findings=findings[:_FINDINGS],
        more_findings=max(0, _violation_count(found) - listed) + max(0, len(findings) - _FINDINGS),
        charts=charts(found),
        tables=[table for table in tables(found, several) if table.rows],
        conversations=talks,
    )


def _title(found: Gathered) -> str:
    names = [path.rstrip("/").rpartition("/")[2] or path for path in found.paths]
    more = len(names) - _SHOWN_PATHS
    return ", ".join(names[:_SHOWN_PATHS]) + (f" and {more} more" if more > 0 else "")


def _subtitle(found: Gathered) -> str:
    spoken = ", ".join(sorted(name for name in found.dialects if name)) or "no AMQP"
    if found.began is None or found.ended is None:
        return f"{spoken}; the captures have no times"
    began = moment(found.began)
    lasted = duration((found.ended - found.began) / 1e6)
    return f"{spoken}; from {began:%Y-%m-%d %H:%M:%S} UTC, for {lasted}"


def _octets(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,} octets"


def _tiles(found: Gathered) -> list[Tile]:
    sums = list(found.frames.values())
    tiles = [
        _counted(found.connection_count, "connection", "connections"),
        _counted(sum(count for count, _ in sums), "frame", "frames"),
        Tile(_octets(sum(octets for _, octets in sums)), "in frames"),
    ]
    if found.outcomes:
        tiles.append(_counted(found.outcomes.total(), "delivery", "deliveries"))
    if found.percentiles is not None:
        tiles.append(Tile(duration(found.percentiles["p50"]), "until half were settled"))
        tiles.append(Tile(duration(found.percentiles["p99"]), "until 99 % were settled"))
    tiles.append(_counted(found.redelivered, "redelivery", "redeliveries"))
    unreadable = sum(row["count"] for row in found.errors if row["condition"] == "undecodable")
    errors = sum(row["count"] for row in found.errors) - unreadable
    if unreadable:
        tiles.append(_counted(unreadable, "place cannot be read", "places cannot be read", "bad"))
    tiles.append(_counted(errors, "error told", "errors told", "bad" if errors else "good"))
    if found.dialect == FOLLOWED and FOLLOWED in found.dialects:
        wrong = _violation_count(found)
        mood: Mood = "bad" if wrong else "good"
        tiles.append(_counted(wrong, "violation of the protocol", "violations of the protocol", mood))
    return tiles


def _counted(count: int, one: str, several: str, mood: Mood = "") -> Tile:
    return Tile(f"{count:,}", one if count == 1 else several, mood)


def _violation_count(found: Gathered) -> int:
    return found.counts.get("violation", 0)


def _notes(found: Gathered) -> list[str]:
    """What is not on the page, and how to see it."""
    notes = []
    if found.dialect != FOLLOWED:
        notes.append(
            f"Latency, credit, windows and violations are found out for {FOLLOWED} only. "
            f"Of {found.dialect} there are connections, frames, errors and conversations."
        )
    for name, count in sorted(found.dialects.items()):
        if name and name != found.dialect:
            notes.append(
                f"{count:,} frames are on connections of {name}. They are counted and drawn without their "
                f"fields, and their errors are not looked for: amqpforge report --dialect {name} shows those."
            )
    if found.foreign:
        were = "connection was" if found.foreign == 1 else "connections were"
        notes.append(f"{found.foreign:,} other {were} captured with nothing that can be read as AMQP.")
    return notes


def _praise(found: Gathered) -> str:
    if found.dialect != FOLLOWED or FOLLOWED not in found.dialects:
        return "No error was told."
    return "No error was told, and nothing broke the protocol."


def _findings(found: Gathered, places: dict[tuple[Any, Any], int], several: bool) -> list[Finding]:
    alike: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in found.violations:
        alike[row["end"], row["rule"], row["text"]].append(row)
    findings = []
    for (end, rule, text), rows in alike.items():
        first = rows[0]
        place = places.get((first["file"], first["stream"]))
        times = "" if len(rows) == 1 else f"{len(rows):,} times, first "
        file = f" of {file_of(first)}" if several else ""
        frame = f"frame {first['frame']:,}{_named(first['name'])}"
        where = f"{times}in {frame} of connection {first['stream']}{file}"
        findings.append(Finding(f"The {end} broke the protocol", f"{where}, rule {rule}: {text}", place))
    for row in found.errors:
        times = "" if row["count"] == 1 else f", {row['count']:,} times"
        told = f": {shortened(row['description'])}" if row["description"] else ""
        place = places.get((row["file"], row["stream"]))
        title = f"{(row['name'] or 'a frame').capitalize()} with an error"
        if row["condition"] == "undecodable":
            title = "What could not be read"
        findings.append(Finding(title, f"{shortened(row['condition'])}{times}{told}", place))
    return findings


def _named(name: str | None) -> str:
    return "" if name is None else f" ({name})"


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("file", "stream", "direction", "offset"))

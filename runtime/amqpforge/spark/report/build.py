"""From what Spark answered to what the page shows."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from . import conversations
from .charts import charts, moment
from .content import Cell, Column, Content, Conversation, Finding, Table, Tile

if TYPE_CHECKING:
    from pyspark.sql import Row

    from .gather import Gathered

__all__ = ["build", "duration"]

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
            _end(row["client"], row["client_container"]),
            _end(row["server"], row["server_container"]),
            conversations.sequence(row, rows[row["file"], row["stream"]], blame, found.schema),
        )
        for row in drawn
    ]
    findings = _findings(found, places)
    return Content(
        title=_title(found),
        subtitle=_subtitle(found),
        tiles=_tiles(found),
        findings=findings[:_FINDINGS],
        more_findings=max(0, found.violation_count - len(found.violations))
        + max(0, len(findings) - _FINDINGS),
        charts=charts(found),
        tables=[table for table in _tables(found, several) if table.rows],
        conversations=talks,
    )


def duration(seconds: float | None) -> str:
    """A length of time in the unit that suits it; a dash if there is none."""
    if seconds is None:
        return "–"
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


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
    deliveries = sum(row["count"] for row in found.outcomes)
    tiles = [
        Tile(f"{found.connection_count:,}", "connection" if found.connection_count == 1 else "connections"),
        Tile(f"{sum(row['count'] for row in found.frames):,}", "frames"),
        Tile(_octets(sum(row["octets"] or 0 for row in found.frames)), "in frames"),
    ]
    if deliveries:
        tiles.append(Tile(f"{deliveries:,}", "delivery" if deliveries == 1 else "deliveries"))
    if found.percentiles is not None and found.percentiles["p50"] is not None:
        tiles.append(Tile(duration(found.percentiles["p50"]), "until half were settled"))
        tiles.append(Tile(duration(found.percentiles["p99"]), "until 99 % were settled"))
    errors = sum(row["count"] for row in found.errors)
    tiles.append(
        Tile(f"{errors:,}", "error told" if errors == 1 else "errors told", "bad" if errors else "good")
    )
    if "amqp_1_0" in found.dialects:
        wrong = found.violation_count
        tiles.append(
            Tile(
                f"{wrong:,}",
                "violation of the protocol" if wrong == 1 else "violations of the protocol",
                "bad" if wrong else "good",
            )
        )
    return tiles


def _findings(found: Gathered, places: dict[tuple[Any, Any], int]) -> list[Finding]:
    alike: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in found.violations:
        alike[row["end"], row["rule"], row["text"]].append(row)
    findings = []
    for (end, rule, text), rows in alike.items():
        first = rows[0]
        place = places.get((first["file"], first["stream"]))
        times = "" if len(rows) == 1 else f"{len(rows):,} times, first "
        where = f"{times}in frame {first['frame']:,}{_named(first['name'])} of connection {first['stream']}"
        findings.append(Finding(f"The {end} broke the protocol", f"{where}, rule {rule}: {text}", place))
    seen: set[tuple[Any, Any]] = set()
    for row in found.error_frames:
        what = row["name"], row["condition"]
        if what in seen:
            continue
        seen.add(what)
        count = next((one["count"] for one in found.errors if (one["name"], one["condition"]) == what), 1)
        times = "" if count == 1 else f", {count:,} times"
        text = f"{row['condition']}{times}{': ' if row['description'] else ''}{row['description'] or ''}"
        place = places.get((row["file"], row["stream"]))
        findings.append(Finding(f"{(row['name'] or 'a frame').capitalize()} with an error", text, place))
    return findings


def _named(name: str | None) -> str:
    return "" if name is None else f" ({name})"


def _tables(found: Gathered, several: bool) -> list[Table]:
    return [
        _connections(found, several),
        _links(found),
        _names(found),
        _errors(found),
        _violations(found),
        _slowest(found),
        _waits(found),
    ]


_WHERE: Final = (Column("File"), Column("Connection", "number"))


def _where(row: Row) -> tuple[Cell, Cell]:
    return str(row["file"]).rpartition("/")[2], row["stream"]


def _connections(found: Gathered, several: bool) -> Table:
    columns = (
        *(_WHERE if several else _WHERE[1:]),
        *(Column("Client"), Column("Server"), Column("Dialect"), Column("Began", "time")),
        *(Column("Lasted, s", "number", 3), Column("Frames", "number"), Column("Octets", "number")),
        *(Column("Deliveries", "number"), Column("Unsettled", "number"), Column("Violations", "number")),
    )
    rows: list[tuple[Cell, ...]] = []
    for row in found.connections:
        lasted = None if row["began"] is None else (row["ended"] - row["began"]) / 1e6
        rows.append(
            (
                *(_where(row) if several else (row["stream"],)),
                *(_end(row["client"], row["client_container"]), _end(row["server"], row["server_container"])),
                *(row["dialect"], _time(row["began"]), lasted, row["frames"], row["octets"]),
                *(row["deliveries"], row["unsettled"], row["violations"]),
            )
        )
    bad = frozenset(
        place for place, row in enumerate(found.connections) if row["violations"] or row["undecodable"]
    )
    note = _cut(len(rows), found.connection_count)
    return Table("connections", "Connections", note, columns, rows, bad)


def _links(found: Gathered) -> Table:
    columns = (
        *_WHERE,
        *(Column("Link"), Column("Sender"), Column("Source"), Column("Target")),
        *(Column("Deliveries", "number"), Column("Octets", "number"), Column("Deliveries/s", "number", 1)),
        *(Column("Outcomes"), Column("Unsettled", "number"), Column("At most", "number"), Column("Error")),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *_where(row),
            *(row["link"], row["sender"], row["source"], row["target"]),
            *(row["deliveries"], row["octets"], row["deliveries_per_second"]),
            ", ".join(f"{count:,} {outcome}" for outcome, count in sorted((row["outcomes"] or {}).items())),
            *(row["unsettled"], row["most_unsettled"], _joined(row["condition"], row["description"])),
        )
        for row in found.links
    ]
    bad = frozenset(place for place, row in enumerate(found.links) if row["condition"] or row["refused"])
    note = "Each time a link was attached; “at most” is how many deliveries were unsettled at a time. "
    return Table("links", "Links", note + _cut(len(rows)), columns, rows, bad)


def _names(found: Gathered) -> Table:
    columns = (Column("Frame"), Column("Count", "number"), Column("Octets", "number"))
    rows: list[tuple[Cell, ...]] = [(row["name"], row["count"], row["octets"]) for row in found.frames]
    return Table("frames", "Frames by name", "", columns, rows)


def _errors(found: Gathered) -> Table:
    columns = (
        *(Column("Frame"), Column("Condition"), Column("Count", "number")),
        *(Column("First", "time"), Column("Last", "time"), Column("One description")),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *(row["name"], row["condition"], row["count"]),
            *(_time(row["first"]), _time(row["last"]), row["description"]),
        )
        for row in found.errors
    ]
    return Table(
        "errors", "Errors by condition", "What the ends told each other. " + _cut(len(rows)), columns, rows
    )


def _violations(found: Gathered) -> Table:
    columns = (
        *_WHERE,
        *(Column("Frame", "number"), Column("Packet", "number"), Column("Time", "time"), Column("Name")),
        *(Column("Blamed"), Column("Rule"), Column("Condition"), Column("What was wrong")),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *_where(row),
            *(row["frame"], row["packet"], _time(row["time"]), row["name"]),
            *(row["end"], row["rule"], row["condition"], row["text"]),
        )
        for row in found.violations
    ]
    note = "“Frame” is the number among the frames of its connection. " + _cut(
        len(rows), found.violation_count
    )
    return Table("violations", "Violations of the protocol", note, columns, rows, frozenset(range(len(rows))))


def _slowest(found: Gathered) -> Table:
    columns = (
        *_WHERE,
        *(Column("Link"), Column("Sender"), Column("Delivery-id", "number"), Column("Began", "time")),
        *(Column("Settled after, ms", "number", 3), Column("Octets", "number"), Column("Frames", "number")),
        Column("Outcome"),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *_where(row),
            *(row["link"], row["sender"], row["delivery_id"], _time(row["began"])),
            *(row["seconds"] * 1e3, row["octets"], row["transfers"], row["outcome"]),
        )
        for row in found.slowest
    ]
    bad = frozenset(place for place, row in enumerate(found.slowest) if row["outcome"] == "rejected")
    return Table("slowest", "Slowest deliveries", _cut(len(rows)), columns, rows, bad)


def _waits(found: Gathered) -> Table:
    columns = (
        *_WHERE,
        *(Column("Without"), Column("Sender"), Column("Link"), Column("Began", "time")),
        *(Column("Lasted, ms", "number", 3), Column("Sent again after, ms", "number", 3)),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *_where(row),
            *(row["what"], row["sender"], row["link"], _time(row["began"])),
            *(_milliseconds(row["seconds"]), _milliseconds(row["sent_after"])),
        )
        for row in found.waits
    ]
    note = (
        "When a sender might send nothing, for want of a link’s credit or of room in the session’s window. "
        "Without a length: until the link was over. What was sent at once afterwards had been waiting. "
    )
    return Table("waits", "Waits for credit and window", note + _cut(len(rows)), columns, rows)


def _cut(shown: int, count: int | None = None) -> str:
    """What a table leaves out, if it does: lists are cut at 500 rows."""
    if count is not None:
        return f"The first {shown:,} of {count:,}." if count > shown else ""
    return f"The first {shown:,}." if shown >= 500 else ""


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _time(micros: int | None) -> str | None:
    return None if micros is None else f"{moment(micros):%Y-%m-%d %H:%M:%S.%f}"


def _end(place: Row | None, container: str | None) -> str:
    """An end of a connection: its container, then its address and port, as far as they are known."""
    if place is None or place["source"] is None:
        return container or "unknown"
    host = f"[{place['source']}]" if ":" in place["source"] else place["source"]
    where = f"{host}:{place['source_port']}"
    return f"{container} ({where})" if container else where


def _joined(*words: str | None) -> str:
    return ": ".join(word for word in words if word)


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("file", "stream", "direction", "offset"))

"""The tables of the page, from what Spark answered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .content import Cell, Column, Table, shortened
from .gather import MOST_ROWS
from .times import stamp

if TYPE_CHECKING:
    from pyspark.sql import Row

    from .gather import Gathered

__all__ = ["ends_of", "file_of", "tables"]

_TAG_OCTETS: Final = 16


def tables(found: Gathered, several: bool) -> list[Table]:
    """All of them, empty ones too; ``several``: the connections are of several files."""
    made = [
        _connections(found),
        _sessions(found),
        _links(found),
        _latency(found),
        _names(found),
        _errors(found),
        _violations(found),
        _redeliveries(found),
        _owed(found),
        _slowest(found),
        _waits(found),
    ]
    return made if several else [_without_file(table) for table in made]


def _without_file(table: Table) -> Table:
    if table.columns[0] != _FILE:
        return table
    return replace(table, columns=table.columns[1:], rows=[row[1:] for row in table.rows])


_FILE: Final = Column("File")
_WHERE: Final = (_FILE, Column("Connection", "number"))


def _where(row: Row) -> tuple[Cell, Cell]:
    return file_of(row), row["stream"]


def file_of(row: Row) -> str:
    """The name of the file that a row is of, without its folders."""
    return str(row["file"]).rpartition("/")[2]


def _connections(found: Gathered) -> Table:
    columns = (
        *_WHERE,
        *(Column("Client"), Column("Server"), Column("Dialect"), Column("Began", "time")),
        *(Column("Lasted, s", "number", 3), Column("Frames", "number"), Column("Octets", "number")),
        *(Column("Deliveries", "number"), Column("Unsettled", "number"), Column("Violations", "number")),
    )
    rows: list[tuple[Cell, ...]] = []
    for row in found.connections:
        lasted = None if row["began"] is None else (row["ended"] - row["began"]) / 1e6
        rows.append(
            (
                *_where(row),
                *(
                    ends_of(row["client"], row["client_container"]),
                    ends_of(row["server"], row["server_container"]),
                ),
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
    return Table("links", "Links", note + _cut(len(rows), found.counts.get("link")), columns, rows, bad)


def _names(found: Gathered) -> Table:
    columns = (Column("Frame"), Column("Count", "number"), Column("Octets", "number"))
    rows: list[tuple[Cell, ...]] = [(name, *sums) for name, sums in found.frames.items()]
    return Table("frames", "Frames by name", "", columns, rows)


def _errors(found: Gathered) -> Table:
    columns = (
        *(Column("Frame"), Column("Condition"), Column("Count", "number")),
        *(Column("First", "time"), Column("Last", "time"), Column("One description")),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *(row["name"], shortened(row["condition"]), row["count"]),
            *(_time(row["first"]), _time(row["last"]), shortened(row["description"] or "")),
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
    note = "“Frame” is the number among the frames of its connection. "
    note += _cut(len(rows), found.counts.get("violation"))
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
    timed = None if found.percentiles is None else found.percentiles["deliveries"]
    bad = frozenset(place for place, row in enumerate(found.slowest) if row["outcome"] == "rejected")
    return Table("slowest", "Slowest deliveries", _cut(len(rows), timed), columns, rows, bad)


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
    count = found.counts.get("starvation", 0) + found.counts.get("stall", 0)
    note = (
        "When a sender might send nothing, for want of a link’s credit or of room in the session’s window. "
        "Without a length: until the link was over. What was sent at once afterwards had been waiting. "
    )
    return Table("waits", "Waits for credit and window", note + _cut(len(rows), count), columns, rows)


def _sessions(found: Gathered) -> Table:
    columns = (
        *_WHERE,
        *(Column("Channels"), Column("Began", "time"), Column("Lasted, s", "number", 3)),
        *(Column("Transfers of client", "number"), Column("a second", "number", 1)),
        *(Column("Transfers of server", "number"), Column("a second", "number", 1)),
        *(Column("Octets of client", "number"), Column("Octets of server", "number"), Column("Error")),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *_where(row),
            f"{_number(row['client_channel'])} and {_number(row['server_channel'])}",
            *(_time(row["began"]), row["seconds"]),
            *(row["client_transfers"], row["client_transfers_per_second"]),
            *(row["server_transfers"], row["server_transfers_per_second"]),
            *(row["client_octets"], row["server_octets"], _joined(row["condition"], row["description"])),
        )
        for row in found.sessions
    ]
    bad = frozenset(place for place, row in enumerate(found.sessions) if row["condition"])
    note = "Channels are those of the client’s and of the server’s frames; octets are those of messages. "
    return Table(
        "sessions", "Sessions", note + _cut(len(rows), found.counts.get("session")), columns, rows, bad
    )


def _latency(found: Gathered) -> Table:
    columns = (
        *_WHERE,
        *(Column("Link"), Column("Sender"), Column("Source"), Column("Target"), Column("Outcome")),
        *(Column("Deliveries", "number"), Column("Half, ms", "number", 3), Column("90 %, ms", "number", 3)),
        *(Column("99 %, ms", "number", 3), Column("Longest, ms", "number", 3)),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *_where(row),
            *(row["link"], row["sender"], row["source"], row["target"], row["outcome"], row["deliveries"]),
            *(_milliseconds(row[name]) for name in ("p50", "p90", "p99", "most")),
        )
        for row in found.latency
    ]
    note = "How long so many of a link’s deliveries took at most, from the first transfer to the settlement. "
    return Table("latencies", "Latency by link and outcome", note + _cut(len(rows)), columns, rows)


def _redeliveries(found: Gathered) -> Table:
    columns = (
        *_WHERE,
        *(Column("Frame", "number"), Column("Time", "time"), Column("Sender"), Column("Link")),
        *(Column("Source"), Column("Target"), Column("Delivery-id", "number"), Column("Delivery-tag")),
        *(Column("Delivered before", "number"), Column("Resumed")),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *_where(row),
            *(row["frame"], _time(row["time"]), row["sender"], row["link"], row["source"], row["target"]),
            *(row["delivery_id"], _tag(row["delivery_tag"]), row["delivery_count"]),
            "yes" if row["resumed"] else "no",
        )
        for row in found.redeliveries
    ]
    note = (
        "Messages whose header says how often they were delivered before, and deliveries that were resumed. "
    )
    note += _cut(len(rows), found.counts.get("redelivery"))
    return Table("redeliveries", "Redeliveries", note, columns, rows)


def _owed(found: Gathered) -> Table:
    columns = (*_WHERE, Column("End"), Column("Channel", "number"), Column("What was still to be sent"))
    rows: list[tuple[Cell, ...]] = [
        (*_where(row), row["end"], row["channel"], row["text"]) for row in found.owed
    ]
    note = "What the ends still had to send when their connection, or the capture, was over. "
    return Table("undone", "Left undone", note + _cut(len(rows), found.counts.get("owed")), columns, rows)


def _cut(shown: int, count: int | None = None) -> str:
    """What a table leaves out, if it does; ``count`` is how many rows there are, where that is known."""
    if count is not None:
        return f"The first {shown:,} of {count:,}." if count > shown else ""
    return f"The first {shown:,}." if shown >= MOST_ROWS else ""


def _number(channel: int | None) -> str:
    return "?" if channel is None else str(channel)


def _tag(octets: bytes | None) -> str | None:
    """A delivery-tag in hexadecimal, shortened."""
    if octets is None:
        return None
    return f"0x{octets[:_TAG_OCTETS].hex()}{'…' if len(octets) > _TAG_OCTETS else ''}"


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _time(micros: int | None) -> str | None:
    return None if micros is None else stamp(micros)


def ends_of(place: Row | None, container: str | None) -> str:
    """An end of a connection: its container, then its address and port, as far as they are known."""
    if place is None or place["source"] is None:
        return container or "unknown"
    host = f"[{place['source']}]" if ":" in place["source"] else place["source"]
    where = f"{host}:{place['source_port']}"
    return f"{container} ({where})" if container else where


def _joined(*words: str | None) -> str:
    return ": ".join(word for word in words if word)

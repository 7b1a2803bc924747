"""What there is to say of a checked connection, as lines and as a JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqpforge.capture.check import Checked
from amqpforge.capture.text import clock, describe, printable
from amqpforge.engine.observations import Reason, Unknown, Violation
from amqpforge.engine.observed_connection import ConnectionEnd
from amqpforge.engine.observed_link import ObservedLink
from amqpforge.engine.observed_sasl import ObservedSasl

__all__ = ["as_object", "lines"]


def lines(checked: Checked) -> list[str]:
    """The lines of a summary; nothing in one can be taken for its end or for a terminal's control."""
    return [printable(line) for line in _lines(checked)]


def as_object(checked: Checked) -> dict[str, Any]:
    """The object of a summary, ready for the json module. Times are in seconds since 1970, or null."""
    observer = checked.observer
    notes, sasl = observer.notes, observer.sasl
    return {
        "kind": "check",
        "stream": checked.stream,
        "client": _end_object(observer.client),
        "server": _end_object(observer.server),
        "sasl": None if sasl is None else {"mechanism": sasl.mechanism, "code": _code(sasl)},
        "sessions": notes.sessions,
        "links": notes.links,
        "deliveries": notes.deliveries,
        "outcomes": notes.outcomes,
        "unsettled": notes.unsettled,
        "settle_seconds": notes.settle_time / notes.timed if notes.timed else None,
        "slowest_seconds": notes.slowest if notes.timed else None,
        "seen_links": [_link_object(link) for link in checked.links],
        "unknown": [_finding_object(checked, found) for found in checked.unknown],
        "owed": [owed._asdict() for owed in observer.owed()],
        "violations": notes.violations,
        "seen_violations": [_finding_object(checked, found) for found in checked.violations],
    }


# --- lines


def _lines(checked: Checked) -> Iterator[str]:
    observer = checked.observer
    notes, client, server = observer.notes, observer.client, observer.server
    took = "" if checked.last is None else f", {checked.last:.6f} s"
    yield f"stream {checked.stream}: {_end(client)}, {_end(server)}{took}"
    if observer.sasl is not None:
        sasl = observer.sasl
        yield f"  SASL {sasl.mechanism or '(no mechanism chosen)'}: {_code(sasl) or '(no outcome)'}"
    yield f"  {_closed(client)}, {_closed(server)}"
    yield f"  sessions {notes.sessions}, links {notes.links}, deliveries {notes.deliveries}"
    if notes.deliveries:
        yield f"  {_outcomes(notes.outcomes, notes.unsettled)}{_settle_time(checked)}"
    for link in checked.links:
        yield f"  {_link(link)}"
    yield from _more(len(checked.links), notes.links, "links")
    for missing in checked.unknown:
        yield f"  unknown  {_place(checked, missing)}{missing.end}: {missing.text}"
    yield from _more(len(checked.unknown), checked.unknown_count, "unknown")
    for end, channel, what in observer.owed():
        yield f"  owed  {_who(end, channel)}: {what}"
    for found in checked.violations:
        condition = "" if found.condition is None else f" ({found.condition})"
        who = _who(found.end, found.channel)
        yield f"  VIOLATION  {_place(checked, found)}{who}: {found.rule}: {found.text}{condition}"
    yield from _more(len(checked.violations), notes.violations, "violations")


def _end(end: ConnectionEnd) -> str:
    name = "" if end.container is None else f" {describe(end.container)}"
    return f"{end.name}{name} {end.frames} frames"


def _closed(end: ConnectionEnd) -> str:
    if end.has_closed:
        return f"{end.name} closed{_because(end.reason)}"
    if not end.is_open:
        return f"{end.name} did not open"
    return f"{end.name} {'went without a close' if end.has_ended else 'did not close'}"


def _code(sasl: ObservedSasl) -> str | None:
    return None if sasl.code is None else sasl.code.name.lower()


def _because(reason: Reason | None) -> str:
    return "" if reason is None else f" with {reason}"


def _outcomes(outcomes: dict[str, int], unsettled: int) -> str:
    return ", ".join(
        f"{name} {count}" for name, count in (*sorted(outcomes.items()), ("unsettled", unsettled))
    )


def _settle_time(checked: Checked) -> str:
    notes = checked.observer.notes
    if not notes.timed:
        return ""
    return (
        f"; settled after {notes.settle_time / notes.timed:.6f} s on average, {notes.slowest:.6f} s at most"
    )


def _link(link: ObservedLink) -> str:
    sender, receiver = link.sender.side.name, link.receiver.side.name
    ends = [
        f" {word} {describe(address)}"
        for word, address in (("from", link.source), ("to", link.target))
        if address
    ]
    return (
        f"link {describe(link.name)} {sender} to {receiver}{''.join(ends)}: "
        f"deliveries {link.deliveries}, {link.octets} octets, {_outcomes(link.outcomes, link.unsettled)}"
        f"{', refused' if link.is_refused else ''}{_because(link.reason)}"
    )


def _place(checked: Checked, found: Violation | Unknown) -> str:
    time = checked.nanoseconds(found.time)
    return f"frame {found.frame}  {'' if time is None else f'{clock(time)}  '}"


def _who(end: str, channel: int | None) -> str:
    return end if channel is None else f"{end} ch {channel}"


def _more(shown: int, count: int, what: str) -> Iterator[str]:
    if count > shown:
        yield f"  and {count - shown} more {what}"


# --- objects


def _end_object(end: ConnectionEnd) -> dict[str, Any]:
    return {
        "container": end.container,
        "frames": end.frames,
        "octets": end.octets,
        "closed": end.has_closed,
        "error": end.reason and end.reason._asdict(),
    }


def _link_object(link: ObservedLink) -> dict[str, Any]:
    return {
        "name": link.name,
        "sender": link.sender.side.name,
        "source": link.source,
        "target": link.target,
        "deliveries": link.deliveries,
        "octets": link.octets,
        "outcomes": link.outcomes,
        "unsettled": link.unsettled,
        "refused": link.is_refused,
        "error": link.reason and link.reason._asdict(),
    }


def _finding_object(checked: Checked, found: Violation | Unknown) -> dict[str, Any]:
    time = checked.nanoseconds(found.time)
    result: dict[str, Any] = {
        "frame": found.frame,
        "time": None if time is None else time / 1_000_000_000,
        "end": found.end,
        "text": found.text,
    }
    if isinstance(found, Violation):
        result |= {"channel": found.channel, "rule": found.rule, "condition": found.condition}
    return result

"""Real conversations: the analysis finds what `amqpforge decode --check` finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amqpforge.capture.check import Checked, Checker
from amqpforge.capture.reader import CaptureReader
from amqpforge.engine.observations import Rule
from tests.engine.test_observer_captures import FAULTS
from tests.spark.analysis.observing import observations, of
from tests.spark.capture.reading import FOLDER

NAMES = sorted(path.name.removesuffix(".pcapng") for path in FOLDER.glob("p10-*.pcapng"))


def checked(path: Path) -> list[Checked]:
    found: list[Checked] = []
    checker = Checker(found.append)
    with path.open("rb") as file:
        for record in CaptureReader(file.read, remark=pytest.fail, on_end=checker.end).records():
            checker.take(record)
    checker.finish()
    return sorted(found, key=lambda one: one.stream)


@pytest.mark.parametrize("name", NAMES)
def test_the_findings_are_those_of_check(name: str) -> None:
    path = FOLDER / f"{name}.pcapng"
    expected, found = checked(path), observations(path, rows=97)
    violations: list[Any] = [
        (
            row["stream"],
            row["frame"],
            *(row["violation"][key] for key in ("end", "rule", "text", "condition")),
        )
        for row in found
        if row["kind"] == "violation"
    ]
    assert violations == [
        (one.stream, told.frame, told.end, str(told.rule), told.text, told.condition)
        for one in expected
        for told in one.violations
    ]
    assert bool(violations) == (name in FAULTS), "clean captures have none"
    assert len(of(found, "unknown")) == sum(one.unknown_count for one in expected)
    assert sorted(row["text"] for row in of(found, "owed")) == sorted(
        owed.what for one in expected for owed in one.observer.owed()
    )
    connections = of(found, "connection")
    for row, one in zip(connections, expected, strict=True):
        notes, client, server = one.observer.notes, one.observer.client, one.observer.server
        assert (row["sessions"], row["links"], row["deliveries"], row["unsettled"]) == (
            notes.sessions,
            notes.links,
            notes.deliveries,
            notes.unsettled,
        )
        assert (row["client_octets"], row["server_octets"]) == (client.octets, server.octets)
        assert (row["client_container"], row["server_closed"]) == (client.container, server.has_closed)


def test_most_captures_are_without_a_fault() -> None:
    assert set(FAULTS) < set(NAMES)
    assert len(NAMES) - len(FAULTS) >= 30


@pytest.mark.parametrize("name", NAMES)
def test_deliveries_add_up(name: str) -> None:
    path = FOLDER / f"{name}.pcapng"
    found = observations(path)
    for one in checked(path):
        notes = one.observer.notes
        own = [row["delivery"] for row in found if row["kind"] == "delivery" and row["stream"] == one.stream]
        assert len(own) == notes.deliveries
        assert sum(not row["is_settled"] for row in own) == notes.unsettled
        timed = [
            row["seconds"]
            for row in own
            if row["is_settled"] and row["outcome"] not in ("pre-settled", "aborted")
        ]
        if notes.timed and "aborted" not in notes.outcomes:
            assert max(timed) == pytest.approx(notes.slowest, abs=2e-6)
        links = [row["link"] for row in found if row["kind"] == "link" and row["stream"] == one.stream]
        if not one.unknown_count and not any(told.rule is Rule.HANDLE for told in one.violations):
            assert sum(row["deliveries"] for row in links) == notes.deliveries
            assert sum(row["octets"] for row in links) == sum(row["octets"] for row in own)
        for row in links:
            assert row["most_unsettled"] <= row["deliveries"]
            assert sum(dict(row["outcomes"]).values()) + row["unsettled"] == row["deliveries"]

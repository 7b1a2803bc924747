"""Observers on real conversations: faults that are known to be there are found, and nobody else is blamed."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest

from amqpforge.capture.check import Checked, Checker
from amqpforge.capture.reader import CaptureReader
from amqpforge.capture.record import Record
from amqpforge.capture.tcp import Direction
from amqpforge_protocol.amqp_1_0 import Transfer

FOLDER = Path(__file__).resolve().parents[1] / "data" / "captures"
NAMES = sorted(path.name.removesuffix(".pcapng") for path in FOLDER.glob("p10-*.pcapng"))
Ending = tuple[int, Direction, int | None, bool]
Fault = tuple[int, str, str, int]  # stream, end, rule, frame

FAULTS: dict[str, set[Fault]] = {
    # The client goes without a close, as the description of the capture says.
    "p10-proton-abrupt": {(0, "client", "close", 28)},
    "p10-proton-drain": {(0, "client", "close", 36)},
    "p10-proton-rhea-drain-ok": {(0, "client", "close", 47)},
    "p10-rhea-abrupt": {(0, "client", "close", 16)},
    "p10-rmq-proton-abrupt": {(0, "client", "close", 27)},
    "p10-rmq-proton-client-errors": {(0, "client", "close", 22)},
    "p10-rmq-proton-dynamic": {(0, "client", "close", 15), (1, "client", "close", 16)},
    "p10-rmq-rhea-dynamic": {(0, "client", "close", 19)},
    # The server drops the transport, over a link name, a section or a body that it does not bear.
    "p10-proton-rhea-drain": {(0, "server", "close", 30)},
    "p10-proton-rhea-plain": {(0, "server", "close", 130)},
    "p10-proton-rhea-plain-simple": {(0, "server", "close", 124)},
    "p10-rmq-proton-crash-delivery-annotations": {(0, "server", "close", 17)},
    "p10-rmq-proton-crash-list-body": {(0, "server", "close", 15)},
    "p10-rmq-rhea-plain-small": {(0, "server", "close", 49)},
    "p10-rmq-rhea-settled": {(0, "server", "close", 45)},
    # Transfers ahead of the attach, after which the client drops the transport.
    "p10-rhea-transfer-before-attach": {
        (0, "server", "unattached-handle", 25),
        (0, "client", "close", 25),
    },
    # No empty frames, until the client gives up.
    "p10-rmq-proton-heartbeat": {(0, "server", "idle-time-out", 16), (0, "client", "close", 16)},
    # A second close, or a flow behind the close.
    "p10-rmq-proton-attach-errors": {
        *((stream, "server", "state", 16) for stream in (0, 1, 2)),
        (3, "client", "close", 13),
    },
    "p10-rmq-proton-anon-small": {(0, "server", "state", 147)},
    "p10-rmq-proton-many-small": {(0, "server", "state", 2380)},
    "p10-rmq-proton-multi-session": {(0, "server", "state", 232)},
}
OWED = {
    "p10-proton-drain": "a flow of link ",
    "p10-proton-rhea-drain": "an attach of link ",
    "p10-rmq-proton-client-errors": "an attach and a closing detach, since its detach was not closing, ",
}
OUTCOMES: dict[str, list[dict[str, int]]] = {
    "p10-proton-abrupt": [{"accepted": 3, "unsettled": 3}],
    "p10-proton-filter": [{"accepted": 4, "unsettled": 4}],
    "p10-proton-many-small": [{"accepted": 2000}],
    "p10-proton-outcomes": [{"accepted": 13, "rejected": 2, "released": 1, "modified": 2}],
    "p10-proton-request-response": [{}, {"accepted": 10}, {"accepted": 10}],
    "p10-proton-transaction": [{"accepted": 8, "declared": 2}, {"accepted": 8, "declared": 2}],
    "p10-rhea-big-split-1mib": [{"accepted": 1}],
    "p10-rhea-multi-session": [{"accepted": 64}],
    "p10-rhea-outcomes": [{"accepted": 2, "rejected": 1, "released": 2, "modified": 2}],
    "p10-rhea-request-response": [{"accepted": 16}],
    "p10-rhea-settled": [{"accepted": 30, "pre-settled": 30}],
    "p10-rhea-transfer-before-attach": [{"accepted": 3, "unsettled": 3}],
    "p10-rmq-proton-crash-list-body": [{"unsettled": 1}],
    "p10-rmq-proton-many-small": [{"accepted": 2000}],
    "p10-rmq-proton-outcomes": [{"accepted": 9, "rejected": 2, "released": 1, "modified": 1}],
    "p10-rmq-rhea-plain-small": [{"accepted": 2, "unsettled": 31}],
    "p10-rmq-rhea-settled": [{"pre-settled": 30}],
}


@lru_cache(maxsize=4)
def items(name: str) -> tuple[Record | Ending, ...]:
    """The records of a capture, and the ends of its directions among them."""
    found: list[Record | Ending] = []
    with (FOLDER / f"{name}.pcapng").open("rb") as file:
        reader = CaptureReader(file.read, remark=pytest.fail, on_end=lambda *end: found.append(end))
        for record in reader.records():
            found.append(record)
    return tuple(found)


def check(kept: list[Record | Ending]) -> list[Checked]:
    checked: list[Checked] = []
    checker = Checker(checked.append)
    for item in kept:
        if isinstance(item, Record):
            checker.take(item)
        else:
            checker.end(*item)
    checker.finish()
    return checked


def faults(checked: list[Checked], skipped: int = 0) -> set[Fault]:
    return {
        (each.stream, found.end, found.rule.value, found.frame + skipped)
        for each in checked
        for found in each.violations
    }


def places(name: str) -> list[int]:
    """Where to cut a capture: everywhere in its beginning, and at forty places more."""
    count = sum(isinstance(item, Record) for item in items(name))
    return [*range(1, min(count, 40)), *range(40, count, 1 + count // 40)]


@pytest.mark.parametrize("name", NAMES)
def test_the_faults_that_are_known_are_found_and_no_others(name: str) -> None:
    checked = check(list(items(name)))
    assert faults(checked) == FAULTS.get(name, set())
    assert [each.unknown for each in checked] == [[]] * len(checked)
    expected = OWED.get(name)
    if expected is not None:
        assert any(
            owed.end == "server" and owed.what.startswith(expected) for owed in checked[0].observer.owed()
        )


def test_most_captures_are_without_fault() -> None:
    assert len(NAMES) == 52
    assert set(FAULTS) <= set(NAMES)
    assert len(NAMES) - len(FAULTS) >= 30


@pytest.mark.parametrize("name", NAMES)
def test_deliveries_are_those_of_the_transfers(name: str) -> None:
    records = [item for item in items(name) if isinstance(item, Record)]
    checked = check(list(items(name)))
    begun: Counter[int] = Counter()
    open_links: set[tuple[int, str, int | None, int]] = set()
    for record in records:
        if isinstance(record.value, Transfer):
            place = (record.stream, record.direction, record.channel, record.value.handle)
            begun[record.stream] += place not in open_links
            (open_links.add if record.value.more else open_links.discard)(place)
    described = json.loads((FOLDER / "performative-counts.json").read_text())[name]
    assert len(checked) <= len(described)
    for each in checked:
        observer, stream = each.observer, described[each.stream]
        assert observer.notes.deliveries == begun[each.stream]
        for direction, end in (("c2s", observer.client), ("s2c", observer.server)):
            counts = Counter(stream.get(direction, {}).get("counts", {}))
            counts += Counter(stream.get(direction, {}).get("not_reached", {}))
            del counts["protocol-header"]
            assert end.frames == counts.total()


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcomes(name: str) -> None:
    for each, expected in zip(check(list(items(name))), OUTCOMES[name], strict=True):
        notes = each.observer.notes
        assert notes.outcomes == {key: count for key, count in expected.items() if key != "unsettled"}
        assert notes.unsettled == expected.get("unsettled", 0)
        assert (notes.live_sessions, notes.live_links, notes.live_deliveries) in ((0, 0, 0), (1, 2, 3))


@pytest.mark.parametrize("name", NAMES)
def test_caught_from_the_middle_nobody_is_blamed_for_what_was_missed(name: str) -> None:
    for skipped in places(name):
        left: Counter[int] = Counter()
        kept: list[Record | Ending] = []
        for item in items(name):
            if isinstance(item, Record):
                left[item.stream] += 1
                if left[item.stream] <= skipped:
                    continue
            kept.append(item)
        checked = check(kept)
        assert faults(checked, skipped) <= FAULTS.get(name, set())
        for each in checked:
            texts = [(found.end, found.text) for found in each.unknown]
            assert len(texts) == len(set(texts))


@pytest.mark.parametrize("name", NAMES)
def test_a_capture_that_stops_early_blames_nobody_for_what_is_missing(name: str) -> None:
    for stop in places(name):
        assert faults(check(list(items(name)[:stop]))) <= FAULTS.get(name, set())


@pytest.mark.parametrize("name", NAMES)
def test_a_frame_that_is_missing_blames_nobody(name: str) -> None:
    everything = list(items(name))
    for place in places(name):
        lost = everything[place]
        if isinstance(lost, Record):
            gap = Record(lost.time, lost.stream, lost.direction, lost.offset, "error", reason="missing")
            checked = check([*everything[:place], gap, *everything[place + 1 :]])
            assert faults(checked) <= FAULTS.get(name, set())


@pytest.mark.parametrize("name", NAMES)
def test_one_direction_alone_shows_only_what_it_shows_by_itself(name: str) -> None:
    everything = [item for item in items(name) if isinstance(item, Record)]
    for direction, end in (("c2s", "client"), ("s2c", "server")):
        checked = check([record for record in everything if record.direction == direction])
        by_itself = {
            (stream, whose, rule) for stream, whose, rule, _ in FAULTS.get(name, set()) if rule == "state"
        }
        assert {fault[:3] for fault in faults(checked)} <= {fault for fault in by_itself if fault[1] == end}
        for each in checked:
            assert each.observer.owed() == []


def test_the_bulk_capture(material: Path) -> None:
    checked: list[Checked] = []
    checker = Checker(checked.append)
    with (material / "traffic" / "bulk" / "p10-bulk-100k-256.pcapng").open("rb") as file:
        for record in CaptureReader(file.read, remark=pytest.fail, on_end=checker.end).records():
            checker.take(record)
    checker.finish()
    notes = checked[0].observer.notes
    assert (notes.deliveries, notes.outcomes, notes.violations) == (100_000, {"accepted": 100_000}, 0)
    assert 0 < notes.settle_time / notes.timed < notes.slowest < 1


def test_the_shared_captures_are_the_same(material: Path) -> None:
    for name in NAMES:
        shared = material / "traffic" / "captures" / f"{name}.pcapng"
        assert shared.read_bytes() == (FOLDER / f"{name}.pcapng").read_bytes()

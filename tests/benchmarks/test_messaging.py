"""What is measured of whole peers is right: workers do all that is asked of them, and find what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

import benchmarks.__main__ as program
from benchmarks import messaging
from benchmarks.messaging import report, rounds
from benchmarks.messaging.rounds import Effort, Findings, Line
from benchmarks.messaging.rows import IN_MEMORY, KINDS, LINKS, PEER_TO_PEER, ROUND_TRIP, Kind, Row
from benchmarks.messaging.stacks import OURS, PROTON, RHEA, MissingError, Pair, Program, pairs, worker
from benchmarks.messaging.work import Inbox, Job, WrongMessageError
from benchmarks.stack import WrongResultError

SHORT = Effort(rounds=1, messages=200, warm_up=10, has_broker=False)
RUNS = [(kind, settled) for kind in KINDS if not kind.needs_broker for settled in kind.settle_modes]
STACKS = (OURS, PROTON, RHEA)


def key_of(value: object) -> str:
    if isinstance(value, Kind):
        return value.case
    if isinstance(value, bool):
        return "settled" if value else "unsettled"
    return value.key if isinstance(value, Program) else str(value)


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, Pair]]:
    """The stacks that are installed here, by their keys."""
    said: list[str] = []
    with pairs(STACKS, said.append) as found:
        yield {pair.program.key: pair for pair in found}


def pair_of(running: dict[str, Pair], stack: Program, kind: Kind) -> Pair:
    if stack.key not in running:
        pytest.skip(f"{stack.key} is not installed")
    pair = running[stack.key]
    assert kind.roles <= pair.client.roles
    return pair


@pytest.mark.parametrize("stack", STACKS, ids=key_of)
@pytest.mark.parametrize(("kind", "settled"), RUNS, ids=key_of)
def test_a_run_gives_every_number_of_its_kind(
    running: dict[str, Pair], stack: Program, kind: Kind, settled: bool
) -> None:
    pair = pair_of(running, stack, kind)
    found = kind.run(pair, Row(kind, kind.sizes[-1], settled), 600)  # more than a window
    assert list(found) == [measure.key for measure in kind.measures]
    assert kind is LINKS or all(value > 0 for value in found.values())  # memory may have been there before


@pytest.mark.parametrize("stack", STACKS, ids=key_of)
def test_a_receiver_finds_other_bodies(running: dict[str, Pair], stack: Program) -> None:
    pair_of(running, stack, PEER_TO_PEER)
    with worker(stack) as listener, worker(stack) as client:  # fresh ones: they end with a broken connection
        listener.begin(Job("accept", 5, size=101))
        client.begin(Job("send", 5, port=listener.answer()["port"]))
        with pytest.raises(WrongResultError, match="message 0 has the body 0000000000000000"):
            listener.answer()


def test_bodies_are_numbered_and_of_the_size() -> None:
    bodies = Job("send", 300, size=100).bodies()
    assert {len(body) for body in bodies} == {100}
    assert [int.from_bytes(body[:8], "big") for body in bodies] == list(range(300))


@pytest.mark.parametrize("arriving", [[1], [0, 0], [0, 2], [0, 1, 2, 2]])
def test_an_inbox_takes_the_next_message_alone(arriving: list[int]) -> None:
    job = Job("accept", 3)
    inbox, bodies = Inbox(job), job.bodies()
    for number in arriving[:-1]:
        inbox.take(bodies[number])
    with pytest.raises(WrongMessageError, match=f"message {len(arriving) - 1} has"):
        inbox.take(bodies[arriving[-1]])


def test_an_inbox_is_full_with_the_last_message() -> None:
    job = Job("accept", 2)
    inbox, bodies = Inbox(job), job.bodies()
    inbox.take(bodies[0])
    assert not inbox.is_full
    inbox.take(bodies[1])
    assert inbox.is_full


def test_a_ratio_above_one_is_good_for_speeds_and_for_costs() -> None:
    rate, cpu = PEER_TO_PEER.measures[0], PEER_TO_PEER.measures[1]
    assert rate.ratio(40_000, 10_000) == 4
    assert cpu.ratio(20, 80) == 4


def test_every_number_has_a_target_against_proton() -> None:
    assert all(measure.targets["proton"] >= 1 for kind in KINDS for measure in kind.measures)
    assert IN_MEMORY.measures[0].targets == PEER_TO_PEER.measures[0].targets == {"proton": 2.0}


def test_a_stack_that_is_not_installed_is_said_and_left_out() -> None:
    said: list[str] = []
    strangers = [
        Program("stranger", ("no-such-program-here",)),
        Program("nobody", (*OURS.command[:-1], "no_such_stack")),
    ]
    with pairs(strangers, said.append) as found:
        assert found == []
    assert [line.split(" (")[0] for line in said] == ["left out: stranger", "left out: nobody"]


def test_a_worker_that_is_missing_its_library_says_so() -> None:
    stranger = Program("nobody", (*OURS.command[:-1], "no_such_stack"))
    with pytest.raises(MissingError, match="no_such_stack"), ExitStack() as stack:
        stack.enter_context(worker(stranger))


def findings() -> Findings:
    row = Row(PEER_TO_PEER, 100, settled=False)
    rate, sender, _ = PEER_TO_PEER.measures
    lines = [
        Line(row, rate, {"ours": 30_000, "proton": 16_000, "rhea": 45_000}, {"proton": 1.875, "rhea": 0.667}),
        Line(row, sender, {"ours": 15.5, "proton": 62.0}, {"proton": 4.0}),
        Line(Row(LINKS, 0, settled=False), LINKS.measures[0], {"rhea": 19.0}, {}),
    ]
    return Findings("Whole peers", lines, {"ours": "amqpforge", "proton": "P", "rhea": "R"})


def test_the_table_holds_ratios_against_targets() -> None:
    head, rate, sender, memory = report.lines(findings())
    assert head.split() == [
        "Whole",
        "peers",
        "ours",
        *["proton", "ratio", "target", "rhea", "ratio", "target"],
    ]
    assert rate.split(maxsplit=4)[4].split() == [
        *["msg/s", "30,000", "16,000", "1.88x", ">=", "2", "not", "met", "45,000", "0.67x"]
    ]
    assert sender.split(maxsplit=7)[7].split() == [
        "sender",
        "us",
        "15.5",
        "62.0",
        "4.00x",
        ">=",
        "1",
        "met",
        "-",
    ]
    assert memory.split() == ["links,", "memory", "of", "one", "KiB", "-", "-", "19.0"]


def test_json_names_every_number() -> None:
    rows = report.as_json(findings())["rows"]
    assert rows[0] == {
        "case": "peer-to-peer",
        "size": 100,
        "settled": False,
        "measure": "rate",
        "unit": "msg/s",
        "values": {"ours": 30_000, "proton": 16_000, "rhea": 45_000},
        "ratios": {"proton": 1.875, "rhea": 0.667},
        "targets": {"proton": 2.0},
    }
    assert [row["measure"] for row in rows] == ["rate", "sender", "memory"]


def test_a_median_stands_for_the_rounds() -> None:
    speeds = {"ours": iter([10.0, 90.0, 20.0]), "proton": iter([5.0, 30.0, 20.0])}
    turns: list[str] = []

    def run(pair: Pair, row: Row, count: int) -> dict[str, float]:
        turns.append(pair.program.key)
        return {"rate": next(speeds[pair.program.key])}

    kind = replace(IN_MEMORY, run=run, roles=frozenset(), measures=IN_MEMORY.measures[:1])
    with worker(OURS) as any_worker:
        both = [Pair(program, any_worker, any_worker) for program in (OURS, PROTON)]
        [line] = rounds.lines_of(Row(kind, 100, settled=True), both, replace(SHORT, rounds=3))
    assert turns == ["ours", "proton", "proton", "ours", "ours", "proton"]
    assert line.values == {"ours": 20.0, "proton": 20.0}
    assert line.ratios == {"proton": 2.0}


@pytest.fixture
def only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "PROGRAMS", (OURS,))
    monkeypatch.setattr(messaging, "QUICK", SHORT)


@pytest.mark.usefixtures("only_ours")
def test_a_kind_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--case", "in-memory", "--case", "round-trip"]
    assert program.main(["--quick", *chosen, "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["rows"] == []
    assert {row["case"] for row in content["messaging"]["rows"]} == {"in-memory", "round-trip"}
    assert all(set(row["values"]) == {"ours"} for row in content["messaging"]["rows"])


@pytest.mark.usefixtures("only_ours")
def test_a_wrong_message_ends_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(pair: Pair, row: Row, count: int) -> dict[str, float]:
        raise WrongResultError("message 3 has another body")

    monkeypatch.setattr(rounds, "KINDS", [replace(ROUND_TRIP, run=run)])
    assert program.main(["--quick", "--case", "round-trip"]) == 1
    assert "wrong result: message 3 has another body" in capsys.readouterr().err

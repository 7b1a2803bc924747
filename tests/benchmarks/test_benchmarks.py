"""What the benchmark measures is right before it is timed: results, verdicts and exit status."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import benchmarks.__main__ as program
from benchmarks import messaging, processes, report, timing
from benchmarks.amqp_0_9_1 import cases as cases_0_9_1
from benchmarks.amqp_1_0 import ours
from benchmarks.amqp_1_0.cases import ATTACH, FLOW, MESSAGE, TRANSFER
from benchmarks.case import Case, Composite
from benchmarks.messaging import rounds
from benchmarks.messaging.stacks import OURS
from benchmarks.stack import Operation, Stack, WrongResultError, check, same
from benchmarks.suite import DIRECTIONS, Suite
from benchmarks.timing import Effort, Timing, compare

SHORT = Effort(rounds=2, turn_seconds=0.00005)
CASES = [(suite, case) for suite in program.SUITES for case in suite.cases]
PEERS = [(suite, load) for suite in program.SUITES for load in suite.peers]


def id_of(value: object) -> str:
    if isinstance(value, Suite):
        return value.dialect.replace(" ", "-")
    return value.name if isinstance(value, Case) else getattr(value, "__module__", str(value))


@pytest.mark.parametrize(("suite", "case"), CASES, ids=id_of)
def test_ours_is_right_in_every_case(suite: Suite, case: Case) -> None:
    stack = suite.load()
    assert stack.operations[case.name]
    for direction in stack.operations[case.name]:
        check(case, direction, stack)


@pytest.mark.parametrize(("suite", "load"), PEERS, ids=id_of)
@pytest.mark.filterwarnings("ignore")  # what peers warn of is theirs
def test_peers_do_the_same_work(suite: Suite, load: Callable[[], Stack]) -> None:
    try:
        stack = load()
    except ImportError as error:
        pytest.skip(f"a peer is not installed: {error}")
    for case in suite.cases:
        for direction in stack.operations.get(case.name, {}):
            check(case, direction, stack)


def test_contents_carry_what_the_rows_say() -> None:
    assert len(TRANSFER.values["payload"]) == 100
    assert len(MESSAGE.values["body"]) == 100
    assert len(cases_0_9_1.BODY) == 256
    assert len(cases_0_9_1.HEADERS) == 3
    assert len(cases_0_9_1.TABLE) == 10


def test_no_two_cases_share_a_name() -> None:
    assert set(Counter(case.name for _, case in CASES).values()) == {1}


def test_a_wrong_value_is_found() -> None:
    wrong = replace(FLOW, values={**FLOW.values, "link-credit": 99})
    with pytest.raises(WrongResultError, match=r"ours decode flow: link-credit is 100, not 99"):
        check(wrong, "decode", ours.load())


def test_a_missing_field_is_found() -> None:
    wrong = replace(FLOW, values={**FLOW.values, "credit": 100})
    with pytest.raises(WrongResultError, match="credit is None"):
        check(wrong, "decode", ours.load())


def test_other_octets_are_found() -> None:
    wrong = replace(FLOW, octets=ATTACH.octets)
    stack = Stack("ours", "", {"flow": {"encode": ours.encoding(wrong)}})
    with pytest.raises(WrongResultError, match="ours encode flow"):
        check(wrong, "encode", stack)


def test_an_exception_is_a_wrong_result() -> None:
    operation = Operation(lambda octets: octets[1_000], FLOW.octets, dict)
    with pytest.raises(WrongResultError, match="IndexError"):
        check(FLOW, "decode", Stack("peer", "", {"flow": {"decode": operation}}))


@pytest.mark.parametrize(
    ("expected", "found", "is_same"),
    [
        ("text", b"text", True),
        ("text", "texts", False),
        (True, 1, False),
        (True, True, True),
        ({"a": 1}, {b"a": 1, b"b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, [1], False),
        (["x"], [b"x", b"y"], False),
        (Composite(1, {"a": 2}), Composite(1, {"a": 2}), True),
        (Composite(1, {"a": 2}), Composite(2, {"a": 2}), False),
        (Composite(1, {"a": 2}), Composite(1, {}), False),
    ],
)
def test_sameness(expected: Any, found: Any, is_same: bool) -> None:
    assert same(expected, found) is is_same


def test_ratios_are_to_the_first_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    nanoseconds: dict[Any, int] = {len: 2_000, sorted: 6_000}
    monkeypatch.setattr(timing, "_run", lambda call, argument, number: nanoseconds[call] * number)
    timings = compare({"ours": Operation(len, b"", dict), "peer": Operation(sorted, b"", dict)}, SHORT)
    assert timings == {"ours": Timing(2.0, 1.0), "peer": Timing(6.0, 3.0)}


def test_a_stall_of_the_machine_does_not_change_how_many_calls_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers: list[int] = []

    def run(call: Any, argument: Any, number: int) -> int:
        numbers.append(number)
        stall = 4_000_000 if len(numbers) == 1 else 0  # nanoseconds, in the very first timing
        return 10_000 * number + stall

    monkeypatch.setattr(timing, "_run", run)
    timings = compare({"ours": Operation(len, b"", dict)}, Effort(rounds=3, turn_seconds=0.001))
    assert timings["ours"].micros == 10.0
    assert numbers[-1] == 100  # ten microseconds each fill a millisecond


def test_the_table_holds_ratios_against_targets() -> None:
    stacks = [Stack("ours", ""), Stack("fast", ""), Stack("slow", ""), Stack("other", "O", is_target=False)]
    timings = {
        "ours": Timing(1.0, 1.0),
        "fast": Timing(1.5, 1.5),
        "slow": Timing(5.9, 5.9),
        "other": Timing(2.0, 2.0),
    }
    row = report.Row(FLOW, "decode", timings, {"fast": 1.5, "slow": 6.0})
    lines = report.Table("AMQP 1.0", [row], stacks).lines()
    assert lines[0].startswith("AMQP 1.0")
    assert ">= 1.5 met" in lines[1]
    assert ">= 6 not met" in lines[1]
    assert lines[-1].strip() == "decode flow, O: 2.00 us, 2.00x"


def test_every_row_beside_peers_has_a_target_for_each() -> None:
    targets = {
        (suite.dialect, case.name, direction): set(suite.targets.get((case.kind, direction), {}))
        for suite, case in CASES
        for direction in suite.load().operations[case.name]
    }
    assert {
        named for (dialect, _, _), keys in targets.items() if dialect == "AMQP 1.0" for named in keys
    } == {
        "pyamqp",
        "proton",
    }
    for (dialect, _, _), keys in targets.items():
        assert len(keys) == {"AMQP 1.0": 2, "AMQP 0-9-1": 3}.get(dialect, 0)


@pytest.fixture
def only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """No peers, no broker, and hardly any time."""

    def missing() -> Stack:
        raise ImportError("no such peer")

    suites = [replace(suite, peers=(missing,) * len(suite.peers)) for suite in program.SUITES]
    monkeypatch.setattr(program, "SUITES", suites)
    monkeypatch.setattr(program, "QUICK", SHORT)
    monkeypatch.setattr(rounds, "PROGRAMS", (OURS,))
    monkeypatch.setattr(
        messaging, "QUICK", messaging.Effort(rounds=1, messages=100, warm_up=10, has_broker=False)
    )


@pytest.mark.usefixtures("only_ours")
def test_without_peers_it_says_so_and_measures_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--quick"]) == 0
    said = capsys.readouterr().out
    assert said.count("left out: ") == len(PEERS)
    assert said.count("no peer is installed") == 2
    for suite, case in CASES:
        directions = suite.load().operations[case.name]
        assert [f"{direction} {case.name}" in said for direction in DIRECTIONS] == [
            direction in directions for direction in DIRECTIONS
        ]


@pytest.mark.usefixtures("only_ours")
def test_json_on_standard_output_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--quick", "--case", "flow", "--case", "deliver", "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [(row["dialect"], row["case"], row["direction"]) for row in content["rows"]] == [
        ("AMQP 1.0", "flow", "decode"),
        ("AMQP 1.0", "flow", "encode"),
        ("AMQP 0-9-1", "deliver", "decode"),
    ]
    assert set(content["rows"][0]["microseconds"]) == {"ours"}


def wrong_suite(direction: str) -> Suite:
    """A suite whose flow is right in our stack, and in one direction wrong in a peer."""

    def peer() -> Stack:
        wrong = Operation(len, FLOW.octets, lambda size: {"handle": size})
        return Stack("peer", "a peer", {"flow": {direction: wrong}})

    return Suite("AMQP 1.0", (FLOW,), ours.load, (peer,))


@pytest.mark.parametrize("direction", ["decode", "encode", "read"])
def test_a_wrong_result_ends_with_status_1(
    direction: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "SUITES", [wrong_suite(direction)])
    assert program.main(["--quick", "--case", "flow"]) == 1
    assert f"wrong result: peer {direction} flow" in capsys.readouterr().err


def test_the_budget_of_an_import_is_measured_for_each_dialect_and_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes: list[str] = []

    class Python(processes.Python):
        def run(self, *arguments: str, stdout: int = 0) -> tuple[float, bytes]:
            codes.append(arguments[-1])
            return 0.0, b"0.02"

    figures = list(processes.import_times(Python("")))
    assert [figure.budget for figure in figures] == [60, 60, 60, 60, 150]
    assert {figure.value for figure in figures} == {20.0}
    assert sum("amqp_0_9_1, amqpforge_protocol.amqp_0_10_preview" in code for code in set(codes)) == 1

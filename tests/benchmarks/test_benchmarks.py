"""What the benchmark measures is right before it is timed: results, verdicts and exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import benchmarks.__main__ as program
from benchmarks import ours, proton, proton_fields, pyamqp, report, timing
from benchmarks.cases import ATTACH, CASES, FLOW, MESSAGE, TRANSFER, Case, Composite
from benchmarks.stack import Operation, Stack, WrongResultError, check, same
from benchmarks.timing import Effort, Timing, compare

SHORT = Effort(rounds=2, turn_seconds=0.00005)
DIRECTIONS = ("decode", "encode")


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ours_is_right_in_every_case(case: Case, direction: str) -> None:
    check(case, direction, ours.load())


@pytest.mark.parametrize("load", [pyamqp.load, pyamqp.load_text, proton.load, proton_fields.load])
@pytest.mark.filterwarnings("ignore")  # what peers warn of is theirs
def test_peers_do_the_same_work(load: Callable[[], Stack]) -> None:
    try:
        stack = load()
    except ImportError as error:
        pytest.skip(f"a peer is not installed: {error}")
    for case in CASES:
        for direction in stack.operations.get(case.name, {}):
            check(case, direction, stack)


def test_the_transfer_carries_100_octets_and_so_does_the_body() -> None:
    assert len(TRANSFER.values["payload"]) == 100
    assert len(MESSAGE.values["body"]) == 100


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


def test_the_table_holds_ratios_against_targets() -> None:
    stacks = [
        Stack("ours", ""),
        Stack("pyamqp", ""),
        Stack("proton", ""),
        Stack("other", "O", is_target=False),
    ]
    timings = {
        "ours": Timing(1.0, 1.0),
        "pyamqp": Timing(1.5, 1.5),
        "proton": Timing(5.9, 5.9),
        "other": Timing(2.0, 2.0),
    }
    lines = report.table([report.Row(FLOW, "decode", timings)], stacks)
    assert ">= 1.5 met" in lines[1]
    assert ">= 6 not met" in lines[1]
    assert lines[-1].strip() == "decode flow, O: 2.00 us, 2.00x"


def test_every_case_and_direction_has_targets() -> None:
    for case in CASES:
        for direction in DIRECTIONS:
            row = report.Row(case, direction, {})
            assert row.target("pyamqp") is not None
            assert row.target("proton") is not None


@pytest.fixture
def only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """No peers, and hardly any time."""

    def missing() -> Stack:
        raise ImportError("no such peer")

    for module in (pyamqp, proton, proton_fields):
        monkeypatch.setattr(module, "load", missing)
    monkeypatch.setattr(pyamqp, "load_text", missing)
    monkeypatch.setattr(program, "QUICK", SHORT)


@pytest.mark.usefixtures("only_ours")
def test_without_peers_it_says_so_and_measures_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--quick"]) == 0
    said = capsys.readouterr().out
    assert said.count("left out: ") == 4
    assert "no peer is installed" in said
    assert all(f"{direction} {case.name}" in said for case in CASES for direction in DIRECTIONS)


@pytest.mark.usefixtures("only_ours")
def test_json_on_standard_output_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--quick", "--case", "flow", "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [(row["case"], row["direction"]) for row in content["rows"]] == [
        ("flow", "decode"),
        ("flow", "encode"),
    ]
    assert set(content["rows"][0]["microseconds"]) == {"ours"}


@pytest.mark.usefixtures("only_ours")
def test_a_wrong_result_ends_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = ours.load()
    stack.operations["flow"]["decode"] = Operation(len, FLOW.octets, lambda size: {"handle": size})
    monkeypatch.setattr(ours, "load", lambda: stack)
    assert program.main(["--quick", "--case", "flow"]) == 1
    assert "wrong result: ours decode flow" in capsys.readouterr().err

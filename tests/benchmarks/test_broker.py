"""What is measured of brokers is right: messages come through each of them, and each figure is a number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

import benchmarks.__main__ as program
from benchmarks import messaging
from benchmarks.broker import rows, scale
from benchmarks.broker.brokers import Running, served
from benchmarks.broker.rows import AT_A_STEADY_RATE, AT_FULL_SPEED, BrokerRow, Effort
from benchmarks.messaging.rounds import Findings, Line
from benchmarks.messaging.stacks import OURS, PROTON, MissingError, Pair, pairs, worker
from benchmarks.messaging.work import Job
from benchmarks.processes import Figure
from benchmarks.stack import WrongResultError

MESSAGES = 1200
"""More than two windows."""


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, Pair]]:
    """The stacks that are installed here, by their keys."""
    with pairs((OURS, PROTON), lambda _: None) as found:
        yield {pair.program.key: pair for pair in found}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    """The brokers in Python that are installed here."""
    store = f"sqlite:{tmp_path_factory.mktemp('broker') / 'store.db'}"
    with ExitStack() as stack:
        found = {
            "memory": stack.enter_context(served("ours", "ours", "memory")),
            "durable": stack.enter_context(served("ours", "ours", store)),
        }
        with suppress(MissingError):
            found["proton"] = stack.enter_context(served("proton", "proton"))
        yield found


@pytest.mark.parametrize("client", ["ours", "proton"])
@pytest.mark.parametrize("key", ["memory", "durable", "proton"])
def test_a_run_through_a_broker_gives_every_number(
    running: dict[str, Running], clients: dict[str, Pair], key: str, client: str
) -> None:
    if key not in running or client not in clients:
        pytest.skip("proton is not installed")
    row = BrokerRow("durable" if key == "durable" else "memory", client, 100)
    for _ in range(2):  # the second one finds an empty queue
        found = rows.run(running[key], clients[client], row, MESSAGES)
        assert all(found[measure.key] > 0 for measure in AT_FULL_SPEED)


def test_a_run_at_a_steady_rate_takes_its_time(running: dict[str, Running], clients: dict[str, Pair]) -> None:
    row = BrokerRow("memory", "ours", 100, is_steady=True)
    found = rows.run(running["memory"], clients["ours"], row, 100)
    assert found["p99"] >= found["p50"] > 0
    assert found["rate"] <= rows.RATE * 1.02  # the last one does not wait
    assert {measure.key for measure in AT_A_STEADY_RATE} <= set(found)


def test_a_message_that_is_left_over_is_found(clients: dict[str, Pair]) -> None:
    row = BrokerRow("memory", "ours", 100)
    with served("ours", "ours") as fresh, worker(OURS) as stranger:
        stranger.do(Job("send", 3, 100, port=fresh.port, address=fresh.address))
        with pytest.raises(WrongResultError, match="message 3 has the body 0000000000000000"):
            rows.run(fresh, clients["ours"], row, 10)


def test_a_broker_is_counted_with_all_that_it_uses(running: dict[str, Running]) -> None:
    ours = running["memory"]
    assert ours.cpu() > 0
    assert ours.peak() >= ours.resident() > 1 << 20


def test_titles_and_facts_tell_rows_apart() -> None:
    steady = BrokerRow("durable", "ours", 100, is_steady=True)
    assert steady.title == "broker durable, 100 B, ours, 1000 msg/s"
    assert steady.facts() == {
        "case": "broker",
        "store": "durable",
        "client": "ours",
        "size": 100,
        "steady": True,
    }
    assert BrokerRow("memory", "proton", 1024).title == "broker memory, 1024 B, proton"


SMALL = scale.Effort(backlog=700, connections=20, queues=50, stuck=600, trips=50, starts=1)


def test_every_figure_of_much_of_everything_is_a_number() -> None:
    found = list(scale.figures(SMALL))
    names = [figure.name for figure in found]
    assert len(set(names)) == len(names)
    speeds = [figure for figure in found if figure.unit in {"ms", "s", "us", "msg/s"}]
    assert all(figure.value > 0 for figure in speeds)
    for about in ("listening", "stalled", "20 connections", "50 queues", "backlog of 700"):
        assert [name for name in names if about in name]


def one_line() -> Findings:
    row = BrokerRow("memory", "ours", 100)
    values = {"ours": 20_000.0, "proton": 4000.0, "rabbitmq": 25_000.0}
    line = Line(row, AT_FULL_SPEED[0], values, {"proton": 5.0, "rabbitmq": 0.8})
    return Findings("Through a broker", [line], {"ours": "A", "proton": "P", "rabbitmq": "R"})


def test_cases_are_chosen_and_full_asks_for_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    efforts: list[scale.Effort] = []

    def figures(effort: scale.Effort) -> Iterator[Figure]:
        efforts.append(effort)
        yield Figure("queues: memory of one", 6.5, "KiB")

    def measure(effort: Effort, say: object) -> Findings:
        return one_line()

    monkeypatch.setattr(scale, "figures", figures)
    monkeypatch.setattr(rows, "measure", measure)
    chosen = ["--case", "broker", "--case", "broker-scale", "--no-processes"]
    assert program.main([*chosen, "--full", "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["broker"]["rows"][0] == {
        **BrokerRow("memory", "ours", 100).facts(),
        "measure": "rate",
        "unit": "msg/s",
        "values": {"ours": 20_000, "proton": 4000, "rabbitmq": 25_000},
        "ratios": {"proton": 5.0, "rabbitmq": 0.8},
        "targets": {"proton": 2.0},
    }
    assert [one["name"] for one in content["processes"]] == ["queues: memory of one"]
    assert program.main([*chosen, "--quick"]) == 0
    assert "broker memory, 100 B, ours" in capsys.readouterr().out
    assert efforts == [scale.FULL, scale.QUICK]


def test_brokers_that_are_not_chosen_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("nobody has asked for this")

    monkeypatch.setattr(rows, "measure", never)
    monkeypatch.setattr(scale, "figures", never)
    monkeypatch.setattr(messaging, "measure_peers", never)
    assert program.main(["--quick", "--case", "transfer", "--no-processes"]) == 0


def test_no_case_of_brokers_has_the_name_of_another() -> None:
    assert not {rows.CASE, scale.CASE} & set(messaging.CASES)

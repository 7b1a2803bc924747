"""The examples of ``docs/testing.md`` run, and print what it says; its tables name what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from amqpforge import pytest_plugin
from amqpforge.broker.queues.counters import Counters
from amqpforge.testing import BrokerQueue, Gate, NodeConnection, Rule, ScriptedBroker, ThreadedBroker

from .plugin import run_pytest

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n((?:(?!```).)*)```\n\nprints\n\n```text\n(.*?)```", DOCUMENT, re.DOTALL)
FIXTURES = re.findall(r"```python\n((?:(?!```).)*def test_\w+\(amqp_(?:(?!```).)*)```", DOCUMENT, re.DOTALL)


def test_there_are_examples() -> None:
    assert (len(EXAMPLES), len(FIXTURES)) == (5, 1)
    assert DOCUMENT.count("```python") == 6


@pytest.mark.parametrize("source", FIXTURES)
def test_the_tests_in_the_document_pass(tmp_path: Path, source: str) -> None:
    output = run_pytest(tmp_path, source, "-q")
    assert re.search(rf"^{source.count('def test_') + 1} passed in", output, re.MULTILINE), output


def test_the_document_names_all_fixtures() -> None:
    table = DOCUMENT.split("## With pytest")[1].split("```python")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert named == {name for name in pytest_plugin.__all__ if name.startswith("amqp_")}


def test_what_the_document_says_of_the_broker_is_there() -> None:
    table = DOCUMENT.split("## The broker")[1].split("So an application")[0]
    for kind in (ScriptedBroker, ThreadedBroker):
        missing = {
            name
            for cell in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
            for name in re.findall(r"`(\w+)", cell)
            if not hasattr(kind, name) and name not in ("script", "frames", "broker")
        }
        assert not missing
    for name in re.findall(r"`(\w+)", table.split("`queue(name)` |")[1].split("\n")[0]):
        assert hasattr(BrokerQueue, name) or hasattr(Counters, name) or name == "len"


@pytest.mark.parametrize(("source", "printed"), EXAMPLES)
def test_an_example_prints_what_the_document_says(source: str, printed: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.stderr == ""
    assert run.stdout == printed


def test_the_actions_in_the_table_are_those_of_a_rule() -> None:
    table = re.split(r"in\s+a\s+chain:|All rules that fit", DOCUMENT)[1]
    named = {
        name
        for cell in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)\(", cell)
    }
    actions = {name for name in vars(Rule) if not name.startswith("_")} - {"cancel", "meet", "do_passage"}
    assert named == actions
    for kind, names in (
        (Gate, "held open let close"),
        (NodeConnection, "send cut stop_reading go_on_reading"),
    ):
        assert all(hasattr(kind, name) and f"`{name}" in DOCUMENT for name in names.split())

"""The examples of ``docs/testing.md`` run, and print what it says; its tables name what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from amqpforge.testing import Gate, NodeConnection, Rule

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", DOCUMENT, re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == DOCUMENT.count("```python") == 4


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

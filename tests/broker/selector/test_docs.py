"""The examples of ``docs/selectors.md`` run and print what it says; its tables name what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from amqpforge.broker.selector import DEFAULT_SELECTOR_LIMITS, Selector
from tests.broker.selector.test_facts import SEEN

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "selectors.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", DOCUMENT, re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == DOCUMENT.count("```python") == 3


@pytest.mark.parametrize(("source", "printed"), EXAMPLES)
def test_an_example_prints_what_the_document_says(source: str, printed: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, check=False, timeout=60
    )
    assert run.stderr == ""
    assert run.stdout == printed


def test_the_names_in_the_table_are_those_of_jms_that_there_are() -> None:
    assert set(re.findall(r"`(JMS\w+)`", DOCUMENT)) == {name for name in SEEN if name.startswith("JMS")}


def test_the_limits_in_the_table_are_the_defaults() -> None:
    told = {
        name: int(bound) for name, bound in re.findall(r"^\| `(\w+)` \| (\d+) \|", DOCUMENT, re.MULTILINE)
    }
    assert told == {
        field.name: getattr(DEFAULT_SELECTOR_LIMITS, field.name) for field in fields(DEFAULT_SELECTOR_LIMITS)
    }


def test_each_literal_and_name_in_the_table_is_one() -> None:
    table = DOCUMENT.partition("| written | is |")[2].partition("\n\n")[0]
    rows = [re.findall(r"`([^`]+)`", row.split(" | ")[0]) for row in table.splitlines()[2:]]
    assert [len(row) for row in rows] == [4, 3, 2, 4, 5, 1, 2]
    for row in rows[:2]:
        assert all(len(Selector(f"{name} IS NULL").names) == 1 for name in row)
    for row in rows[2:]:
        assert all(Selector(f"{literal} = {literal}").admits(lambda _name: None) for literal in row)

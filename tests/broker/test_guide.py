"""The guide to the broker says what happens: its examples are run, and what it names is there."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from amqpforge.broker import QueueSettings

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDE = (DOCS / "broker.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", GUIDE, re.DOTALL)


def test_all_examples_are_run() -> None:
    assert len(EXAMPLES) == GUIDE.count("```python") == 6


@pytest.mark.parametrize(("source", "printed"), EXAMPLES)
def test_an_example_prints_what_the_guide_says(source: str, printed: str) -> None:
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert run.stdout == printed


def test_each_setting_of_a_queue_is_explained() -> None:
    table = GUIDE.partition("| setting | |")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)`", "\n".join(row.split("|")[1] for row in table.splitlines() if row))
    assert sorted(named) == sorted(field.name for field in fields(QueueSettings))


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", GUIDE)
    assert links
    assert not [link for link in links if not (DOCS / link).exists()]

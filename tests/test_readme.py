"""The README says what happens: its tour is run, its commands are given, its links are followed."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from amqpforge.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


TOURS = re.findall(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", README, re.DOTALL)
DECODED = re.findall(r"\$ amqpforge (decode .*?)\n(?=\.\.\.|\$)", README, re.DOTALL)


def test_there_are_tours_and_decoded_captures() -> None:
    assert len(TOURS) == README.count("```python")
    assert (len(TOURS), len(DECODED)) == (3, 2)


@pytest.mark.parametrize(("source", "printed"), TOURS)
def test_a_tour_prints_what_the_readme_says(source: str, printed: str) -> None:
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert run.stdout == printed


@pytest.mark.parametrize("shown", DECODED)
def test_the_decoded_lines_are_those_of_the_capture(shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command, *lines = shown.split("\n")
    monkeypatch.chdir(ROOT)
    stdout = io.StringIO()
    assert main(command.split(), stdout=stdout) == 0
    assert lines
    assert stdout.getvalue().split("\n")[: len(lines)] == lines


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 5
    assert not [link for link in links if not (ROOT / link).exists()]

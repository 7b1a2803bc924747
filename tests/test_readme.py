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


def test_the_tour_prints_what_the_readme_says() -> None:
    source = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    printed = re.search(r"```text\n(.*?)```", README, re.DOTALL)
    assert source is not None
    assert printed is not None
    run = subprocess.run([sys.executable, "-c", source[1]], capture_output=True, text=True, check=True)
    assert run.stdout == printed[1]


def test_the_decoded_lines_are_those_of_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    command, *lines = re.search(r"\$ amqpforge (decode .*?)\n\.\.\.", README, re.DOTALL)[1].split("\n")  # type: ignore[index]
    monkeypatch.chdir(ROOT)
    stdout = io.StringIO()
    assert main(command.split(), stdout=stdout) == 0
    assert lines
    assert stdout.getvalue().split("\n")[: len(lines)] == lines


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 5
    assert not [link for link in links if not (ROOT / link).exists()]

"""The guide to the client says what happens: its examples are run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", GUIDE, re.DOTALL)


def test_all_examples_are_run() -> None:
    assert len(EXAMPLES) == GUIDE.count("```python") == 2


@pytest.mark.parametrize(("source", "printed"), EXAMPLES)
def test_an_example_prints_what_the_guide_says(source: str, printed: str) -> None:
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert run.stdout == printed

"""The guide to the blocking twin says what happens: its example is run."""

from __future__ import annotations

import re
from pathlib import Path

from .scripts import run

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "blocking.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", GUIDE, re.DOTALL)


def test_the_example_prints_what_the_guide_says() -> None:
    assert len(EXAMPLES) == GUIDE.count("```python") == 1
    for source, printed in EXAMPLES:
        ended = run(source)
        assert (ended.output, ended.complaints) == (printed, "")

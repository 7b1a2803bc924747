"""The page on templates, followed to the letter: its files are written, its commands run, its tests pass."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from amqpforge_generator.filters import make_filters
from amqpforge_generator.render import _KEPT_FILTERS
from amqpforge_generator.target import load_target
from amqpforge_templates import target_folder
from tests.generator import model_reference

PAGE = model_reference.PAGE.read_text(encoding="utf-8")
FILES = re.compile(r"^File `([^`]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SESSIONS = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {
    "amqpforge-generate": [sys.executable, "-m", "amqpforge_generator"],
    "python": [sys.executable],
}


def commands() -> Iterator[tuple[list[str], str]]:
    """Every command of the page, and what the page says that it prints."""
    for session in SESSIONS.findall(PAGE):
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            yield shlex.split(line), output


def test_the_page_works_as_it_is_written(tmp_path: Path) -> None:
    for name, text in FILES.findall(PAGE):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    # Nothing of this project is in sight there but its packages.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for words, output in commands():
        command = [*PROGRAMS[words[0]], *words[1:]]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        if words[0] == "amqpforge-generate":
            assert (done.stdout, done.stderr) == (output, "")
        else:
            assert "2 passed" in done.stdout
    header = (tmp_path / "build" / "include" / "amqp_1_0.h").read_text(encoding="utf-8")
    excerpts = re.findall(r"^```c\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert excerpts
    assert all(excerpt in header for excerpt in excerpts)


def test_the_example_is_as_short_as_it_says() -> None:
    lines = [
        line
        for name, text in FILES.findall(PAGE)
        if name.startswith("c-header/")
        for line in text.split("\n")
    ]
    assert len([line for line in lines if line.strip()]) <= 42


def test_the_model_is_described_from_its_own_docstrings() -> None:
    assert model_reference.page(PAGE) == PAGE
    assert not model_reference.missing()


def test_every_filter_is_listed() -> None:
    known = {*make_filters(load_target(target_folder("python"))), *_KEPT_FILTERS}
    listed = set(re.findall(r"[a-z_]+", PAGE[PAGE.index("## Filters") : PAGE.index("## The model")]))
    assert known - {"d"} <= listed


def test_every_key_of_a_target_is_listed() -> None:
    part = PAGE[PAGE.index("## target.toml") : PAGE.index("## Filters")]
    source = Path(load_target.__code__.co_filename).read_text(encoding="utf-8")
    keys = set(
        re.findall(r'\b(?:text|texts|truth|number|one_of|pairs|path|file|name|table|tables)\("(\w+)"', source)
    )
    assert len(keys) > 30
    assert not {key for key in keys if key not in part}

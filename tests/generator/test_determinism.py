"""The same inputs give the same octets, whatever the hash seed, locale, folder, time zone and processes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.generator.forging import GO, GOLDEN, SPEC, run_process, tree

RUNS = {
    "seed 0, one process": ({"PYTHONHASHSEED": "0", "LC_ALL": "C", "PYTHONUTF8": "0"}, ["--jobs", "1"]),
    "seed 1, two processes": (
        {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "Pacific/Kiritimati"},
        ["--jobs", "2"],
    ),
    "seed 2, as many processes as processors": (
        {"PYTHONHASHSEED": "2", "LC_ALL": "tr_TR.UTF-8", "TZ": "UTC"},
        [],
    ),
}

FORMATTED = """\
name = "formatted"
output = "formatted"

[[render]]
template = "module.py.j2"
each = "module"
path = "{dialect}/{module}.py"

[format]
tool = "black"
suffixes = [".py"]
versions = ["py311"]

[text.docstring]
first = '\"\"\"'
prefix = ""
close = '\"\"\"'
escapes = [['\\', '\\\\'], ['\"\"\"', '\\\"\\\"\\\"']]
end_escapes = [['\"', '\\\"']]
"""

# Long enough in all that the formatter is given to several processes.
MODULE = """\
{% for number in range(60) %}
def f{{ number }}( a , b ):
    {{ module.doc | docstring(4) }}
    names = [ {% for type in module.types %}{{ type.name | quote }},{% endfor %} ]
    return {"names": names, 'number': {{ number }} }
{% endfor %}
"""


@pytest.fixture(scope="module")
def formatted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formatted")
    (folder / "target.toml").write_text(FORMATTED, encoding="utf-8")
    (folder / "module.py.j2").write_text(MODULE, encoding="utf-8")
    return folder


def trees(tmp_path: Path, *arguments: str | Path) -> list[dict[str, bytes]]:
    found: list[dict[str, bytes]] = []
    for number, (variables, options) in enumerate(RUNS.values()):
        cwd = tmp_path / f"from {number}"
        cwd.mkdir()
        out = tmp_path / f"out {number}"
        result = run_process(*arguments, "--out", out, *options, cwd=cwd, **variables)
        assert result.code == 0, result.err
        found.append(tree(out))
    return found


@pytest.mark.parametrize("target", ["plain", "go"])
def test_golden_targets_come_out_the_same(tmp_path: Path, target: str) -> None:
    first, *others = trees(tmp_path, "--spec", SPEC, "--templates", GOLDEN / target)
    assert len(first) > 8
    assert all(other == first for other in others)


def test_formatted_output_comes_out_the_same(tmp_path: Path, formatted: Path) -> None:
    first, *others = trees(tmp_path, "--spec", SPEC, "--templates", formatted)
    assert sum(map(len, first.values())) > 60_000
    assert b"def f59(a, b):" in first["formatted/bits/bits.py"]
    assert all(other == first for other in others)


@pytest.mark.parametrize("target", ["python", "spark", "markdown"])
def test_shipped_targets_come_out_the_same_and_know_no_place(tmp_path: Path, target: str) -> None:
    first, *others = trees(tmp_path, "--target", target)
    assert len(first) > 10
    assert all(other == first for other in others)
    for contents in first.values():
        assert str(Path.cwd()).encode() not in contents
        assert str(tmp_path).encode() not in contents


def test_the_place_of_definitions_and_targets_does_not_show(tmp_path: Path) -> None:
    """Copies of the definitions and the target elsewhere give the same octets, the manifest included."""
    shutil.copytree(SPEC, tmp_path / "copy of spec")
    shutil.copytree(GO, tmp_path / "copy of target")
    found: list[dict[str, bytes]] = []
    for number, (spec, target) in enumerate(
        [(SPEC, GO), (tmp_path / "copy of spec", tmp_path / "copy of target")]
    ):
        out = tmp_path / f"out {number}"
        result = run_process("--spec", spec, "--templates", target, "--out", out, cwd=tmp_path)
        assert result.code == 0, result.err
        found.append(tree(out, manifests=True))
    assert "go/.manifest-go.json" in found[0]
    assert found[0] == found[1]

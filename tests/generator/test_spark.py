"""The Spark target: golden files of tiny definitions, and the names that it shares with the python target."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import amqpforge_templates
from amqpforge_generator.target import load_target
from tests.generator.forging import GOLDEN, SPEC, run, tree

UPDATE = "AMQPFORGE_UPDATE_GOLDEN"
EXPECTED = GOLDEN / "expected" / "spark"
DIALECTS = ("bits", "choices", "composite", "flags")


def rendered(root: Path, *dialects: str) -> dict[str, bytes]:
    """What the target makes of definitions, without what it copies and what is about no dialect."""
    for dialect in dialects:
        result = run("--spec", SPEC, "--dialect", dialect, "--target", "spark", "--out", root)
        assert (result.code, result.err) == (0, "")
    found = tree(root / "generated" / "amqpforge_spark")
    return {path: data for path, data in found.items() if path.split("/")[0] in dialects}


def test_golden_files(tmp_path: Path) -> None:
    """Structs, choices, methods, contents and commands; ``AMQPFORGE_UPDATE_GOLDEN=1`` renews the files."""
    found = rendered(tmp_path, *DIALECTS)
    if os.environ.get(UPDATE):
        shutil.rmtree(EXPECTED, ignore_errors=True)
        for path, data in found.items():
            (EXPECTED / path).parent.mkdir(parents=True, exist_ok=True)
            (EXPECTED / path).write_bytes(data)
    wanted = tree(EXPECTED)
    assert sorted(found) == sorted(wanted)
    for path, data in wanted.items():
        assert found[path].decode() == data.decode(), path


@pytest.mark.parametrize("dialect", ["hostile", "primitives", "tables"])
def test_a_dialect_without_fields_has_no_struct(tmp_path: Path, dialect: str) -> None:
    assert {Path(path).name for path in rendered(tmp_path, dialect)} == {"__init__.py"}


def test_a_type_that_would_contain_itself_is_a_value_of_any_type(tmp_path: Path) -> None:
    schema = rendered(tmp_path, "composite")["composite/schema.py"].decode()
    assert 'StructField("result", TAGGED)' in schema


def test_names_are_those_of_the_python_target() -> None:
    """The rendered package imports the classes of the other one by their names."""
    python, spark = (load_target(amqpforge_templates.target_folder(name)) for name in ("python", "spark"))
    assert spark.names == python.names
    assert (spark.literals, spark.docstring, spark.comment) == (
        python.literals,
        python.docstring,
        python.comment,
    )

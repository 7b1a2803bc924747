"""The command line: what it says, to whom, and with which exit code."""

from __future__ import annotations

import builtins
import io
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from amqpforge_generator.cli import main
from amqpforge_templates import target_names
from tests.generator.forging import PLAIN, SPEC, TARGET, Workshop, make_workshop, run, run_process, tree


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return make_workshop(tmp_path)


def test_render_is_the_default_command(shop: Workshop) -> None:
    assert shop.run().out == "tiny: 3 files written\n"
    named = run("render", "--spec", shop.spec, "--templates", shop.target, "--out", shop.folder)
    assert (named.code, named.out, named.err) == (0, "tiny: up to date\n", "")


def test_check_names_what_is_missing_and_the_command_that_mends_it(shop: Workshop) -> None:
    result = shop.run("--check")
    assert result.code == 1
    assert result.out.splitlines() == [
        "missing: out/small/handle.txt",
        "missing: out/small/uint.txt",
        "missing: out/.manifest-tiny.json",
    ]
    command = f"amqpforge-generate render --spec {shop.spec} --templates {shop.target} --out {shop.folder}"
    assert result.err == f"not up to date; mend with: {command}\n"
    assert not shop.out.exists()


def test_check_is_quiet_and_content_when_all_is_well(shop: Workshop) -> None:
    shop.run()
    assert shop.run("--check") == shop.run("--diff")
    assert (shop.run("--check").code, shop.run("--check").out, shop.run("--check").err) == (0, "", "")


def test_check_names_what_differs_and_what_is_left_over(shop: Workshop) -> None:
    shop.run()
    definition = shop.definition.read_text(encoding="utf-8")
    shop.definition.write_text(definition.replace("handle", "alias"), encoding="utf-8")
    before = tree(shop.folder, manifests=True)
    lines = shop.run("--check").out.splitlines()
    assert lines == [
        "missing: out/small/alias.txt",
        "differs: out/small/uint.txt",
        "differs: out/.manifest-tiny.json",
        "left over: out/small/handle.txt",
    ]
    assert tree(shop.folder, manifests=True) == before


def test_diff_prints_a_unified_diff_and_writes_nothing(shop: Workshop) -> None:
    shop.run()
    (shop.target / "type.txt.j2").write_text("type {{ type | class_name }}\n", encoding="utf-8")
    before = tree(shop.out, manifests=True)
    result = shop.run("--diff")
    assert result.code == 1
    lines = result.out.splitlines()
    start = lines.index("--- a/out/small/uint.txt")
    assert lines[start + 1] == "+++ b/out/small/uint.txt"
    assert {"-Uint", "+type Uint"} <= set(lines[start:])
    assert tree(shop.out, manifests=True) == before


def test_diff_shows_what_would_be_removed(shop: Workshop) -> None:
    shop.run()
    shop.definition.parent.rename(shop.spec / "other")
    lines = shop.run("--diff").out.splitlines()
    assert "-Handle" in lines
    assert "+Handle" in lines


@pytest.mark.parametrize("is_rendered", [False, True])
def test_list_names_dialects_targets_and_outputs(shop: Workshop, is_rendered: bool) -> None:
    if is_rendered:
        shop.run()
    result = shop.run("--list")
    assert result.code == 0
    assert result.out.splitlines() == [
        "dialect small",
        "target tiny",
        "  out/small/handle.txt",
        "  out/small/uint.txt",
    ]
    assert shop.out.exists() is is_rendered


def test_a_folder_of_definitions_is_a_dialect_by_itself(shop: Workshop) -> None:
    result = run("--spec", shop.spec / "small", "--templates", shop.target, "--out", shop.folder)
    assert result.code == 0
    assert sorted(tree(shop.out)) == ["small/handle.txt", "small/uint.txt"]


def test_dialects_are_selected_by_name(tmp_path: Path) -> None:
    result = run(
        "--spec", SPEC, "--templates", PLAIN, "--out", tmp_path, "--dialect", "bits", "--dialect", "flags"
    )
    assert result.code == 0
    assert sorted(tree(tmp_path)) == ["bits/bits.txt", "flags/flags.txt"]


def test_an_unknown_dialect_is_answered_with_a_suggestion(shop: Workshop) -> None:
    result = shop.run("--dialect", "smal")
    assert (result.code, result.out) == (1, "")
    assert result.err == f"{shop.spec}: there is no dialect 'smal'; did you mean 'small'?\n"
    assert shop.run("--dialect", "xyz").err.endswith("; there are: small\n")


def test_an_unknown_target_is_answered_with_those_there_are(shop: Workshop) -> None:
    result = run("--target", "cobol", "--out", shop.folder)
    assert result.code == 1
    assert result.err == f"there is no target 'cobol'; there are: {', '.join(target_names())}\n"
    assert {"markdown", "python", "typescript"} <= set(target_names())


def test_a_place_without_definitions_is_an_error(shop: Workshop) -> None:
    result = shop.run("--spec", shop.target)
    assert result.code == 1
    assert "holds no definitions" in result.err


def test_problems_of_definitions_go_to_the_error_stream_one_a_line(shop: Workshop) -> None:
    text = shop.definition.read_text(encoding="utf-8")
    shop.definition.write_text(
        text.replace('source="uint"', 'source="unit"').replace("0x70", "0x7"), encoding="utf-8"
    )
    result = shop.run()
    assert (result.code, result.out) == (1, "")
    lines = result.err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("small/small.xml:") for line in lines)
    assert not shop.out.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-option"],
        ["--check", "--diff"],
        ["--jobs", "0"],
        ["--jobs", "many"],
        ["render", "extra"],
        ["--target"],
    ],
)
def test_wrong_usage_ends_with_2_and_a_word_on_the_error_stream(arguments: Sequence[str]) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert "usage: amqpforge-generate" in result.err


@pytest.mark.parametrize("arguments", [["--help"], ["render", "--help"], ["-h"]])
def test_help_has_examples_and_goes_to_the_output_stream(arguments: Sequence[str]) -> None:
    result = run(*arguments)
    assert (result.code, result.err) == (0, "")
    assert "amqpforge-generate --check" in result.out


def test_the_import_command_is_there() -> None:
    result = run("import", "--help")
    assert result.code == 0
    assert "usage: amqpforge-generate import" in result.out


@pytest.mark.parametrize("package", ["lxml", "jinja2", "black"])
def test_a_missing_package_is_answered_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    toml = TARGET + '\n[format]\ntool = "black"\nsuffixes = [".txt"]\n'
    shop = make_workshop(tmp_path, toml)
    for name in [name for name in sys.modules if name.partition(".")[0] in (package, "amqpforge_generator")]:
        monkeypatch.delitem(sys.modules, name)
    really = builtins.__import__

    def refuse(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> object:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return really(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", refuse)
    result = shop.run()
    assert result.code == 1
    assert result.err == f'{package} is missing; install it with: pip install "amqpforge[codegen]"\n'


def test_the_default_output_root_is_the_project_around_the_working_directory(
    shop: Workshop, tmp_path: Path
) -> None:
    deep = tmp_path / "deep" / "er"
    deep.mkdir(parents=True)
    (tmp_path / "deep" / "pyproject.toml").write_text('[project]\nname = "another"\n', encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "amqpforge"\n', encoding="utf-8")
    result = run_process("--spec", shop.spec, "--templates", shop.target, cwd=deep)
    assert result.code == 0
    assert sorted(tree(shop.out)) == ["small/handle.txt", "small/uint.txt"]


def test_without_a_project_the_output_root_is_the_working_directory(shop: Workshop, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    assert run_process("--spec", shop.spec, "--templates", shop.target, cwd=place).code == 0
    assert sorted(tree(place)) == ["out/small/handle.txt", "out/small/uint.txt"]


def test_what_ships_can_be_rendered_and_listed(tmp_path: Path) -> None:
    result = run("--list", "--target", "markdown", "--out", tmp_path)
    assert result.code == 0
    assert "dialect amqp_1_0" in result.out.splitlines()
    assert "  docs/reference/amqp_1_0/transport/open.md" in result.out.splitlines()


def test_the_module_runs_as_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "amqpforge_generator", "--help"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("usage: amqpforge-generate")


def test_a_reader_that_goes_away_is_no_error(shop: Workshop) -> None:
    class Closed(io.StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError

    err = io.StringIO()
    arguments = [
        "--spec",
        str(shop.spec),
        "--templates",
        str(shop.target),
        "--out",
        str(shop.folder),
        "--list",
    ]
    assert (main(arguments, Closed(), err), err.getvalue()) == (0, "")

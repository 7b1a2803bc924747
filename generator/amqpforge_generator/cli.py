"""The command ``amqpforge-generate``.

Exit codes: 0 all is well, 1 problems or (with ``--check`` and ``--diff``) differences, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from amqpforge_generator.build import Plan, Request
    from amqpforge_generator.write import Changes

_COMMANDS = ("render", "import")
_PROJECT = "amqpforge"
_NEEDED = frozenset({"lxml", "jinja2", "markupsafe", "black"})

_EXAMPLES = """\
examples:
  amqpforge-generate
      render what is stale, from the definitions that ship with amqpforge
  amqpforge-generate --check
      say whether the generated files are up to date, and change nothing
  amqpforge-generate --diff --target python --target markdown
      show what rendering two targets would change
  amqpforge-generate --spec my-spec --templates my-target --out build
      render your own definitions in your own language
  amqpforge-generate import standard.xml -o recovered.xml
      recover definitions from a published document
"""

_RENDER_HELP = """\
Render definitions into source files. Only what is stale is rendered; files that would not change are not
touched; files that are no longer made are removed when they carry the header of a generated file. Nothing is
written unless everything could be rendered, and a file that was not generated is never overwritten.

A target is a folder with templates and a target.toml; --target names one that ships with amqpforge,
--templates is the folder of your own. Output paths of a target are relative to --out.
"""


def main(
    arguments: Sequence[str] | None = None, stdout: TextIO | None = None, stderr: TextIO | None = None
) -> int:
    """Run the command with ``arguments`` (default: those of the process) and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    out: TextIO = stdout or sys.stdout
    err: TextIO = stderr or sys.stderr
    if not words or (words[0] not in _COMMANDS and words[0] not in ("-h", "--help")):
        words.insert(0, "render")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            options = _parser(wants_import=words[0] == "import").parse_args(words)
        if options.command == "import":
            from amqpforge_generator.importer import run_import

            code = run_import(options, out, err)
        else:
            code = _render(options, words, out, err)
        out.flush()
        return code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except BrokenPipeError:
        _drop_output(out)
        return 0
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        err.write(f'{error.name} is missing; install it with: pip install "amqpforge[codegen]"\n')
        return 1


def _drop_output(out: TextIO) -> None:
    """Nobody reads the output any more: keep the interpreter from complaining when it flushes it at exit."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = out.fileno()
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, descriptor)
        os.close(sink)


def _parser(*, wants_import: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="amqpforge-generate",
        description="Turn protocol definitions into source files. Without a command, it renders\n"
        "(its options: amqpforge-generate render --help).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    render = commands.add_parser(
        "render",
        help="render definitions into source files (the default)",
        description=_RENDER_HELP,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_render_arguments(render)
    importing = commands.add_parser("import", help="recover definitions from a published document")
    if wants_import:
        from amqpforge_generator.importer import add_import_arguments

        add_import_arguments(importing)
    return parser


def _add_render_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dialect", action="append", default=[], metavar="NAME", help="only this dialect (may be repeated)"
    )
    parser.add_argument(
        "--spec", type=Path, metavar="DIR", help="folder of dialect folders, or of one dialect's *.xml files"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="NAME",
        help="a shipped target (may be repeated; default: python)",
    )
    which.add_argument("--templates", type=Path, metavar="DIR", help="the folder of your own target")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where output paths start (default: the project's root)"
    )
    parser.add_argument(
        "--jobs",
        type=_count,
        default=0,
        metavar="N",
        help="processes for formatting (default: all processors)",
    )
    parser.add_argument("--force", action="store_true", help="render what is up to date, too")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit 1 and name the files that are not up to date",
    )
    mode.add_argument(
        "--diff", action="store_true", help="write nothing; print the changes as a unified diff"
    )
    mode.add_argument(
        "--list", action="store_true", help="list dialects, targets and output files; write nothing"
    )


def _count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= 256:
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 256")
    return number


def _render(options: argparse.Namespace, words: list[str], stdout: TextIO, stderr: TextIO) -> int:
    from amqpforge_generator.build import forge, survey
    from amqpforge_generator.errors import SpecErrors
    from amqpforge_generator.target import TargetErrors
    from amqpforge_generator.write import apply, describe, diff

    out: Path = (options.out or _project_root(Path.cwd())).absolute()
    try:
        plans = survey(_request(options, out))
        if options.list:
            return _list(plans, out, stdout)
        changes = forge(plans, options.jobs)
        if options.check or options.diff:
            for change in changes:
                stdout.writelines(f"{line}\n" for line in (describe if options.check else diff)(change, out))
            if any(changes):
                mending = [word for word in words if word not in ("--check", "--diff")]
                stderr.write(f"not up to date; mend with: {shlex.join(['amqpforge-generate', *mending])}\n")
            return int(any(changes))
        for plan, change in zip(plans, changes, strict=True):
            apply(change)
            stdout.write(_summary(plan, change))
    except (SpecErrors, TargetErrors) as error:
        stderr.writelines(f"{problem}\n" for problem in error.problems)
        return 1
    return 0


def _summary(plan: Plan, change: Changes) -> str:
    if not change:
        again = ", ".join(unit for unit in plan.stale if unit in plan.folders)
        return (
            f"{plan.target.name}: {again + ' rendered again, nothing differs' if again else 'up to date'}\n"
        )
    removed = f", {len(change.removals)} removed" if change.removals else ""
    number = len(change.writes)
    return f"{plan.target.name}: {number} file{'' if number == 1 else 's'} written{removed}\n"


def _request(options: argparse.Namespace, out: Path) -> Request:
    import amqpforge_spec
    import amqpforge_templates
    from amqpforge_generator.build import Request
    from amqpforge_generator.target import TargetErrors

    shipped = Path(amqpforge_spec.__file__).resolve().parent
    known = amqpforge_templates.target_names()
    names: list[str] = list(dict.fromkeys(options.target or ["python"]))
    unknown = [name for name in names if name not in known]
    if unknown and not options.templates:
        raise TargetErrors(
            *(f"there is no target {name!r}; there are: {', '.join(known)}" for name in unknown)
        )
    named = [amqpforge_templates.target_folder(name) for name in names]
    folders = [options.templates] if options.templates else named
    return Request(
        spec=(options.spec or shipped).absolute(),
        schemas=shipped / "schemas",
        targets=tuple(folder.absolute() for folder in folders),
        out=out,
        dialects=tuple(options.dialect),
        is_forced=options.force,
    )


def _project_root(start: Path) -> Path:
    """The nearest folder from ``start`` upwards with the pyproject.toml of amqpforge; else ``start``."""
    for folder in (start, *start.parents):
        try:
            data = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        project = data.get("project")
        if isinstance(project, dict) and project.get("name") == _PROJECT:
            return folder
    return start


def _list(plans: Sequence[Plan], out: Path, stdout: TextIO) -> int:
    from amqpforge_generator.build import outputs
    from amqpforge_generator.write import shown

    stdout.writelines(f"dialect {name}\n" for name in plans[0].selected if name)
    for plan, paths in zip(plans, outputs(plans), strict=True):
        stdout.write(f"target {plan.target.name}\n")
        stdout.writelines(f"  {shown(plan.root / path, out)}\n" for path in paths)
    return 0

"""Command line of the benchmark.

Numbers are information: the exit status is 0 whether targets are met or not. It is 1 if a stack returned a
wrong result.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import ours, processes, proton, proton_fields, pyamqp, report
from benchmarks.cases import CASES, Case
from benchmarks.stack import Stack, WrongResultError, check
from benchmarks.timing import QUICK, Effort, compare

DIRECTIONS = ("decode", "encode")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Compare speed with two other AMQP stacks."
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer, shorter rounds; no figures of whole processes"
    )
    parser.add_argument(
        "--case", action="append", choices=[case.name for case in CASES], help="only this case"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the figures as JSON, too; - for standard output alone"
    )
    parser.add_argument(
        "--no-processes", action="store_true", help="leave out import, generation and captures"
    )
    return parser


def _stacks(say: Callable[[str], None]) -> list[Stack]:
    stacks = [ours.load()]
    for load in (pyamqp.load, proton.load, pyamqp.load_text, proton_fields.load):
        try:
            stacks.append(load())
        except (ImportError, AttributeError) as error:  # not installed; or its inner modules look different
            say(f"left out: {load.__module__.rpartition('.')[2]}.{load.__name__} ({error})")
    return stacks


def _measure(case: Case, stacks: list[Stack], effort: Effort) -> list[report.Row]:
    rows = []
    for direction in DIRECTIONS:
        able = [stack for stack in stacks if direction in stack.operations.get(case.name, {})]
        for stack in able:
            check(case, direction, stack)
        timings = compare({stack.key: stack.operations[case.name][direction] for stack in able}, effort)
        rows.append(report.Row(case, direction, timings))
    return rows


def _process_figures(say: Callable[[str], None]) -> list[processes.Figure]:
    found: list[processes.Figure] = []
    try:
        for figure in processes.figures():
            say(figure.line())
            found.append(figure)
    except processes.ProcessFailedError as error:
        say(f"not measured: {error}")
    return found


def _quiet(line: str) -> None:
    """Swallow a line: standard output is for JSON alone."""


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    options = _parser().parse_args(arguments)
    say: Callable[[str], None] = _quiet if options.json == "-" else print
    stacks = _stacks(say)
    peers = [f"{stack.key}: {stack.label}" for stack in stacks[1:] if stack.is_target]
    say(f"Python {platform.python_version()}; {'; '.join(peers) or 'no peer is installed'}")
    say("Times of one call; ratio: how many times as long the other stack takes.\n")
    effort = QUICK if options.quick else Effort()
    chosen = [case for case in CASES if not options.case or case.name in options.case]
    try:
        rows = [row for case in chosen for row in _measure(case, stacks, effort)]
    except WrongResultError as error:
        print(f"wrong result: {error}", file=sys.stderr)
        return 1
    rows.sort(key=lambda row: DIRECTIONS.index(row.direction))
    for line in report.table(rows, stacks):
        say(line)
    say("")
    figures = [] if options.quick or options.no_processes else _process_figures(say)
    if options.json:
        _write_json(options.json, report.as_json(rows, stacks, figures))
    return 0


def _write_json(target: str, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

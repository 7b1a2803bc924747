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
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import (
    amqp_0_9_1,
    amqp_0_10_preview,
    amqp_1_0,
    amqp_1_0_draft,
    messaging,
    processes,
    report,
    typescript,
)
from benchmarks.broker import rows, scale
from benchmarks.case import Case
from benchmarks.spark import rows as spark
from benchmarks.spark.findings import Line, as_json
from benchmarks.stack import Stack, WrongResultError, check
from benchmarks.suite import DIRECTIONS, Suite
from benchmarks.timing import QUICK, Effort, compare

SUITES = (amqp_1_0.SUITE, amqp_0_9_1.SUITE, amqp_0_10_preview.SUITE, amqp_1_0_draft.SUITE)

Say = Callable[[str], None]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Compare speed with other AMQP stacks."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer, shorter rounds; no broker, no Spark, no figures of whole processes",
    )
    parser.add_argument(
        "--case",
        action="append",
        choices=[
            *(case.name for suite in SUITES for case in suite.cases),
            *messaging.CASES,
            rows.CASE,
            scale.CASE,
            typescript.CASE,
            spark.CASE,
        ],
        help="only this case",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="broker-scale with a million messages, 1,000 connections, 10,000 queues: some minutes more",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the figures as JSON, too; - for standard output alone"
    )
    parser.add_argument(
        "--no-processes", action="store_true", help="leave out imports, generation and captures"
    )
    return parser


def _stacks(suite: Suite, say: Say) -> list[Stack]:
    stacks = [suite.load()]
    for load in suite.peers:
        try:
            stacks.append(load())
        except (ImportError, AttributeError) as error:  # not installed; or its inner modules look different
            say(f"left out: {load.__module__.removeprefix('benchmarks.')}.{load.__name__} ({error})")
    peers = [stack.label for stack in stacks[1:] if stack.is_target]
    if suite.peers:
        say(f"{suite.dialect}: {'; '.join(peers) or 'no peer is installed'}")
    return stacks


def _measure(case: Case, suite: Suite, stacks: list[Stack], effort: Effort) -> list[report.Row]:
    """The rows of one case, after a check of everything that any stack does with it.

    Raises:
        WrongResultError: a stack returned a wrong result.
    """
    for stack in stacks:
        for direction in stack.operations.get(case.name, {}):
            check(case, direction, stack)
    rows = []
    for direction in DIRECTIONS:
        operations = {
            stack.key: stack.operations[case.name][direction]
            for stack in stacks
            if direction in stack.operations.get(case.name, {})
        }
        if "ours" in operations:
            targets = suite.targets.get((case.kind, direction), {})
            rows.append(report.Row(case, direction, compare(operations, effort), targets))
    return rows


def _tables(chosen: list[str] | None, effort: Effort, say: Say) -> list[report.Table]:
    tables = []
    for suite in SUITES:
        cases = [case for case in suite.cases if not chosen or case.name in chosen]
        if cases:
            stacks = _stacks(suite, say)
            rows = [row for case in cases for row in _measure(case, suite, stacks, effort)]
            rows.sort(key=lambda row: DIRECTIONS.index(row.direction))
            tables.append(report.Table(suite.dialect, rows, stacks))
    return tables


def _findings(chosen: list[str] | None, is_quick: bool, say: Say) -> messaging.Findings | None:
    """What whole peers do; None if they are not asked for, or one broke, which is said."""
    kinds = [name for name in chosen or () if name in messaging.CASES]
    if chosen and not kinds:
        return None
    effort = messaging.QUICK if is_quick else messaging.Effort()
    try:
        findings = messaging.measure_peers(kinds, effort, say)
    except messaging.ChildError as error:
        say(f"not measured: {error}")
        return None
    for line in [*messaging.lines(findings), ""]:
        say(line)
    return findings


def _through_brokers(chosen: list[str] | None, is_quick: bool, say: Say) -> messaging.Findings | None:
    """Messages through brokers; None if that is not asked for, or one broke, which is said."""
    if rows.CASE not in chosen if chosen else is_quick:
        return None
    try:
        findings = rows.measure(rows.QUICK if is_quick else rows.Effort(), say)
    except messaging.ChildError as error:
        say(f"not measured: {error}")
        return None
    for line in [*messaging.lines(findings), ""]:
        say(line)
    return findings


def _scale(
    chosen: list[str] | None, effort: scale.Effort, is_quick: bool, say: Say
) -> list[processes.Figure]:
    """What much of everything costs our broker, as far as that is asked for; if it breaks, that is said."""
    found: list[processes.Figure] = []
    if scale.CASE not in chosen if chosen else is_quick:
        return found
    try:
        for figure in scale.figures(effort):
            say(figure.line())
            found.append(figure)
    except messaging.ChildError as error:
        say(f"not measured: {error}")
    say("")
    return found


def _on_spark(chosen: list[str] | None, is_quick: bool, say: Say) -> list[Line]:
    """What Spark does, as far as that is asked for; if it breaks, that is said."""
    if spark.CASE not in chosen if chosen else is_quick:
        return []
    found: list[Line] = []
    try:
        for line in spark.measure(spark.QUICK if is_quick else spark.Effort(), say):
            say(line.text())
            found.append(line)
    except messaging.ChildError as error:
        say(f"not measured: {error}")
    say("")
    return found


def _process_figures(say: Say) -> list[processes.Figure]:
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
    say: Say = _quiet if options.json == "-" else print
    say(f"Python {platform.python_version()}")
    try:
        tables = _tables(options.case, QUICK if options.quick else Effort(), say)
        _show(tables, say)
        scripted = typescript.measure(options.case, options.quick, say)
        findings = _findings(options.case, options.quick, say)
        through = _through_brokers(options.case, options.quick, say)
        effort = scale.Effort()
        if options.full or options.quick:
            effort = scale.FULL if options.full else scale.QUICK
        figures = _scale(options.case, effort, options.quick, say)
        on_spark = _on_spark(options.case, options.quick, say)
    except WrongResultError as error:
        print(f"wrong result: {error}", file=sys.stderr)
        return 1
    if not options.quick and not options.no_processes:
        figures += _process_figures(say)
    if options.json:
        content = report.as_json(tables, figures)
        if scripted:
            content["typescript"] = [asdict(row) for row in scripted]
        if findings is not None:
            content["messaging"] = messaging.as_json(findings)
        if through is not None:
            content["broker"] = messaging.as_json(through)
        if on_spark:
            content["spark"] = as_json(on_spark)
        _write_json(options.json, content)
    return 0


def _show(tables: list[report.Table], say: Say) -> None:
    if tables:
        say("Times of one call; ratio: how many times as long the other stack takes.\n")
    for table in tables:
        for line in [*table.lines(), ""]:
            say(line)


def _write_json(target: str, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

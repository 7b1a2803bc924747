"""The ``spec`` mark: checked when tests are collected, recorded while they run.

``@pytest.mark.spec("T-CONN-007")`` says that a test proves a requirement. A mark that names an unknown
requirement, or an item with more than four of them, stops the run before any test.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from tests.conformance.ledger import Requirement, ledger, suggest

#: More ids on one test would make it a claim about everything and a proof of nothing.
MOST_IDS = 4

_PROPERTY = "spec"
_RECORDS = pytest.StashKey[dict[str, dict[str, object]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--spec-report FILE``."""
    group = parser.getgroup("conformance")
    group.addoption(
        "--spec-report",
        metavar="FILE",
        default=None,
        help="write what became of the tests that carry a spec mark, as JSON",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start with an empty record."""
    config.stash[_RECORDS] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse wrong marks, all in one message, and hang the ids on the items that carry right ones."""
    problems: list[str] = []
    for item in items:
        ids, wrong = spec_ids(item, ledger())
        problems += [f"{item.nodeid}: {problem}" for problem in wrong]
        item.user_properties += [(_PROPERTY, identifier) for identifier in ids]
    if problems:
        raise pytest.UsageError("\n".join(["wrong spec marks:", *dict.fromkeys(problems)]))


def spec_ids(item: pytest.Item, known: Mapping[str, Requirement]) -> tuple[list[str], list[str]]:
    """Return the ids that the marks of ``item`` name, in order, and what is wrong with the marks."""
    ids: list[str] = []
    problems: list[str] = []
    for mark in reversed(list(item.iter_markers("spec"))):
        if mark.kwargs or not mark.args:
            problems.append('a spec mark names requirements, as in spec("T-CONN-007")')
        ids += [str(identifier) for identifier in mark.args]
    ids = list(dict.fromkeys(ids))
    problems += [
        f"unknown requirement {identifier!r}{suggest(identifier, known)}"
        for identifier in ids
        if identifier not in known
    ]
    if len(ids) > MOST_IDS:
        problems.append(f"{len(ids)} requirements on one test; at most {MOST_IDS}: {', '.join(ids)}")
    return ids, problems


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note for each marked item whether it passed, failed or was skipped, over its three phases."""
    report = yield
    ids = [str(value) for name, value in item.user_properties if name == _PROPERTY]
    if ids:
        path, line, _ = item.location
        record = item.config.stash[_RECORDS].setdefault(
            item.nodeid,
            {"test": item.nodeid, "file": path, "line": (line or 0) + 1, "ids": ids, "outcome": ""},
        )
        record["outcome"] = _worse(str(record["outcome"]), _outcome(report))
    return report


def _outcome(report: pytest.TestReport) -> str:
    """A phase that passes says something only when it is the call."""
    if report.outcome == "passed":
        return "passed" if report.when == "call" else ""
    return report.outcome


def _worse(one: str, other: str) -> str:
    order = ["", "passed", "skipped", "failed"]
    return max(one, other, key=order.index)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the report that was asked for."""
    file = session.config.getoption("--spec-report")
    if file is not None:
        records = list(session.config.stash[_RECORDS].values())
        Path(file).write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")

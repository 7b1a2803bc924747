"""The account as text for a terminal and as a page of the documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from tests.conformance.account import Account, Record, Status, Tally
from tests.conformance.ledger import Requirement

_HEAD = ("", "rows", "proven", "failed", "waived", "untested", "proven of due")


def table(account: Account) -> str:
    """The table for a terminal: one block a ledger file, one line an area, and the total."""
    lines: list[str] = []
    for file in account.files():
        lines += ["", _line(("ledger " + file.rpartition("/")[2], *_HEAD[1:]))]
        lines += [_line(("  " + tally.label, *_cells(tally))) for tally in account.areas(file)]
        lines.append(_line(("  total", *_cells(account.of_file(file)))))
    lines += ["", _line(("all ledgers", *_cells(account.total())))]
    return "\n".join(lines[1:])


def problems(account: Account) -> list[str]:
    """What makes the run fail: requirements whose tests failed, waivers that are out of date."""
    found: list[str] = []
    for identifier in account.failed:
        tests = sorted({r.test for r in account.records[identifier] if r.outcome == "failed"})
        found.append(f"{identifier} is claimed, and fails: {', '.join(tests)}")
    for identifier in account.stale_waivers:
        test = account.records[identifier][0].function
        found.append(f"{identifier} is waived, yet {test} proves it: take it out of tests/spec_waivers.toml")
    return found


def notes(account: Account) -> list[str]:
    """What a reader should know beside the table."""
    return [
        f"{identifier} is marked, but its tests were skipped: "
        + ", ".join(sorted({r.function for r in account.records[identifier]}))
        for identifier in account.skipped
    ]


def rows_text(rows: Iterable[Requirement]) -> str:
    """Requirements with text and hint, for whoever is about to prove them."""
    return "\n".join(_row_text(row) for row in rows)


def sample_text(seed: str, drawn: list[tuple[Requirement, Record]]) -> str:
    """The marks drawn for review: what each requirement says, and the test that claims it."""
    lines = [f"{len(drawn)} marks drawn with seed {seed!r}; break the code under each test and see it fail:"]
    for number, (row, record) in enumerate(drawn, start=1):
        lines += ["", f"{number:2}. {_row_text(row)}", f"    {record.file}:{record.line} {record.test}"]
    return "\n".join(lines)


def page(account: Account) -> str:
    """The page of the documentation: depends on ledger, waivers and outcomes only."""
    lines = [
        "# Conformance",
        "",
        "Which requirements of the [ledger](../spec/amqpforge_spec/LEDGER.md) a passing test proves.",
        "Written by `make conformance`; do not edit.",
        "",
        *_page_table([(f"`{file}`", account.of_file(file)) for file in account.files()], "Ledger"),
        *_page_row(("**all**", account.total())),
    ]
    for file in account.files():
        lines += ["", f"## {file.rpartition('/')[2].removesuffix('.jsonl')}", ""]
        lines += _page_table([(tally.label, tally) for tally in account.areas(file)], "Area")
        proofs = [row for row in account.ledger.values() if row.file == file and _is_proven(account, row)]
        if proofs:
            lines += ["", "| Requirement | Proven by |", "|---|---|"]
            lines += [f"| {row.id} | {_proofs(account, row)} |" for row in proofs]
    lines += ["", "## Waived", ""]
    reasons: dict[str, list[str]] = {}
    for identifier, reason in account.waivers.reasons.items():
        if account.status[identifier] is Status.WAIVED:
            reasons.setdefault(reason, []).append(identifier)
    lines += [f"- {', '.join(ids)}: {reason}" for reason, ids in reasons.items()] or ["Nothing."]
    return "\n".join(lines) + "\n"


def _is_proven(account: Account, row: Requirement) -> bool:
    return account.status[row.id] is Status.PROVEN


def _proofs(account: Account, row: Requirement) -> str:
    tests = {record.function for record in account.records[row.id] if record.outcome == "passed"}
    return "<br>".join(f"`{test}`" for test in sorted(tests))


def _page_table(rows: list[tuple[str, Tally]], title: str) -> list[str]:
    head = [
        f"| {title} | rows | proven | failed | waived | untested | proven of due |",
        "|---|" + "---:|" * 6,
    ]
    return [*head, *(line for row in rows for line in _page_row(row))]


def _page_row(row: tuple[str, Tally]) -> list[str]:
    label, tally = row
    return [f"| {label} | {' | '.join(_cells(tally))} |"]


def _cells(tally: Tally) -> tuple[str, ...]:
    counts = (tally.rows, tally.proven, tally.failed, tally.waived, tally.untested)
    return (*map(str, counts), tally.share)


def _line(cells: tuple[str, ...]) -> str:
    return f"{cells[0]:<28}" + "".join(f"{cell:>9}" for cell in cells[1:-1]) + f"{cells[-1]:>15}"


def _row_text(row: Requirement) -> str:
    head = " ".join(filter(None, (row.id, row.level, row.who and f"({row.who})")))
    body = textwrap.fill(row.text, 105, initial_indent="    ", subsequent_indent="    ")
    hint = textwrap.fill(f"Hint: {row.hint}", 105, initial_indent="    ", subsequent_indent="    ")
    return "\n".join([head, body, hint] if row.hint else [head, body])

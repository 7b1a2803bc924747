"""Run the tests that carry a spec mark, and give account of the requirements they prove.

    python -m tests.conformance [--quiet] [--sample SEED] [--untested] [--prefix X] [--who WHO] [-- ...]

Exit status: 0 when every claimed requirement is proven, 1 when one fails or the run itself did, 2 for a
wrong command line, ledger or list of waivers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tests.conformance import report
from tests.conformance.account import Account, Record
from tests.conformance.ledger import ROOT, WAIVERS, LedgerError, ledger, read_waivers

PAGE = ROOT / "docs" / "conformance.md"

# pytest's exit status when tests failed; the account names them one by one.
_TESTS_FAILED = 1


def main(arguments: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Run the tool; returns the exit status."""
    stream: TextIO = sys.stdout if out is None else out
    options = _parser().parse_args(arguments)
    try:
        known = ledger()
        waivers = read_waivers(WAIVERS, known)
    except LedgerError as error:
        print(f"conformance: {error}", file=stream)
        return 2
    status, records = run_marked(options.pytest, quiet=options.quiet)
    if status not in (0, _TESTS_FAILED):
        print(
            f"conformance: the tests did not run to their end: pytest's exit status was {status}", file=stream
        )
        return 1
    account = Account(known, waivers, records)
    _print_account(account, options, stream)
    found = report.problems(account)
    if status == _TESTS_FAILED and not account.failed:
        found.append("pytest failed outside the marked tests: see its output above")
    for problem in found:
        print(f"conformance: {problem}", file=stream)
    if not found and not options.pytest:
        _write_page(report.page(account), stream)
    return 1 if found else 0


def run_marked(pytest_arguments: Sequence[str], *, quiet: bool) -> tuple[int, list[Record]]:
    """Run the marked tests in a process of their own; returns pytest's exit status and what it recorded.

    Its output goes to standard error, so that standard output holds the account alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "spec.json"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-m",
            "spec",
            "--spec-report",
            str(file),
            "-q",
            *pytest_arguments,
        ]
        ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not quiet or ended.returncode:
            sys.stderr.write(ended.stdout)
            sys.stderr.flush()
        rows = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    records = [
        Record(row["test"], row["file"], row["line"], tuple(row["ids"]), row["outcome"]) for row in rows
    ]
    return ended.returncode, records


def _print_account(account: Account, options: argparse.Namespace, out: TextIO) -> None:
    if not options.quiet:
        print(report.table(account), file=out)
        for note in report.notes(account):
            print(f"note: {note}", file=out)
    if options.untested:
        print(file=out)
        print(report.rows_text(account.untested(options.prefix, options.who)), file=out)
    if options.sample is not None:
        print(file=out)
        print(report.sample_text(options.sample, account.sample(options.sample)), file=out)


def _write_page(text: str, out: TextIO) -> None:
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text, encoding="utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}", file=out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--quiet", action="store_true", help="print problems only, and write the page")
    parser.add_argument(
        "--sample", metavar="SEED", help="draw ten marks for review; the same seed draws the same"
    )
    parser.add_argument("--untested", action="store_true", help="list the rows that nothing proves or waives")
    parser.add_argument(
        "--prefix", action="append", default=[], help="list only ids that start so (repeatable)"
    )
    parser.add_argument("--who", help="list only rows that bind WHO, such as codec")
    parser.add_argument(
        "pytest", nargs="*", help="arguments for pytest, after --; the page is not written then"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

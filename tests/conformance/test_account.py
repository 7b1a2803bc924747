"""From outcomes to status, tables, sample and page."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.conformance import __main__ as tool
from tests.conformance import report
from tests.conformance.account import Account, Record, Status
from tests.conformance.ledger import Requirement, Waivers


def requirement(identifier: str, who: str = "codec") -> Requirement:
    file = f"dialect/requirements/{'000-a' if identifier.startswith('T') else '001-b'}.jsonl"
    return Requirement(
        identifier, file, identifier[:-4], "000", 1, "MUST", who, f"Text of {identifier}.", "A hint."
    )


LEDGER = {i: requirement(i) for i in ("T-HDR-001", "T-HDR-002", "T-HDR-003", "T-CONN-001", "M-BODY-001")}


def record(test: str, outcome: str, *ids: str) -> Record:
    return Record(f"tests/test_x.py::{test}", "tests/test_x.py", 7, ids, outcome)


def account(*records: Record, waived: tuple[str, ...] = (), by_prefix: tuple[str, ...] = ()) -> Account:
    reasons = dict.fromkeys((*waived, *by_prefix), "Not for us.")
    return Account(LEDGER, Waivers(reasons, frozenset(waived)), records)


def test_one_passing_test_proves() -> None:
    assert account(record("test_a", "passed", "T-HDR-001")).status["T-HDR-001"] is Status.PROVEN


def test_one_failing_test_undoes_the_proof_of_another() -> None:
    told = account(record("test_a", "passed", "T-HDR-001"), record("test_b[1]", "failed", "T-HDR-001"))
    assert told.failed == ["T-HDR-001"]
    assert report.problems(told) == ["T-HDR-001 is claimed, and fails: tests/test_x.py::test_b[1]"]


def test_skipped_tests_prove_nothing_and_are_named() -> None:
    told = account(record("test_a[1]", "skipped", "T-HDR-001"), record("test_b", "skipped", "T-HDR-002"))
    assert told.status["T-HDR-001"] is Status.UNTESTED
    assert told.skipped == ["T-HDR-001", "T-HDR-002"]
    assert report.notes(told)[0] == "T-HDR-001 is marked, but its tests were skipped: tests/test_x.py::test_a"


def test_a_skipped_item_takes_nothing_from_one_that_passes() -> None:
    told = account(record("test_a[1]", "skipped", "T-HDR-001"), record("test_a[2]", "passed", "T-HDR-001"))
    assert told.status["T-HDR-001"] is Status.PROVEN
    assert told.skipped == []


def test_a_waiver_by_name_of_what_is_proven_is_a_problem() -> None:
    told = account(record("test_a[x]", "passed", "T-HDR-001"), waived=("T-HDR-001", "T-HDR-002"))
    assert told.status["T-HDR-002"] is Status.WAIVED
    assert report.problems(told) == [
        "T-HDR-001 is waived, yet tests/test_x.py::test_a proves it: take it out of tests/spec_waivers.toml"
    ]


def test_a_waiver_by_prefix_gives_way_to_a_proof() -> None:
    told = account(record("test_a", "passed", "T-HDR-001"), by_prefix=("T-HDR-001", "T-HDR-002"))
    assert told.status["T-HDR-001"] is Status.PROVEN
    assert report.problems(told) == []


def test_the_table_counts_by_file_and_area() -> None:
    told = account(
        record("test_a", "passed", "T-HDR-001"),
        record("test_b", "failed", "T-CONN-001"),
        waived=("T-HDR-002",),
    )
    lines = [line.split() for line in report.table(told).splitlines()]
    assert ["T-HDR", "3", "1", "0", "1", "1", "50.0%"] in lines
    assert ["T-CONN", "1", "0", "1", "0", "0", "0.0%"] in lines
    assert ["total", "4", "1", "1", "1", "1", "33.3%"] in lines
    assert ["all", "ledgers", "5", "1", "1", "1", "2", "25.0%"] in lines


def test_nothing_due_has_no_share() -> None:
    assert account(waived=("M-BODY-001",)).areas("dialect/requirements/001-b.jsonl")[0].share == "-"


def test_untested_rows_by_prefix_and_by_whom_they_bind() -> None:
    told = Account(
        {**LEDGER, "T-CONN-002": requirement("T-CONN-002", "client")}, Waivers({}, frozenset()), []
    )
    assert [row.id for row in told.untested(["T-CONN"], "codec")] == ["T-CONN-001"]
    assert [row.id for row in told.untested(["T-CONN", "M-"])] == ["T-CONN-001", "M-BODY-001", "T-CONN-002"]


def test_the_sample_depends_on_the_seed_alone() -> None:
    records = [
        record(f"test_{n}[{p}]", "passed", "T-HDR-001", "T-HDR-002") for n in range(20) for p in range(3)
    ]
    drawn = account(*records).sample("5")
    assert account(*reversed(records)).sample("5") == drawn
    assert account(*records).sample("6") != drawn
    assert len({(row.id, one.function) for row, one in drawn}) == 10
    text = report.sample_text("5", drawn)
    assert all(row.text in text and one.test in text for row, one in drawn)


def test_the_sample_draws_no_failing_test() -> None:
    assert (
        account(record("test_a", "failed", "T-HDR-001"), record("test_b", "skipped", "T-HDR-002")).sample("1")
        == []
    )


def test_the_page_names_proofs_and_reasons_once() -> None:
    told = account(
        record("test_a[2]", "passed", "T-HDR-001"),
        record("test_a[1]", "passed", "T-HDR-001"),
        waived=("T-HDR-002",),
    )
    page = report.page(told)
    assert "| T-HDR-001 | `tests/test_x.py::test_a` |" in page
    assert "- T-HDR-002: Not for us." in page
    assert "| T-HDR | 3 | 1 | 0 | 1 | 1 | 50.0% |" in page


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[list[Record], Path]:
    records: list[Record] = []
    monkeypatch.setattr(tool, "ledger", lambda: LEDGER)
    monkeypatch.setattr(tool, "read_waivers", lambda *_: Waivers({}, frozenset()))
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "PAGE", tmp_path / "docs" / "conformance.md")

    def run_marked(arguments: list[str], *, quiet: bool) -> tuple[int, list[Record]]:
        no_tests_collected = 5
        failed = any(record.outcome == "failed" for record in records)
        return (int(failed) if records else no_tests_collected), records

    monkeypatch.setattr(tool, "run_marked", run_marked)
    return records, tmp_path / "docs" / "conformance.md"


def test_the_tool_succeeds_and_writes_the_page(run: tuple[list[Record], Path]) -> None:
    records, page = run
    records.append(record("test_a", "passed", "T-HDR-001"))
    out = io.StringIO()
    assert tool.main(["--sample", "3"], out) == 0
    assert "1 marks drawn with seed '3'" in out.getvalue()
    assert "T-HDR-001" in page.read_text(encoding="utf-8")


def test_the_tool_fails_when_a_claim_fails(run: tuple[list[Record], Path]) -> None:
    records, page = run
    records.append(record("test_a", "failed", "T-HDR-001"))
    out = io.StringIO()
    assert tool.main([], out) == 1
    assert "conformance: T-HDR-001 is claimed, and fails: tests/test_x.py::test_a" in out.getvalue()
    assert not page.exists()


def test_the_tool_fails_when_nothing_is_marked(run: tuple[list[Record], Path]) -> None:
    out = io.StringIO()
    assert tool.main([], out) == 1
    assert out.getvalue() == "conformance: the tests did not run to their end: pytest's exit status was 5\n"


def test_a_part_of_the_tests_writes_no_page(run: tuple[list[Record], Path]) -> None:
    records, page = run
    records.append(record("test_a", "passed", "T-HDR-001"))
    assert tool.main(["--", "tests/conformance"], io.StringIO()) == 0
    assert not page.exists()

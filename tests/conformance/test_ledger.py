"""The ledger files and the list of waivers, and how wrong ones are refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.conformance.ledger import WAIVERS, LedgerError, area_of, ledger, read_ledger, read_waivers

ROW = {
    "id": "T-HDR-001",
    "seed": "000",
    "line": 268,
    "level": "MUST",
    "who": "either",
    "text": "A.",
    "test": "B.",
}


def write_ledger(root: Path, *rows: dict[str, object] | str) -> Path:
    folder = root / "dialect" / "requirements"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "000-test.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def test_every_row_is_there() -> None:
    assert Counter(row.seed for row in ledger().values()) == {
        "000": 456,
        "001": 201,
        "002": 274,
        "003": 171,
        "004": 160,
    }


@pytest.mark.parametrize(
    ("identifier", "area"),
    [
        ("T-CONN-007", "T-CONN"),
        ("P-queue.bind/duplicates", "P-queue"),
        ("P-dtx-coordination.commit/internal-error", "P-dtx-coordination"),
        ("P-delivery-tag/non-zero", "P-delivery-tag"),
    ],
)
def test_the_area_of_an_id(identifier: str, area: str) -> None:
    assert area_of(identifier) == area


def test_a_row_is_read_whole(tmp_path: Path) -> None:
    row = read_ledger(write_ledger(tmp_path, ROW))["T-HDR-001"]
    assert (row.file, row.area, row.line, row.level) == (
        "dialect/requirements/000-test.jsonl",
        "T-HDR",
        268,
        "MUST",
    )
    assert (row.who, row.text, row.hint) == ("either", "A.", "B.")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROW, ROW], "000-test.jsonl:2: T-HDR-001 is also in"),
        ([{**ROW, "level": "OUGHT"}], "000-test.jsonl:1: unknown level 'OUGHT'"),
        ([{**ROW, "id": "HDR1"}], "000-test.jsonl:1: 'HDR1' has the form of no requirement id"),
        ([{"id": "T-HDR-001", "level": "MUST"}], "000-test.jsonl:1: the key 'seed' is missing"),
        (["{"], "000-test.jsonl:1: Expecting"),
    ],
)
def test_a_wrong_row_is_refused_with_its_line(
    rows: list[dict[str, object] | str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(LedgerError, match=message.replace("(", r"\(")):
        read_ledger(write_ledger(tmp_path, *rows))


def test_a_folder_without_ledgers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger lies under"):
        read_ledger(tmp_path)


def waive(path: Path, text: str) -> Path:
    file = path / "waivers.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_waivers_by_id_and_by_prefix(tmp_path: Path) -> None:
    text = """
        [[waive]]
        ids = ["T-HDR-001"]
        reason = "one"
        [[waive]]
        prefix = "T-HDR-"
        reason = "all"
        """
    waivers = read_waivers(waive(tmp_path, text), ledger())
    assert waivers.reasons["T-HDR-001"] == "one"
    assert waivers.reasons["T-HDR-002"] == "all"
    assert "T-FRAME-001" not in waivers.reasons
    assert waivers.named == {"T-HDR-001"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[waive]]\nids = ["T-HDR-999"]\nreason = "r"',
            r"waiver 1: the ledger has no T-HDR-999 \(did you mean",
        ),
        ('[[waive]]\nids = ["T-HDR-001"]\nreason = " "', "waiver 1: the reason is empty"),
        ('[[waive]]\nids = ["T-HDR-001"]', "waiver 1: the key 'reason' is missing"),
        ('[[waive]]\nprefix = "T-NONE-"\nreason = "r"', "waiver 1: it names no ids"),
        ('[[waive]]\nprefix = ""\nreason = "r"', "waiver 1: an empty prefix"),
        ('[[waive]]\nid = "T-HDR-001"\nreason = "r"', "waiver 1: unknown key 'id'"),
        ('[[wave]]\nids = ["T-HDR-001"]', "unknown table 'wave'"),
        (
            '[[waive]]\nids = ["T-HDR-001"]\nreason = "r"\n[[waive]]\nids = ["T-HDR-001"]\nreason = "s"',
            "waiver 2: T-HDR-001 is waived before",
        ),
    ],
)
def test_a_wrong_waiver_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=message):
        read_waivers(waive(tmp_path, text), ledger())


def test_the_projects_own_waivers_are_legal() -> None:
    assert all(read_waivers(WAIVERS, ledger()).reasons.values())

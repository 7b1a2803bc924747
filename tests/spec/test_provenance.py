"""The provenance records say where every file comes from, and vouch for the files as they are."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import amqpforge_spec
from amqpforge_spec import provenance

RECORD = """# a word before
[files."a.xml"]
facts = "a document"  # a word beside
prose = "our own"
sha256 = ""

[files."more/b.txt"]
facts = "a document"
prose = "our own"
sha256 = "stale" # kept
"""
SHA256_OF_ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A dialect of two files whose record has no digest for the one and a wrong digest for the other."""
    (tmp_path / "more").mkdir()
    (tmp_path / "a.xml").write_bytes(b"abc")
    (tmp_path / "more" / "b.txt").write_bytes(b"abc")
    record = tmp_path / "PROVENANCE.toml"
    record.write_text(RECORD, "utf-8")
    return record


def test_every_dialect_has_a_record() -> None:
    expected = [amqpforge_spec.dialect_folder(name) / "PROVENANCE.toml" for name in amqpforge_spec.DIALECTS]
    assert provenance.records() == expected


def test_digests_match_the_files() -> None:
    assert [problem for record in provenance.records() for problem in provenance.problems(record)] == []


def test_refresh_renews_digests_and_nothing_else(record: Path) -> None:
    assert provenance.refresh(record)
    expected = RECORD.replace('""', f'"{SHA256_OF_ABC}"').replace("stale", SHA256_OF_ABC)
    assert record.read_text("utf-8") == expected
    assert list(provenance.problems(record)) == []
    assert not provenance.refresh(record)


def test_a_changed_file_is_noticed(record: Path) -> None:
    provenance.refresh(record)
    (record.parent / "a.xml").write_bytes(b"abd")
    assert [problem.split(": ")[1] for problem in provenance.problems(record)] == [
        "a.xml has changed since its digest was taken"
    ]


def test_an_unlisted_file_is_noticed(record: Path) -> None:
    provenance.refresh(record)
    (record.parent / "c.xml").write_bytes(b"")
    assert [problem.split(": ")[1] for problem in provenance.problems(record)] == ["c.xml is not listed"]


def test_a_missing_file_and_missing_words_are_noticed(record: Path) -> None:
    provenance.refresh(record)
    (record.parent / "a.xml").unlink()
    record.write_text(record.read_text("utf-8").replace('prose = "our own"\n', "", 1), "utf-8")
    assert [problem.split(": ")[1] for problem in provenance.problems(record)] == [
        "a.xml has no word on the source of its prose",
        "a.xml is listed, but there is no such file",
    ]


def test_the_command_checks_and_refreshes(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "records", lambda: [record])
    output = io.StringIO()
    assert provenance.main(["--check"], output) == 1
    assert output.getvalue().count("has changed since") == 2
    assert record.read_text("utf-8") == RECORD
    assert provenance.main([], output) == 0
    assert provenance.main(["--check"], output) == 0
    assert output.getvalue().count("digests refreshed") == 1

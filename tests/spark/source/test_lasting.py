"""The broker of the kill tests says why it does not start, and is not waited for without end."""

from __future__ import annotations

from pathlib import Path

import pytest

from .lasting import LastingBroker


def test_a_broker_that_says_nothing_is_ended(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"did not say within 0\.01 s where it listens, .* status -9; "):
        LastingBroker(tmp_path / "broker", "q", patience=0.01)


def test_a_broker_that_cannot_start_has_last_words(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    (folder / "broker.db").write_bytes(b"no database" * 100)
    with pytest.raises(RuntimeError, match=r"(?s)status 1; it said ''; its last words:\n.*broker\.db.*"):
        LastingBroker(folder, "q")

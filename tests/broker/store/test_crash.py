"""A process with a store is killed at any moment: each unit that was done is there whole, none in part."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .units import Content, recover
from .working import unit

WORKER = Path(__file__).with_name("working.py")


def _worker(path: Path, options: dict[str, Any]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(WORKER), str(path), json.dumps(options)], stdout=subprocess.PIPE, bufsize=0
    )


def _work(path: Path, kill_after: int | None = None, **options: Any) -> tuple[int, int]:
    """Let a worker work until it dies, or is killed after so many units.

    Returns:
        The number of its first unit, 0 if it did not come to one; and of the last one that was done.
    """
    first = last = 0
    with _worker(path, options) as worker:
        assert worker.stdout is not None
        seen = 0
        for line in worker.stdout:
            word, number = line.split()
            if word == b"open":
                first, last = int(number), int(number) - 1
            else:
                assert int(number) == last + 1  # in the order of the commits
                last += 1
                seen += 1
            if kill_after is not None and seen >= kill_after:
                worker.kill()
                kill_after = None
    assert worker.returncode == -signal.SIGKILL
    return first, last


class History:
    """What a store holds after so many units of the worker; the units are played once."""

    def __init__(self) -> None:
        self.content = Content()
        self.units = 0

    def check(self, path: Path, done: int, window: int) -> int:
        """A store holds the units up to one, which is between the last done and the last committed."""
        found = asyncio.run(recover(path))
        units: int = found.definitions.get(("progress", "unit"), {"number": 0})["number"]
        assert done <= units <= done + window
        for number in range(self.units + 1, units + 1):
            self.content.take(unit(number))
        self.units = units
        assert found == self.content
        return units


def _rounds(path: Path, count: int, seed: int) -> None:
    chance, history = random.Random(seed), History()
    for _ in range(count):
        window = chance.choice((1, 5, 50))
        first, last = _work(
            path,
            kill_after=chance.randrange(60),
            window=window,
            checkpoint_pages=chance.choice((1, 20, 2000)),
        )
        assert first == history.units + 1
        # What it said between the signal and its end counts too.
        history.check(path, last, window)


def test_killed_at_random_it_holds_what_was_done(tmp_path: Path) -> None:
    _rounds(tmp_path / "store.db", 10, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_many_times_it_holds_what_was_done(tmp_path: Path, seed: int) -> None:
    _rounds(tmp_path / "store.db", 20, seed=100 + seed)


@pytest.mark.parametrize("transactions", [1, 2, 7])
def test_killed_before_the_commit_nothing_of_it_is_there(tmp_path: Path, transactions: int) -> None:
    path = tmp_path / "store.db"
    first, last = _work(path, die="before commit", transactions=transactions, window=1)
    assert (first, last) == (1, transactions - 1)
    assert History().check(path, last, 0) == transactions - 1


@pytest.mark.parametrize("transactions", [1, 2, 7])
def test_killed_after_the_commit_all_of_it_is_there(tmp_path: Path, transactions: int) -> None:
    path = tmp_path / "store.db"
    first, last = _work(path, die="after commit", transactions=transactions, window=1)
    assert (first, last) == (1, transactions - 1)
    assert History().check(path, last, 1) == transactions


@pytest.mark.parametrize("place", [0, 5])
def test_killed_in_its_recovery_it_recovers_the_next_time(tmp_path: Path, place: int) -> None:
    path = tmp_path / "store.db"
    _, last = _work(path, kill_after=20, window=5)
    for _ in range(3):
        assert _work(path, die_in_recovery=place) == (0, 0)
    units = History().check(path, last, 5)
    first, _ = _work(path, kill_after=0)
    assert first == units + 1


@pytest.mark.parametrize("point", ["before the name", "after the name"])
def test_killed_while_it_makes_its_file_it_makes_it_the_next_time(tmp_path: Path, point: str) -> None:
    path = tmp_path / "store.db"
    assert _work(path, die=point) == (0, 0)
    assert path.exists() == (point == "after the name")
    assert _work(path, kill_after=3, window=1)[0] == 1
    assert not path.with_name("store.db.new").exists()
    assert History().check(path, 3, 30) >= 3

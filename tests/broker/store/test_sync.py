"""Below the process: the log is on the disk before a unit is reported as done."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("working.py")
CALL = re.compile(r"^(?P<thread>\d+) +(?P<call>\w+)\((?P<rest>.*)$")
RESUMED = re.compile(r"^(?P<thread>\d+) +<\.\.\. (?P<call>\w+) resumed>(?P<rest>.*)$")
SYNCS = {"fsync", "fdatasync"}


def _trace(folder: Path, synchronous: str) -> list[str]:
    """The calls of a process that commits ten units, one after the other, as strace shows them."""
    if shutil.which("strace") is None:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail("strace is missing: install the package of this name")
        pytest.skip("strace is not installed")
    calls = folder / "calls"
    options = json.dumps({"synchronous": synchronous, "window": 1, "units": 10})
    subprocess.run(
        [
            *("strace", "-f", "-y", "-e", "trace=write,pwrite64,fsync,fdatasync", "-o", calls),
            *(sys.executable, WORKER, folder / "store.db", options),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=60,
    )
    return calls.read_text().splitlines()


def _unsynced(calls: list[str]) -> tuple[list[str], int]:
    """Which reports came before the end of a sync of what the log had by then; and how many came."""
    early: list[str] = []
    reports = written = safe = 0
    under_way: dict[str, int] = {}
    for line in calls:
        if match := RESUMED.match(line):
            if match["call"] in SYNCS and match["thread"] in under_way and match["rest"].endswith("= 0"):
                safe = under_way.pop(match["thread"])
        elif match := CALL.match(line):
            rest = match["rest"]
            if match["call"] == "pwrite64" and "store.db-wal>" in rest:
                written += 1
            elif match["call"] in SYNCS and "store.db-wal>" in rest:
                if rest.endswith("= 0"):
                    safe = written
                else:
                    under_way[match["thread"]] = written
            elif match["call"] == "write" and '"done ' in rest:
                reports += 1
                # Each unit writes: what was safe for the one before is not enough.
                if not written or safe < written:
                    early.append(line)
                written = safe = 0
    return early, reports


def test_a_unit_is_done_only_after_the_log_was_synced(tmp_path: Path) -> None:
    assert _unsynced(_trace(tmp_path, "FULL")) == ([], 10)


def test_without_the_sync_every_report_is_seen_to_be_early(tmp_path: Path) -> None:
    early, reports = _unsynced(_trace(tmp_path, "OFF"))
    assert len(early) == reports == 10

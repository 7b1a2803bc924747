"""The Python processes that a Spark session of these tests has started, and what they need."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

__all__ = ["RECEIVER", "find", "peak"]

RECEIVER = "pyspark.sql.streaming.python_streaming_source_runner"
"""What the command line of the process has that receives for a query."""


def find(name: str) -> list[int]:
    """The descendants of this process with such a command line."""
    parents: dict[int, int] = {}
    fitting: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal():
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(status[1])
                if name in (entry / "cmdline").read_bytes().decode().replace("\0", " "):
                    fitting.append(int(entry.name))
    return [one for one in fitting if _descends(one, parents)]


def _descends(process: int, parents: dict[int, int]) -> bool:
    while process in parents and process != os.getpid():
        process = parents[process]
    return process == os.getpid()


def peak(process: int) -> int:
    """The most octets of memory that a process has had at a time; 0: it is gone."""
    with suppress(OSError):
        found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{process}/status").read_text())
        return int(found[1]) << 10 if found else 0
    return 0

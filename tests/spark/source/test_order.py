"""What the operating system sees: a message is settled only once its segment, and the name of that, are
synced.
"""

from __future__ import annotations

import re
from pathlib import Path

from amqpforge.testing import ThreadedBroker
from tests.broker.tracing import strace

from .child import run
from .scene import publish, until

N = 4
DISPOSITION = r"\x00\x53\x15"


def events(broker: ThreadedBroker, tmp_path: Path, **plan: object) -> list[str]:
    """What a receiver does that has one message under way, in order."""
    publish(broker.url, N)
    calls = tmp_path / "calls"
    spool = tmp_path / "spool"
    traced = (
        "-f",
        "-y",
        "-xx",
        "-s",
        "4096",
        "-e",
        "trace=fsync,rename,sendto,sendmsg,write",
        "-o",
        str(calls),
    )
    given = {"url": broker.url, "address": "q", "spoolLocation": str(spool), "credit": "1"}
    assert run(given, tracer=(*strace(), *traced), **plan) == 0
    until(lambda: len(broker.queue("q")) == 0, "settling")
    found: list[str] = []
    unfinished: dict[str, str] = {}
    for line in calls.read_text().splitlines():
        thread = line.split()[0]
        if "resumed>" in line:
            event = unfinished.pop(thread, None)
        else:
            event = _event(line, spool)
            if event != "disposition" and "<unfinished" in line:
                unfinished[thread], event = event or "", None
        if event:
            found.append(event)
    # The names of links are kept in the folder too, which is synced for that.
    while found and found[0] == "fsync of the folder":
        del found[0]
    while found and found[-1] == "fsync of the folder":
        del found[-1]
    return found


def _event(line: str, spool: Path) -> str | None:
    """What a call means; a disposition counts from its beginning, all else once it is done."""
    plain = re.sub(r"\\x([2-7][0-9a-f])", lambda octet: chr(int(octet[1], 16)), line)
    if "fsync(" in line:
        name = plain[plain.index("<") + 1 : plain.index(">")]
        if name.endswith(".arrow"):
            return "fsync of the segment"
        return "fsync of the folder" if name == str(spool) else None
    if "rename(" in line and re.search(r"\.new-(\d+-1-\d+\.arrow)\".*/\1\"", plain):
        return "rename"
    return "disposition" if DISPOSITION in line else None


ORDER = ["fsync of the segment", "rename", "fsync of the folder", "disposition"]


def test_synced_renamed_synced_settled(broker: ThreadedBroker, tmp_path: Path) -> None:
    assert events(broker, tmp_path) == ORDER * N


def test_a_sync_that_is_left_out_is_found_out(broker: ThreadedBroker, tmp_path: Path) -> None:
    assert events(broker, tmp_path, unsynced=True) == ["rename", "disposition"] * N


def test_settling_too_early_is_found_out(broker: ThreadedBroker, tmp_path: Path) -> None:
    assert events(broker, tmp_path, hasty=True)[0] == "disposition"

"""The bulk capture: a connection with 100,000 messages."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import BULK

CODES = {
    "open": 0x10,
    "begin": 0x11,
    "attach": 0x12,
    "flow": 0x13,
    "transfer": 0x14,
    "disposition": 0x15,
    "detach": 0x16,
    "end": 0x17,
    "close": 0x18,
}


@dataclass(frozen=True, slots=True)
class Bulk:
    """The bulk capture.

    Attributes:
        path: where it is.
        port: the one that has AMQP.
        counts: how many frames it has, by descriptor code.
    """

    path: Path
    port: int
    counts: Mapping[int, int]

    @property
    def frames(self) -> int:
        """How many frames have a performative."""
        return sum(self.counts.values())

    @property
    def by_name(self) -> dict[str, int]:
        """How many frames there are by performative."""
        return {name: self.counts[code] for name, code in CODES.items() if code in self.counts}


def find_bulk() -> Bulk | None:
    """The bulk capture, where AMQPFORGE_MATERIAL has it."""
    material = os.environ.get("AMQPFORGE_MATERIAL")
    path = Path(material or "", BULK)
    if not material or not path.is_file():
        return None
    port = json.loads(path.with_suffix(".streams.json").read_text(encoding="utf-8"))["port"]
    told = json.loads(path.with_suffix(".tshark-counts.json").read_text(encoding="utf-8"))
    return Bulk(path, port, {int(code): count for code, count in told["performative_counts"].items()})

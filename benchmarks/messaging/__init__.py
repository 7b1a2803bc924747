"""Whole peers, a sender and a receiver: messages a second, processor time of one, round trips, memory."""

from __future__ import annotations

from benchmarks.messaging.report import as_json, lines
from benchmarks.messaging.rounds import QUICK, Effort, Findings, measure_peers
from benchmarks.messaging.rows import KINDS
from tests.interop.processes import ChildError

__all__ = ["CASES", "QUICK", "ChildError", "Effort", "Findings", "as_json", "lines", "measure_peers"]

CASES = tuple(kind.case for kind in KINDS)
"""What can be chosen; each is a row, or some of them."""

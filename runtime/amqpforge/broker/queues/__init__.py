"""Queues: they keep messages, and hand them to consumers in turn, whatever dialect these speak."""

from __future__ import annotations

from .consumer import Condition, Consumer
from .counters import Counters
from .entry import Entry
from .hooks import Death, Hooks
from .outcome import ACCEPTED, REJECTED, RELEASED, Outcome, modified
from .priority import level
from .queue import Queue
from .settlement import Settlement

__all__ = [
    "ACCEPTED",
    "REJECTED",
    "RELEASED",
    "Condition",
    "Consumer",
    "Counters",
    "Death",
    "Entry",
    "Hooks",
    "Outcome",
    "Queue",
    "Settlement",
    "level",
    "modified",
]

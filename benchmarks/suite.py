"""What is measured of one dialect: cases, the stacks that handle them, and how they are meant to compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.case import Case
from benchmarks.stack import Stack

DIRECTIONS = ("decode", "encode")
"""What is timed, in the order of the table."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One dialect.

    Attributes:
        dialect: its name, for titles and JSON.
        cases: what is decoded and encoded.
        load: makes our stack; a case has a row for each direction that this stack has.
        peers: make the stacks beside it; one that is not installed raises ImportError.
        targets: by kind of case and direction, how many times as fast as a peer ours is meant to be.
    """

    dialect: str
    cases: tuple[Case, ...]
    load: Callable[[], Stack]
    peers: tuple[Callable[[], Stack], ...] = ()
    targets: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)

"""The record of a slot: what it had in its rounds. It is kept before a row of a round is handed out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from .documents import load_document
from .durable import as_spool_error

if TYPE_CHECKING:
    from .spool import Spool
    from .storage import Storage

__all__ = ["Record", "Round"]

_NAME: Final = "rounds.json"


@dataclass(frozen=True, slots=True)
class Round:
    """What a slot had in a round.

    Attributes:
        number: of the round.
        start: its first segment.
        end: behind its last segment.
        names: theirs.
        twins: rows of them that another slot has, by name: they are left out.
        rows: messages in them, with those that are left out.
        octets: octets of those.
        came: messages that the peer has sent, those that were in the spool before among them.
        was_asked: whether the peer was asked for messages.
        is_dry: whether it had no more.
    """

    number: int
    start: int
    end: int
    names: list[str]
    twins: dict[str, list[int]]
    rows: int
    octets: int
    came: int
    was_asked: bool
    is_dry: bool


@dataclass(slots=True)
class Record:
    """What is known of a slot between two rounds.

    Attributes:
        next: the round that comes next.
        end: the segment that it begins with.
        rounds: those that may be asked for again, and the latest one.
        unconfirmed: the names of segments before ``end`` that the peer may not know to be settled.
        doubts: messages that have to come before none of those are expected again; 0: as many as after a
            loss.
        figures: what was done so far, in numbers that go on counting.
        until: of a slot that leaves, the messages that came to the others of its address when none of the
            unconfirmed ones is expected again; 0: that is not counted.
    """

    next: int
    end: int
    rounds: list[Round]
    unconfirmed: list[str]
    doubts: int
    figures: dict[str, int]
    until: int = 0

    @classmethod
    def new(cls) -> Record:
        """That of a slot that has done nothing yet."""
        return cls(next=0, end=0, rounds=[], unconfirmed=[], doubts=0, figures={})

    @classmethod
    def load(cls, storage: Storage) -> Record | None:
        """The record in the spool in a storage, which another process may have; None: there is none.

        Raises:
            SpoolError: it cannot be read, or is none.
        """
        with as_spool_error(f"reading the record of the slot {storage.location}"):
            return load_document(storage, _NAME, cls)

    def save(self, spool: Spool) -> None:
        """Keep it, for good.

        Raises:
            SpoolError: it is not kept.
        """
        spool.note(_NAME, asdict(self))

    def find(self, number: int) -> Round | None:
        """A round; None: it is not done, or forgotten."""
        return next((one for one in self.rounds if one.number == number), None)

    def names(self, number: int) -> Sequence[str]:
        """The names of the segments of a round; none, if it is not done, or forgotten."""
        done = self.find(number)
        return () if done is None else done.names

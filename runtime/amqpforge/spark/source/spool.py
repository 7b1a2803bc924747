"""The spool: segments on a storage that hold what was taken from the peer until Spark has committed it.

Its files, beside what the storage has for itself:

- ``spool.json``: what this spool is, and the query that it belongs to;
- ``NUMBER-ROWS-OCTETS.arrow``, with the mark of the storage behind it: the segments. Numbers begin with 0,
  have no gaps and are never used twice: the segment with the highest number stays until there is another
  one;
- ``links.json``: the links that the peer may still know from here;
- ``settled.json``: up to which segment the peer has confirmed. It may lag behind, and is not synced.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from .documents import load_document
from .durable import as_spool_error
from .segment import Segment, SpoolError, encode_segment, is_whole

if TYPE_CHECKING:
    import pyarrow as pa

    from .storage import Storage

__all__ = ["Link", "Spool"]

_VERSION: Final = 1
_ABOUT: Final = "spool.json"
_LINKS: Final = "links.json"
_SETTLED: Final = "settled.json"
_LOCK_PATIENCE: Final = 10.0
"""Seconds for which another process may still have a spool: the one of the same query that is just ending."""
_log = logging.getLogger("amqpforge.spark")


@dataclass(frozen=True, slots=True)
class Link:
    """A link that the peer may still know: its name, and the address of its node."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class _About:
    """What a spool says about itself: what was written in it, what tells it from others, and whose it is."""

    version: int
    id: str
    owner: str | None


class Spool:
    """A spool that this process has to itself. All methods may be called from any thread.

    Attributes:
        storage: what holds it.
        location: where that is.
        id: what tells it from other spools.
        owner: the query that it belongs to; None: none yet.
        links: the links that the peer may still know from here.
    """

    def __init__(self, storage: Storage, *, timeout: float = _LOCK_PATIENCE) -> None:
        """Open a spool, or make one.

        Args:
            storage: where; it is made if it is not there, and held until :meth:`close`.
            timeout: seconds to wait for another process that has it.

        Raises:
            SpoolError: it cannot be used, is in use, or something else is there.
        """
        self.storage = storage
        self.location = storage.location
        self._guard = threading.RLock()
        with as_spool_error(f"opening the spool {storage.location}"):
            storage.make()
            self._refuse_strangers()
            try:
                self._load(storage.hold(timeout))
            except BaseException:
                storage.release()
                raise

    def _refuse_strangers(self) -> None:
        names = self.storage.names()
        if _ABOUT in names:
            return
        others = sorted(set(names) - {_LINKS, _SETTLED})
        if others:
            raise SpoolError(
                f"the folder {self.location} is no spool and not empty (it has {others[0]!r:.80}): "
                "give 'spoolLocation' a folder of its own"
            )

    def _load(self, names: Sequence[str]) -> None:
        """Find what is there."""
        found = sorted(filter(None, map(Segment.named, names)), key=lambda segment: segment.number)
        for before, after in pairwise(found):
            if after.number != before.number + 1:
                raise SpoolError(
                    f"the spool {self.location} has the segments {before.number} and {after.number} and not "
                    "those between: someone has deleted what may not have been read"
                )
        about = load_document(self.storage, _ABOUT, _About)
        if about is None:
            about = _About(_VERSION, uuid4().hex, None)
            self.storage.save(_ABOUT, asdict(about))
        elif about.version != _VERSION:
            raise SpoolError(f"the spool {self.location} is of version {about.version}, not {_VERSION}")
        self.id = about.id
        self.owner = about.owner
        self.links = [
            Link(*pair) for pair in load_document(self.storage, _LINKS, list[tuple[str, str]]) or ()
        ]
        told = load_document(self.storage, _SETTLED, int) or 0
        self._drop_torn(found, told)
        self._segments = deque(found)
        self._next = found[-1].number + 1 if found else 0
        self._committed = 0
        self._is_broken = False
        self._unconfirmed = {one.number: None for one in found if one.number >= told}
        self._told_settled = told
        self.octets = sum(one.octets for one in found)
        self.rows = sum(one.rows for one in found)

    def _drop_torn(self, found: list[Segment], settled: int) -> None:
        """Drop the last segment if it was never finished: its messages were not accepted."""
        if not found or not self.storage.may_tear or is_whole(self.storage, found[-1].name):
            return
        torn = found.pop()
        place = self.storage.place(torn.name)
        if torn.number < settled:
            raise SpoolError(f"the segment {place} is damaged, and its messages were settled: restore it")
        _log.warning("the segment %s was never finished, and is deleted: the peer has its messages", place)
        self.storage.delete(torn.name)

    def close(self) -> None:
        """Let another process use it."""
        self.storage.release()

    # --- what is in it --------------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        """The number of the first segment that is there, or of the next one."""
        with self._guard:
            return self._segments[0].number if self._segments else self._next

    @property
    def next(self) -> int:
        """The number of the next segment."""
        return self._next

    def range(self, start: int, end: int) -> list[Segment]:
        """The segments from ``start`` up to, not including, ``end``.

        Raises:
            SpoolError: not all of them are there.
        """
        with self._guard:
            first = self.first
            if start > end or start < first or end > self._next:
                raise SpoolError(
                    f"the spool {self.location} has the segments {first} to {self._next - 1}, and the query "
                    f"asks for {start} to {end - 1}: this is not the spool that the checkpoint goes with, "
                    "or it was emptied"
                )
            return [self._segments[number - first] for number in range(start, end)]

    @property
    def unconfirmed(self) -> Sequence[Segment]:
        """The segments whose messages the peer may not know to be settled, in order."""
        with self._guard:
            return [one for one in self._segments if one.number in self._unconfirmed]

    @property
    def backlog(self) -> tuple[int, int, int]:
        """What Spark has not committed: segments, rows, octets."""
        with self._guard:
            waiting = [one for one in self._segments if one.number >= self._committed]
            return len(waiting), sum(one.rows for one in waiting), sum(one.octets for one in waiting)

    # --- what changes it ------------------------------------------------------------------------------------

    def publish(self, batch: pa.RecordBatch, octets: int) -> Segment:
        """Keep messages: when this returns they survive whatever happens to this process and to the power.

        Args:
            batch: the messages; at least one.
            octets: how many octets they have.

        Raises:
            SpoolError: they are not kept, and must not be settled.
        """
        segment = Segment(self._next, batch.num_rows, octets, self.storage.mark)
        if self._is_broken:
            raise SpoolError(f"the spool {self.location} has failed before: open it again")
        self._is_broken = (
            True  # A file may be there whose name is not safe, and must not get another meaning.
        )
        with as_spool_error(f"writing {segment.rows} messages to the spool {self.location}"):
            self.storage.write(segment.name, encode_segment(batch))
        self._is_broken = False
        with self._guard:
            self._segments.append(segment)
            self._unconfirmed[segment.number] = None
            self._next += 1
            self.octets += segment.octets
            self.rows += segment.rows
        return segment

    def confirm(self, number: int) -> None:
        """The peer knows that the messages of a segment are settled: they do not come again."""
        with self._guard:
            self._unconfirmed.pop(number, None)
            self._sweep()

    def commit(self, end: int) -> None:
        """Spark is through with all segments before ``end``."""
        with self._guard:
            if end > self._committed:
                self._committed = end
                self._sweep()

    def note_settled(self) -> None:
        """Keep up to where the peer has confirmed, for the next process; costs nothing if that is known."""
        with self._guard:
            settled = min(self._unconfirmed, default=self._next)
        if settled != self._told_settled:
            with as_spool_error(f"writing to the spool {self.location}"):
                self.storage.save(_SETTLED, settled, durable=False)
            self._told_settled = settled

    def own(self, query: str) -> None:
        """Make it the spool of a query, for good.

        Raises:
            SpoolError: it belongs to another one.
        """
        self.check_owner(query)
        if self.owner is None:
            self.note(_ABOUT, asdict(_About(_VERSION, self.id, query)))
            self.owner = query

    def check_owner(self, query: str) -> None:
        """See that a query may use it.

        Raises:
            SpoolError: it belongs to another one.
        """
        if self.owner is not None and self.owner != query:
            raise SpoolError(
                f"the spool {self.location} belongs to the query {self.owner}, and this one is {query}: each "
                "query, which means each checkpoint, has a 'spoolLocation' of its own. After a checkpoint "
                "was given up, give the new query a new folder; what the old one still holds was taken "
                "from the peer and is nowhere else"
            )

    def note_links(self, links: Sequence[Link]) -> None:
        """Keep which links the peer may know from here.

        Raises:
            SpoolError: they are not kept: attach none of them.
        """
        if list(links) != self.links:
            self.note(_LINKS, [(link.name, link.address) for link in links])
            self.links = list(links)

    def note(self, name: str, document: object) -> None:
        """Keep a small document beside the segments, for good; ``storage.load`` has it in any process.

        Raises:
            SpoolError: it is not kept.
        """
        with as_spool_error(f"writing to the spool {self.location}"):
            self.storage.save(name, document)

    def _sweep(self) -> None:
        """Delete what nobody needs: committed, confirmed, and not the last one."""
        while len(self._segments) > 1:
            first = self._segments[0]
            if first.number >= self._committed or first.number in self._unconfirmed:
                return
            with as_spool_error(f"deleting from the spool {self.location}"):
                self.storage.sweep(first.name)
            self._segments.popleft()
            self.octets -= first.octets
            self.rows -= first.rows

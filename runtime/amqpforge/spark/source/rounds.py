"""Streams whose receivers are tasks (``receiveOn=executors``): micro-batches are rounds of receiving.

An offset is ``{"query": ..., "next": n}``, as that of :mod:`.stream`, but ``n`` counts rounds, and the name
of the query says so by how it begins. In a round each slot, which is a link to an address, has a task; what
that does is in :mod:`.slot`. The process of the query receives nothing: it asks the nodes what they have, and
begins a round when there is something, or when there may be.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from .node import Node
from .probe import Probe
from .roster import Roster, shares
from .segment import SpoolError
from .slot import SlotPartition, serve
from .stream import ROUNDS, check_place, default_limit, heed_termination, limits

if TYPE_CHECKING:
    import pyarrow as pa

    from .options import ReadOptions
    from .roster import Slot

__all__ = ["AmqpRoundReader"]

_ROWS: Final = 20_000
"""Messages of a slot in a round at most, where no option says so."""
_OCTETS: Final = 32 << 20
"""Octets of them."""
_PAUSE: Final = 0.1
"""Seconds between questions to a peer that had nothing."""


class AmqpRoundReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Spark makes several in several processes: nothing happens before one is asked for
    offsets.

    What is pickled for the tasks has the password, if that is given as such: they connect.
    """

    def __init__(self, options: ReadOptions) -> None:
        """``options``: those of a stream, on executors."""
        self._options = options
        self._roster: Roster | None = None
        self._probe: Probe | None = None
        self._nodes: dict[str, Node] = {}
        self._began: int | None = None
        self._taking: list[str] = []
        self._asked = 0.0
        self._committed = 0
        self._limit: tuple[int | None, int | None] = (options.max_rows, options.max_octets)
        self._once = False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options,)

    # --- in the process of the query ------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query begins that has no checkpoint.

        Raises:
            SpoolError: the spool is that of another query.
        """
        roster = self._open()
        if any(record.next > 1 for record in roster.records.values()):
            roster.spool.check_owner("a new one")
        return {"query": ROUNDS + uuid4().hex, "next": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the round that begins now; ``start``, if there is nothing for one.

        Raises:
            SpoolError: the spool is not the one that the checkpoint goes with.
            AmqpforgeError: the peer was away for too long, or refuses.
        """
        roster = self._open()
        number = self._check(roster, start)
        self._committed = max(self._committed, number)
        self._learn(roster, number)
        taking = self._choose()
        if not taking:
            return start
        now = time.monotonic()
        for address in taking:
            self._nodes[address].begin(now)
        self._began, self._taking, self._limit = number, taking, limits(limit, self._options)
        return {"query": start["query"], "next": number + 1}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit that the options ask for."""
        return default_limit(self._options)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """For the progress of the query: the figures of all slots."""
        roster = self._roster
        if roster is None:
            return None
        done = max((record.next for record in roster.records.values()), default=0)
        return {"next": done, **roster.figures(self._committed)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take what the peer has now, and no more."""
        self._once = True
        self._look(waits=True)
        for node in self._nodes.values():
            node.wanted = node.told or None  # Some tell 0 whatever they have.

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A task for each slot: the same ones whenever a round is asked for.

        Raises:
            SpoolError: the slots cannot be kept, or the spool belongs to another query.
        """
        roster = self._open()
        query, first, last = end["query"], start["next"], end["next"]
        check_place(end, self._options)
        roster.spool.own(query)
        self._committed = max(self._committed, first)
        if first == self._began or not roster.slots:
            if not self._nodes:
                self._look(waits=True)
            roster.plan(first, list(self._nodes), self._options.receivers)
        return [
            roster.partition(slot, query, first, last, share, is_leaving=not self._is_wanted(slot))
            for slot, share in zip(roster.slots, self._shares(roster.slots, first), strict=True)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Spark is through with everything before ``end``."""
        self._committed = max(self._committed, self._check(self._open(), end))

    def stop(self) -> None:
        """End it. Spark does not always call it."""
        probe, self._probe = self._probe, None
        roster, self._roster = self._roster, None
        if probe is not None:
            probe.stop()
        if roster is not None:
            roster.close()

    def _open(self) -> Roster:
        if self._roster is None:
            heed_termination()
            self._roster = Roster(self._options.spool or "")
            self._roster.ask()
            self._probe = Probe(self._options, f"amqpforge-spark-{self._roster.spool.id}")
        return self._roster

    def _check(self, roster: Roster, offset: dict[str, Any]) -> int:
        """The round that an offset names.

        Raises:
            SpoolError: the offset is of another query, or of another spool.
        """
        check_place(offset, self._options)
        number: int = offset["next"]
        if number and roster.spool.owner is None:
            raise SpoolError(
                f"the query is at round {number}, and the spool {roster.location} is new: it is not the one "
                "that the checkpoint goes with, or it was emptied. What it held is lost unless the peer "
                "has it"
            )
        roster.spool.check_owner(offset["query"])
        return number

    # --- whether there is a round to begin ------------------------------------------------------------------

    def _look(self, *, waits: bool) -> bool:
        """Ask the nodes what they have; returns whether the peer was there."""
        self._open()
        told = self._probe.look(waits=waits) if self._probe is not None else None
        for address, count in (told or {}).items():
            self._nodes.setdefault(address, Node()).tell(count)
        return told is not None

    def _learn(self, roster: Roster, number: int) -> None:
        """See what became of the round before, if it began here."""
        if self._began == number - 1:
            self._began = None
            roster.ask()
            found = roster.rounds(number - 1)
            for address in self._taking:
                self._nodes[address].end(found.get(address, ()))
            if any(self._nodes[address].had for address in self._taking):
                self._asked = 0.0

    def _choose(self) -> list[str]:
        """The nodes to take from in a round that begins now; none: there is nothing for one."""
        if self._once:
            return [address for address, node in self._nodes.items() if not node.is_through]
        now = time.monotonic()
        if now - self._asked < _PAUSE or not self._look(waits=False):
            return []
        self._asked = time.monotonic()
        return [address for address, node in self._nodes.items() if node.is_due(now)]

    def _shares(self, slots: Sequence[Slot], number: int) -> list[tuple[int, int]]:
        """Rows and octets for the slots in a round."""
        if number == self._began:
            chosen = {address: self._nodes[address].wanted for address in self._taking}
        else:
            # It began in another process: whatever was not done yet takes what is there.
            chosen = {slot.address: None for slot in slots}
        taking = [slot for slot in slots if slot.address in chosen and self._is_wanted(slot)]
        given = _share_out(taking, chosen, self._limit, self._options.spool_octets, number)
        return [given.get(slot.name, (0, 0)) for slot in slots]

    def _is_wanted(self, slot: Slot) -> bool:
        """Whether the options still ask for a slot: for its address, and for so many of that."""
        address, options = slot.address, self._options
        is_known = any(address == one or fnmatchcase(address, one) for one in options.addresses)
        return is_known and slot.number < options.receivers

    # --- in tasks -------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, which the peer has yet to send if they are not in the spool.

        Raises:
            SpoolError: the spool is of no use.
            AmqpforgeError: the peer was away for too long, or refuses.
        """
        if not isinstance(partition, SlotPartition):
            raise SpoolError(f"{partition!r} is no part of a stream")
        return serve(self._options, partition)


def _share_out(
    taking: Sequence[Slot],
    chosen: Mapping[str, int | None],
    limit: tuple[int | None, int | None],
    most_octets: int,
    turn: int,
) -> dict[str, tuple[int, int]]:
    """Rows and octets for slots, by their names.

    Args:
        taking: those that take something in a round.
        chosen: the addresses to take from, and how many messages of each; None: as many as there are.
        limit: rows and octets of the round at most.
        most_octets: the same, for what the spools may hold.
        turn: whose slots have what does not come out even.
    """
    if not taking:
        return {}
    count = len(taking)
    rows = [_ROWS] * count if limit[0] is None else shares(limit[0], count, turn)
    octets = shares(min(limit[1] or _OCTETS * count, most_octets), count, turn)
    for address, wanted in chosen.items():
        places = [place for place, slot in enumerate(taking) if slot.address == address]
        if wanted is not None:
            for place, share in zip(places, shares(max(wanted, 0), len(places), turn), strict=True):
                rows[place] = min(rows[place], share)
    return {slot.name: (share, max(size, 1)) for slot, share, size in zip(taking, rows, octets, strict=True)}

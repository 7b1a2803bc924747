"""A slot: one link's place among the receivers of a stream that are tasks, with a spool of its own.

In each round a task opens the spool, receives its share into it, and keeps a record of which segments the
round has before it hands out a row. Whoever opens the spool for a round that is in the record serves these
segments again. Segments that are there and in no record are what a task has left that died: they were
accepted, so that they belong to the round that is done now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from .intake import Intake
from .location import inside
from .record import Record, Round
from .segment import SpoolError, decode_segments, read_segment
from .share import Limit
from .siblings import find_twins, one_at_a_time
from .spool import Spool
from .storage import open_storage

if TYPE_CHECKING:
    from .options import ReadOptions
    from .progress import Progress
    from .storage import Storage

    _Others = list[tuple[Storage, Record]]
    """The other slots of an address: where they are, and their records."""

__all__ = ["SlotPartition", "serve", "slot_name"]

_LOCK_PATIENCE: Final = 60.0
"""Seconds for which another task may still have the spool: one that was given up, and is not through."""


@dataclass(frozen=True, slots=True)
class SlotPartition(InputPartition):
    """What a task does for a slot.

    Attributes:
        location: of the spool of the whole stream.
        name: of the slot.
        address: of its node.
        query: what the spool belongs to.
        start: the first round; Spark is through with all before it.
        end: behind the last round.
        since: the first round of the slot.
        siblings: the names of the other slots of the address.
        rows: messages to take in a round at most; 0: none.
        octets: octets of them at most.
        is_leaving: whether the options do not ask for the slot any more: it takes nothing, and is there for
            as long as the peer may send again what it has.
    """

    location: str
    name: str
    address: str
    query: str
    start: int
    end: int
    since: int
    siblings: tuple[str, ...]
    rows: int
    octets: int
    is_leaving: bool


def slot_name(address: str, number: int) -> str:
    """The name of the slot of a receiver of an address: it stays when other addresses come or go."""
    return f"slot-{blake2b(address.encode(), digest_size=8).hexdigest()}-{number}"


def serve(options: ReadOptions, part: SlotPartition) -> Iterator[pa.RecordBatch]:
    """The messages of a slot in rounds: those that it had, or those that the peer has now.

    Raises:
        SpoolError: the spool is of no use, or in use for too long.
        AmqpforgeError: the peer was away for too long, or refuses.
    """
    location = inside(part.location, part.name)
    storage = open_storage(location)
    segments = (
        _without_twins(read_segment(storage, name), done.twins.get(name, ()))
        for done in _rounds(options, part, location)
        for name in done.names
    )
    yield from decode_segments(segments, options.columns)


def _without_twins(batch: pa.RecordBatch, rows: Sequence[int]) -> pa.RecordBatch:
    """A segment without these rows."""
    left_out = set(rows)
    return batch.filter(pa.array([row not in left_out for row in range(batch.num_rows)])) if rows else batch


def _rounds(options: ReadOptions, part: SlotPartition, location: str) -> list[Round]:
    """The rounds of a partition, all of which are in the record when this returns."""
    spool = Spool(open_storage(location), timeout=_LOCK_PATIENCE)
    try:
        record = _open(spool, part, location)
        rounds: list[Round] = []
        for number in range(part.start, part.end):
            done = record.find(number)
            if done is None:
                if number < record.next:
                    raise SpoolError(
                        f"round {number} of the slot {location} is over: the task that asks for it is late"
                    )
                done = _do(options, part, spool, record, number)
            spool.range(done.start, done.end)  # They are there.
            rounds.append(done)
        return rounds
    finally:
        spool.close()


def _open(spool: Spool, part: SlotPartition, location: str) -> Record:
    """See that the spool is the right one, and sweep it.

    Raises:
        SpoolError: it is not.
    """
    spool.own(part.query)
    record = Record.load(spool.storage)
    if record is None:
        record = Record.new()
        if part.since < part.start:
            raise SpoolError(
                f"the query is at round {part.start}, and the slot {location} of {part.address!r} is new: "
                "its folder is not the one that the checkpoint goes with, or it was emptied. What it held is "
                "lost unless the peer has it"
            )
    if record.end > spool.next:
        raise SpoolError(f"the slot {location} has lost segments: it had {record.end} and has {spool.next}")
    for segment in spool.unconfirmed:
        if segment.number < record.end and segment.name not in record.unconfirmed:
            spool.confirm(segment.number)
    kept = [one for one in record.rounds if one.number >= part.start]
    spool.commit(min((one.start for one in kept), default=record.end))
    return record


def _do(options: ReadOptions, part: SlotPartition, spool: Spool, record: Record, number: int) -> Round:
    """Receive the share of a round, and have it in the record.

    Raises:
        SpoolError: the spool does not take it.
        AmqpforgeError: the peer was away for too long, or refuses.
    """
    left = spool.range(record.end, spool.next)
    rows, octets = (sum(one.rows for one in left), sum(one.octets for one in left))
    limit = Limit(part.rows, part.octets).without(rows, octets)
    mine = replace(options, addresses=(part.address,), receivers=1)
    was_whole = not left and not spool.links  # No task has died since.
    before, doubts = spool.next, record.doubts if was_whole else 0
    intake = Intake(mine, spool, once=True, limit=limit, doubts=doubts or None)
    if limit or spool.links:
        asyncio.run(intake.run())
        if intake.error is not None:
            raise intake.error.with_traceback(None)
        doubts = intake.doubts
    came = _Came(
        rows + intake.progress.rows,
        octets + intake.progress.octets,
        was_asked=bool(limit),
        is_dry=intake.is_dry,
        is_sure=not left and intake.progress.connections < 2,
    )
    new = [one for one in spool.unconfirmed if one.number >= before]
    record.doubts = 0 if new else doubts
    with ExitStack() as alone:
        if part.siblings:
            group = part.name.rpartition("-")[0]
            patience = _LOCK_PATIENCE * len(part.siblings)  # All of them may come first.
            alone.enter_context(one_at_a_time(part.location, group, patience))
        places = [open_storage(inside(part.location, name)) for name in part.siblings]
        others = [(place, one) for place in places if (one := Record.load(place)) is not None]
        _count_down(part, spool, record, others, intake.window)
        return _keep(part, spool, record, number, came, intake.progress, others)


def _count_down(part: SlotPartition, spool: Spool, record: Record, others: _Others, window: int) -> None:
    """Have nothing of a slot that leaves expected again, once so many more messages came to the others."""
    if not part.is_leaving:
        record.until = 0
        return
    came = sum(one.figures.get("rows", 0) for _, one in others)
    record.until = record.until or came + window
    if came >= record.until:
        for one in spool.unconfirmed:
            spool.confirm(one.number)


@dataclass(frozen=True, slots=True)
class _Came:
    """What a round has brought.

    Attributes:
        rows: messages that went into the spool, for it.
        octets: octets of those.
        was_asked: see :class:`Round`.
        is_dry: see :class:`Round`.
        is_sure: whether no task has died in it, and no connection was lost.
    """

    rows: int
    octets: int
    was_asked: bool
    is_dry: bool
    is_sure: bool


def _keep(
    part: SlotPartition,
    spool: Spool,
    record: Record,
    number: int,
    came: _Came,
    progress: Progress,
    others: _Others,
) -> Round:
    """Have a round in the record.

    Raises:
        SpoolError: it is not kept, or a segment cannot be read.
    """
    start, end = record.end, spool.next
    names = [one.name for one in spool.range(start, end)]
    unconfirmed = [one.name for one in spool.unconfirmed]
    is_sure = came.is_sure and not set(names).intersection(unconfirmed)
    twins = find_twins(spool.storage, names, others, number, is_sure=is_sure) if names else {}
    dropped = sum(map(len, twins.values()))
    done = Round(
        number=number,
        start=start,
        end=end,
        names=names,
        twins=twins,
        rows=came.rows,
        octets=came.octets,
        came=came.rows + progress.duplicates + progress.rejected,
        was_asked=came.was_asked,
        is_dry=came.is_dry,
    )
    record.rounds = [one for one in record.rounds if one.number >= part.start] + [done]
    record.next, record.end, record.unconfirmed = number + 1, end, unconfirmed
    told = {
        "rows": done.rows,
        "bytes": done.octets,
        "redelivered": progress.redelivered,
        "droppedDuplicates": progress.duplicates + dropped,
        "resumed": progress.resumed,
        "rejected": progress.rejected,
        "connections": progress.connections,
    }
    record.figures = {name: record.figures.get(name, 0) + value for name, value in told.items()}
    record.save(spool)
    return done

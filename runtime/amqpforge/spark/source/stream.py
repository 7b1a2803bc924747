"""``spark.readStream.format("amqp")``: micro-batches of whole segments of the spool.

An offset is ``{"query": ..., "next": n}``: the segments before ``n`` are in earlier batches. Spark compares
offsets as JSON text, so the keys have one order. ``query`` is made up when a query begins, and comes back
from its checkpoint: by it a spool knows the query that it belongs to.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from .segment import SpoolError, decode_segments, read_segment
from .storage import open_storage

if TYPE_CHECKING:
    import pyarrow as pa

    from .live import Live
    from .options import ReadOptions
    from .segment import Segment

__all__ = [
    "ROUNDS",
    "AmqpStreamReader",
    "SegmentPartition",
    "check_place",
    "default_limit",
    "heed_termination",
    "limits",
    "read_segments",
    "split",
]

ROUNDS: Final = "rounds-"
"""What the name of a query begins with whose offsets count rounds (:mod:`.rounds`)."""
_ROWS: Final = 20_000
_OCTETS: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class SegmentPartition(InputPartition):
    """Segments for one task: where the spool is, and their names."""

    location: str
    names: tuple[str, ...]


def split(location: str, segments: Sequence[Segment]) -> list[SegmentPartition]:
    """Segments in their order, in parts that are worth a task each."""
    parts: list[list[Segment]] = []
    rows = octets = 0
    for segment in segments:
        rows += segment.rows
        octets += segment.octets
        if not parts or rows > _ROWS or octets > _OCTETS:
            parts.append([])
            rows, octets = segment.rows, segment.octets
        parts[-1].append(segment)
    return [SegmentPartition(location, tuple(one.name for one in part)) for part in parts]


def read_segments(partition: SegmentPartition, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """These columns of the messages of a partition, in batches of some thousand rows."""
    storage = open_storage(partition.location)
    yield from decode_segments((read_segment(storage, name) for name in partition.names), columns)


def default_limit(options: ReadOptions) -> ReadLimit:
    """The limit of a micro-batch that the options ask for."""
    if options.max_rows is not None:
        return ReadMaxRows(options.max_rows)
    if options.max_octets is not None:
        return ReadMaxBytes(options.max_octets)
    return ReadAllAvailable()


def limits(limit: ReadLimit, options: ReadOptions) -> tuple[int | None, int | None]:
    """Rows and octets of a micro-batch at most; None: there is no limit."""
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows, options.max_octets
    if isinstance(limit, ReadMaxBytes):
        return None, limit.max_bytes
    return None, None


def check_place(offset: dict[str, Any], options: ReadOptions) -> None:
    """See that a checkpoint is one of receivers where they are now.

    Raises:
        SpoolError: it is not.
    """
    was_on_executors = offset["query"].startswith(ROUNDS)
    if was_on_executors != options.on_executors:
        before, now = ("executors", "driver") if was_on_executors else ("driver", "executors")
        raise SpoolError(
            f"the checkpoint is of a query with receiveOn={before}, and cannot go on with {now}: keep that, "
            "or begin with a new checkpoint and a new 'spoolLocation' once all of the spool is in a batch"
        )


def heed_termination() -> None:
    """Have SIGTERM end this process as an exit does: Spark sends it when a query is stopped, and what this
    process holds of the peer's should go back at once.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, frame: object) -> None:
    # Spark sends it twice, one right after the other: the second would cut short what begins here.
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


class AmqpStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Spark makes several in several processes: nothing happens before one is asked for
    offsets.

    What is pickled for the tasks has no password.
    """

    def __init__(self, options: ReadOptions) -> None:
        """``options``: those of a stream."""
        self._options = options
        self._live: Live | None = None
        self._once = False

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options.without_password(), "_live": None, "_once": False}

    # --- in the process of the query ------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query begins that has no checkpoint.

        Raises:
            SpoolError: the spool is that of another query.
        """
        spool = self._receive().spool
        if spool.first > 0 and spool.owner is not None:
            spool.check_owner("a new one")
        return {"query": uuid4().hex, "next": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends; ``start``, if there is nothing for it.

        Raises:
            SpoolError: the spool is not the one that the checkpoint goes with.
            AmqpforgeError: there is nothing, and nothing more comes: why.
        """
        live = self._receive()
        first = self._check(live, start)
        live.spool.commit(first)
        if self._once:
            live.wait_beyond(first)
        end = live.take(first, *limits(limit, self._options))
        if end == first:
            live.check()
            return start
        return {"query": start["query"], "next": end}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit that the options ask for."""
        return default_limit(self._options)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """For the progress of the query: what is in the spool, and the figures of the receiver."""
        live = self._live
        return None if live is None else {"next": live.spool.next, **live.figures()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take what the peer has now, and no more."""
        self._once = True
        self._receive()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The segments of a batch, shared out to tasks: the same ones whenever it is asked for.

        Raises:
            SpoolError: they are not there.
        """
        spool = self._receive().spool
        spool.own(end["query"])
        return split(spool.location, spool.range(start["next"], end["next"]))

    def commit(self, end: dict[str, Any]) -> None:
        """Spark is through with everything before ``end``."""
        live = self._receive()
        live.spool.commit(self._check(live, end))

    def stop(self) -> None:
        """End receiving. Spark does not always call it."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _receive(self) -> Live:
        if self._live is None:
            from .live import Live  # It brings the client, which tasks have no use for.

            heed_termination()
            self._live = Live(self._options, once=self._once)
        return self._live

    def _check(self, live: Live, offset: dict[str, Any]) -> int:
        """The segment that an offset names.

        Raises:
            SpoolError: the offset is of another query, or of another spool.
        """
        check_place(offset, self._options)
        spool = live.spool
        number: int = offset["next"]
        if number and spool.owner is None:
            raise SpoolError(
                f"the query is at segment {number}, and the spool {spool.location} is new: it is not the one "
                "that the checkpoint goes with, or it was emptied. What it held is lost unless the peer "
                "has it"
            )
        spool.check_owner(offset["query"])
        return number

    # --- in tasks -------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition.

        Raises:
            SpoolError: its files are not there, or damaged.
        """
        if not isinstance(partition, SegmentPartition):
            raise SpoolError(f"{partition!r} is no part of a stream")
        return read_segments(partition, self._options.columns)

"""``spark.read.format("amqp")``: what nodes hold just now, as copies; or taken from them into a spool.

Spark runs ``read()`` again for each action, so that what is read must not change by it. A copy leaves
everything where it is. With ``mode=consume`` messages go into the spool first, once for each ``load()``, and
each action reads that.

What connects is imported when it does: tasks that read a spool have no use for the client.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from amqpforge.errors import AmqpforgeError

from .segment import Rows, SpoolError, decode_segments
from .stream import SegmentPartition, read_segments, split

if TYPE_CHECKING:
    import pyarrow as pa

    from .live import Live
    from .options import ReadOptions

__all__ = ["AddressPartition", "AmqpBatchReader"]

_OWNER: Final = "batches"
"""The owner of a spool that batches fill: none that a stream can have."""


@dataclass(frozen=True, slots=True)
class AddressPartition(InputPartition):
    """A node to be copied by one task."""

    address: str


class AmqpBatchReader(DataSourceReader):
    """Reads a batch."""

    def __init__(self, options: ReadOptions) -> None:
        """``options``: those of a batch."""
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """A task for each node; where messages are consumed they are taken now, and tasks read the spool.

        Raises:
            AmqpforgeError: the peer or the spool is of no use, or the spool has not room for all.
        """
        if self._options.consumes:
            return [*self._consume()]
        from .browse import resolve

        return [AddressPartition(address) for address in resolve(self._options)]

    def _consume(self) -> list[SegmentPartition]:
        """Take what there is; what the spool holds from earlier times comes first."""
        from .live import Live

        live = Live(self._options, once=True)
        try:
            live.spool.own(_OWNER)
            while not live.is_over:
                live.wait_beyond(live.spool.next)
                if live.intake.is_held_up:
                    self._refuse_more(live)
            live.check()
            segments = live.spool.range(live.spool.first, live.spool.next)
            location = live.spool.location
            return split(location, segments) or [SegmentPartition(location, ())]
        finally:
            live.stop()

    def _refuse_more(self, live: Live) -> None:
        """The peer has more than there is room for, and a batch makes none.

        Raises:
            SpoolError: always.
        """
        _, rows, octets = live.spool.backlog
        raise SpoolError(
            f"the spool {live.spool.location} has {rows} messages of {octets} octets in all, and the peer "
            f"has more: the option 'spoolMaxBytes' is {self._options.spool_octets}. Give it more; what is in "
            "the spool comes with the next load()"
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition.

        Raises:
            AmqpforgeError: the peer is lost meanwhile, or the spool cannot be read.
        """
        if isinstance(partition, SegmentPartition):
            return read_segments(partition, self._options.columns)
        if not isinstance(partition, AddressPartition):
            raise AmqpforgeError(f"{partition!r} is no part of a batch")
        return self._copy(partition.address)

    def _copy(self, address: str) -> Iterator[pa.RecordBatch]:
        """Copies of the messages of a node, some thousand at a time."""
        from amqpforge.loop_thread import LoopThread

        from .browse import Browser

        thread = LoopThread("amqpforge spark browser")
        browser = Browser(self._options, address)
        try:
            thread.submit(browser.open()).result()
            while (deliveries := thread.submit(browser.some()).result()) is not None:
                rows = Rows()
                now = time.time_ns() // 1000
                for tag, message_format, payload in deliveries:
                    rows.append(address, browser.link, tag, now, message_format, payload)
                if len(rows):
                    yield from decode_segments([rows.batch()], self._options.columns)
        finally:
            thread.submit(browser.close()).result()
            thread.end()

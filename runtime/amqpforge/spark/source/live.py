"""The receiver of one query: a thread with an event loop of its own, and what the query asks of it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from amqpforge.loop_thread import LoopThread

from .intake import Intake, ReceivingFailed
from .spool import Spool
from .storage import open_storage
from .tasks import end_tasks

if TYPE_CHECKING:
    from .options import ReadOptions

__all__ = ["Live"]

_END: Final = 10.0
"""Seconds that closing may take."""


class Live:
    """A spool that is being filled. It works from its making until :meth:`stop`.

    Attributes:
        spool: the spool.
        intake: what fills it.
    """

    def __init__(self, options: ReadOptions, *, once: bool = False) -> None:
        """Open the spool, and begin to receive; whether that succeeds, :meth:`check` tells.

        Args:
            options: what to receive, and where the spool is.
            once: take what the peer has now, and no more.

        Raises:
            SpoolError: the spool cannot be used.
        """
        if options.spool is None:
            raise ReceivingFailed("there is no spool: give the option 'spoolLocation'")
        self._changed = threading.Condition()
        self.spool = Spool(open_storage(options.spool))
        self._thread = LoopThread("amqpforge spark receiver")
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        try:
            self.intake = self._thread.submit(self._begin(options, once)).result()
        except BaseException:
            self.stop()
            raise

    async def _begin(self, options: ReadOptions, once: bool) -> Intake:
        intake = Intake(options, self.spool, once=once, notify=self._notify)
        self._task = asyncio.create_task(intake.run())
        return intake

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def check(self) -> None:
        """See that it goes on.

        Raises:
            AmqpforgeError: why it does not.
        """
        error = self.intake.error
        if error is not None:
            raise error.with_traceback(None)

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes into the spool."""
        return self._task is None or self._task.done()

    def wait_beyond(self, number: int) -> None:
        """Wait until there is a segment with this number or a higher one, or there will be none, or none
        before the spool has room again.

        Raises:
            AmqpforgeError: receiving has failed.
        """
        with self._changed:
            while self.spool.next <= number and not (self.is_over or self.intake.is_held_up):
                self._changed.wait(0.1)
        if self.spool.next <= number:
            self.check()

    def take(self, start: int, max_rows: int | None, max_octets: int | None) -> int:
        """Where a batch ends that begins with the segment ``start``: behind whole segments, one at least if
        there is one, and no more rows and octets than these.
        """
        rows = octets = 0
        end = start
        for segment in self.spool.range(start, self.spool.next):
            rows += segment.rows
            octets += segment.octets
            is_too_much = rows > (max_rows or rows) or octets > (max_octets or octets)
            if is_too_much and end > start:
                break
            end = segment.number + 1
        return end

    def figures(self) -> dict[str, int]:
        """How far it is, for people: counts that go on, and what there is just now."""
        intake, spool = self.intake, self.spool
        segments, rows, octets = spool.backlog
        progress = intake.progress
        return {
            "rows": progress.rows,
            "bytes": progress.octets,
            "spoolSegments": segments,
            "spoolRows": rows,
            "spoolBytes": octets,
            "unsettled": intake.unsettled,
            "redelivered": progress.redelivered,
            "droppedDuplicates": progress.duplicates,
            "resumed": progress.resumed,
            "rejected": progress.rejected,
            "connections": progress.connections,
        }

    def stop(self) -> None:
        """End receiving: what is not in the spool goes back to the peer. May be called again, and at any
        time.

        Raises:
            OperationTimedOut: the storage does not answer. What is written there may come yet, so that the
                spool stays in use as long as this process lives.
        """
        if self._is_stopped:
            return
        self._is_stopped = True
        if self._task is not None and not self._task.done():
            with suppress(NotInTime, CancelledError):
                self._thread.submit(end_tasks([self._task])).result(_END)
        self._thread.end()
        self.spool.close()

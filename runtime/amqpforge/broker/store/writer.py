"""The thread that writes a store: what waits is written in one transaction, so that many share one sync."""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from contextlib import suppress
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from amqpforge.broker.store.changes import Changes, only_removes
from amqpforge.broker.store.file import connect, trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from amqpforge.broker.errors import StoreError
    from amqpforge.broker.store.base import Done, Unit

__all__ = ["Outcomes", "Waiting", "Writer", "pieces"]

Outcomes: TypeAlias = "list[tuple[Done, StoreError | None]]"
"""What is to be called, with what, in this order."""

GROUP_OCTETS = 8 * 1024 * 1024
"""How much is written in one transaction at most, but for a single unit that is larger. Beyond 500 messages
of 1 KiB a group gains nothing; this much takes a tenth of a second."""

KEPT_OPERATIONS = 100_000
"""How many operations of units that only remove, and cannot be written now, are kept for later: 20 MB."""

RETRY_SECONDS = 1.0
"""How long these wait if nothing else is to be written."""

SYNCHRONOUS = "FULL"
"""The log is synced in each transaction: what was reported as done survives the loss of power."""

CHECKPOINT_PAGES = 2000
"""The log goes back into the file at 16 MiB. With 4 MiB single commits were a third slower, as the pages that
all of them touch are copied more often; with 64 MiB nothing was gained, and the longest wait, while it
is copied, was three to five times as long."""

LOG_OCTETS = 64 * 1024 * 1024
"""A log that had to grow is cut back to this. It is not cut to nothing: to write where the file has its
blocks already makes a sync cheaper, and leaves room to remove something when the disk is full."""

CACHE_KIBIBYTES = 16 * 1024
"""The pages that the writer keeps: the upper ones of all tables, and the last of many thousand queues."""

PIECE = 128
"""Rows of the longest statement, a power of two; 128 rows of 7 columns are below the 999 parameters that
every SQLite takes. A statement of many rows is one call without the interpreter's lock instead of one a row:
beside a busy event loop, each of these calls may wait for the lock as long as a whole switch interval."""

_log = logging.getLogger("amqpforge.broker")

Waiting: TypeAlias = "tuple[Unit, Done]"
"""A unit, and what is to be called once it is written."""


def pieces(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Cut rows into pieces whose lengths are powers of two: few different statements serve any number."""
    place, piece = 0, PIECE
    while place < len(rows):
        while piece > len(rows) - place:
            piece //= 2
        yield rows[place : place + piece]
        place += piece


class Writer:
    """Takes units in the loop's thread, and writes them in its own.

    Args:
        path: the store's file, which is there and is one.
        report: takes the outcomes of each group, in the writer's thread.
        ended: called in the writer's thread, once, as its last act.
    """

    def __init__(self, path: Path, report: Callable[[Outcomes], None], ended: Callable[[], None]) -> None:
        self._path = path
        self._report = report
        self._ended = ended
        self._queue: SimpleQueue[list[Waiting] | None] = SimpleQueue()
        self._ready: deque[Waiting] = deque()
        self._connection: sqlite3.Connection | None = None
        self._kept: list[Waiting] = []
        self._closing = False
        self._is_failing = False
        self.must_clean = False
        """Whether the file has entries without messages; set before the first unit is given."""
        Thread(target=self._run, name=f"store {path.name}", daemon=True).start()

    def put(self, units: list[Waiting]) -> None:
        """Units are to be written, in this order; the list belongs to the writer now."""
        self._queue.put(units)

    def stop(self) -> None:
        """End once all is written that was put before."""
        self._queue.put(None)

    # --- in the writer's thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._ready or not self._closing:
                group, changes = self._gather()
                if group or self._kept:
                    self._report(self._settle(group, changes))
            if self._kept:
                error = trouble(self._path, "closed before this could be written", "see the errors before")
                self._report([(done, error) for _, done in self._kept])
        finally:
            self._disconnect()
            self._ended()

    def _gather(self) -> tuple[list[Waiting], Changes]:
        """Wait for a unit, and take all that is there, after what was kept."""
        changes = Changes()
        for unit, _ in self._kept:
            changes.take(unit)
        group: list[Waiting] = []
        limit = changes.octets + GROUP_OCTETS
        ready = self._ready
        while changes.octets < limit and (ready or self._fetch(wait=not group)):
            waiting = ready.popleft()
            group.append(waiting)
            changes.take(waiting[0])
        return group, changes

    def _fetch(self, *, wait: bool) -> bool:
        """Take what the loop has put; False if there is nothing now or no more, or it is time to retry."""
        while not self._ready and not self._closing:
            try:
                units = self._queue.get(block=wait, timeout=RETRY_SECONDS if self._kept else None)
            except Empty:
                return False
            if units is None:
                self._closing = True
            else:
                self._ready.extend(units)
        return bool(self._ready)

    def _settle(self, group: list[Waiting], changes: Changes) -> Outcomes:
        """Write a group, and say what became of each unit that need not be kept."""
        waiting = [*self._kept, *group]
        self._kept = []
        fault = self._write(changes)
        if fault is None:
            if self._is_failing and changes:
                self._is_failing = False
                _log.info("store %s: can be written again", self._path)
            return [(done, None) for _, done in waiting]
        if len(waiting) > 1 and not _is_of_the_file(fault):
            # One unit has what cannot be stored: it fails, and not the others.
            return [outcome for one in waiting for outcome in self._settle_one(one)]
        return self._keep(waiting, fault)

    def _settle_one(self, waiting: Waiting) -> Outcomes:
        changes = Changes()
        changes.take(waiting[0])
        fault = self._write(changes)
        if fault is not None and _is_of_the_file(fault):
            return self._keep([waiting], fault)
        return [(waiting[1], None if fault is None else self._explain(fault))]

    def _keep(self, waiting: list[Waiting], fault: Exception) -> Outcomes:
        """The file takes no more: write what only removes without the rest, or keep it for later."""
        removals = [one for one in waiting if only_removes(one[0])]
        still: Exception | None = fault
        if 0 < len(removals) < len(waiting):
            changes = Changes()
            for unit, _ in removals:
                changes.take(unit)
            still = self._write(changes)  # the log was written back just now: there may be room in it
        error = self._explain(fault)
        if not self._is_failing:
            self._is_failing = True
            _log.error("%s", error)
        outcomes: Outcomes = []
        room = KEPT_OPERATIONS - sum(len(unit.operations) for unit, _ in self._kept)
        for unit, done in waiting:
            if not only_removes(unit):
                outcomes.append((done, error))
            elif still is None:
                outcomes.append((done, None))
            elif len(unit.operations) <= room:
                room -= len(unit.operations)
                self._kept.append((unit, done))
            else:
                outcomes.append((done, error))
        return outcomes

    def _explain(self, fault: Exception) -> StoreError:
        error = trouble(
            self._path, f"cannot be written ({fault})", "see to room on the disk, and that it works"
        )
        error.__cause__ = fault
        return error

    def _write(self, changes: Changes) -> Exception | None:
        """Write all, and sync; or nothing, and say why. No unit may end the thread: others wait for it."""
        if not changes:
            return None
        try:
            connection = self._connection
            if connection is None:
                connection = self._connection = self._connect()
            connection.execute("BEGIN IMMEDIATE")
            _write_changes(connection, changes)
            connection.execute("COMMIT")
        except Exception as error:
            self._undo()
            return error
        return None

    def _connect(self) -> sqlite3.Connection:
        connection = connect(self._path, read_only=False)
        try:
            connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {LOG_OCTETS}")
            connection.execute(f"PRAGMA cache_size = {-CACHE_KIBIBYTES}")
            # Some builds overwrite what is deleted, which is as much to write again.
            connection.execute("PRAGMA secure_delete = OFF")
            if self.must_clean:
                connection.execute(
                    "DELETE FROM entries WHERE NOT EXISTS (SELECT 1 FROM messages WHERE id = entries.message)"
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def _undo(self) -> None:
        """Leave the transaction, and make room in the log; a connection that cannot is given up."""
        connection = self._connection
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._disconnect()
            return
        with suppress(sqlite3.Error):  # it is tried again with each transaction
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _disconnect(self) -> None:
        """Close the connection; if it is the last one, the log goes back into the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _is_of_the_file(fault: Exception) -> bool:
    """Whether the file or the disk is to blame, and not what a unit holds."""
    return isinstance(fault, (sqlite3.OperationalError, MemoryError)) or type(fault) is sqlite3.DatabaseError


def _write_changes(connection: sqlite3.Connection, changes: Changes) -> None:
    """What goes before what changes, and that before what is new: see :mod:`.changes`."""
    gone = [(queue,) for queue in changes.dropped]
    _each(connection, "DELETE FROM entries WHERE queue = ?", gone)
    _each(connection, "DELETE FROM remembered WHERE queue = ?", gone)
    outgrown = list(changes.outgrown.items())
    _each(connection, "DELETE FROM remembered WHERE queue = ? AND number <= ?", outgrown)
    _each(connection, "DELETE FROM definitions WHERE kind = ? AND name = ?", list(changes.undefined))
    # IN (VALUES ...) alone is a scan of the table; from a SELECT the key is looked up.
    pair = "DELETE FROM entries WHERE (queue, message) IN (SELECT * FROM (VALUES {}))"
    _execute(connection, pair, 2, sorted(changes.left))
    forgotten = [(message,) for message in sorted(changes.forgotten)]
    _execute(connection, "DELETE FROM messages WHERE id IN (VALUES {})", 1, forgotten)
    _execute(connection, "DELETE FROM bodies WHERE id IN (VALUES {})", 1, forgotten)
    change = (
        "UPDATE entries SET delivery_count = new.column3, annotations = new.column4 FROM (VALUES {}) AS new"
        " WHERE queue = new.column1 AND message = new.column2"
    )
    _execute(connection, change, 4, [(*place, *new) for place, new in changes.changed.items()])
    _execute(connection, "INSERT INTO messages VALUES {}", 7, changes.messages.values())
    _execute(connection, "INSERT INTO bodies VALUES {}", 2, changes.bodies.items())
    # An entry may be there still, if the unit in which it left could not be written.
    _execute(connection, "INSERT OR REPLACE INTO entries VALUES {}", 5, changes.entries.values())
    _execute(connection, "INSERT OR REPLACE INTO remembered VALUES {}", 3, tuple(changes.remembered))
    _each(
        connection,
        "INSERT INTO definitions (kind, name, data) VALUES (?, ?, ?)"
        " ON CONFLICT (kind, name) DO UPDATE SET data = excluded.data",
        [(*thing, data) for thing, data in changes.defined.items()],
    )


def _each(connection: sqlite3.Connection, statement: str, rows: list[Any]) -> None:
    """Execute a statement for each of the rows, which are few."""
    if rows:
        connection.executemany(statement, rows)


def _execute(connection: sqlite3.Connection, statement: str, width: int, rows: Collection[Any]) -> None:
    """Execute a statement with all rows, ``width`` values each, where its braces are."""
    row = "(" + ", ".join("?" * width) + ")"
    for piece in pieces(list(rows)):
        text = statement.format(", ".join([row] * len(piece)))
        connection.execute(text, list(chain.from_iterable(piece)))

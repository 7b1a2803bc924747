"""A store in one SQLite file: what was reported as done is there however the process or the machine ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amqpforge.broker.store.base import Definition, Recovered, Store
from amqpforge.broker.store.file import TABLES, check_file, connect, lock_file, make_file, trouble
from amqpforge.broker.store.writer import Writer, pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amqpforge.broker.errors import StoreError
    from amqpforge.broker.store.base import Done, StoredEntry, Unit
    from amqpforge.broker.store.writer import Outcomes, Waiting

__all__ = ["SqliteStore"]

_log = logging.getLogger("amqpforge.broker")

_ROWS = 1000
"""How many rows of a recovery are in memory at a time."""

_NAMES = 10_000
"""How many different names of exchanges and keys a recovery makes one object of."""


class _Names(dict[bytes, str]):
    """Gives equal names as one object, so that a million messages do not hold a million keys."""

    def __missing__(self, octets: bytes) -> str:
        if len(self) >= _NAMES:
            self.clear()
        name = self[octets] = octets.decode()
        return name


class SqliteStore(Store):
    """Keeps units in a file that one broker has for itself.

    Beside the file ``PATH`` are ``PATH.lock``, which stays, and while it is open ``PATH-wal``, which is a
    part of the store, and ``PATH-shm``.

    A unit that cannot be written is done with a :class:`StoreError`, with nothing of it in the file; so are
    the others that share its transaction. One that only removes is tried again instead, with what is
    committed next: its ``done`` may come after those of later units, and with an error only when too many
    wait or the store is closed.

    Args:
        path: the file; it is made if it is not there, in a folder that is.
        loop: the loop in whose thread the methods are called; None: the one that runs when it is opened.
    """

    def __init__(self, path: str | os.PathLike[str], loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._path = Path(os.path.realpath(path))
        self._loop = loop
        self._waiting: list[Waiting] = []
        self._reader: sqlite3.Connection | None = None
        self._writer: Writer | None = None
        self._stack = ExitStack()
        self._ended: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<SqliteStore {str(self._path)!r}>"

    @property
    def path(self) -> Path:
        """The file, without links."""
        return self._path

    @property
    def is_durable(self) -> bool:
        return True

    def open(self) -> Recovered:
        """See the base; nothing is written before the first unit.

        Raises:
            RuntimeError: it has been opened before.
        """
        if self._ended is not None:
            raise RuntimeError(f"store {self._path} has been opened before: make another one")
        self._loop = self._loop or asyncio.get_running_loop()
        with ExitStack() as stack:
            stack.callback(lock_file(self._path).close)
            if not os.path.lexists(self._path):
                make_file(self._path)
            check_file(self._path)
            try:
                reader = connect(self._path, read_only=True)
                stack.callback(reader.close)
                recovered = self._recover(reader)
            except sqlite3.Error as error:
                raise self._damage(error) from error
            self._reader = reader
            self._ended = self._loop.create_future()
            self._writer = Writer(self._path, self._report, self._report_end)
            self._stack = stack.pop_all()
        return recovered

    def commit(self, unit: Unit, done: Done) -> None:
        """See the base.

        Raises:
            StoreError: the store is not open.
        """
        if self._writer is None or self._loop is None:
            raise trouble(self._path, "is not open", "commit after open() and before close()")
        if not self._waiting:
            # All of one turn of the loop go together: they share a sync, and the thread is woken once.
            self._loop.call_soon(self._hand_over)
        self._waiting.append((unit, done))

    def _hand_over(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting and self._writer is not None:
            self._writer.put(waiting)

    def read(self, messages: Iterable[int]) -> dict[int, bytes]:
        if self._reader is None:
            raise trouble(self._path, "is not open", "read after open() and before close()")
        wanted = list(dict.fromkeys(messages))
        found: dict[int, bytes] = {}
        try:
            for piece in pieces(wanted):
                marks = ", ".join("?" * len(piece))
                found.update(
                    self._reader.execute(f"SELECT id, body FROM bodies WHERE id IN ({marks})", piece)
                )
        except sqlite3.Error as error:
            raise self._damage(error) from error
        if len(found) < len(wanted):
            lacking = next(message for message in wanted if message not in found)
            raise trouble(
                self._path, f"has no message {lacking}", "read only what was committed and not forgotten"
            )
        return found

    async def close(self) -> None:
        if self._ended is None:
            return
        self._hand_over()
        writer, self._writer = self._writer, None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()  # first, as the last connection to be closed puts the log back into the file
        if writer is not None:
            writer.stop()
        await asyncio.shield(self._ended)
        self._stack.close()

    # --- what the file holds --------------------------------------------------------------------------------

    def _recover(self, reader: sqlite3.Connection) -> Recovered:
        tables = [
            sql
            for (sql,) in reader.execute("SELECT sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
        ]
        if tables != list(TABLES):
            raise self._damage("its tables are other ones")
        reader.text_factory = _Names().__getitem__
        definitions = [
            Definition(kind, name, json.loads(data))
            for kind, name, data in reader.execute(
                "SELECT kind, name, data FROM definitions ORDER BY kind, number"
            )
        ]
        return Recovered(
            definitions=definitions,
            messages=self._rows(
                reader, "SELECT id, form, priority, expires_at, exchange, key, size FROM messages ORDER BY id"
            ),
            entries=self._entries(reader),
            remembered=self._rows(
                reader, "SELECT queue, message_id, number FROM remembered ORDER BY queue, number"
            ),
        )

    def _rows(self, reader: sqlite3.Connection, query: str) -> Iterator[Any]:
        try:
            cursor = reader.execute(query)
            while rows := cursor.fetchmany(_ROWS):
                yield from rows
        except sqlite3.Error as error:
            raise self._damage(error) from error

    def _entries(self, reader: sqlite3.Connection) -> Iterator[StoredEntry]:
        """Entries of messages that are there.

        Others stay behind where a unit could not be written, and a later one built on it: a message moved on,
        or left for good. The writer removes them before it writes anything else.
        """
        count = 0
        for entry in self._rows(
            reader,
            "SELECT queue, message, expires_at, delivery_count, annotations FROM entries"
            " WHERE EXISTS (SELECT 1 FROM messages WHERE id = message) ORDER BY queue, message",
        ):
            count += 1
            yield entry
        ((total,),) = self._rows(reader, "SELECT count(*) FROM entries")
        if total > count and self._writer is not None:
            self._writer.must_clean = True

    def _damage(self, problem: object) -> StoreError:
        remedy = "bring back a copy, or move it away to begin with an empty one"
        return trouble(self._path, f"cannot be read ({problem})", remedy)

    # --- what comes from the writer's thread --------------------------------------------------------------

    def _report(self, outcomes: Outcomes) -> None:
        self._call(_call_all, outcomes)

    def _report_end(self) -> None:
        self._call(self._finish)

    def _call(self, function: Any, *arguments: Any) -> None:
        """Have something called in the loop's thread; a loop that was closed has nobody left to tell."""
        if self._loop is not None and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(function, *arguments)
            except RuntimeError:
                _log.debug("store %s: the loop was closed before the store was", self._path)

    def _finish(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


def _call_all(outcomes: Outcomes) -> None:
    for done, error in outcomes:
        try:
            done(error)
        except Exception:
            # The others wait for theirs.
            _log.exception("what was to be done after a unit was written failed")

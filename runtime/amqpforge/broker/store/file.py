"""The file of a store: whose it is, whether it is whole, and who has it open.

Nothing here writes into a file that is there already: what is refused stays as it was.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from amqpforge.broker.errors import StoreError

__all__ = ["check_file", "connect", "lock_file", "make_file", "trouble"]

APPLICATION = int.from_bytes(b"AMQF", "big")
"""What tells a store from other SQLite files (the application_id of the file's header)."""

VERSION = 1
"""The form of the tables (the user_version of the header)."""

SQLITE_NEEDED = (3, 33, 0)
"""The first with UPDATE ... FROM."""

PAGE_OCTETS = 8192
"""Measured with messages of 1 KiB in groups of 1, 50 and 500: a tenth more a second than with 4 KiB; with
16 KiB as many in groups, and a fifth fewer singly, since each commit writes three pages."""

TABLES = (
    "CREATE TABLE definitions (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL,"
    " data TEXT NOT NULL, UNIQUE (kind, name))",
    "CREATE TABLE messages (id INTEGER PRIMARY KEY, form INTEGER NOT NULL, priority INTEGER NOT NULL,"
    " expires_at REAL, exchange TEXT NOT NULL, key TEXT NOT NULL, size INTEGER NOT NULL)",
    # Apart from the rest: recovery reads a million messages of 1 KiB without a look at their gigabyte.
    "CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE entries (queue INTEGER NOT NULL, message INTEGER NOT NULL, expires_at REAL,"
    " delivery_count INTEGER NOT NULL, annotations BLOB, PRIMARY KEY (queue, message)) WITHOUT ROWID",
    "CREATE TABLE remembered (queue INTEGER NOT NULL, number INTEGER NOT NULL, message_id BLOB NOT NULL,"
    " PRIMARY KEY (queue, number)) WITHOUT ROWID",
)

HEADER_OCTETS = 100
MAGIC = b"SQLite format 3\0"


def trouble(path: Path, problem: str, remedy: str) -> StoreError:
    """What is wrong with a store, and what to do about it."""
    return StoreError(f"store {path}: {problem}; {remedy}")


def lock_file(path: Path) -> sqlite3.Connection:
    """Take a store for this process alone, until the connection is closed or the process ends.

    The lock is that of an empty SQLite file beside the store, so it works wherever SQLite does, goes with the
    process however that ends, and leaves the store to connections of this process. The file stays: to remove
    it while somebody opens it would give two the lock.

    Raises:
        StoreError: another broker has it, or no file can be made there.
    """
    if sqlite3.sqlite_version_info < SQLITE_NEEDED:
        needed = ".".join(map(str, SQLITE_NEEDED))
        raise trouble(
            path, f"SQLite is {sqlite3.sqlite_version}", f"run Python with SQLite {needed} or later"
        )
    lock = path.with_name(path.name + ".lock")
    try:
        connection = sqlite3.connect(lock, isolation_level=None, timeout=0)
    except sqlite3.Error as error:
        raise trouble(
            path, f"{lock} cannot be made ({error})", "name a folder to which you can write"
        ) from error
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        connection.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            problem, remedy = "in use by another broker", "stop that one, or name another store"
        else:
            problem, remedy = f"{lock} cannot be locked ({error})", "remove that file if nothing needs it"
        raise trouble(path, problem, remedy) from error
    return connection


def check_file(path: Path) -> None:
    """See by its first octets whether a file is a store, without opening it as one.

    Raises:
        StoreError: it is not, is of a later version, is shorter than it says, or may not be written.
    """
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_OCTETS)
            octets = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise trouble(path, f"cannot be read ({error.strerror})", "name a file that you can read") from error
    if len(header) < HEADER_OCTETS or not header.startswith(MAGIC) or _number(header, 68) != APPLICATION:
        raise trouble(path, "not a store of this broker", "name another file, or move this one away")
    version = _number(header, 60)
    if version != VERSION:
        raise trouble(
            path, f"written in form {version}, this broker knows {VERSION}", "use the broker that wrote it"
        )
    # A crash in the middle of a checkpoint leaves a short file, and all that is missing in the log beside it.
    log = path.with_name(path.name + "-wal")
    page = _number(header, 16, 2)
    whole = _number(header, 28) * (65536 if page == 1 else page)
    if octets < whole and not (log.exists() and log.stat().st_size):
        problem = f"damaged: it has {octets} octets of {whole}"
        raise trouble(path, problem, "bring back a copy, or move it away to begin with an empty one")
    if not os.access(path, os.W_OK):
        raise trouble(path, "cannot be written", "give the broker the right to write it")


def _number(header: bytes, place: int, octets: int = 4) -> int:
    return int.from_bytes(header[place : place + octets], "big")


def make_file(path: Path) -> None:
    """Make an empty store, under another name first: under its own it is whole, or not there.

    Raises:
        StoreError: it cannot be made.
    """
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise trouble(path, f"is missing, but its log {log} is there", "bring it back, or move the log away")
    unfinished = path.with_name(path.name + ".new")
    try:
        for ending in ("", "-journal", "-wal", "-shm"):  # of a process that ended in the middle of this
            Path(f"{unfinished}{ending}").unlink(missing_ok=True)
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA page_size = {PAGE_OCTETS}")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            for table in TABLES:
                connection.execute(table)
            connection.execute("COMMIT")
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise trouble(path, f"no log can be kept beside it ({mode})", "name a folder on a local disk")
        unfinished.replace(path)
        _sync_folder(path.parent)
    except (OSError, sqlite3.Error) as error:
        raise trouble(path, f"cannot be made ({error})", "name a folder to which you can write") from error


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder safe, where folders can be opened for that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """A connection to a store that is there, for the thread that calls.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    mode = "ro" if read_only else "rw"
    # Statements come in eight lengths of rows for each of a dozen purposes: all of them stay prepared.
    return sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, cached_statements=256
    )

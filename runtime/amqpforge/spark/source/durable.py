"""Files that are there, whole, after a loss of power; and a folder that only one process uses at a time."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from .segment import SpoolError

__all__ = ["TEMPORARY", "FolderLock", "read_json", "write_file"]

TEMPORARY: Final = ".new-"
"""Files that are being written begin so; what is left of them is of no use."""

_PAUSE: Final = 0.05


def write_file(folder: Path, name: str, octets: bytes | memoryview, *, durable: bool = True) -> None:
    """Have a file with this content: after a crash it is there as a whole, or as it was before.

    Args:
        folder: where.
        name: its name.
        octets: what it holds.
        durable: whether it has to outlive a loss of power: it and its name are synced.

    Raises:
        OSError: it could not be written; the file is as it was, unless only the last sync has failed.
    """
    temporary = folder / f"{TEMPORARY}{name}"
    file = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        try:
            _write_all(file, memoryview(octets))
            if durable:
                os.fsync(file)
        finally:
            os.close(file)
        os.rename(temporary, folder / name)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlive a loss of power."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def read_json(path: Path) -> Any:
    """What a file of JSON holds; None: there is none.

    Raises:
        SpoolError: it holds something else.
    """
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise SpoolError(f"the file {path} of the spool is damaged: {error}") from None


class FolderLock:
    """Keeps a folder for one process. It goes with the process, however that ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None

    def take(self, timeout: float) -> None:
        """Take it; a process that ends just now is waited for.

        Args:
            timeout: seconds to wait.

        Raises:
            SpoolError: another process keeps it: which one.
            OSError: the folder cannot be used.
        """
        file = os.open(self._folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        deadline = time.monotonic() + timeout
        try:
            while not _try_lock(file):
                if time.monotonic() >= deadline:
                    raise SpoolError(
                        f"the spool {self._folder} is in use by {_holder(file)}: give each query a "
                        "'spoolLocation' of its own"
                    )
                time.sleep(_PAUSE)
            who = {"host": socket.gethostname(), "process": os.getpid(), "since": _now()}
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(who).encode(), 0)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def release(self) -> None:
        """Let others have the folder."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


@contextmanager
def as_spool_error(doing: str) -> Iterator[None]:
    """Tell what goes wrong with files as an error of the spool.

    Raises:
        SpoolError: from an OSError, or an error of pyarrow.
    """
    try:
        yield
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        raise SpoolError(f"{doing} failed: {_brief(error.strerror or str(error))}{place}") from error
    except pa.ArrowException as error:
        raise SpoolError(f"{doing} failed: {_brief(str(error))}") from error


def _brief(reason: str) -> str:
    """The first line: pyarrow may tell pages."""
    return reason.partition("\n")[0][:500]


def _write_all(file: int, octets: memoryview) -> None:
    while octets:
        octets = octets[os.write(file, octets) :]


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: int) -> str:
    try:
        who = json.loads(os.pread(file, 4096, 0))
        return f"process {who['process']} on {who['host']} since {who['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

"""A spool on any filesystem that ``pyarrow.fs`` reaches: object stores, and HDFS.

Neither locks nor replacing a file at once are needed of it, but this:

- When closing a file returns, the file is there, as a whole, for good.
- From then on it is read and listed by everybody.

A file that was never finished may be there, as long as its content shows that.

Who holds the storage is told by the lease alone (:mod:`.lease`). Names of files say which holder wrote them
(:mod:`.survey`). So a writer that was overtaken, because its machine stood still or its request was under way
for long, never hits what another one has written; and what it writes after others have opened the storage
counts for nothing, as it is not in their list. Nor does the writer count on it: it looks at its lease before
and after.
"""

from __future__ import annotations

import atexit
import json
import logging
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import pyarrow as pa
from pyarrow import fs

from .durable import TEMPORARY
from .lease import TIMES, Lease, Times
from .location import inside
from .segment import SpoolError
from .survey import LOCK, Survey, opening, shown, survey

__all__ = ["ObjectStore"]

_WITHOUT_FOLDERS: Final = frozenset(("s3", "gcs", "abfs"))
"""Filesystems in which a folder is there when a file is in it."""
_RENAMING: Final = frozenset(("hdfs", "py::hdfs"))
"""Filesystems that show a file while it is written, and rename one at once."""
_ATTEMPTS: Final = 5
_log = logging.getLogger("amqpforge.spark")


class ObjectStore:
    """A folder of a filesystem of pyarrow as a :class:`~.storage.Storage`."""

    def __init__(
        self, location: str, *, times: Times = TIMES, filesystem: tuple[fs.FileSystem, str] | None = None
    ) -> None:
        """Make one; nothing is looked at yet.

        Args:
            location: a URI.
            times: how long the lease lasts.
            filesystem: what the URI stands for, with the path there; None: what pyarrow makes of it.
        """
        self.may_tear = True
        self._location = location
        self._given = filesystem
        self._times = times
        self._epoch = 0
        self._saved = 0
        self._lease = Lease(_Lock(self), location, times)
        self._documents: dict[str, list[str]] = {}
        self._guard = threading.Lock()
        self._swept: deque[str] = deque()
        self._sweeper: ThreadPoolExecutor | None = None
        self._is_over = False

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        if self._given is not None:
            return self._given
        parts = urlsplit(self._location)
        if parts.scheme == "s3":  # One request for a small file.
            parts = parts._replace(query="&".join(filter(None, (parts.query, "allow_delayed_open=true"))))
        filesystem, path = fs.FileSystem.from_uri(urlunsplit(parts))
        return filesystem, path.rstrip("/")

    @property
    def location(self) -> str:
        return self._location

    @property
    def mark(self) -> str:
        """Says which holder wrote a file."""
        return f".{self._epoch}"

    def make(self) -> None:
        """Make the folder where there are any."""
        filesystem, path = self._place
        if filesystem.type_name not in _WITHOUT_FOLDERS:
            filesystem.create_dir(path, recursive=True)

    # --- holding --------------------------------------------------------------------------------------------

    def hold(self, timeout: float) -> list[str]:
        """Take the lease, and have it on record what counts."""
        self._lease.take(timeout)
        atexit.register(self._lease.release)  # Else the next one would have to wait for its end.
        found = self._survey()
        self._epoch = found.epoch + 1
        self._put(opening(self._epoch), json.dumps(found.files).encode())
        self._lease.check()
        names = found.names
        self._documents = {name: files for name in names if (files := found.documents(name))}
        for name in found.waste:
            self.delete(name)
        self._sweeper = ThreadPoolExecutor(1, "amqpforge spark sweeper")
        return names

    def release(self) -> None:
        """Give up the lease; what is still to be deleted is left to the next holder."""
        self._is_over = True
        if self._sweeper is not None:
            self._sweeper.shutdown(cancel_futures=True)
        self._lease.release()
        atexit.unregister(self._lease.release)

    def names(self) -> list[str]:
        """What is there now, whether it counts or not."""
        return shown(self._list())

    def _list(self) -> list[str]:
        filesystem, path = self._place
        found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return [info.base_name for info in found]

    def _survey(self) -> Survey:
        """Look what is there, and what counts."""
        return survey(self._list(), self._parsed)

    # --- files ----------------------------------------------------------------------------------------------

    def write(self, name: str, octets: pa.Buffer) -> None:
        """Put it there in one request."""
        self._lease.check()
        self._put(name, octets)
        self._lease.check()

    def open(self, name: str) -> pa.NativeFile:
        """The whole file, in memory."""
        return pa.BufferReader(self._get(name))

    def delete(self, name: str) -> None:
        """Have no file of this name."""
        filesystem, path = self._place
        with suppress(FileNotFoundError):
            filesystem.delete_file(f"{path}/{name}")

    def sweep(self, name: str) -> None:
        """Delete it in the background, unless it is released before."""
        self._swept.append(name)
        if self._sweeper is not None:
            with suppress(RuntimeError):  # It was shut down.
                self._sweeper.submit(self._sweep)

    def _sweep(self) -> None:
        try:
            while self._swept and not self._is_over:
                self.delete(self._swept[0])  # In their order: a gap would be an error.
                self._swept.popleft()
        except (OSError, pa.ArrowException) as error:
            _log.warning("deleting from the spool %s failed, and is tried again: %s", self._location, error)

    def _put(self, name: str, octets: bytes | pa.Buffer) -> None:
        """Have a file: if this fails it may be there, as a whole, in part, or not."""
        filesystem, path = self._place
        target = f"{path}/{name}"
        is_renamed = filesystem.type_name in _RENAMING and name != LOCK
        written = f"{path}/{TEMPORARY}{name}" if is_renamed else target
        with filesystem.open_output_stream(written) as stream:
            stream.write(octets)
        if is_renamed:
            filesystem.move(written, target)

    def _get(self, name: str) -> pa.Buffer:
        filesystem, path = self._place
        with filesystem.open_input_file(f"{path}/{name}") as file:
            return file.read_buffer()

    # --- documents ------------------------------------------------------------------------------------------

    def save(self, name: str, document: object, *, durable: bool = True) -> None:
        """Write a new file, then delete those that it stands for."""
        with self._guard:
            self._saved += 1
            new = f"{name}.{self._epoch}.{self._saved}"
            self.write(new, pa.py_buffer(json.dumps(document).encode()))
            old = self._documents.get(name, [])
            self._documents[name] = [new]
        for one in old:
            self.sweep(one)

    def load(self, name: str) -> Any:
        """Read the latest file that is whole."""
        for _ in range(_ATTEMPTS):
            try:
                files = self._documents.get(name) if self._epoch else self._survey().documents(name)
                if not files:
                    return None
                for file in files:
                    if (found := self._parsed(file)) is not None:
                        self._drop_others(name, file)
                        return found
            except FileNotFoundError:  # It was replaced just now, or the storage was held once more.
                continue
            raise SpoolError(f"the file {self.place(files[0])} of the spool is damaged")
        raise SpoolError(f"the file {self.place(name)} of the spool is replaced too often to be read")

    def _drop_others(self, name: str, file: str) -> None:
        """Delete what the latest whole file of a document stands for, if that is ours to do: the holder
        before may have had no time for it.
        """
        with self._guard:
            files = self._documents.get(name, [])
            if file not in files or len(files) == 1:
                return
            self._documents[name] = [file]
        for one in files:
            if one != file:
                self.sweep(one)

    def _parsed(self, name: str) -> Any:
        """What a file of JSON holds; None: it was never finished."""
        try:
            return json.loads(bytes(self._get(name)))
        except ValueError:
            return None

    def place(self, name: str) -> str:
        """Its URI."""
        return inside(self._location, name)


class _Lock:
    """The file of the lease, which alone is written again and again."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def get(self) -> bytes | None:
        try:
            return bytes(self._store._get(LOCK))
        except FileNotFoundError:
            return None

    def put(self, octets: bytes) -> None:
        self._store._put(LOCK, octets)

    def remove(self) -> None:
        self._store.delete(LOCK)

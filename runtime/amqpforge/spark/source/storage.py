"""Where a spool is: what it needs of a storage, a folder as one, and which one a location stands for."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from .durable import TEMPORARY, FolderLock, read_json, write_file
from .location import is_uri
from .objects import ObjectStore

__all__ = ["Folder", "Storage", "open_storage"]

_LOCK: Final = "lock"


class Storage(Protocol):
    """Named files in one place, which a spool has to itself while it holds it.

    Methods raise OSError, or ``pyarrow.ArrowException``, where the storage fails. All of them may be called
    from any thread, and those that read in any process.

    Attributes:
        location: where it is, as the option ``spoolLocation`` has it; has no secret.
        mark: what the names of new files end with, so that no other holder ever writes one of these names.
        may_tear: whether a file may be there, after ``write`` has failed, that is not whole.
    """

    @property
    def location(self) -> str: ...

    @property
    def mark(self) -> str: ...

    @property
    def may_tear(self) -> bool: ...

    def make(self) -> None:
        """Have it there, if it is not; it may be in use."""
        ...

    def hold(self, timeout: float) -> list[str]:
        """Have it for this process alone, without what others did not finish.

        Args:
            timeout: seconds to wait for another process that is just ending. One that was killed may take
                longer.

        Returns:
            The names of what is there.

        Raises:
            SpoolError: another process has it: which one.
        """
        ...

    def release(self) -> None:
        """Let others have it. May be called again, and where it is not held."""
        ...

    def names(self) -> list[str]:
        """The names of what seems to be there, held or not, but for what the storage has for itself."""
        ...

    def write(self, name: str, octets: pa.Buffer) -> None:
        """Have a new file: when this returns it is there for good, as a whole, under a name that was never
        used.

        Raises:
            SpoolError: it is no longer held; the file counts for nothing.
        """
        ...

    def open(self, name: str) -> pa.NativeFile:
        """A file to be read.

        Raises:
            FileNotFoundError: there is none.
        """
        ...

    def delete(self, name: str) -> None:
        """Have no file of this name."""
        ...

    def sweep(self, name: str) -> None:
        """Have no file of this name before long, which may be after the storage was held again; files go in
        the order in which this is asked for.
        """
        ...

    def save(self, name: str, document: object, *, durable: bool = True) -> None:
        """Keep a small document in place of the one of that name: after a crash it is this one or that.

        Args:
            name: its name.
            document: what JSON can say.
            durable: whether it has to outlive a loss of power.

        Raises:
            SpoolError: the storage is no longer held; the document counts for nothing.
        """
        ...

    def load(self, name: str) -> Any:
        """The document of that name; None: there is none.

        Raises:
            SpoolError: it is none.
        """
        ...

    def place(self, name: str) -> str:
        """Where a file is, for people."""
        ...


def open_storage(location: str) -> Storage:
    """The storage at a location; nothing is looked at yet."""
    return ObjectStore(location) if is_uri(location) else Folder(Path(location))


class Folder:
    """A folder of a file system that this machine has mounted, as a :class:`Storage`."""

    def __init__(self, path: Path) -> None:
        """``path``: where; it need not be there."""
        self.mark = ""
        self.may_tear = False
        self._path = path
        self._lock = FolderLock(path)
        self._guard = threading.Lock()

    @property
    def location(self) -> str:
        return str(self._path)

    def make(self) -> None:
        """Make the folder, and those that it is in."""
        self._path.mkdir(parents=True, exist_ok=True)

    def hold(self, timeout: float) -> list[str]:
        """Lock it: the system takes the lock away from a process that has ended, however that was."""
        self._lock.take(timeout)
        for path in self._path.iterdir():
            if path.name.startswith(TEMPORARY):
                path.unlink()
        return self.names()

    def release(self) -> None:
        """Give up the lock."""
        self._lock.release()

    def names(self) -> list[str]:
        """All but the lock, and what is being written."""
        names = (path.name for path in self._path.iterdir())
        return [name for name in names if name != _LOCK and not name.startswith(TEMPORARY)]

    def write(self, name: str, octets: pa.Buffer) -> None:
        """Write it, sync it, give it its name, sync that."""
        write_file(self._path, name, memoryview(octets))

    def open(self, name: str) -> pa.NativeFile:
        """The file, mapped into memory."""
        return pa.memory_map(str(self._path / name))

    def delete(self, name: str) -> None:
        """Unlink it."""
        (self._path / name).unlink(missing_ok=True)

    def sweep(self, name: str) -> None:
        """Unlink it now."""
        self.delete(name)

    def save(self, name: str, document: object, *, durable: bool = True) -> None:
        """Write it and rename it over the one before."""
        with self._guard:  # Two at once would write one temporary file.
            write_file(self._path, name, json.dumps(document).encode(), durable=durable)

    def load(self, name: str) -> Any:
        """Read it."""
        return read_json(self._path / name)

    def place(self, name: str) -> str:
        """Its path."""
        return str(self._path / name)

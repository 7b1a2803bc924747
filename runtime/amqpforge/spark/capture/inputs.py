"""The files that a path names, and reading one of them from any place."""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from amqpforge.spark.options import OptionError

__all__ = ["Readable", "Resumed", "files"]

_MAGIC_LETTERS: Final = frozenset("*?[")
_HIDDEN: Final = (".", "_")


class Readable(Protocol):
    """An open file."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` octets; none at the end."""
        ...


def files(paths: Iterable[str], name_pattern: str | None) -> list[str]:
    """The files that paths name, in order, each once.

    A path is a file, a folder, whose files it stands for and those of the folders in it, or a pattern with
    ``*``, ``?``, ``[...]`` and ``**`` for any folders. Names that begin with a dot or underscore are left
    out in folders and patterns, as Spark does; so are those that ``name_pattern`` does not match.

    Raises:
        OptionError: a path names nothing, or is not on a file system of this machine.
    """
    found: dict[str, None] = {}
    for path in paths:
        local = _local(path)
        if os.path.isfile(local):
            found[local] = None
            continue
        matched = sorted(_below(local) if os.path.isdir(local) else _matched(local))
        for name in matched:
            if name_pattern is None or fnmatchcase(os.path.basename(name), name_pattern):
                found[name] = None
        if not matched:
            raise OptionError("path", f"names no file: {path!r:.300}")
    return list(found)


class Resumed:
    """A reader of a file from some place on, behind what is needed of what comes before."""

    __slots__ = ("_file", "_first")

    def __init__(self, file: io.BufferedIOBase, first: bytes, start: int) -> None:
        self._file = file
        self._first = first
        file.seek(start)

    def read(self, limit: int) -> bytes:
        """At most ``limit`` octets; none at the end."""
        if self._first:
            piece, self._first = self._first[:limit], self._first[limit:]
            return piece
        return self._file.read(limit)


def _local(path: str) -> str:
    """The path without the scheme of a URL."""
    parts = urlsplit(path)
    if "://" not in path and not path.startswith("file:"):
        return path
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise OptionError(
            "path",
            f"is {path!r:.300}: captures are read as files, so mount what holds them on every machine",
        )
    return unquote(parts.path)


def _below(folder: str) -> list[str]:
    """The files in a folder and in the folders in it."""
    names: list[str] = []
    for parent, folders, found in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
        names += [str(Path(parent, name)) for name in found if not name.startswith(_HIDDEN)]
    return names


def _matched(pattern: str) -> list[str]:
    """The files that a pattern matches; those in the folders that it matches too."""
    if not _MAGIC_LETTERS.intersection(pattern):
        return []
    names: set[str] = set()
    for path in glob.iglob(pattern, recursive=True):
        if os.path.basename(path).startswith(_HIDDEN):
            continue
        names.update(_below(path) if os.path.isdir(path) else [path])
    return list(names)

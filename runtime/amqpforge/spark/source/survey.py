"""Which files of a storage without locks count, told by their names and by what its holders have noted.

The names, beside ``lock`` for the lease (:mod:`.lease`):

- ``opened.N.MARK``: that the storage was held for the Nth time, and what was there that counts, as a JSON
  list. The mark is one that nobody else has, so that who was overtaken meanwhile does no harm, as late as
  that is written. Earlier versions have left it out;
- ``NAME.N``: what was written by whom held it for the Nth time;
- ``NAME.json.N.M``: the Mth document that was put in place of others by that holder.

Two may write ``opened`` with one N, and only one of them holds the storage: the other one looks at its lease
behind that, and is refused. All that either has noted counts. What is in one list and not in the other came
between the two looks, or went.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from .durable import TEMPORARY

__all__ = ["LOCK", "Survey", "opening", "shown", "survey"]

LOCK: Final = "lock"
_OPENED: Final = re.compile(r"opened\.(\d+)(?:\.\w+)?", re.ASCII)
_DOCUMENT: Final = re.compile(r"(.+\.json)(?:\.(\d+)\.(\d+))?", re.ASCII)
_FILE: Final = re.compile(r".+\.(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Survey:
    """What is there.

    Attributes:
        epoch: how often the storage was held so far.
        files: what counts.
        waste: what does not.
    """

    epoch: int
    files: list[str]
    waste: list[str]

    @property
    def names(self) -> list[str]:
        """The names of what counts, as others know them."""
        return _names(self.files)

    def documents(self, name: str) -> list[str]:
        """The files of a document, the latest first."""
        found = [match for match in map(_DOCUMENT.fullmatch, self.files) if match and match[1] == name]
        found.sort(key=lambda one: (int(one[2] or 0), int(one[3] or 0)), reverse=True)
        return [match[0] for match in found]


def opening(epoch: int) -> str:
    """The name of a file that notes what is there that counts; never the same."""
    return f"opened.{epoch}.{uuid4().hex[:12]}"


def shown(listed: Iterable[str]) -> list[str]:
    """The names of files as others know them, but for what the storage has for itself."""
    return _names([name for name in listed if not (_is_own(name) or name.startswith(TEMPORARY))])


def survey(listed: Sequence[str], read: Callable[[str], Any]) -> Survey:
    """Judge what is there.

    Args:
        listed: the names of all files.
        read: what a file of JSON holds; None: it was never finished.

    Raises:
        FileNotFoundError: the storage was held once more meanwhile.
    """
    notes: defaultdict[int, list[str]] = defaultdict(list)
    for name in listed:
        if match := _OPENED.fullmatch(name):
            notes[int(match[1])].append(name)
    since, began = 0, None
    for epoch in sorted(notes, reverse=True):
        told = [one for one in map(read, notes[epoch]) if isinstance(one, list)]
        if told:
            since, began = epoch, {name for one in told for name in one}
            break
    files: list[str] = []
    waste = [name for names in notes.values() for name in names]
    for name in listed:
        if _is_own(name):
            continue
        written = _epoch(name)
        is_late = began is not None and written is not None and written < since and name not in began
        (waste if is_late or name.startswith(TEMPORARY) else files).append(name)
    return Survey(max(notes, default=0), files, waste)


def _is_own(name: str) -> bool:
    return name == LOCK or _OPENED.fullmatch(name) is not None


def _names(files: list[str]) -> list[str]:
    found = ((_DOCUMENT.fullmatch(name), name) for name in files)
    return list(dict.fromkeys(match[1] if match else name for match, name in found))


def _epoch(name: str) -> int | None:
    """Which holder wrote a file; None: none that is known."""
    match = _DOCUMENT.fullmatch(name)
    told = match[2] if match else (match := _FILE.fullmatch(name)) and match[1]
    return int(told) if told else None

"""What an import has to say about its source, line by line."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """Something that was dropped, repaired or could not be read; prints as ``line N: message``."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


class Remarks:
    """Collects remarks; the same remark about the same line counts once."""

    def __init__(self) -> None:
        self._found: set[Remark] = set()

    def add(self, line: int, message: str) -> None:
        self._found.add(Remark(line, message))

    def sorted(self) -> tuple[Remark, ...]:
        """All remarks, in line and message order."""
        return tuple(sorted(self._found))


class Text:
    """The text of a source with LF line ends, and the line (from 1) of any offset in it."""

    def __init__(self, content: str) -> None:
        self.content = content.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = self.content.split("\n")
        starts, offset = [], 0
        for line in self.lines:
            starts.append(offset)
            offset += len(line) + 1
        self._starts = starts

    def line_at(self, offset: int) -> int:
        return bisect_right(self._starts, offset)


def is_xml_text(value: str) -> bool:
    """Whether XML 1.0 allows every character of ``value``."""
    return _NOT_XML.search(value) is None


def shown(value: str) -> str:
    """A piece of a source as a message may quote it: printable, and at most 40 characters."""
    quoted = repr(value)
    return quoted if len(quoted) <= 42 else f"{quoted[:39]}...'"

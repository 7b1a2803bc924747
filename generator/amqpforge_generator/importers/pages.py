"""What a page of prose says about the definitions inside it: numbered headings, constants, entries of fields.

Text that was copied from a rendered page has lost the borders between the columns of its tables, so that
``durable``, its label and ``optional boolean`` stand in one line without a space. Such lines are not relied
on for facts that a definition states; they are held against it, and disagreements are remarked on.
Constants stand nowhere else, and are read from them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from amqpforge_generator.importers.remarks import Remarks, Text, shown

_HEADING = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3}){1,3}) ([A-Z].{0,79})")
_TITLE = re.compile(r"Part [0-9]+ ?: ?([A-Z][A-Za-z -]{0,39})")
_CONSTANT = re.compile(r"([A-Z]+(?:-[A-Z]+)*)([0-9]+)(?![0-9.])(?=\S)")
_CONSTANTS_HEADING = re.compile(r"\bconstants?\b", re.IGNORECASE)
_ENTRY = re.compile(
    r"(?P<head>\S.{0,200}?)(?P<need>optional|mandatory) (?P<type>[a-z][a-z0-9-]*|\*)(?P<many>\[\])?"
)
_NOT_A_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Heading:
    """A numbered heading; ``number`` is as printed, such as ``3.2.1``."""

    line: int
    number: str
    title: str

    @property
    def section(self) -> str:
        """The number of the section that the heading belongs to: its first two parts."""
        return ".".join(self.number.split(".")[:2])

    @property
    def name(self) -> str:
        """The title as a name: ``Message Format`` -> ``message-format``."""
        return as_name(self.title)


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant that stands in a line of its own, name and value fused with what follows."""

    line: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A fused line about a field; ``head`` begins with the field's name and goes on with its label."""

    line: int
    head: str
    is_mandatory: bool
    type: str
    is_multiple: bool


class Page:
    """Headings, constants and entries of a text that is not a definition document itself."""

    def __init__(self, text: Text) -> None:
        self._lines = text.lines

    @cached_property
    def title(self) -> tuple[int, str] | None:
        """Line and name of the part that the page is about, such as ``messaging``, or None."""
        for number, line in enumerate(self._lines, 1):
            if match := _TITLE.fullmatch(line.strip()):
                return number, as_name(match[1])
        return None

    @cached_property
    def headings(self) -> tuple[Heading, ...]:
        """The numbered headings that start a line, in order; those of a table of contents do no harm."""
        found = ((number, _HEADING.fullmatch(line.rstrip())) for number, line in enumerate(self._lines, 1))
        return tuple(Heading(number, match[1], match[2]) for number, match in found if match)

    @cached_property
    def _heading_lines(self) -> list[int]:
        return [heading.line for heading in self.headings]

    def heading_above(self, line: int) -> Heading | None:
        """The nearest heading above a line."""
        index = bisect_right(self._heading_lines, line)
        return self.headings[index - 1] if index else None

    def section_heading(self, heading: Heading) -> Heading | None:
        """The heading of the section that ``heading`` belongs to: the last one down to it with its number."""
        index = bisect_right(self._heading_lines, heading.line)
        candidates = self.headings[:index][::-1]
        return next((above for above in candidates if above.number == heading.section), None)

    @cached_property
    def constants(self) -> tuple[Constant, ...]:
        """The constants, in order; read only under a heading that announces constants."""
        found = []
        for number, line in enumerate(self._lines, 1):
            match = _CONSTANT.match(line)
            heading = self.heading_above(number) if match else None
            if match and heading and _CONSTANTS_HEADING.search(heading.title):
                found.append(Constant(number, match[1], match[2]))
        return tuple(found)

    def entries(self, first: int, last: int) -> tuple[Entry, ...]:
        """The fused entries of the lines ``first`` to ``last``, both included."""
        found = []
        for number in range(first, last + 1):
            if match := _ENTRY.fullmatch(self._lines[number - 1].strip()):
                is_mandatory = match["need"] == "mandatory"
                found.append(Entry(number, match["head"], is_mandatory, match["type"], bool(match["many"])))
        return tuple(found)


def as_name(title: str) -> str:
    """Words as a name: ``Message Format`` -> ``message-format``."""
    return _NOT_A_NAME.sub("-", title.lower()).strip("-")


def entry_remarks(
    entries: Iterable[Entry], owner: str, fields: Sequence[Mapping[str, str]], remarks: Remarks
) -> None:
    """Hold the entries that follow a type against the facts of its fields; remark on what does not agree."""
    by_name = {facts["name"]: facts for facts in fields}
    for entry in entries:
        # The longest name that fits: reply-to-group-id begins with reply-to.
        name = max((name for name in by_name if entry.head.startswith(name)), key=len, default=None)
        if name is None:
            remarks.add(entry.line, f"an entry {shown(entry.head)} fits no field of {owner}: not used")
            continue
        facts = by_name[name]
        defined = (facts["type"], facts.get("mandatory") == "true", facts.get("multiple") == "true")
        if defined != (entry.type, entry.is_mandatory, entry.is_multiple):
            need = "mandatory" if entry.is_mandatory else "optional"
            said = f"{need} {entry.type}{'[]' if entry.is_multiple else ''}"
            remarks.add(entry.line, f"the entry of field {name!r} says {said}: {owner} is followed instead")

"""Tags, wherever they stand in a text: in a document, in a document inside a page, or between lines of prose.

No parser sees the text, so nothing can be expanded, fetched or loaded. Comments, CDATA and processing
instructions are passed over; a document type declaration is searched for entity declarations and otherwise
passed over too. Every pattern here takes time in proportion to the text, whatever the text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from amqpforge_generator.document import Location
from amqpforge_generator.errors import Problems
from amqpforge_generator.importers.remarks import Remarks, Text, is_xml_text, shown

_INTEREST = re.compile(r"<(?:!--|!\[CDATA\[|\?|!DOCTYPE\b|!ENTITY\b|/?[A-Za-z_]|)")
_START = re.compile(r"<(/?)([A-Za-z_][\w.:-]*)")
_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[A-Za-z_][\w.:-]*)"
    r"(?P<attributes>(?:\s+[A-Za-z_][\w.:-]*\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'))*)\s*(?P<empty>/?)>"
)
_ATTRIBUTE = re.compile(r"([A-Za-z_][\w.:-]*)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_DOCTYPE_TOKEN = re.compile(r"<!--|<\?|<!ENTITY\b|\"[^\"]*\"|'[^']*'|[\[\]>]")
_OPAQUE = {
    "<!--": ("-->", "comment"),
    "<![CDATA[": ("]]>", "CDATA section"),
    "<?": ("?>", "processing instruction"),
}
_REFERENCE = re.compile(r"&(?:#(\d{1,7})|#x([0-9A-Fa-f]{1,6})|(\w+));|&")
_PREDEFINED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}

Kind = Literal["start", "end", "empty"]


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag, and the line where it begins.

    ``fault`` says why none of its attributes can be relied on, or is empty; ``unreadable`` are the names of
    attributes that are there but give no value.
    """

    line: int
    name: str
    kind: Kind
    attributes: tuple[tuple[str, str], ...] = ()
    fault: str = ""
    unreadable: frozenset[str] = frozenset()


class Scanner:
    """Finds the tags of one text.

    ``names`` are the elements whose tags matter even when they are damaged; another ``<`` that opens no
    complete tag is text, and its line is one of ``stray`` once the tags have been read. Entity declarations
    become problems of ``file``, whatever else the text holds.
    """

    def __init__(
        self, text: Text, names: frozenset[str], file: str, remarks: Remarks, problems: Problems
    ) -> None:
        self._text = text
        self._names = names
        self._file = file
        self._remarks = remarks
        self._problems = problems
        self._unclosed: set[str] = set()
        self.stray: list[int] = []

    def tags(self) -> Iterator[Tag]:
        """All tags, in the order of the text."""
        content = self._text.content
        position = 0
        while match := _INTEREST.search(content, position):
            opener = match.group()
            if opener in _OPAQUE:
                position = self._skip(opener, match.start())
            elif opener == "<!DOCTYPE":
                position = self._skip_doctype(match.start())
            elif opener == "<!ENTITY":
                self._refuse_entity(match.start())
                position = match.end()
            else:
                complete = _TAG.match(content, match.start())
                position = complete.end() if complete else match.end()
                tag = self._complete(complete) if complete else self._damaged(match.start())
                if tag is not None:
                    yield tag
                else:
                    self.stray.append(self._text.line_at(match.start()))

    def _skip(self, opener: str, start: int) -> int:
        """The offset after a comment, CDATA section or instruction; after its opener if it never ends."""
        closer, kind = _OPAQUE[opener]
        # Looking for an end that is known to be missing would make the time quadratic.
        end = -1 if opener in self._unclosed else self._text.content.find(closer, start + len(opener))
        if end >= 0:
            return end + len(closer)
        if opener not in self._unclosed:
            self._unclosed.add(opener)
            message = f"a {kind} never ends: what follows is read all the same"
            self._remarks.add(self._text.line_at(start), message)
        return start + len(opener)

    def _skip_doctype(self, start: int) -> int:
        """The offset after a document type declaration, internal subset included."""
        content, line = self._text.content, self._text.line_at(start)
        after = position = start + len("<!DOCTYPE")
        if "<!DOCTYPE" in self._unclosed:
            return after
        depth = 0
        while match := _DOCTYPE_TOKEN.search(content, position):
            token, position = match.group(), match.end()
            if token in _OPAQUE:
                position = self._skip(token, match.start())
            elif token == "<!ENTITY":
                self._refuse_entity(match.start())
            elif token == "[":
                depth += 1
            elif token == "]":
                depth -= 1
            elif token == ">" and depth <= 0:
                declared = " ".join(content[start:position].split())
                self._remarks.add(line, f"{shown(declared)}: not read; nothing it names is loaded")
                return position
        self._unclosed.add("<!DOCTYPE")
        self._remarks.add(line, "a document type declaration never ends: what follows is read all the same")
        return after

    def _refuse_entity(self, start: int) -> None:
        message = "an entity is declared; entities are refused, write the text out"
        self._problems.add(Location(self._file, self._text.line_at(start)), message)

    def _complete(self, match: re.Match[str]) -> Tag:
        kind: Kind = "end" if match["end"] else "empty" if match["empty"] else "start"
        values: dict[str, str] = {}
        unreadable: set[str] = set()
        for attribute in _ATTRIBUTE.finditer(match["attributes"]):
            name, double, single = attribute.groups()
            value = _unescaped(double if double is not None else single)
            if value is None or name in values:
                unreadable.add(name)
            else:
                values[name] = " ".join(value.split())
        line, facts = self._text.line_at(match.start()), tuple(values.items())
        return Tag(line, match["name"], kind, facts, unreadable=frozenset(unreadable))

    def _damaged(self, start: int) -> Tag | None:
        match = _START.match(self._text.content, start)
        if match is None or match[2] not in self._names:
            return None
        kind: Kind = "end" if match[1] else "start"
        return Tag(self._text.line_at(start), match[2], kind, fault="has a damaged tag")


def _unescaped(value: str) -> str | None:
    """An attribute value with its references replaced, or None when one of them means nothing."""
    pieces: list[str] = []
    position = 0
    for match in _REFERENCE.finditer(value):
        number, hexadecimal, name = match.groups()
        if name is not None:
            character = _PREDEFINED.get(name)
        elif number is not None or hexadecimal is not None:
            code = int(number) if number is not None else int(hexadecimal, 16)
            character = chr(code) if code <= 0x10FFFF else None
        else:
            character = None
        if character is None:
            return None
        pieces += (value[position : match.start()], character)
        position = match.end()
    pieces.append(value[position:])
    text = "".join(pieces)
    return text if is_xml_text(text) else None

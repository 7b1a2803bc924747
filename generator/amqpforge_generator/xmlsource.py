"""Safe reading of a definition file: octets in, checked element tree out, or problems by file and line.

Nothing is expanded, fetched or loaded: the size is bounded before parsing, entity declarations and
references are found in the text before a parser sees it, and the parser itself has network, DTD loading and
entity resolution switched off. The text that is searched is, octet for octet, the text that is parsed,
whatever the encoding of the file was.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lxml import etree

from amqpforge_generator.document import Location
from amqpforge_generator.errors import Problems

#: The largest definition file that is read, in octets; the largest known one has a tenth of that.
MAX_OCTETS = 8 * 1024 * 1024

_DECLARATION = re.compile(r"\A<\?xml\s[^>]*?\?>")
_ENCODING = re.compile(rb"<\?xml\s[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")
# What is never closed ends with the text (the parser refuses it then): searches stay linear.
_MISC = re.compile(r"\s+|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)", re.DOTALL)
_OPAQUE = re.compile(r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)", re.DOTALL)
_DOCTYPE_TOKEN = re.compile(r"\"[^\"]*\"|'[^']*'|[\[\]>]")
_DECLARED = re.compile(r"<!ENTITY\s+(%\s+)?([^\s>\"'%]*)")
_PARAMETER = re.compile(r"%([\w:.-]+);")
_REFERENCE = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)|&([^#;&<\s][^;&<\s]*);", re.DOTALL
)
_PREDEFINED = frozenset({"amp", "lt", "gt", "quot", "apos"})
_CODECS = {
    "utf-8": "utf-8-sig",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "iso-8859-1": "latin-1",
    "utf-16 by its byte order mark": "utf-16",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed definition file: its name in messages, its digest and text, and where its problems go."""

    file: str
    sha256: str
    text: str
    problems: Problems
    _lines: list[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lines", self.text.split("\n"))

    def at(self, element: etree._Element) -> Location:
        """Where the start tag of an element begins (the parser itself only knows where the tag ends)."""
        line = min(element.sourceline or 1, len(self._lines))
        local = etree.QName(element).localname
        opening = re.compile(rf"<(?:[^\s<>/:]+:)?{re.escape(local)}(?=[\s/>]|$)")
        starts = (number for number in range(line, 0, -1) if opening.search(self._lines[number - 1]))
        return Location(self.file, next(starts, line))

    def complain(self, element: etree._Element, message: str) -> None:
        """Record a problem of an element."""
        self.problems.add(self.at(element), message)


def read_octets(path: Path, file: str, problems: Problems) -> bytes | None:
    """The octets of a file, or None and a problem when it is larger than MAX_OCTETS or cannot be read."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_OCTETS + 1)
    except OSError as error:
        problems.add(Location(file, 1), f"cannot be read: {error.strerror or type(error).__name__}")
        return None
    if len(data) > MAX_OCTETS:
        problems.add(Location(file, 1), f"larger than {MAX_OCTETS} octets; no definition file is that large")
        return None
    return data


def parse(data: bytes, file: str, problems: Problems) -> tuple[etree._Element, Source] | None:
    """The root element of a definition file, or None and the reasons.

    ``file`` is the name that messages show. Entities are refused before anything is expanded.
    """
    if len(data) > MAX_OCTETS:
        problems.add(Location(file, 1), f"larger than {MAX_OCTETS} octets; no definition file is that large")
        return None
    text = _decode(data, file, problems)
    if text is None:
        return None
    entities = sorted((*_entity_declarations(text), *_entity_references(text)))
    line, counted = 1, 0
    for offset, message in entities:
        line += text.count("\n", counted, offset)
        counted = offset
        problems.add(Location(file, line), message)
    if entities:
        return None
    root = _parse_text(text, file, problems)
    return None if root is None else (root, Source(file, hashlib.sha256(data).hexdigest(), text, problems))


def _decode(data: bytes, file: str, problems: Problems) -> str | None:
    """The text of a file without its XML declaration, so that one encoding, ours, holds from here on."""
    encoding = _encoding(data)
    codec = _CODECS.get(encoding.lower())
    if codec is None:
        problems.add(Location(file, 1), f"encoding {encoding!r} is not accepted; save the file as UTF-8")
        return None
    try:
        text = data.decode(codec)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.add(Location(file, line), f"not valid {encoding}: {error.reason}")
        return None
    # The lines of the declaration are kept, so that every number after it stays right.
    return _DECLARATION.sub(lambda match: "\n" * match.group().count("\n"), text.lstrip("\ufeff"), count=1)


def _encoding(data: bytes) -> str:
    """The encoding that a file has by its first octets, or claims; UTF-32's mark begins like UTF-16's."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16 by its byte order mark"
    if b"\0" in data[:4]:
        return "UTF-16 or UTF-32 without a byte order mark"
    match = _ENCODING.match(data.removeprefix(codecs.BOM_UTF8))
    return match.group(1).decode("ascii") if match else "utf-8"


def _entity_declarations(text: str) -> Iterator[tuple[int, str]]:
    """Every entity declaration and parameter entity reference of the prolog, with its offset."""
    start = 0
    while match := _MISC.match(text, start):
        start = match.end()
    if not text.startswith("<!DOCTYPE", start):
        return
    # Same length, so that offsets hold: a comment may show a declaration, and may hold any quote.
    plain = _OPAQUE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text[start:])
    doctype = plain[: _doctype_end(plain)]
    for match in _DECLARED.finditer(doctype):
        kind = "parameter entity" if match.group(1) else "entity"
        yield (
            start + match.start(),
            f"{kind} {match.group(2)!r} is declared; entities are refused, write the text out",
        )
    for match in _PARAMETER.finditer(doctype):
        yield start + match.start(), f"parameter entity {match.group(1)!r} is used; entities are refused"


def _doctype_end(text: str) -> int:
    """Where the DOCTYPE at the start of ``text`` ends: at the ``>`` outside quotes and brackets."""
    depth = 0
    for match in _DOCTYPE_TOKEN.finditer(text):
        token = match.group()
        if token == "[":
            depth += 1
        elif token == "]":
            depth -= 1
        elif token == ">" and depth <= 0:
            return match.end()
    return len(text)


def _entity_references(text: str) -> Iterator[tuple[int, str]]:
    """Every reference to an entity that XML does not define, outside comments and CDATA, by offset."""
    for match in _REFERENCE.finditer(text):
        name = match.group(1)
        if name is not None and name not in _PREDEFINED:
            yield match.start(), f"entity reference '&{name};' is refused; write the character itself"


def _parse_text(text: str, file: str, problems: Problems) -> etree._Element | None:
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(text.encode("utf-8"), parser)
    except etree.XMLSyntaxError as error:
        line = error.lineno or 1
        problems.add(Location(file, line), f"not well-formed XML: {str(error.msg).split(', line ')[0]}")
        return None
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and any(True for _ in dtd.iterentities()):
        problems.add(Location(file, 1), "entities are declared; entities are refused")
        return None
    return root

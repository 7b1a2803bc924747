"""Import: definitions recovered from the documents people really have.

Three kinds of source are read: definition documents of the type/field/choice grammar and of the class/method
grammar, with page text around them, a margin of marks and a document type definition that is not at hand; and
a page of prose with definitions of the former inside. Facts are kept, prose is dropped, and whatever could
not be read or had to be repaired is reported by its line. What comes out is a document in the grammar that
the readers know, the same for the same source at every run.
"""

from __future__ import annotations

import argparse
import codecs
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from lxml import etree

from amqpforge_generator.document import Location
from amqpforge_generator.errors import Problems, SpecErrors
from amqpforge_generator.importers.assembly import Node
from amqpforge_generator.importers.classes import ClassAssembler
from amqpforge_generator.importers.markup import Scanner, Tag
from amqpforge_generator.importers.pages import Page, as_name, entry_remarks
from amqpforge_generator.importers.remarks import Remark, Remarks, Text, is_xml_text
from amqpforge_generator.importers.sections import SectionAssembler
from amqpforge_generator.importers.vocabulary import CLASSES, DEFINITION, ROOT, TYPE, TYPES, Vocabulary
from amqpforge_generator.write import replace_file
from amqpforge_generator.xmlsource import read_octets

__all__ = ["ImportResult", "Remark", "add_import_arguments", "import_definitions", "run_import"]

_EXTENSIONS = "https://amqpforge.org/schema/extensions"
_STDOUT = "-"
_REPLACEMENT = "\ufffd"
_SPELLED_REPLACEMENT = "\\ufffd"
_DOCUMENT_STARTS = ("<?xml", "<!--", "<!DOCTYPE", f"<{ROOT}")
_MARK = "|"
#: A mark is a margin when at least one line in so many holds nothing else; fewer are a drawing.
_MARGIN_LINES = 4


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What was recovered from a source.

    ``xml`` is a document of the grammar that the source is in, in ASCII, facts only; section numbers, where
    the source has them, stand in ``f:ref``. ``counts`` says how many there are of each kind, such as
    ``types`` or ``methods``. ``remarks`` are in line order.
    """

    xml: str
    counts: Mapping[str, int]
    remarks: tuple[Remark, ...]


def import_definitions(source: Path) -> ImportResult:
    """Recover the definitions of ``source``.

    Raises SpecErrors, with file and line, when the file cannot be read or is too large, is no text,
    declares an entity, or holds no definition.
    """
    file, problems, remarks = source.as_posix(), Problems(), Remarks()
    data = read_octets(source, file, problems)
    text = None if data is None else _decode(data, file, problems, remarks)
    if text is None:
        raise SpecErrors(problems.sorted())
    scanner = Scanner(text, frozenset(TYPES.shapes.keys() | CLASSES.shapes.keys()), file, remarks, problems)
    tags = list(scanner.tags())
    problems.raise_if_any()
    if any(tag.name == ROOT and tag.kind != "end" for tag in tags):
        _remark_page_text(text, remarks)
        for line in scanner.stray:
            remarks.add(line, "'<' begins no tag: read as text")
        page = None
    else:
        page = Page(text)
    vocabulary = _vocabulary(tags)
    if vocabulary is CLASSES:
        attributes, nodes = _classes(tags, text, remarks)
    else:
        attributes, nodes = _sections(tags, text, page, remarks)
    if not nodes:
        wanted = "<type>, <definition>, <constant>, <domain>, <class>"
        problems.add(Location(file, 1), f"holds no definitions ({wanted}) that can be read")
        problems.raise_if_any()
    if "name" not in attributes:
        attributes = {"name": _name(page, source, remarks), **attributes}
    found = Counter(node.name for node in _all(nodes))
    return ImportResult(
        xml=_rendered(vocabulary, attributes, nodes),
        counts={plural: found[name] for plural, name in vocabulary.counted.items()},
        remarks=remarks.sorted(),
    )


def _vocabulary(tags: Iterable[Tag]) -> Vocabulary:
    """The grammar of a source: the one with more of its own elements in it."""
    found = Counter(tag.name for tag in tags if tag.kind != "end")
    return max((TYPES, CLASSES), key=lambda known: sum(found[name] for name in known.marks))


def _classes(tags: list[Tag], text: Text, remarks: Remarks) -> tuple[dict[str, str], list[Node]]:
    """Facts of the root, and the definitions, of a source in the class/method grammar."""
    assembler = ClassAssembler(remarks)
    assembler.assemble(tags, len(text.lines))
    return assembler.attributes, assembler.nodes


def _sections(
    tags: list[Tag], text: Text, page: Page | None, remarks: Remarks
) -> tuple[dict[str, str], list[Node]]:
    """Facts of the root, and the sections, of a source in the type/field/choice grammar."""
    if page is not None:
        tags = _with_constants(tags, page, remarks)
    assembler = SectionAssembler(remarks, page)
    assembler.assemble(tags, len(text.lines))
    if page is not None and assembler.nodes:
        _check_entries(assembler.nodes, page, len(text.lines), remarks)
    return assembler.attributes, assembler.nodes


def _all(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from _all(node.children)


def _decode(data: bytes, file: str, problems: Problems, remarks: Remarks) -> Text | None:
    """The text of a source, or None and a problem when it is none.

    UTF-8, or UTF-16 with a byte order mark. Facts are ASCII, so that octets which are neither cost prose at
    most; they are remarked on.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        content = data.decode("utf-16", "replace")
    else:
        content = data.decode("utf-8-sig", "replace")
    # Text that came from a PDF has form feeds, which XML does not allow; a blank keeps the lines counted.
    text = Text(content.replace("\f", " "))
    if not content.strip():
        problems.add(Location(file, 1), "is empty")
        return None
    for number, line in enumerate(text.lines, 1):
        if not is_xml_text(line):
            problems.add(Location(file, number), "is not text: it holds control characters")
            return None
        if _REPLACEMENT in line:
            remarks.add(number, "octets that are not UTF-8: replaced by U+FFFD")
        if _SPELLED_REPLACEMENT in line.lower():
            remarks.add(number, "U+FFFD spelled out: a character was lost before, and stays lost")
    return _without_margin(text, remarks)


def _without_margin(text: Text, remarks: Remarks) -> Text:
    """The text without marks that stand alone in a good part of its lines; the lines stay counted."""
    marked = [number for number, line in enumerate(text.lines, 1) if line.strip() == _MARK]
    if len(marked) * _MARGIN_LINES < len(text.lines):
        return text
    message = f"{_MARK!r} alone in {len(marked)} lines, the last of them {marked[-1]}: a margin, dropped"
    remarks.add(marked[0], message)
    return Text("\n".join("" if line.strip() == _MARK else line for line in text.lines))


def _remark_page_text(text: Text, remarks: Remarks) -> None:
    """Say where a document has page text before it or after it."""
    content = text.content
    start = min(offset for offset in map(content.find, _DOCUMENT_STARTS) if offset >= 0)
    if content[:start].strip():
        remarks.add(1, "text before the document: dropped")
    closing = f"</{ROOT}>"
    end = content.rfind(closing)
    rest = content[end + len(closing) :] if end >= 0 else ""
    if rest.strip():
        offset = len(content) - len(rest.lstrip())
        remarks.add(text.line_at(offset), "text after the document: dropped")


def _with_constants(tags: list[Tag], page: Page, remarks: Remarks) -> list[Tag]:
    """The tags of a page, and a tag for each constant that the page states in words."""
    constants = []
    for constant in page.constants:
        facts = (("name", constant.name), ("value", constant.value))
        constants.append(Tag(constant.line, DEFINITION, "empty", facts))
        message = f"constant {constant.name} = {constant.value}: taken from a line whose columns run together"
        remarks.add(constant.line, message)
    return sorted(tags + constants, key=lambda tag: tag.line)


def _check_entries(sections: list[Node], page: Page, last_line: int, remarks: Remarks) -> None:
    """Hold the lines between two definitions against the fields of the first."""
    nodes = sorted((child for section in sections for child in section.children), key=lambda node: node.line)
    ends = [node.line - 1 for node in nodes[1:]] + [last_line]
    for node, end in zip(nodes, ends, strict=True):
        if node.name == TYPE:
            fields = [child.attributes for child in node.children if child.name == "field"]
            entry_remarks(page.entries(node.line + 1, end), str(node), fields, remarks)


def _name(page: Page | None, source: Path, remarks: Remarks) -> str:
    """A name for a document whose root gives none: from the title of the page, else from the file."""
    if page is not None and page.title is not None:
        line, name = page.title
        remarks.add(line, f"<{ROOT} name={name!r}>: named after the title of the page")
        return name
    name = as_name(source.stem) or "imported"
    remarks.add(1, f"<{ROOT} name={name!r}>: named after the file")
    return name


def _rendered(vocabulary: Vocabulary, attributes: dict[str, str], nodes: list[Node]) -> str:
    """The document, laid out one element a line, the same for the same facts."""
    namespaces: dict[str | None, str] = {None: vocabulary.namespace}
    if any(node.reference for node in _all(nodes)):
        namespaces["f"] = _EXTENSIONS
    root = etree.Element(f"{{{vocabulary.namespace}}}{ROOT}", attributes, namespaces)
    for node in nodes:
        _append(root, node, vocabulary.namespace)
    etree.indent(root)
    body = etree.tostring(root, encoding="us-ascii", xml_declaration=False).decode("ascii")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _append(parent: etree._Element, node: Node, namespace: str) -> None:
    element = etree.SubElement(parent, f"{{{namespace}}}{node.name}", node.attributes)
    if node.reference:
        element.set(f"{{{_EXTENSIONS}}}ref", node.reference)
    for child in node.children:
        _append(element, child, namespace)


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``import``."""
    parser.description = (
        "Recover definitions from a published document: XML with page text around it, or prose with "
        "definitions inside. Facts are kept, prose is dropped; what could not be read is reported by line."
    )
    parser.add_argument("source", type=Path, metavar="SOURCE", help="the document")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the definitions as XML; - is standard output"
    )


def run_import(arguments: argparse.Namespace, stdout: TextIO, stderr: TextIO) -> int:
    """Carry out ``import``: definitions to the output, remarks and a summary to ``stderr``.

    Returns 0, or 1 when the source cannot be used or the output cannot be written; then nothing was written.
    """
    source, output = arguments.source, arguments.output
    try:
        result = import_definitions(source)
    except SpecErrors as errors:
        stderr.writelines(f"{problem}\n" for problem in errors.problems)
        return 1
    if output == _STDOUT:
        stdout.write(result.xml)
    else:
        target = Path(output)
        if target.resolve() == source.resolve():
            stderr.write(f"{output}: is the source itself; name another file\n")
            return 1
        try:
            replace_file(target, result.xml.encode("utf-8"))
        except OSError as error:
            stderr.write(f"{output}: cannot be written: {error.strerror}\n")
            return 1
    stderr.writelines(f"{source.as_posix()}:{remark.line}: {remark.message}\n" for remark in result.remarks)
    counts = {**result.counts, "remarks": len(result.remarks)}
    stderr.write(", ".join(f"{what}: {count}" for what, count in counts.items()) + "\n")
    return 0

"""Import: definitions recovered from the documents people really have.

Two kinds of source are read: a definition document, with page text around it and a document type definition
that is not at hand, and a page of prose with definitions inside. Facts are kept, prose is dropped, and
whatever could not be read or had to be repaired is reported by its line. What comes out is a document in
the published grammar, the same for the same source at every run.
"""

from __future__ import annotations

import argparse
import codecs
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from lxml import etree

from amqpforge_generator.document import Location
from amqpforge_generator.errors import Problems, SpecErrors
from amqpforge_generator.importers.assembly import Assembler, Node
from amqpforge_generator.importers.markup import Scanner, Tag
from amqpforge_generator.importers.pages import Page, as_name, entry_remarks
from amqpforge_generator.importers.remarks import Remark, Remarks, Text, is_xml_text
from amqpforge_generator.importers.vocabulary import DEFINITION, ROOT, SHAPES, TYPE
from amqpforge_generator.write import replace_file
from amqpforge_generator.xmlsource import read_octets

__all__ = ["ImportResult", "Remark", "add_import_arguments", "import_definitions", "run_import"]

_NAMESPACE = "http://www.amqp.org/schema/amqp.xsd"
_EXTENSIONS = "https://amqpforge.org/schema/extensions"
_STDOUT = "-"
_REPLACEMENT = "\ufffd"
_DOCUMENT_STARTS = ("<?xml", "<!--", "<!DOCTYPE", f"<{ROOT}")


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What was recovered from a source.

    ``xml`` is a document of the published grammar, in ASCII, facts only; section numbers, where the source
    has them, stand in ``f:ref``. ``types``, ``definitions`` and ``sections`` are counts. ``remarks`` are in
    line order.
    """

    xml: str
    types: int
    definitions: int
    sections: int
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
    tags = list(Scanner(text, frozenset(SHAPES), file, remarks, problems).tags())
    problems.raise_if_any()
    is_document = any(tag.name == ROOT and tag.kind != "end" for tag in tags)
    page = None if is_document else Page(text)
    if page is None:
        _remark_page_text(text, remarks)
    else:
        tags = _with_constants(tags, page, remarks)
    assembler = Assembler(remarks, page)
    assembler.assemble(tags, len(text.lines))
    if not assembler.sections:
        problems.add(Location(file, 1), "holds no definitions (<type>, <definition>) that can be read")
        problems.raise_if_any()
    if page is not None:
        _check_entries(assembler.sections, page, len(text.lines), remarks)
    name = assembler.name or _name(page, source, remarks)
    children = [child.name for section in assembler.sections for child in section.children]
    return ImportResult(
        xml=_rendered(name, assembler.sections),
        types=children.count(TYPE),
        definitions=children.count(DEFINITION),
        sections=len(assembler.sections),
        remarks=remarks.sorted(),
    )


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
    return text


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


def _rendered(name: str, sections: list[Node]) -> str:
    """The document, laid out one element a line, the same for the same facts."""
    namespaces: dict[str | None, str] = {None: _NAMESPACE}
    if any(node.reference for section in sections for node in (section, *section.children)):
        namespaces["f"] = _EXTENSIONS
    root = etree.Element(f"{{{_NAMESPACE}}}{ROOT}", {"name": name}, namespaces)
    for section in sections:
        _append(root, section)
    etree.indent(root)
    body = etree.tostring(root, encoding="us-ascii", xml_declaration=False).decode("ascii")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _append(parent: etree._Element, node: Node) -> None:
    element = etree.SubElement(parent, f"{{{_NAMESPACE}}}{node.name}", node.attributes)
    if node.reference:
        element.set(f"{{{_EXTENSIONS}}}ref", node.reference)
    for child in node.children:
        _append(element, child)


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
    stderr.write(
        f"types: {result.types}, constants: {result.definitions}, sections: {result.sections}, "
        f"remarks: {len(result.remarks)}\n"
    )
    return 0

"""Tags put together to sections, types and constants; what is damaged is left out, every repair remarked on.

The rule: a fact is taken as it stands or not at all. A missing end tag of an element whose facts all stand
in its start tag is a small repair. A type that lost its end, or one of its fields, is left out whole: the
fields that follow a lost one would travel in the wrong place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from amqpforge_generator.importers.markup import Tag
from amqpforge_generator.importers.pages import Page
from amqpforge_generator.importers.remarks import Remarks
from amqpforge_generator.importers.vocabulary import (
    DEFINITION,
    PROSE_ATTRIBUTES,
    PROSE_ELEMENTS,
    ROOT,
    SECTION,
    SHAPES,
    TYPE,
    type_fault,
)


@dataclass(slots=True)
class Node:
    """An element that is being read, or was; ``faults`` say why it cannot be used."""

    name: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    reference: str = ""

    def __str__(self) -> str:
        known = self.attributes.get("name")
        return f"<{self.name} name={known!r}>" if known else f"<{self.name}>"


class Assembler:
    """Puts the tags of one text together; ``page`` is given when the text is not itself a document.

    After `assemble`, ``name`` is the name of the root element, if there was one, and ``sections`` holds the
    sections that define something, in order; their children are usable types and constants.
    """

    def __init__(self, remarks: Remarks, page: Page | None) -> None:
        self.name = ""
        self.sections: list[Node] = []
        self._remarks = remarks
        self._page = page
        self._open: list[Node] = []
        self._by_number: dict[str, Node] = {}
        self._has_root = False
        self._strays: Counter[str] = Counter()

    def assemble(self, tags: Iterable[Tag], last_line: int) -> None:
        """Read all tags of a text that has ``last_line`` lines."""
        for tag in tags:
            if tag.name in SHAPES:
                if tag.kind == "end":
                    self._end(tag)
                else:
                    self._start(tag)
            elif tag.kind != "end" and tag.name not in PROSE_ELEMENTS:
                self._remarks.add(tag.line, f"<{tag.name}> is not an element of the grammar: dropped")
        self._close_above(0, last_line)
        for section in self.sections:
            if not section.children:
                self._remarks.add(section.line, f"{section} defines nothing that could be read: left out")
        self.sections = [section for section in self.sections if section.children]

    # -- start tags

    def _start(self, tag: Tag) -> None:
        shape = SHAPES[tag.name]
        node = Node(tag.name, tag.line, self._facts(tag))
        unreadable = next((name for name in shape.attributes if name in tag.unreadable), None)
        fault = tag.fault or (unreadable and f"has no readable {unreadable}") or shape.fault(node.attributes)
        if fault:
            node.faults.append(fault)
        holders = [depth for depth, open_ in enumerate(self._open, 1) if open_.name in shape.parents]
        if not holders and ROOT not in shape.parents and tag.name != ROOT:
            self._remarks.add(node.line, f"{node} stands in no type: left out")
            self._strays[tag.name] += tag.kind == "start"
            return
        self._close_above(holders[-1] if holders else 0, tag.line)
        if tag.name == ROOT:
            self._begin_root(node)
        elif tag.name == SECTION:
            self._begin_section(node)
        elif tag.name == DEFINITION:
            self._keep(node)
        elif tag.name != TYPE:
            self._begin_member(node)
        if tag.kind == "start":
            self._open.append(node)
        elif tag.name == TYPE:
            self._finish_type(node)

    def _facts(self, tag: Tag) -> dict[str, str]:
        """The attributes of a tag that are facts, in the order of the grammar."""
        given = dict(tag.attributes)
        shape = SHAPES[tag.name]
        for name in given:
            if name not in (*shape.attributes, *PROSE_ATTRIBUTES, "xmlns") and not name.startswith("xmlns:"):
                message = f"attribute {name!r} of <{tag.name}> is not one of the grammar: dropped"
                self._remarks.add(tag.line, message)
        return {name: given[name] for name in shape.attributes if name in given}

    def _begin_root(self, node: Node) -> None:
        if self._has_root:
            self._remarks.add(node.line, f"{node} begins another document: joined to the first")
        elif node.faults:
            self._remarks.add(node.line, f"{node} {node.faults[0]}: what it holds is kept")
        else:
            self.name = node.attributes["name"]
        self._has_root = True

    def _begin_section(self, node: Node) -> None:
        if node.faults:
            self._remarks.add(node.line, f"{node} {node.faults[0]}: what it defines is kept without it")
        else:
            self.sections.append(node)

    def _begin_member(self, node: Node) -> None:
        """A child of a type: its facts all stand in its start tag."""
        owner = self._open[-1]
        if node.faults:
            owner.faults.append(f"its {node} in line {node.line} {node.faults[0]}")
        else:
            owner.children.append(node)

    # -- end tags

    def _end(self, tag: Tag) -> None:
        depths = [depth for depth, open_ in enumerate(self._open, 1) if open_.name == tag.name]
        if self._strays[tag.name]:
            self._strays[tag.name] -= 1
            return
        if not depths:
            self._remarks.add(tag.line, f"</{tag.name}> ends nothing: dropped")
            return
        self._close_above(depths[-1], tag.line)
        node = self._open.pop()
        if node.name == TYPE:
            self._finish_type(node)

    def _close_above(self, depth: int, line: int) -> None:
        """End all open elements but the outermost ``depth``, as the text should have done before ``line``."""
        while len(self._open) > depth:
            node = self._open.pop()
            if node.name == TYPE:
                node.faults.append("does not end")
                self._finish_type(node)
            elif not node.faults:  # a damaged tag may have been one that needs no end
                self._remarks.add(node.line, f"{node} does not end: taken to end before line {line}")

    # -- results

    def _finish_type(self, node: Node) -> None:
        if not node.faults:
            fault = type_fault(node.attributes, [child.name for child in node.children])
            if fault:
                node.faults.append(fault)
        self._keep(node)

    def _keep(self, node: Node) -> None:
        """Put a type or constant into its section, unless something is wrong with it."""
        if node.faults:
            self._remarks.add(node.line, f"{node} {'; '.join(node.faults)}: left out")
            return
        named = [open_ for open_ in self._open if open_.name == SECTION and not open_.faults]
        (named[-1] if named else self._implied_section(node)).children.append(node)

    def _implied_section(self, node: Node) -> Node:
        """The section of a definition that stands in none: named after the numbered heading above it."""
        heading = self._page.heading_above(node.line) if self._page else None
        number = heading.section if heading else ""
        if heading and heading.number != number:
            node.reference = heading.number
        if number not in self._by_number:
            above = self._page.section_heading(heading) if self._page and heading else None
            name = above.name if above else f"section-{number.replace('.', '-')}" if number else "definitions"
            line = above.line if above else node.line
            why = f"named after the heading {above.title!r}" if above else "the text names none"
            self._remarks.add(line, f"<section name={name!r}>: {why}")
            section = Node(SECTION, line, {"name": name}, reference=number)
            self._by_number[number] = section
            self.sections.append(section)
        return self._by_number[number]

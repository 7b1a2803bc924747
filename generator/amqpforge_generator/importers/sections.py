"""The type/field/choice grammar put together: sections with types and constants.

A document has its sections in its tags; a page of prose has them in its numbered headings.
"""

from __future__ import annotations

from collections.abc import Iterable

from amqpforge_generator.importers.assembly import Assembler, Node
from amqpforge_generator.importers.markup import Tag
from amqpforge_generator.importers.pages import Page
from amqpforge_generator.importers.remarks import Remarks
from amqpforge_generator.importers.vocabulary import DEFINITION, SECTION, TYPE, TYPES, type_fault


class SectionAssembler(Assembler):
    """Puts the tags of one text together; ``page`` is given when the text is not itself a document.

    After `assemble`, ``nodes`` holds the sections that define something, in order; their children are usable
    types and constants.
    """

    home = "type"

    def __init__(self, remarks: Remarks, page: Page | None) -> None:
        super().__init__(TYPES, remarks)
        self._page = page
        self._by_number: dict[str, Node] = {}

    def assemble(self, tags: Iterable[Tag], last_line: int) -> None:
        super().assemble(tags, last_line)
        for section in self.nodes:
            if not section.children:
                self._remarks.add(section.line, f"{section} defines nothing that could be read: left out")
        self.nodes = [section for section in self.nodes if section.children]

    def _begin(self, node: Node) -> None:
        if node.name == SECTION:
            self._begin_section(node)
        elif node.name == DEFINITION:
            self._keep(node)
        elif node.name != TYPE:
            self._begin_member(node)

    def _begin_section(self, node: Node) -> None:
        if node.faults:
            self._remarks.add(node.line, f"{node} {node.faults[0]}: what it defines is kept without it")
        else:
            self.nodes.append(node)

    def _begin_member(self, node: Node) -> None:
        """A child of a type: its facts all stand in its start tag."""
        owner = self._open[-1]
        if node.faults:
            owner.faults.append(f"its {node} in line {node.line} {node.faults[0]}")
        else:
            owner.children.append(node)

    def _finish(self, node: Node) -> None:
        if node.name != TYPE:
            return
        if not node.faults:
            fault = type_fault(node.attributes, [child.name for child in node.children])
            if fault:
                node.faults.append(fault)
        self._keep(node)

    def _break_off(self, node: Node, line: int) -> None:
        if node.name == TYPE:
            node.faults.append("does not end")
            self._finish(node)
        else:
            self._remark_end(node, line)

    def _keep(self, node: Node) -> None:
        """Put a type or constant into its section, unless something is wrong with it."""
        if node.faults:
            self._leave_out(node)
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
            self.nodes.append(section)
        return self._by_number[number]

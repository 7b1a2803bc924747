"""Tags put together to elements: which stands in which, whatever end tags are missing or too many.

The rule: a fact is taken as it stands or not at all. A missing end tag of an element whose facts all stand
in its start tag is a small repair. A definition that lost its end, or a part that travels, is left out whole:
what follows a lost field would travel in the wrong place. Every repair is remarked on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from amqpforge_generator.importers.markup import Tag
from amqpforge_generator.importers.remarks import Remarks
from amqpforge_generator.importers.vocabulary import ROOT, Vocabulary


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


class Assembler(ABC):
    """Puts the tags of one text together; what elements mean is left to the classes below.

    After `assemble`, ``attributes`` are the facts of the root element, if there was one, and ``nodes`` the
    usable elements inside it, in order. ``home`` says in remarks where an element stands that stands in none
    of its legal parents.
    """

    home: str

    def __init__(self, vocabulary: Vocabulary, remarks: Remarks) -> None:
        self.attributes: dict[str, str] = {}
        self.nodes: list[Node] = []
        self._shapes = vocabulary.shapes
        self._vocabulary = vocabulary
        self._remarks = remarks
        self._open: list[Node] = []
        self._has_root = False
        self._strays: Counter[str] = Counter()

    def assemble(self, tags: Iterable[Tag], last_line: int) -> None:
        """Read all tags of a text that has ``last_line`` lines."""
        for tag in tags:
            if tag.name in self._shapes:
                if tag.kind == "end":
                    self._end(tag)
                else:
                    self._start(tag)
            elif tag.kind != "end" and not tag.fault and tag.name not in self._vocabulary.prose_elements:
                self._remarks.add(tag.line, f"<{tag.name}> is not an element of the grammar: dropped")
        self._close_above(0, last_line)

    # -- what elements mean

    @abstractmethod
    def _begin(self, node: Node) -> None:
        """An element other than the root begins in the innermost of the open ones."""

    @abstractmethod
    def _finish(self, node: Node) -> None:
        """An element has ended, with its own end tag or without having needed one."""

    @abstractmethod
    def _break_off(self, node: Node, line: int) -> None:
        """An element has not ended although it should have before ``line``."""

    # -- tags

    def _start(self, tag: Tag) -> None:
        shape = self._shapes[tag.name]
        node = Node(tag.name, tag.line, self._facts(tag))
        unreadable = next((name for name in shape.attributes if name in tag.unreadable), None)
        fault = tag.fault or (unreadable and f"has no readable {unreadable}") or shape.fault(node.attributes)
        if fault:
            node.faults.append(fault)
        holders = [depth for depth, open_ in enumerate(self._open, 1) if open_.name in shape.parents]
        if not holders and ROOT not in shape.parents and tag.name != ROOT:
            self._remarks.add(node.line, f"{node} stands in no {self.home}: left out")
            self._strays[tag.name] += tag.kind == "start"
            return
        self._close_above(holders[-1] if holders else 0, tag.line)
        if tag.name == ROOT:
            self._begin_root(node)
        else:
            self._begin(node)
        if tag.kind == "start":
            self._open.append(node)
        else:
            self._finish(node)

    def _facts(self, tag: Tag) -> dict[str, str]:
        """The attributes of a tag that are facts, in the order of the grammar."""
        given = dict(tag.attributes)
        shape = self._shapes[tag.name]
        known = (*shape.attributes, *self._vocabulary.prose_attributes, "xmlns")
        for name in given:
            if name not in known and not name.startswith("xmlns:"):
                message = f"attribute {name!r} of <{tag.name}> is not one of the grammar: dropped"
                self._remarks.add(tag.line, message)
        return {name: given[name] for name in shape.attributes if name in given}

    def _begin_root(self, node: Node) -> None:
        if self._has_root:
            self._remarks.add(node.line, f"{node} begins another document: joined to the first")
        elif node.faults:
            self._remarks.add(node.line, f"{node} {node.faults[0]}: what it holds is kept")
        else:
            self.attributes = node.attributes
        self._has_root = True

    def _end(self, tag: Tag) -> None:
        depths = [depth for depth, open_ in enumerate(self._open, 1) if open_.name == tag.name]
        if self._strays[tag.name]:
            self._strays[tag.name] -= 1
            return
        if not depths:
            self._remarks.add(tag.line, f"</{tag.name}> ends nothing: dropped")
            return
        self._close_above(depths[-1], tag.line)
        self._finish(self._open.pop())

    def _close_above(self, depth: int, line: int) -> None:
        """End all open elements but the outermost ``depth``, as the text should have done before ``line``."""
        while len(self._open) > depth:
            self._break_off(self._open.pop(), line)

    # -- remarks

    def _remark_end(self, node: Node, line: int) -> None:
        """Remark on an element whose facts stand in its start tag and whose end tag is missing."""
        if not node.faults:  # a damaged tag may have been one that needs no end
            self._remarks.add(node.line, f"{node} does not end: taken to end before line {line}")

    def _leave_out(self, node: Node) -> None:
        self._remarks.add(node.line, f"{node} {'; '.join(node.faults)}: left out")

"""The class/method grammar put together: constants, domains, and classes with what belongs to them."""

from __future__ import annotations

from amqpforge_generator.importers.assembly import Assembler, Node
from amqpforge_generator.importers.remarks import Remarks
from amqpforge_generator.importers.vocabulary import (
    CLASS,
    CLASSES,
    CONSTANT,
    DOMAIN,
    METHOD,
    ROOT,
    constant_fault,
    domain_fault,
    field_fault,
)

#: Elements that are taken or left out whole; a part of them that travels and is damaged spoils them.
_UNITS = (DOMAIN, CLASS, METHOD)
#: Elements that say something about what travels; a damaged one is left out alone.
_REMARKS = ("chassis", "response", "assert", "rule")


class ClassAssembler(Assembler):
    """Puts the tags of one class/method document together.

    After `assemble`, ``nodes`` holds the usable constants, domains and classes, in order; the children of a
    class are usable methods beside its properties and rules.
    """

    home = "class, domain or field"

    def __init__(self, remarks: Remarks) -> None:
        super().__init__(CLASSES, remarks)

    def _begin(self, node: Node) -> None:
        if node.name == CONSTANT:
            self._add_fault(node, constant_fault(node.attributes))
            self._keep(node)
        elif node.name not in _UNITS:
            self._begin_part(node)

    def _begin_part(self, node: Node) -> None:
        """A part of a domain, class or method: its own facts all stand in its start tag."""
        if node.name == "field":
            self._add_fault(node, field_fault(node.attributes))
        if not node.faults:
            self._open[-1].children.append(node)
        elif node.name in _REMARKS:
            self._leave_out(node)
        else:
            self._unit().faults.append(f"its {node} in line {node.line} {node.faults[0]}")

    def _finish(self, node: Node) -> None:
        if node.name == DOMAIN:
            children = [child.name for child in node.children]
            self._add_fault(node, domain_fault(node.attributes, children))
        elif node.name == "result" and len(node.children) != 1:
            count = f"{len(node.children) or 'no'} struct{'s' if node.children else ''}"
            self._add_fault(self._unit(), f"its {node} in line {node.line} has {count}")
        if node.name in _UNITS:
            self._keep(node)

    def _break_off(self, node: Node, line: int) -> None:
        if node.name in (DOMAIN, METHOD):
            node.faults.append("does not end")
            self._keep(node)
        elif node.name in ("result", "struct"):
            self._unit().faults.append(f"its {node} in line {node.line} does not end")
        else:
            self._remark_end(node, line)
            self._finish(node)

    def _keep(self, node: Node) -> None:
        """Put a constant, domain, class or method into its place, unless something is wrong with it."""
        if node.faults:
            self._leave_out(node)
            return
        owner = next((open_ for open_ in reversed(self._open) if open_.name != ROOT), None)
        (self.nodes if owner is None else owner.children).append(node)

    def _unit(self) -> Node:
        """The innermost domain, class or method that is open; a part never stands outside of one."""
        return next(open_ for open_ in reversed(self._open) if open_.name in _UNITS)

    def _add_fault(self, node: Node, fault: str) -> None:
        """Note a fault that only counts where there is no other."""
        if fault and not node.faults:
            node.faults.append(fault)

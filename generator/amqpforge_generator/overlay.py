"""Overlays: what became of a published dialect, said apart from it and laid over its raw document.

An overlay adds to its base, changes it and removes from it. All of that happens to raw documents, before
anything is resolved, and every element keeps the place where it was written, so that later problems point to
the file that has to be mended. What an overlay takes for granted is checked: where the base has moved on
underneath it, the problem names both places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from amqpforge_generator.document import (
    Digest,
    Document,
    Location,
    RawClass,
    RawDefinition,
    RawMethod,
    RawSection,
)
from amqpforge_generator.errors import Problems, suggestion
from amqpforge_generator.readers.class_method import GRAMMAR
from amqpforge_generator.readers.overlay import (
    CHANGEABLE,
    Addition,
    Change,
    Entry,
    Overlay,
    Part,
    Path,
    RawItem,
    Removal,
)

#: The kinds of elements that overlays reach inside others, and where raw elements keep them.
_INSIDE = {
    "": {"constant": "definitions", "domain": "types", "class": "classes"},
    "class": {"field": "fields", "method": "methods"},
    "method": {"field": "fields"},
}


def apply_overlays(
    documents: Sequence[Document], overlays: Sequence[Overlay], problems: Problems
) -> tuple[Document, ...]:
    """The documents with the overlays laid over them, in the order given; one sees what those before it left.

    An entry that does not fit is a problem, and is left out.
    """
    bases = {document.name: document for document in documents}
    fitting: dict[str, list[Overlay]] = {}
    for overlay in overlays:
        base = bases.get(overlay.base)
        if base is None:
            near = suggestion(overlay.base, bases)
            problems.add_unknown(overlay.at, f"no file here has the name {overlay.base!r} of the base", near)
        elif base.grammar != GRAMMAR:
            problems.add(
                overlay.at, f"{base.at.file} is written in {base.grammar}; overlays are for {GRAMMAR}"
            )
        else:
            fitting.setdefault(base.at.file, []).append(overlay)
    return tuple(_laid_over(document, fitting.get(document.at.file, []), problems) for document in documents)


def _laid_over(document: Document, overlays: Sequence[Overlay], problems: Problems) -> Document:
    if not overlays:
        return document
    (section,) = document.sections  # this grammar has one
    editing = _Editing(_Node("", section), problems)
    for overlay in overlays:
        for entry in overlay.entries:
            editing.apply(entry)
    sections = (editing.base.frozen(),)
    digests = tuple(Digest(file=overlay.at.file, sha256=overlay.sha256) for overlay in overlays)
    return replace(document, sections=sections, overlays=digests)


class _Node:
    """An element in the making: as it is by now, the elements inside it, and what overlays did to it.

    ``at`` is where it was defined, and stays so. ``changed`` has the values that changes gave it, by
    attribute; ``former`` what was renamed inside it, by kind and old name; ``removed`` where something was
    removed.
    """

    def __init__(self, kind: str, raw: RawSection | RawItem) -> None:
        self.kind = kind
        self.raw = raw
        self.at = raw.at
        self.inside: dict[str, list[_Node]] = {
            inner: [_Node(inner, item) for item in getattr(raw, slot)]
            for inner, slot in _INSIDE.get(kind, {}).items()
        }
        self.changed: dict[str, tuple[object, Location]] = {}
        self.former: dict[tuple[str, str], _Node] = {}
        self.removed: dict[tuple[str, str], Location] = {}

    def get(self, kind: str, name: str) -> _Node | None:
        """The element of that kind that has the name now."""
        return next((node for node in self.inside.get(kind, ()) if node.raw.name == name), None)

    def update(self, **values: Any) -> None:
        """Give the raw element new values."""
        self.raw = replace(self.raw, **values)

    def changes(self) -> Iterator[Location]:
        """Where this element or one inside it was changed."""
        yield from (at for _, at in self.changed.values())
        for nodes in self.inside.values():
            for node in nodes:
                yield from node.changes()

    def frozen(self) -> Any:
        """The raw element with all that happened to it and inside it."""
        slots = _INSIDE.get(self.kind, {})
        inside: dict[str, Any] = {
            slots[kind]: tuple(node.frozen() for node in nodes) for kind, nodes in self.inside.items()
        }
        return replace(self.raw, **inside)


class _Editing:
    """The entries of overlays applied one after the other to the tree of a base."""

    def __init__(self, base: _Node, problems: Problems) -> None:
        self.base = base
        self._problems = problems

    def apply(self, entry: Entry) -> None:
        """Apply an entry, or report why it does not fit."""
        match entry:
            case Addition():
                self._add(entry)
            case Part():
                self._add_part(entry)
            case Change():
                self._change(entry)
            case Removal():
                self._remove(entry)

    def _find(self, path: Path, at: Location) -> tuple[_Node, _Node] | None:
        """What holds the element at a path, and the element; None and a problem when it is not there."""
        holder = node = self.base
        for depth, (name, place) in enumerate(path.steps):
            holder = node
            is_last = depth == len(path.names) - 1
            kind = path.kind if is_last else ("class", "method")[depth]
            found = holder.get(kind, name) or holder.former.get((kind, name))
            if found is None:
                gone = holder.removed.get((kind, name))
                near = suggestion(name, (other.raw.name for other in holder.inside.get(kind, ())))
                hint = f"; removed at {gone}" if gone is not None else near
                self._problems.add(at, f"{place} ({holder.at}) has no {kind} {name!r}{hint}")
                return None
            node = found
        return holder, node

    def _add(self, entry: Addition) -> None:
        found = self._find(entry.owner, entry.at)
        if found is None:
            return
        _, owner = found
        siblings = owner.inside[entry.kind]
        if self._is_there(owner, entry.kind, entry.item.name, entry.at):
            return
        place = len(siblings)
        if entry.before is not None:
            other = self._find(Path(entry.kind, (*entry.owner.names, entry.before)), entry.at)
            place = siblings.index(other[1]) if other is not None else place
        siblings.insert(place, _Node(entry.kind, entry.item))

    def _is_there(self, owner: _Node, kind: str, name: str, at: Location) -> bool:
        """Whether a name is taken, which is a problem then."""
        found = owner.get(kind, name) if name else None
        if found is not None:
            self._problems.add(at, f"{kind} {name!r} is there already; first at {found.at}")
        return found is not None

    def _add_part(self, entry: Part) -> None:
        found = self._find(entry.owner, entry.at)
        if found is None:
            return
        _, owner = found
        raw = owner.raw
        if entry.chassis is not None and isinstance(raw, RawClass | RawMethod):
            if entry.chassis[0] in (peer for peer, _ in raw.chassis):
                self._complain_part(entry, f"a chassis of the {entry.chassis[0]}", owner)
            else:
                owner.update(chassis=(*raw.chassis, entry.chassis))
        if entry.response is not None and isinstance(raw, RawMethod):
            if entry.response in raw.responses:
                self._complain_part(entry, f"the response {entry.response!r}", owner)
            else:
                owner.update(responses=(*raw.responses, entry.response))

    def _complain_part(self, entry: Part, what: str, owner: _Node) -> None:
        self._problems.add(entry.at, f"{entry.owner} ({owner.at}) has {what} already")

    def _change(self, entry: Change) -> None:
        found = self._find(entry.path, entry.at)
        if found is None:
            return
        holder, node = found
        for attribute, value in entry.values:
            if self._may_set(holder, node, attribute, value, entry):
                slot = CHANGEABLE[node.kind][attribute]
                if attribute == "name":
                    holder.former[node.kind, node.raw.name] = node
                node.changed[slot] = value, entry.at
                node.update(**{slot: value})
        self._change_prose(node, entry)
        node.update(at=entry.at)
        if isinstance(node.raw, RawDefinition) and node.raw.encoding is not None:
            # The constant numbers a wire form, which has its name, its value and its prose.
            raw = node.raw
            form = replace(node.raw.encoding, at=raw.at, name=raw.name, code=raw.value, doc=raw.doc)
            node.update(encoding=form)

    def _may_set(self, holder: _Node, node: _Node, attribute: str, value: str, entry: Change) -> bool:
        """Whether an attribute takes a new value; when not, that is a problem or has happened already."""
        slot = CHANGEABLE[node.kind][attribute]
        if slot in node.changed:
            self._compare(node, slot, attribute, value, entry)
            return False
        old = getattr(node.raw, slot)
        if attribute == "name":
            return old != value and not self._is_there(holder, node.kind, value, entry.at)
        known = f"the {attribute} {old!r}" if old is not None else f"no {attribute}"
        state = f"{entry.path} ({node.at}) has {known}"
        if old == value:
            self._problems.add(entry.at, f"{state} already")
        elif entry.was not in (None, old):
            self._problems.add(entry.at, f"{state}, not {entry.was!r}")
        else:
            return True
        return False

    def _change_prose(self, node: _Node, entry: Change) -> None:
        for part in ("label", "paragraphs", "reference"):
            value = getattr(entry.doc, part)
            if value and part in node.changed:
                self._compare(node, part, part, value, entry)
            elif value:
                node.changed[part] = value, entry.at
                node.update(doc=replace(node.raw.doc, **{part: value}))

    def _compare(self, node: _Node, slot: str, shown: str, value: object, entry: Change) -> None:
        """Complain about a second change that says something else than the first."""
        earlier, place = node.changed[slot]
        if earlier != value:
            self._problems.add(
                entry.at, f"{entry.path} ({node.at}): the {shown} is changed here, and differently at {place}"
            )

    def _remove(self, entry: Removal) -> None:
        found = self._find(entry.path, entry.at)
        if found is None:
            return
        holder, node = found
        changed = min(node.changes(), default=None)
        if changed is not None:
            self._problems.add(
                entry.at, f"{entry.path} ({node.at}) is removed here, and changed at {changed}"
            )
            return
        holder.inside[node.kind].remove(node)
        holder.removed[node.kind, node.raw.name] = entry.at

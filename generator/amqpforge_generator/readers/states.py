"""Reader of the state machine grammar: machines of states, events, guards and transitions."""

from __future__ import annotations

from lxml import etree

from amqpforge_generator.document import (
    Doc,
    Document,
    RawEvent,
    RawGuard,
    RawMachine,
    RawSection,
    RawState,
    RawTransition,
)
from amqpforge_generator.errors import suggestion
from amqpforge_generator.names import SpecText
from amqpforge_generator.readers.shapes import Shape, check_shapes, children, get, need, read_doc
from amqpforge_generator.xmlsource import Source

NAMESPACE = "https://amqpforge.org/schema/states"
ROOT = f"{{{NAMESPACE}}}states"
GRAMMAR = "states"

DIRECTIONS = ("send", "receive", "local")

_PROSE = ("label", "f:ref")
_RESULTS = ("to", "stay", "ignore", "error")

SHAPES = {
    "states": Shape(required=("name",), optional=_PROSE, children=("doc", "machine"), once=("doc",)),
    "machine": Shape(
        required=("name", "initial"),
        optional=_PROSE,
        children=("doc", "state", "event", "guard", "transition"),
        once=("doc",),
    ),
    "state": Shape(required=("name",), optional=_PROSE, children=("doc",), once=("doc",)),
    "event": Shape(required=("name", "direction"), optional=_PROSE, children=("doc",), once=("doc",)),
    "guard": Shape(required=("name",), optional=_PROSE, children=("doc",), once=("doc",)),
    "transition": Shape(
        required=("from", "on"), optional=(*_RESULTS, "condition", "guards", "reason", "default")
    ),
    "doc": Shape(is_prose=True),
}


def read_states(root: etree._Element, source: Source) -> Document:
    """The raw document of a file of machines; what is wrong with its form goes to the source's problems.

    The machines are in one section, which has the name and the prose of the file.
    """
    check_shapes(root, SHAPES, NAMESPACE, source)
    doc = read_doc(root, NAMESPACE)
    machines = tuple(_machine(child, source, doc) for child in children(root, NAMESPACE, "machine"))
    section = RawSection(at=source.at(root), name=need(root, "name"), machines=machines, doc=doc)
    return Document(
        at=source.at(root),
        grammar=GRAMMAR,
        name=need(root, "name"),
        sha256=source.sha256,
        sections=(section,),
        doc=doc,
    )


def _machine(element: etree._Element, source: Source, inherited: Doc) -> RawMachine:
    doc = _described(element, source, inherited)
    return RawMachine(
        at=source.at(element),
        name=need(element, "name"),
        initial=need(element, "initial"),
        states=tuple(_state(child, source, doc) for child in children(element, NAMESPACE, "state")),
        events=tuple(_event(child, source, doc) for child in children(element, NAMESPACE, "event")),
        guards=tuple(_guard(child, source, doc) for child in children(element, NAMESPACE, "guard")),
        transitions=tuple(_transition(child, source) for child in children(element, NAMESPACE, "transition")),
        doc=doc,
    )


def _state(element: etree._Element, source: Source, inherited: Doc) -> RawState:
    return RawState(
        at=source.at(element), name=need(element, "name"), doc=_described(element, source, inherited)
    )


def _event(element: etree._Element, source: Source, inherited: Doc) -> RawEvent:
    direction = need(element, "direction")
    if direction and direction not in DIRECTIONS:
        known = ", ".join(DIRECTIONS) + suggestion(direction, DIRECTIONS)
        source.complain(element, f"direction {direction!r} is not one of {known}")
    return RawEvent(
        at=source.at(element),
        name=need(element, "name"),
        direction=direction,
        doc=_described(element, source, inherited),
    )


def _guard(element: etree._Element, source: Source, inherited: Doc) -> RawGuard:
    return RawGuard(
        at=source.at(element), name=need(element, "name"), doc=_described(element, source, inherited)
    )


def _described(element: etree._Element, source: Source, inherited: Doc) -> Doc:
    doc = read_doc(element, NAMESPACE, inherited)
    if not (doc.label or doc.paragraphs):
        kind = etree.QName(element).localname
        source.complain(element, f"{kind} {need(element, 'name')!r} has neither a label nor a doc")
    return doc


def _transition(element: etree._Element, source: Source) -> RawTransition:
    for attribute in ("stay", "ignore", "default"):
        value = get(element, attribute)
        if value not in (None, "true"):
            source.complain(element, f"{attribute} is {value!r}; it can be 'true' or left out")
    result = _result(element, source)
    condition = get(element, "condition")
    return RawTransition(
        at=source.at(element),
        states=tuple(need(element, "from").split()),
        events=tuple(need(element, "on").split()),
        result=result,
        target=get(element, "to"),
        condition=None if condition is None else SpecText(condition),
        guards=tuple((get(element, "guards") or "").split()),
        reason=SpecText(" ".join((get(element, "reason") or "").split())),
        default=get(element, "default"),
    )


def _result(element: etree._Element, source: Source) -> str:
    """The result that a row gives, or the empty string; whatever does not go with it is reported."""
    present = [name for name in _RESULTS if get(element, name) is not None]
    if len(present) != 1:
        given = " and ".join(present) or "none"
        source.complain(element, f"a transition gives one result: to, stay, ignore or error; here {given}")
        return ""
    result = {"to": "next", "stay": "stay", "ignore": "ignored"}.get(present[0]) or _error(element, source)
    if result == "peer-error":
        if not get(element, "condition"):
            source.complain(element, "an error of the peer needs the condition that reports it")
    elif get(element, "condition") is not None:
        source.complain(element, "a condition goes with error='peer' alone")
    if result in ("next", "stay"):
        return result
    if get(element, "guards") is not None:
        source.complain(element, "guards go with a next state alone (to or stay)")
    if not (get(element, "reason") or "").strip():
        source.complain(element, f"a transition with {present[0]!r} needs a reason")
    return result


def _error(element: etree._Element, source: Source) -> str:
    blame = need(element, "error")
    if blame not in ("local", "peer"):
        source.complain(element, f"error is {blame!r}; it can be 'local' or 'peer'")
        return ""
    return f"{blame}-error"

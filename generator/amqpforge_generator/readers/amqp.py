"""Reader of the published AMQP 1.0 grammar: sections of types and definitions, with our extensions."""

from __future__ import annotations

from lxml import etree

from amqpforge_generator.document import (
    Doc,
    Document,
    RawArchetype,
    RawChoice,
    RawDefinition,
    RawDescriptor,
    RawEncoding,
    RawField,
    RawSection,
    RawType,
)
from amqpforge_generator.errors import suggestion
from amqpforge_generator.readers.shapes import Shape, check_shapes, children, get, need, read_doc
from amqpforge_generator.xmlsource import Source

NAMESPACE = "http://www.amqp.org/schema/amqp.xsd"
ROOT = f"{{{NAMESPACE}}}amqp"
GRAMMAR = "amqp-1.0"

_PROSE = ("label", "title", "f:ref")
_FIELD = ("requires", "mandatory", "multiple", "f:references", *_PROSE)
_RESTRICTIONS = ("f:keys", "f:tolerated-keys", "f:values", "f:max-length")

SHAPES = {
    "amqp": Shape(required=("name",), optional=_PROSE, children=("doc", "section")),
    "section": Shape(
        required=("name",), optional=_PROSE, children=("doc", "type", "definition", "f:archetype")
    ),
    "type": Shape(
        required=("name", "class"),
        optional=("source", "provides", "f:part", *_RESTRICTIONS, *_PROSE),
        children=("doc", "encoding", "descriptor", "field", "choice", "f:entry"),
        once=("descriptor",),
    ),
    "encoding": Shape(required=("code", "category", "width"), optional=("name", *_PROSE), children=("doc",)),
    "descriptor": Shape(required=("name", "code"), optional=_PROSE, children=("doc",)),
    "field": Shape(required=("name", "type"), optional=("default", *_FIELD), children=("doc",)),
    "f:entry": Shape(required=("key", "type"), optional=_FIELD, children=("doc",)),
    "choice": Shape(required=("name", "value"), optional=_PROSE, children=("doc",)),
    "definition": Shape(required=("name", "value"), optional=_PROSE, children=("doc",)),
    "f:archetype": Shape(required=("name",), optional=("open", *_PROSE), children=("doc",)),
    "doc": Shape(optional=("name", "title"), is_prose=True),
}

#: What a type of each class may hold besides prose: child elements, then attributes.
CLASSES = {
    "primitive": ({"encoding"}, {"provides"}),
    "restricted": ({"descriptor", "choice", "f:entry"}, {"source", "provides", "f:part", *_RESTRICTIONS}),
    "composite": ({"descriptor", "field"}, {"source", "provides", "f:part"}),
}


def read_amqp(root: etree._Element, source: Source) -> Document:
    """The raw document of an AMQP 1.0 definition file; problems of form go to the source's problems."""
    check_shapes(root, SHAPES, NAMESPACE, source)
    doc = read_doc(root, NAMESPACE)
    return Document(
        at=source.at(root),
        grammar=GRAMMAR,
        name=need(root, "name"),
        sha256=source.sha256,
        sections=tuple(_section(child, source, doc) for child in children(root, NAMESPACE, "section")),
        doc=doc,
    )


def _section(element: etree._Element, source: Source, inherited: Doc) -> RawSection:
    doc = read_doc(element, NAMESPACE, inherited)
    return RawSection(
        at=source.at(element),
        name=need(element, "name"),
        types=tuple(_type(child, source, doc) for child in children(element, NAMESPACE, "type")),
        definitions=tuple(
            _definition(child, source, doc) for child in children(element, NAMESPACE, "definition")
        ),
        archetypes=tuple(
            _archetype(child, source, doc) for child in children(element, NAMESPACE, "f:archetype")
        ),
        doc=doc,
    )


def _type(element: etree._Element, source: Source, inherited: Doc) -> RawType:
    _check_class(element, source)
    doc = read_doc(element, NAMESPACE, inherited)
    return RawType(
        at=source.at(element),
        name=need(element, "name"),
        kind=need(element, "class"),
        source=get(element, "source"),
        provides=tuple(part.strip() for part in (get(element, "provides") or "").split(",") if part.strip()),
        descriptor=next(
            (_descriptor(child, source) for child in children(element, NAMESPACE, "descriptor")), None
        ),
        encodings=tuple(_encoding(child, source, doc) for child in children(element, NAMESPACE, "encoding")),
        choices=tuple(_choice(child, source, doc) for child in children(element, NAMESPACE, "choice")),
        fields=tuple(_field(child, source, doc, "name") for child in children(element, NAMESPACE, "field")),
        entries=tuple(_field(child, source, doc, "key") for child in children(element, NAMESPACE, "f:entry")),
        keys=get(element, "f:keys"),
        tolerated_keys=get(element, "f:tolerated-keys"),
        values=get(element, "f:values"),
        max_length=get(element, "f:max-length"),
        part=get(element, "f:part"),
        doc=doc,
    )


def _check_class(element: etree._Element, source: Source) -> None:
    """Which children and attributes fit depends on the class, so a shape cannot say it."""
    name, kind = need(element, "name"), need(element, "class")
    if kind not in CLASSES:
        if kind:
            source.complain(
                element, f"class {kind!r} of type {name!r} is not known{suggestion(kind, CLASSES)}"
            )
        return
    elements, attributes = CLASSES[kind]
    every = set().union(*(elements for elements, _ in CLASSES.values()))
    for child in children(element, NAMESPACE, *sorted(every - elements)):
        held = etree.QName(child).localname
        source.complain(child, f"type {name!r} is {kind}, which cannot have <{held}>")
    for attribute in ("source", "provides", "f:part", *_RESTRICTIONS):
        if attribute not in attributes and get(element, attribute) is not None:
            source.complain(
                element, f"type {name!r} is {kind}, which cannot have the attribute {attribute!r}"
            )
    if kind == "primitive" and not children(element, NAMESPACE, "encoding"):
        source.complain(element, f"primitive type {name!r} has no <encoding>")


def _descriptor(element: etree._Element, source: Source) -> RawDescriptor:
    return RawDescriptor(at=source.at(element), name=need(element, "name"), code=get(element, "code"))


def _encoding(element: etree._Element, source: Source, inherited: Doc) -> RawEncoding:
    return RawEncoding(
        at=source.at(element),
        name=get(element, "name"),
        code=need(element, "code"),
        category=need(element, "category"),
        width=need(element, "width"),
        doc=read_doc(element, NAMESPACE, inherited),
    )


def _choice(element: etree._Element, source: Source, inherited: Doc) -> RawChoice:
    return RawChoice(
        at=source.at(element),
        name=need(element, "name"),
        value=need(element, "value"),
        doc=read_doc(element, NAMESPACE, inherited),
    )


def _field(element: etree._Element, source: Source, inherited: Doc, key: str) -> RawField:
    return RawField(
        at=source.at(element),
        name=need(element, key),
        type=need(element, "type"),
        requires=get(element, "requires"),
        default=get(element, "default"),
        mandatory=get(element, "mandatory"),
        multiple=get(element, "multiple"),
        references=get(element, "f:references"),
        doc=read_doc(element, NAMESPACE, inherited),
    )


def _definition(element: etree._Element, source: Source, inherited: Doc) -> RawDefinition:
    return RawDefinition(
        at=source.at(element),
        name=need(element, "name"),
        value=need(element, "value"),
        doc=read_doc(element, NAMESPACE, inherited),
    )


def _archetype(element: etree._Element, source: Source, inherited: Doc) -> RawArchetype:
    return RawArchetype(
        at=source.at(element),
        name=need(element, "name"),
        open=get(element, "open"),
        doc=read_doc(element, NAMESPACE, inherited),
    )

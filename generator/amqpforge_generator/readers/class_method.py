"""Reader of the class/method grammar: constants, domains, classes with methods and content properties."""

from __future__ import annotations

from lxml import etree

from amqpforge_generator.document import (
    Doc,
    Document,
    Location,
    RawAssert,
    RawClass,
    RawDefinition,
    RawField,
    RawLayout,
    RawMethod,
    RawSection,
    RawType,
)
from amqpforge_generator.readers.shapes import Shape, check_shapes, children, get, need, read_doc
from amqpforge_generator.xmlsource import Source

NAMESPACE = "https://amqpforge.org/schema/class-method"
ROOT = f"{{{NAMESPACE}}}amqp"
GRAMMAR = "class-method"

_PROSE = ("label", "f:ref")
_VERSION = ("major", "minor", "revision", "port")

SHAPES = {
    "amqp": Shape(
        required=("name",), optional=(*_VERSION, *_PROSE), children=("doc", "constant", "domain", "class")
    ),
    "constant": Shape(required=("name", "value"), optional=("class", *_PROSE), children=("doc",)),
    "domain": Shape(
        required=("name",),
        optional=("type", *_PROSE),
        children=("doc", "rule", "assert", "struct"),
        once=("struct",),
    ),
    "struct": Shape(required=("size",), optional=("pack", "type", *_PROSE), children=("doc", "field")),
    "class": Shape(
        required=("name", "index"), optional=_PROSE, children=("doc", "rule", "chassis", "field", "method")
    ),
    "method": Shape(
        required=("name", "index"),
        optional=("synchronous", "content", *_PROSE),
        children=("doc", "rule", "chassis", "response", "result", "field"),
        once=("result",),
    ),
    "chassis": Shape(required=("name", "implement"), children=("doc",)),
    "response": Shape(required=("name",), children=("doc",)),
    "result": Shape(children=("doc", "struct"), once=("struct",)),
    "field": Shape(
        required=("name",),
        optional=("domain", "type", "default", *_PROSE),
        children=("doc", "rule", "assert"),
    ),
    "assert": Shape(required=("check",), optional=("value",), children=("doc",)),
    "rule": Shape(required=("name",), optional=("on-failure", *_PROSE), is_prose=True),
    "doc": Shape(optional=("type",), is_prose=True),
}


def read_class_method(root: etree._Element, source: Source) -> Document:
    """The raw document of a class/method file, as one section; problems of form go to the source's."""
    check_shapes(root, SHAPES, NAMESPACE, source)
    doc = read_doc(root, NAMESPACE)
    section = RawSection(
        at=source.at(root),
        name=need(root, "name"),
        types=tuple(_domain(child, source, doc) for child in children(root, NAMESPACE, "domain")),
        definitions=(
            *version_definitions(root, source),
            *(_constant(child, source, doc) for child in children(root, NAMESPACE, "constant")),
        ),
        classes=tuple(_class(child, source, doc) for child in children(root, NAMESPACE, "class")),
        doc=doc,
    )
    return Document(
        at=source.at(root),
        grammar=GRAMMAR,
        name=need(root, "name"),
        sha256=source.sha256,
        sections=(section,),
        doc=doc,
    )


def version_definitions(root: etree._Element, source: Source) -> tuple[RawDefinition, ...]:
    """Version and port, attributes of the root here, as the constants that they are elsewhere."""
    at = source.at(root)
    values = ((name, get(root, name)) for name in _VERSION)
    return tuple(RawDefinition(at=at, name=name, value=value) for name, value in values if value is not None)


def _constant(element: etree._Element, source: Source, inherited: Doc) -> RawDefinition:
    return RawDefinition(
        at=source.at(element),
        name=need(element, "name"),
        value=need(element, "value"),
        error_class=get(element, "class"),
        doc=read_doc(element, NAMESPACE, inherited),
    )


def _domain(element: etree._Element, source: Source, inherited: Doc) -> RawType:
    doc = read_doc(element, NAMESPACE, inherited)
    name = need(element, "name")
    structs = children(element, NAMESPACE, "struct")
    if (get(element, "type") is None) is not bool(structs):
        source.complain(element, f"domain {name!r} needs either the attribute 'type' or a <struct>")
    if structs:
        return _struct(structs[0], source, doc, name, source.at(element))
    return RawType(
        at=source.at(element),
        name=name,
        kind="domain",
        source=need(element, "type"),
        asserts=_asserts(element, source),
        doc=doc,
    )


def _struct(element: etree._Element, source: Source, doc: Doc, name: str, at: Location) -> RawType:
    return RawType(
        at=at,
        name=name,
        kind="struct",
        fields=_fields(element, source, doc),
        layout=RawLayout(size=get(element, "size"), pack=get(element, "pack"), code=get(element, "type")),
        doc=doc,
    )


def _class(element: etree._Element, source: Source, inherited: Doc) -> RawClass:
    doc = read_doc(element, NAMESPACE, inherited)
    name = need(element, "name")
    return RawClass(
        at=source.at(element),
        name=name,
        code=need(element, "index"),
        chassis=_chassis(element),
        fields=_fields(element, source, doc),
        methods=tuple(_method(child, source, doc, name) for child in children(element, NAMESPACE, "method")),
        doc=doc,
    )


def _method(element: etree._Element, source: Source, inherited: Doc, owner: str) -> RawMethod:
    doc = read_doc(element, NAMESPACE, inherited)
    name = need(element, "name")
    return RawMethod(
        at=source.at(element),
        name=name,
        kind="method",
        code=need(element, "index"),
        synchronous=get(element, "synchronous"),
        content=get(element, "content"),
        chassis=_chassis(element),
        responses=tuple(need(child, "name") for child in children(element, NAMESPACE, "response")),
        result=_result(element, source, doc, f"{owner}-{name}-result"),
        fields=_fields(element, source, doc),
        doc=doc,
    )


def _result(element: etree._Element, source: Source, inherited: Doc, name: str) -> RawType | None:
    """The struct that a method answers with; without a name of its own, it gets one from class and method."""
    for result in children(element, NAMESPACE, "result"):
        for struct in children(result, NAMESPACE, "struct"):
            doc = read_doc(struct, NAMESPACE, inherited)
            return _struct(struct, source, doc, name, source.at(struct))
        source.complain(result, "a <result> needs a <struct>")
    return None


def _chassis(element: etree._Element) -> tuple[tuple[str, str], ...]:
    found = children(element, NAMESPACE, "chassis")
    return tuple((need(child, "name"), need(child, "implement")) for child in found)


def _fields(element: etree._Element, source: Source, inherited: Doc) -> tuple[RawField, ...]:
    return tuple(_field(child, source, inherited) for child in children(element, NAMESPACE, "field"))


def _field(element: etree._Element, source: Source, inherited: Doc) -> RawField:
    domain, elementary = get(element, "domain"), get(element, "type")
    name = need(element, "name")
    if (domain is None) is (elementary is None):
        source.complain(element, f"field {name!r} needs either the attribute 'domain' or 'type'")
    return RawField(
        at=source.at(element),
        name=name,
        type=domain or elementary or "",
        default=get(element, "default"),
        asserts=_asserts(element, source),
        doc=read_doc(element, NAMESPACE, inherited),
    )


def _asserts(element: etree._Element, source: Source) -> tuple[RawAssert, ...]:
    return tuple(
        RawAssert(at=source.at(child), check=need(child, "check"), value=get(child, "value"))
        for child in children(element, NAMESPACE, "assert")
    )

"""Reader of the control/command grammar: coded types, domains, structs, records, controls and commands."""

from __future__ import annotations

from lxml import etree

from amqpforge_generator.document import (
    Doc,
    Document,
    RawChoice,
    RawClass,
    RawDefinition,
    RawEncoding,
    RawException,
    RawField,
    RawLayout,
    RawMethod,
    RawRange,
    RawSection,
    RawType,
)
from amqpforge_generator.errors import suggestion
from amqpforge_generator.readers.shapes import Shape, check_shapes, children, get, need, read_doc
from amqpforge_generator.xmlsource import Source

NAMESPACE = "https://amqpforge.org/schema/control-command"
ROOT = f"{{{NAMESPACE}}}amqp"
GRAMMAR = "control-command"

_PROSE = ("label", "f:ref")
_MULTIPLICITIES = ("required", "optional", "multiple")
_METHOD = Shape(required=("name", "code", "pack"), optional=_PROSE, children=("doc", "field", "exception"))

SHAPES = {
    "amqp": Shape(
        required=("name",),
        optional=("f:protocol-header", *_PROSE),
        children=("doc", "definition", "range", "type", "domain", "struct", "record", "class"),
    ),
    "definition": Shape(required=("name", "value"), optional=_PROSE, children=("doc",)),
    "range": Shape(required=("from", "to", "category", "width"), optional=_PROSE, children=("doc",)),
    "type": Shape(
        required=("name", "category", "width", "holds"),
        optional=("code", "charset", *_PROSE),
        children=("doc",),
    ),
    "domain": Shape(required=("name", "type"), optional=_PROSE, children=("doc", "choice")),
    "choice": Shape(required=("name", "value"), optional=_PROSE, children=("doc",)),
    "struct": Shape(required=("name", "pack"), optional=("code", "size", *_PROSE), children=("doc", "field")),
    "record": Shape(required=("name",), optional=_PROSE, children=("doc", "field")),
    "class": Shape(required=("name", "code"), optional=_PROSE, children=("doc", "control", "command")),
    "control": _METHOD,
    "command": _METHOD,
    "field": Shape(
        required=("name", "type", "multiplicity"), optional=("default", *_PROSE), children=("doc",)
    ),
    "exception": Shape(required=("name", "error"), optional=_PROSE, children=("doc",)),
    "doc": Shape(is_prose=True),
}


def read_control_command(root: etree._Element, source: Source) -> Document:
    """The raw document of a control/command file, as one section; problems of form go to the source's."""
    check_shapes(root, SHAPES, NAMESPACE, source)
    doc = read_doc(root, NAMESPACE)
    types = children(root, NAMESPACE, "type", "domain", "struct", "record")
    section = RawSection(
        at=source.at(root),
        name=need(root, "name"),
        types=tuple(_TYPES[etree.QName(child).localname](child, source, doc) for child in types),
        definitions=tuple(
            RawDefinition(
                at=source.at(child),
                name=need(child, "name"),
                value=need(child, "value"),
                doc=read_doc(child, NAMESPACE, doc),
            )
            for child in children(root, NAMESPACE, "definition")
        ),
        classes=tuple(_class(child, source, doc) for child in children(root, NAMESPACE, "class")),
        ranges=tuple(_range(child, source, doc) for child in children(root, NAMESPACE, "range")),
        doc=doc,
    )
    return Document(
        at=source.at(root),
        grammar=GRAMMAR,
        name=need(root, "name"),
        sha256=source.sha256,
        sections=(section,),
        protocol_header=get(root, "f:protocol-header"),
        doc=doc,
    )


def _range(element: etree._Element, source: Source, inherited: Doc) -> RawRange:
    return RawRange(
        at=source.at(element),
        first=need(element, "from"),
        last=need(element, "to"),
        category=need(element, "category"),
        width=need(element, "width"),
        doc=read_doc(element, NAMESPACE, inherited),
    )


def _coded_type(element: etree._Element, source: Source, inherited: Doc) -> RawType:
    doc = read_doc(element, NAMESPACE, inherited)
    encoding = RawEncoding(
        at=source.at(element),
        name=None,
        code=get(element, "code"),
        category=need(element, "category"),
        width=need(element, "width"),
        holds=need(element, "holds"),
        charset=get(element, "charset"),
        doc=doc,
    )
    name = need(element, "name")
    return RawType(at=source.at(element), name=name, kind="primitive", encodings=(encoding,), doc=doc)


def _domain(element: etree._Element, source: Source, inherited: Doc) -> RawType:
    doc = read_doc(element, NAMESPACE, inherited)
    return RawType(
        at=source.at(element),
        name=need(element, "name"),
        kind="restricted",
        source=need(element, "type"),
        choices=tuple(
            RawChoice(
                at=source.at(child),
                name=need(child, "name"),
                value=need(child, "value"),
                doc=read_doc(child, NAMESPACE, doc),
            )
            for child in children(element, NAMESPACE, "choice")
        ),
        doc=doc,
    )


def _struct(element: etree._Element, source: Source, inherited: Doc) -> RawType:
    """A struct, or a record, which is a struct without packing flags."""
    doc = read_doc(element, NAMESPACE, inherited)
    return RawType(
        at=source.at(element),
        name=need(element, "name"),
        kind="struct",
        fields=_fields(element, source, doc),
        layout=RawLayout(size=get(element, "size"), pack=get(element, "pack"), code=get(element, "code")),
        doc=doc,
    )


_TYPES = {"type": _coded_type, "domain": _domain, "struct": _struct, "record": _struct}


def _class(element: etree._Element, source: Source, inherited: Doc) -> RawClass:
    doc = read_doc(element, NAMESPACE, inherited)
    return RawClass(
        at=source.at(element),
        name=need(element, "name"),
        code=need(element, "code"),
        methods=tuple(
            _method(child, source, doc) for child in children(element, NAMESPACE, "control", "command")
        ),
        doc=doc,
    )


def _method(element: etree._Element, source: Source, inherited: Doc) -> RawMethod:
    doc = read_doc(element, NAMESPACE, inherited)
    return RawMethod(
        at=source.at(element),
        name=need(element, "name"),
        kind=etree.QName(element).localname,
        code=need(element, "code"),
        fields=_fields(element, source, doc),
        exceptions=tuple(
            _exception(child, source, doc) for child in children(element, NAMESPACE, "exception")
        ),
        layout=RawLayout(pack=get(element, "pack"), code=need(element, "code")),
        doc=doc,
    )


def _exception(element: etree._Element, source: Source, inherited: Doc) -> RawException:
    return RawException(
        at=source.at(element),
        name=need(element, "name"),
        error=need(element, "error"),
        doc=read_doc(element, NAMESPACE, inherited),
    )


def _fields(element: etree._Element, source: Source, inherited: Doc) -> tuple[RawField, ...]:
    return tuple(_field(child, source, inherited) for child in children(element, NAMESPACE, "field"))


def _field(element: etree._Element, source: Source, inherited: Doc) -> RawField:
    name, multiplicity = need(element, "name"), need(element, "multiplicity")
    if multiplicity and multiplicity not in _MULTIPLICITIES:
        near = suggestion(multiplicity, _MULTIPLICITIES)
        source.complain(element, f"multiplicity {multiplicity!r} of field {name!r} is not known{near}")
    return RawField(
        at=source.at(element),
        name=name,
        type=need(element, "type"),
        default=get(element, "default"),
        mandatory="true" if multiplicity == "required" else None,
        multiple="true" if multiplicity == "multiple" else None,
        doc=read_doc(element, NAMESPACE, inherited),
    )

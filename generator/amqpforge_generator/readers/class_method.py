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
    RawEncoding,
    RawField,
    RawLayout,
    RawMethod,
    RawRule,
    RawSection,
    RawType,
)
from amqpforge_generator.errors import suggestion
from amqpforge_generator.readers.shapes import Shape, check_shapes, children, get, need, read_doc
from amqpforge_generator.xmlsource import Source

NAMESPACE = "https://amqpforge.org/schema/class-method"
ROOT = f"{{{NAMESPACE}}}amqp"
GRAMMAR = "class-method"

_PROSE = ("label", "f:ref")
_VERSION = ("major", "minor", "revision", "port")
_FORM = ("f:category", "f:width", "f:holds", "f:charset")
_ERROR_CLASSES = ("soft-error", "hard-error")
_TABLE_TYPE = "field-table-type"
_VALUE_FORM = ("width", "lfwidth", "datatype", "f:holds", "f:charset")
#: What the datatypes of field table values hold; ``special`` leaves it to f:holds.
_DATATYPES = {
    "binary": "binary",
    "signed-integer": "signed",
    "unsigned-integer": "unsigned",
    "ieee-float": "float",
    "boolean": "boolean",
    "char": "character",
    "string": "text",
    "decimal": "decimal",
    "void": "void",
    "field-table": "map",
    "sequence": "list",
    "array": "array",
    "special": None,
}

SHAPES = {
    "amqp": Shape(
        required=("name",),
        optional=("f:protocol-header", *_VERSION, *_PROSE),
        children=("doc", "constant", "domain", "class"),
    ),
    "constant": Shape(
        required=("name", "value"),
        optional=("class", "f:enum", *_VALUE_FORM, *_PROSE),
        children=("doc",),
    ),
    "domain": Shape(
        required=("name",),
        optional=("type", *_FORM, *_PROSE),
        children=("doc", "rule", "assert", "struct"),
        once=("struct",),
    ),
    "struct": Shape(required=("size",), optional=("pack", "type", *_PROSE), children=("doc", "field")),
    "class": Shape(
        required=("name", "index"),
        optional=("f:header", *_PROSE),
        children=("doc", "rule", "chassis", "field", "method"),
    ),
    "method": Shape(
        required=("name", "index"),
        optional=("synchronous", "content", "f:header", *_PROSE),
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
    "assert": Shape(required=("check",), optional=("value", "rule", "f:regexp"), children=("doc",)),
    "rule": Shape(required=("name",), optional=("on-failure", *_PROSE), children=("doc",)),
    "doc": Shape(optional=("type",), is_prose=True),
}


def read_class_method(root: etree._Element, source: Source) -> Document:
    """The raw document of a class/method file, as one section; problems of form go to the source's."""
    check_shapes(root, SHAPES, NAMESPACE, source)
    doc = read_doc(root, NAMESPACE)
    section = RawSection(
        at=source.at(root),
        name=need(root, "name"),
        types=tuple(read_domain(child, source, doc) for child in children(root, NAMESPACE, "domain")),
        definitions=(
            *version_definitions(root, source),
            *(read_constant(child, source, doc) for child in children(root, NAMESPACE, "constant")),
        ),
        classes=tuple(read_class(child, source, doc) for child in children(root, NAMESPACE, "class")),
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


def version_definitions(root: etree._Element, source: Source) -> tuple[RawDefinition, ...]:
    """Version and port, attributes of the root here, as the constants that they are elsewhere."""
    at = source.at(root)
    values = ((name, get(root, name)) for name in _VERSION)
    return tuple(RawDefinition(at=at, name=name, value=value) for name, value in values if value is not None)


def read_constant(element: etree._Element, source: Source, inherited: Doc) -> RawDefinition:
    """A constant, with the form of the field table values that it numbers, if it does."""
    doc = read_doc(element, NAMESPACE, inherited)
    kind = get(element, "class")
    for attribute in _VALUE_FORM if kind in (None, *_ERROR_CLASSES) else ():
        if get(element, attribute) is not None:
            what = f"constant {need(element, 'name')!r}"
            source.complain(element, f"{what} has {attribute}, which only a {_TABLE_TYPE} can have")
    return RawDefinition(
        at=source.at(element),
        name=need(element, "name"),
        value=need(element, "value"),
        error_class=None if kind == _TABLE_TYPE else kind,
        enumeration=get(element, "f:enum"),
        encoding=_value_form(element, source, doc) if kind == _TABLE_TYPE else None,
        doc=doc,
    )


def _value_form(element: etree._Element, source: Source, doc: Doc) -> RawEncoding:
    """The form of field table values that a constant numbers: ``width`` octets, or a size of ``lfwidth``."""
    name, datatype = need(element, "name"), get(element, "datatype")
    what = f"field table type {name!r}"
    width, size_width = get(element, "width"), get(element, "lfwidth")
    if (width is None) is (size_width is None):
        source.complain(element, f"{what} needs either 'width' or 'lfwidth'")
        width, size_width = None, None
    if datatype is None:
        source.complain(element, f"{what} has no datatype")
    elif datatype not in _DATATYPES:
        near = suggestion(datatype, _DATATYPES)
        source.complain(element, f"{what} has the unknown datatype {datatype!r}{near}")
    holds, given = _DATATYPES.get(datatype or ""), get(element, "f:holds")
    if datatype == "special" and given is None:
        source.complain(element, f"{what} is special, and needs f:holds to say what it is")
    elif datatype != "special" and given is not None:
        source.complain(element, f"{what} has f:holds, which only a special one can have")
    return RawEncoding(
        at=source.at(element),
        name=name,
        code=need(element, "value"),
        category="variable" if width is None else "fixed",
        width=width or size_width or "",
        holds=given if datatype == "special" else holds,
        charset=get(element, "f:charset"),
        doc=doc,
    )


def read_domain(element: etree._Element, source: Source, inherited: Doc) -> RawType:
    """A domain: an elementary one with its wire form, an alias, or a struct."""
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
        encodings=_own_form(element, source, doc),
        asserts=_asserts(element, source),
        rules=_rules(element, source, doc),
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


def _own_form(element: etree._Element, source: Source, doc: Doc) -> tuple[RawEncoding, ...]:
    """The wire form of an elementary domain, which is one whose type is its own name."""
    name = need(element, "name")
    given = [attribute for attribute in _FORM if get(element, attribute) is not None]
    if get(element, "type") != name:
        for attribute in given:
            source.complain(
                element, f"domain {name!r} has {attribute}, which only an elementary domain can have"
            )
        return ()
    for attribute in _FORM[:3]:
        if attribute not in given:
            source.complain(
                element, f"elementary domain {name!r} does not say its wire form: {attribute} is missing"
            )
    return (
        RawEncoding(
            at=source.at(element),
            name=name,
            code=None,
            category=need(element, "f:category"),
            width=need(element, "f:width"),
            holds=get(element, "f:holds"),
            charset=get(element, "f:charset"),
            doc=doc,
        ),
    )


def read_class(element: etree._Element, source: Source, inherited: Doc) -> RawClass:
    """A class with its methods and content properties."""
    doc = read_doc(element, NAMESPACE, inherited)
    name = need(element, "name")
    return RawClass(
        at=source.at(element),
        name=name,
        code=need(element, "index"),
        chassis=_chassis(element),
        fields=_fields(element, source, doc),
        header=get(element, "f:header"),
        methods=tuple(
            read_method(child, source, doc, name) for child in children(element, NAMESPACE, "method")
        ),
        rules=_rules(element, source, doc),
        doc=doc,
    )


def read_method(element: etree._Element, source: Source, inherited: Doc, owner: str) -> RawMethod:
    """A method of the class named ``owner``."""
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
        header=get(element, "f:header"),
        fields=_fields(element, source, doc),
        rules=_rules(element, source, doc),
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
    return tuple(read_field(child, source, inherited) for child in children(element, NAMESPACE, "field"))


def read_field(element: etree._Element, source: Source, inherited: Doc) -> RawField:
    """A field; its type is a domain or an elementary type."""
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
        rules=_rules(element, source, inherited),
        doc=read_doc(element, NAMESPACE, inherited),
    )


def _asserts(element: etree._Element, source: Source) -> tuple[RawAssert, ...]:
    return tuple(
        RawAssert(
            at=source.at(child),
            check=need(child, "check"),
            value=get(child, "value"),
            rule=get(child, "rule"),
            pattern=get(child, "f:regexp"),
        )
        for child in children(element, NAMESPACE, "assert")
    )


def _rules(element: etree._Element, source: Source, inherited: Doc) -> tuple[RawRule, ...]:
    return tuple(
        RawRule(
            at=source.at(child),
            name=need(child, "name"),
            on_failure=get(child, "on-failure"),
            doc=read_doc(child, NAMESPACE, inherited),
        )
        for child in children(element, NAMESPACE, "rule")
    )

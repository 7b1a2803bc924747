"""The grammars as data: which element may stand where, which attributes are facts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType


def _forms(**patterns: str) -> Mapping[str, re.Pattern[str]]:
    return MappingProxyType({name.rstrip("_"): re.compile(pattern) for name, pattern in patterns.items()})


@dataclass(frozen=True, slots=True)
class Shape:
    """An element: where it may stand, and its attributes in the order in which they are written out.

    Attributes that are not ``optional`` are required. ``forms`` are patterns for values; where there is
    none, any text but the empty one will do.
    """

    parents: tuple[str, ...]
    attributes: tuple[str, ...]
    optional: frozenset[str] = frozenset()
    forms: Mapping[str, re.Pattern[str]] = field(default_factory=_forms)

    def fault(self, attributes: Mapping[str, str]) -> str:
        """Why an element with these attributes cannot be used, or the empty string."""
        for name in self.attributes:
            value = attributes.get(name)
            if value is None:
                if name not in self.optional:
                    return f"has no {name}"
            elif name in self.forms:
                if not self.forms[name].fullmatch(value):
                    return f"has the {name} {value[:40]!r}"
            elif not value:
                return f"has an empty {name}"
        return ""


_ANY = "(?s:.*)"

ROOT = "amqp"
SECTION = "section"
TYPE = "type"
DEFINITION = "definition"
CONSTANT = "constant"
DOMAIN = "domain"
CLASS = "class"
METHOD = "method"

Shapes = Mapping[str, Shape]

_TYPE_SHAPES: Shapes = MappingProxyType(
    {
        ROOT: Shape((), ("name",)),
        SECTION: Shape((ROOT,), ("name",)),
        TYPE: Shape(
            (SECTION, ROOT),
            ("name", "class", "source", "provides"),
            frozenset({"source", "provides"}),
            _forms(class_="primitive|restricted|composite"),
        ),
        "encoding": Shape(
            (TYPE,),
            ("name", "code", "category", "width"),
            frozenset({"name"}),
            _forms(code="0x[0-9A-Fa-f]{2}", category="fixed|variable|compound|array", width="[0-9]+"),
        ),
        "descriptor": Shape((TYPE,), ("name", "code"), frozenset({"code"})),
        "field": Shape(
            (TYPE,),
            ("name", "type", "requires", "default", "mandatory", "multiple"),
            frozenset({"requires", "default", "mandatory", "multiple"}),
            _forms(default=_ANY, mandatory="true|false", multiple="true|false"),
        ),
        "choice": Shape((TYPE,), ("name", "value"), forms=_forms(value=_ANY)),
        DEFINITION: Shape((SECTION, ROOT), ("name", "value"), forms=_forms(value=_ANY)),
    }
)

_NUMBER = "[0-9]+|0x[0-9A-Fa-f]+"
_TRUTH = "0|1|true|false"
_WIDTH = "octet|short|long|1|2|4"
_VERSION = {"major": _NUMBER, "minor": _NUMBER, "revision": _NUMBER, "port": _NUMBER}

_CLASS_SHAPES: Shapes = MappingProxyType(
    {
        ROOT: Shape((), ("name", *_VERSION), frozenset({"name", *_VERSION}), _forms(**_VERSION)),
        CONSTANT: Shape(
            (ROOT,),
            ("name", "value", "class", "width", "lfwidth", "datatype"),
            frozenset({"class", "width", "lfwidth", "datatype"}),
            _forms(class_="soft-error|hard-error|field-table-type", width="[0-9]+", lfwidth="[0-9]+"),
        ),
        DOMAIN: Shape((ROOT,), ("name", "type"), frozenset({"type"})),
        CLASS: Shape((ROOT,), ("name", "index"), forms=_forms(index=_NUMBER)),
        METHOD: Shape(
            (CLASS,),
            ("name", "index", "synchronous", "content"),
            frozenset({"synchronous", "content"}),
            _forms(index=_NUMBER, synchronous=_TRUTH, content=_TRUTH),
        ),
        "chassis": Shape(
            (CLASS, METHOD),
            ("name", "implement"),
            forms=_forms(name="client|server", implement="MUST|SHOULD|MAY"),
        ),
        "response": Shape((METHOD,), ("name",)),
        "result": Shape((METHOD,), ()),
        "struct": Shape(
            (DOMAIN, "result"),
            ("size", "pack", "type"),
            frozenset({"pack", "type"}),
            _forms(size=_WIDTH, pack=_WIDTH, type=_NUMBER),
        ),
        "field": Shape(
            (CLASS, METHOD, "struct"),
            ("name", "domain", "type", "default"),
            frozenset({"domain", "type", "default"}),
            _forms(default=_ANY),
        ),
        "assert": Shape(
            (DOMAIN, "field"), ("check", "value", "rule"), frozenset({"value", "rule"}), _forms(value=_ANY)
        ),
        "rule": Shape((CLASS, METHOD, DOMAIN, "field"), ("name", "on-failure"), frozenset({"on-failure"})),
    }
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A grammar: its namespace and elements, and the elements and attributes that are dropped without a word.

    ``marks`` are the elements by which a document of the grammar is told: no other grammar has them.
    ``counted`` are the elements whose number a report gives, by the word for several of them.
    """

    namespace: str
    shapes: Shapes
    marks: frozenset[str]
    counted: Mapping[str, str]
    prose_elements: frozenset[str]
    prose_attributes: frozenset[str]


TYPES = Vocabulary(
    namespace="http://www.amqp.org/schema/amqp.xsd",
    shapes=_TYPE_SHAPES,
    marks=frozenset({SECTION, TYPE, DEFINITION}),
    counted=MappingProxyType({"types": TYPE, "constants": DEFINITION, "sections": SECTION}),
    prose_elements=frozenset("doc p ul ol li dl dt dd b i sub sup term xref picture".split()),
    prose_attributes=frozenset({"label", "title"}),
)
CLASSES = Vocabulary(
    namespace="https://amqpforge.org/schema/class-method",
    shapes=_CLASS_SHAPES,
    marks=frozenset({CONSTANT, DOMAIN, CLASS}),
    counted=MappingProxyType(
        {"constants": CONSTANT, "domains": DOMAIN, "classes": CLASS, "methods": METHOD, "fields": "field"}
    ),
    prose_elements=frozenset({"doc", "p"}),
    prose_attributes=frozenset({"label", "comment"}),
)

#: What each class of type holds: a source or not, how many descriptors (least, most), which other children.
_CONTENTS: Mapping[str, tuple[bool, int, int, str]] = MappingProxyType(
    {
        "primitive": (False, 0, 0, "encoding"),
        "restricted": (True, 0, 1, "choice"),
        "composite": (True, 1, 1, "field"),
    }
)


def type_fault(attributes: Mapping[str, str], children: Sequence[str]) -> str:
    """Why a type with these attributes and child elements is not one of the grammar, or the empty string."""
    kind = attributes["class"]
    has_source, least, most, member = _CONTENTS[kind]
    if has_source != ("source" in attributes):
        return f"is {kind} and has {'no' if has_source else 'a'} source"
    descriptors = children.count("descriptor")
    if not least <= descriptors <= most:
        return f"is {kind} and has {descriptors or 'no'} descriptor{'s' if descriptors > 1 else ''}"
    stranger = next((child for child in children if child not in ("descriptor", member)), None)
    if stranger:
        return f"is {kind} and has a child <{stranger}>"
    if kind == "primitive" and not children:
        return "is primitive and has no encoding"
    return ""


def constant_fault(attributes: Mapping[str, str]) -> str:
    """Why a constant with these attributes is not one of the grammar, or the empty string."""
    forms = [name for name in ("width", "lfwidth", "datatype") if name in attributes]
    if attributes.get("class") != "field-table-type":
        return f"is no field table type and has a {forms[0]}" if forms else ""
    if "datatype" not in forms:
        return "is a field table type and has no datatype"
    if len(forms) == 3:
        return "is a field table type and has both width and lfwidth"
    return "" if len(forms) == 2 else "is a field table type and has neither width nor lfwidth"


def domain_fault(attributes: Mapping[str, str], children: Sequence[str]) -> str:
    """Why a domain with these attributes and children is not one of the grammar, or the empty string."""
    structs = children.count("struct")
    if structs > 1:
        return f"has {structs} structs"
    if structs and "type" in attributes:
        return "has both a type and a struct"
    if not structs and "type" not in attributes:
        return "has neither a type nor a struct"
    return ""


def field_fault(attributes: Mapping[str, str]) -> str:
    """Why a field of a method, class or struct is not one of the grammar, or the empty string."""
    if "domain" in attributes and "type" in attributes:
        return "has both a domain and a type"
    return "" if "domain" in attributes or "type" in attributes else "has neither a domain nor a type"

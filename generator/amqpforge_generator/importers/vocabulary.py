"""The type/field/choice grammar as data: which element may stand where, which attributes are facts."""

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

SHAPES: Mapping[str, Shape] = MappingProxyType(
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

#: Elements and attributes that hold prose; they are dropped without a word.
PROSE_ELEMENTS = frozenset("doc p ul ol li dl dt dd b i sub sup term xref picture".split())
PROSE_ATTRIBUTES = frozenset({"label", "title"})

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

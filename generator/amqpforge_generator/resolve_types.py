"""Types resolved: alias chains followed to their primitive, values typed, restrictions inherited."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from amqpforge_generator.document import (
    Location,
    RawAssert,
    RawChoice,
    RawDescriptor,
    RawEncoding,
    RawLayout,
    RawType,
)
from amqpforge_generator.errors import Problems, suggestion
from amqpforge_generator.literals import NotLegal, parse_integer, parse_literal
from amqpforge_generator.model import (
    Archetype,
    Assertion,
    Choice,
    Descriptor,
    Encoding,
    Field,
    Layout,
    Literal,
    Name,
    Restriction,
    Type,
)
from amqpforge_generator.names import SpecText, make_name

_DESCRIPTOR_CODE = re.compile(r"0x([0-9A-Fa-f]{8}):0x([0-9A-Fa-f]{8})")
_OCTET = re.compile(r"0x[0-9A-Fa-f]{2}")
_CATEGORIES = ("fixed", "variable", "compound", "array")
_PARTS = ("payload", "head", "bare", "body-many", "body-one", "foot")
_VALUES = ("any", "simple", "described-or-null")
_SIZED = ("binary", "string", "symbol")
#: Section 1.2 of AMQP 1.0: the upper half of an encoding code is the category and the width.
_SUBCATEGORIES = {
    0x4: ("fixed", 0), 0x5: ("fixed", 1), 0x6: ("fixed", 2), 0x7: ("fixed", 4),
    0x8: ("fixed", 8), 0x9: ("fixed", 16),
    0xA: ("variable", 1), 0xB: ("variable", 4), 0xC: ("compound", 1), 0xD: ("compound", 4),
    0xE: ("array", 1), 0xF: ("array", 4),
}  # fmt: skip
_WIDTH_WORDS = {"octet": 1, "short": 2, "long": 4}
_OPERANDS: dict[str, type | None] = {
    "notnull": None,
    "length": int,
    "ne": int,
    "le": int,
    "ge": int,
    "regexp": str,
    "syntax": str,
}


@dataclass(slots=True)
class Scope:
    """What resolution shares: the grammar, every type and archetype by XML name, and where problems go."""

    grammar: str
    problems: Problems
    types: dict[str, Type] = field(default_factory=dict)
    raw: list[tuple[RawType, Type]] = field(default_factory=list)
    archetypes: dict[str, Archetype] = field(default_factory=dict)

    def find(self, name: str, at: Location, use: str) -> Type | None:
        """The type of that name; when there is none, a problem that starts with ``use`` (``field 'x'``)."""
        found = self.types.get(name)
        if found is None and name:
            near = suggestion(name, self.types)
            self.problems.add_unknown(at, f"{use} has the unknown type {name!r}", near)
        return found


def declare_type(raw: RawType, module: str, scope: Scope) -> Type:
    """Enter a type by its name, its references still open; the first of two with one name counts."""
    kind = {"struct": "composite", "domain": "primitive" if raw.source == raw.name else "restricted"}.get(
        raw.kind, raw.kind
    )
    for name in raw.provides:
        make_name(name, "archetype", raw.at, scope.problems)
    type_ = Type(
        name=make_name(raw.name, "type", raw.at, scope.problems),
        kind=kind,
        at=raw.at,
        doc=raw.doc,
        module=module,
        provides=raw.provides,
        part=one_of(raw.part, _PARTS, "part", raw.at, scope) or "",
    )
    scope.types.setdefault(raw.name, type_)
    scope.raw.append((raw, type_))
    return type_


def link_types(scope: Scope) -> None:
    """Set source and base of every type, then what depends on the base."""
    for raw, type_ in scope.raw:
        _link(raw, type_, scope)
    for raw, type_ in scope.raw:
        _find_base(raw, type_, scope)
    for raw, type_ in scope.raw:
        type_.encodings = tuple(_encoding(item, type_, scope) for item in raw.encodings)
        type_.descriptor = _descriptor(raw.descriptor, scope) if raw.descriptor is not None else None
        type_.choices = tuple(choice for item in raw.choices if (choice := _choice(item, type_, scope)))
        type_.assertions = tuple(assertion(item, scope) for item in raw.asserts)
        type_.layout = _layout(raw, scope)


def restrict_types(scope: Scope, entries: dict[str, tuple[Field, ...]]) -> None:
    """Set the restrictions, inherited ones included; ``entries`` are the resolved entries by type name."""
    own = {id(type_): _restriction(raw, type_, entries.get(raw.name, ()), scope) for raw, type_ in scope.raw}
    for _, type_ in scope.raw:
        # From the far end of the alias chain to the type itself: the nearer word counts.
        merged = Restriction()
        for link in reversed(list(_chain(type_))):
            merged = _merge(merged, own[id(link)])
        type_.restriction = merged


def choices_of(type_: Type) -> tuple[Choice, ...]:
    """The choices that limit a type: its own, or those of the nearest type of its alias chain with some."""
    return next((link.choices for link in _chain(type_) if link.choices), ())


def number(text: str, what: str, at: Location, scope: Scope) -> int:
    """A whole number of the definition, or 0 and a problem."""
    try:
        return parse_integer(text)
    except NotLegal as reason:
        if text:
            scope.problems.add(at, f"{what} {text!r} is {reason}")
        return 0


def flag(text: str | None, what: str, at: Location, scope: Scope) -> bool:
    """A truth value of the definition; absent means false."""
    if text not in (None, "true", "false", "1", "0"):
        scope.problems.add(at, f"{what} is {text!r}, neither 'true' nor 'false'")
    return text in ("true", "1")


def one_of(text: str | None, words: Iterable[str], what: str, at: Location, scope: Scope) -> str | None:
    """A word of a closed vocabulary, or None and a problem."""
    if text is None or text in words:
        return text
    if text:
        scope.problems.add(at, f"{what} {text!r} is not known{suggestion(text, words)}")
    return None


def assertion(raw: RawAssert, scope: Scope) -> Assertion:
    """A condition with its operand typed by the check."""
    one_of(raw.check, _OPERANDS, "check", raw.at, scope)
    wanted = _OPERANDS.get(raw.check)
    operand: Literal | None = None
    if wanted is None:
        if raw.value is not None and raw.check in _OPERANDS:
            scope.problems.add(raw.at, f"check {raw.check!r} takes no value")
    elif raw.value is None:
        scope.problems.add(raw.at, f"check {raw.check!r} needs a value")
    elif wanted is int:
        operand = number(raw.value, f"check {raw.check!r}: value", raw.at, scope)
    else:
        operand = SpecText(raw.value)
        if raw.check == "regexp":
            _check_pattern(raw.value, raw.at, scope)
    return Assertion(check=raw.check, operand=operand, at=raw.at)


def _check_pattern(text: str, at: Location, scope: Scope) -> None:
    try:
        re.compile(text)
    except re.error as error:
        scope.problems.add(at, f"regular expression {text!r} is not legal: {error.msg}")


def layout(style: str, raw: RawLayout | None, at: Location, scope: Scope) -> Layout:
    """A layout with widths in octets; a definition gives numbers, or ``octet``, ``short``, ``long``."""
    raw = raw or RawLayout()
    return Layout(
        style=style,
        size_width=_width(raw.size, "size", at, scope),
        flags_width=_width(raw.pack, "pack", at, scope),
        code=None if raw.code is None else number(raw.code, "code", at, scope),
    )


def _width(text: str | None, what: str, at: Location, scope: Scope) -> int:
    if text is None:
        return 0
    width = _WIDTH_WORDS[text] if text in _WIDTH_WORDS else number(text, what, at, scope)
    if width not in (0, 1, 2, 4):
        scope.problems.add(at, f"{what} {text!r} is not a width of 1, 2 or 4 octets")
    return width


def _layout(raw: RawType, scope: Scope) -> Layout | None:
    if raw.kind == "composite":
        return Layout(style="list")
    if raw.kind != "struct":
        return None
    # A struct of the class/method grammar without packing flags is laid out like the arguments of a method.
    packs_bits = scope.grammar == "class-method" and (raw.layout is None or raw.layout.pack is None)
    return layout("packed-bits" if packs_bits else "packing-flags", raw.layout, raw.at, scope)


def _link(raw: RawType, type_: Type, scope: Scope) -> None:
    use = f"type {raw.name!r}"
    if type_.kind == "primitive" or raw.kind == "struct":
        return
    if raw.source is None:
        if raw.kind in ("restricted", "composite", "domain"):
            scope.problems.add(raw.at, f"{use} is {raw.kind} and names no source type")
    elif raw.source == "*" and type_.kind == "restricted":
        type_.is_wildcard = True
    elif raw.kind == "composite" and raw.source != "list":
        scope.problems.add(
            raw.at, f"{use} is composite, and its source can only be 'list', not {raw.source!r}"
        )
    else:
        type_.source = scope.find(raw.source, raw.at, use)


def _chain(type_: Type) -> Iterable[Type]:
    """The type, its source, and so on; a circle ends before its second round."""
    seen: set[int] = set()
    link: Type | None = type_
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.source


def _find_base(raw: RawType, type_: Type, scope: Scope) -> None:
    chain = list(_chain(type_))
    end = chain[-1]
    if end.source is not None:
        circle = chain[chain.index(end.source) :]
        # One complaint a circle, at its member of the lowest name, whoever leads into it.
        first = min(circle, key=lambda link: link.name.xml)
        if type_ is first:
            start = circle.index(first)
            names = [link.name.xml for link in (*circle[start:], *circle[:start], first)]
            scope.problems.add(raw.at, f"alias cycle: {' -> '.join(names)}")
        return
    if end.kind == "primitive":
        type_.base = end
    elif end.kind == "composite" and scope.grammar != "amqp-1.0":
        type_.base = scope.types.get("struct", end)
    type_.is_wildcard = end.is_wildcard


def _encoding(raw: RawEncoding, type_: Type, scope: Scope) -> Encoding:
    name = raw.name if raw.name is not None else type_.name.xml
    make_name(name, "encoding", raw.at, scope.problems)
    if raw.code and not _OCTET.fullmatch(raw.code):
        scope.problems.add(raw.at, f"encoding code {raw.code!r} is not of the form 0xHH")
        code = 0
    else:
        code = int(raw.code or "0x00", 16)
        _check_subcategory(raw, code, scope)
    return Encoding(
        name=name,
        code=code,
        category=one_of(raw.category, _CATEGORIES, "encoding category", raw.at, scope) or "fixed",
        width=number(raw.width, "width", raw.at, scope),
        doc=raw.doc,
        at=raw.at,
    )


def _check_subcategory(raw: RawEncoding, code: int, scope: Scope) -> None:
    if scope.grammar != "amqp-1.0" or not raw.code or raw.category not in _CATEGORIES:
        return
    expected = _SUBCATEGORIES.get(code >> 4)
    if expected is None:
        scope.problems.add(raw.at, f"encoding code {raw.code} is not in the range of any category")
    elif (raw.category, raw.width) != (expected[0], str(expected[1])):
        scope.problems.add(
            raw.at,
            f"encoding code {raw.code} means {expected[0]} of width {expected[1]}, "
            f"not {raw.category} of width {raw.width}",
        )


def _descriptor(raw: RawDescriptor, scope: Scope) -> Descriptor:
    if not raw.name.isascii():
        scope.problems.add(raw.at, f"descriptor symbol {raw.name!r} is not ASCII")
    match = _DESCRIPTOR_CODE.fullmatch(raw.code or "")
    if match is None:
        if raw.code:
            scope.problems.add(
                raw.at, f"descriptor code {raw.code!r} is not of the form 0xHHHHHHHH:0xHHHHHHHH"
            )
        return Descriptor(symbol=SpecText(raw.name), code=0)
    return Descriptor(symbol=SpecText(raw.name), code=int(match[1], 16) << 32 | int(match[2], 16))


def _choice(raw: RawChoice, type_: Type, scope: Scope) -> Choice | None:
    name = make_name(raw.name, "choice", raw.at, scope.problems)
    if (type_.base is None and not type_.is_wildcard) or not raw.value:
        return None
    try:
        value = parse_literal(raw.value, type_.primitive, scope.grammar)
    except NotLegal as reason:
        scope.problems.add(
            raw.at, f"value {raw.value!r} of choice {raw.name!r} is not a legal {type_.primitive}: {reason}"
        )
        return None
    return Choice(name=name, value=value, doc=raw.doc, at=raw.at)


def _restriction(raw: RawType, type_: Type, entries: tuple[Field, ...], scope: Scope) -> Restriction:
    for attribute, present in (
        ("f:keys", raw.keys),
        ("f:tolerated-keys", raw.tolerated_keys),
        ("f:values", raw.values),
        ("f:entry", raw.entries or None),
    ):
        if present is not None and type_.base is not None and type_.primitive != "map":
            scope.problems.add(raw.at, f"type {raw.name!r} has {attribute}, which only a map can have")
    return Restriction(
        keys=_keys(raw.keys, raw, scope),
        tolerated_keys=_keys(raw.tolerated_keys, raw, scope),
        values=one_of(raw.values, _VALUES, "f:values", raw.at, scope) or "any",
        max_length=_max_length(raw, type_, scope),
        entries=entries,
    )


def _keys(names: str | None, raw: RawType, scope: Scope) -> tuple[str, ...]:
    return tuple(key for key in (names or "").split() if _is_key(key, raw, scope))


def _is_key(key: str, raw: RawType, scope: Scope) -> bool:
    found = scope.find(key, raw.at, f"f:keys of type {raw.name!r}")
    if found is not None and found.kind != "primitive":
        scope.problems.add(raw.at, f"f:keys of type {raw.name!r}: {key!r} is not a primitive type")
    return found is not None


def _max_length(raw: RawType, type_: Type, scope: Scope) -> int | None:
    if raw.max_length is None:
        return None
    if type_.base is not None and type_.primitive not in _SIZED:
        scope.problems.add(
            raw.at, f"type {raw.name!r} has f:max-length, which only {', '.join(_SIZED)} can have"
        )
    length = number(raw.max_length, "f:max-length", raw.at, scope)
    if length < 1 and raw.max_length.lstrip("-").isdigit():
        scope.problems.add(raw.at, f"f:max-length of type {raw.name!r} is {length}; it must be at least 1")
    return length


def _merge(outer: Restriction, own: Restriction) -> Restriction:
    """The restriction of an alias: its own word, else its source's; both limits of a length hold."""
    lengths = [length for length in (outer.max_length, own.max_length) if length is not None]
    replaced = {entry.name.xml for entry in own.entries}
    kept = tuple(entry for entry in outer.entries if entry.name.xml not in replaced)
    return replace(
        own,
        keys=own.keys or outer.keys,
        tolerated_keys=own.tolerated_keys if own.keys else outer.tolerated_keys,
        values=own.values if own.values != "any" else outer.values,
        max_length=min(lengths, default=None),
        entries=tuple(replace_index(entry, index) for index, entry in enumerate((*kept, *own.entries))),
    )


def replace_index(entry: Field, index: int) -> Field:
    """The entry at another position, itself when it stays where it is."""
    return entry if entry.index == index else replace(entry, index=index)


def unnamed(name: Name) -> bool:
    """Whether a name was refused, so that nothing more need be said about it."""
    return not name.words

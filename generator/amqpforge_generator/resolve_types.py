"""Types resolved: alias chains followed to their primitive, values typed, restrictions inherited."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from amqpforge_generator.document import RawChoice, RawDescriptor, RawType
from amqpforge_generator.literals import NotLegal, parse_literal
from amqpforge_generator.model import Choice, Descriptor, Field, Layout, Name, Restriction, Type
from amqpforge_generator.names import SpecText, make_name
from amqpforge_generator.resolve_conditions import assertion, resolve_rules
from amqpforge_generator.resolve_forms import encoding, layout
from amqpforge_generator.resolve_scope import Scope, number, one_of

_DESCRIPTOR_CODE = re.compile(r"0x([0-9A-Fa-f]{8}):0x([0-9A-Fa-f]{8})")
_PARTS = ("payload", "head", "bare", "body-many", "body-one", "foot")
_VALUES = ("any", "simple", "described-or-null")
_SIZED = ("binary", "string", "symbol")


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
        type_.encodings = tuple(encoding(item, type_.name.xml, scope) for item in raw.encodings)
    for raw, type_ in scope.raw:
        type_.descriptor = _descriptor(raw.descriptor, scope) if raw.descriptor is not None else None
        type_.choices = tuple(choice for item in raw.choices if (choice := _choice(item, type_, scope)))
        type_.assertions = tuple(assertion(item, scope) for item in raw.asserts)
        type_.rules = resolve_rules(raw.rules, scope)
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


def is_unformed(type_: Type, scope: Scope) -> bool:
    """Whether the wire form of a type was refused, so that nothing more need be said about its values."""
    forms = type_.base.encodings if type_.base is not None else ()
    return scope.grammar != "amqp-1.0" and bool(forms) and not forms[0].holds


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
    if (type_.base is None and not type_.is_wildcard) or not raw.value or is_unformed(type_, scope):
        return None
    try:
        value = parse_literal(raw.value, type_)
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

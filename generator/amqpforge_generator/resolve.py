"""From raw documents to the model of a dialect: every reference followed, every value typed.

Resolution never stops at a problem: it records it and goes on with what it has, so that one run shows them
all. The model is only fit for use when no problem was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from amqpforge_generator.document import (
    Document,
    Location,
    RawClass,
    RawDefinition,
    RawException,
    RawField,
    RawMethod,
    RawRange,
    RawSection,
)
from amqpforge_generator.errors import Problems
from amqpforge_generator.literals import parse_constant
from amqpforge_generator.machines import error_conditions, resolve_machines
from amqpforge_generator.model import (
    Chassis,
    Class,
    Definition,
    Dialect,
    Failure,
    FormatRange,
    Layout,
    Machine,
    Method,
    Module,
    Name,
    Section,
    Type,
)
from amqpforge_generator.names import make_name
from amqpforge_generator.order import order_documents, types_of
from amqpforge_generator.resolve_conditions import resolve_rules
from amqpforge_generator.resolve_fields import declare_archetypes, mark_open, resolve_fields
from amqpforge_generator.resolve_forms import encoding, layout
from amqpforge_generator.resolve_scope import Scope, flag, number, one_of
from amqpforge_generator.resolve_types import declare_type, link_types, restrict_types

_ERROR_CLASSES = {None: "", "soft-error": "soft", "hard-error": "hard"}
_CONSTANT_CLASSES = ("soft-error", "hard-error", "field-table-type")
_RANGE_CATEGORIES = ("fixed", "variable", "reserved")
_PEERS = {"client": "server", "server": "client"}


def resolve(name: str, grammar: str, documents: Sequence[Document], problems: Problems) -> Dialect:
    """The model of a dialect; what cannot be resolved is a problem and is left out."""
    ordered = order_documents(documents)
    scope = Scope(grammar, problems)
    for document in ordered:
        for raw in types_of(document):
            declare_type(raw, document.name, scope)
    link_types(scope)
    declare_archetypes(ordered, scope)
    mark_open(scope, frozenset(field.requires for field in _fields_of(ordered) if field.requires is not None))
    restrict_types(
        scope, {raw.name: resolve_fields(raw.entries, scope, "entry") for raw, _ in scope.raw if raw.entries}
    )
    for raw, type_ in scope.raw:
        type_.fields = resolve_fields(raw.fields, scope)
    types = {id(raw): type_ for raw, type_ in scope.raw}
    for document in ordered:
        _number_results(document, types, scope)
    return Dialect(
        name=name,
        grammar=grammar,
        modules=tuple(_module(document, types, scope) for document in ordered),
        archetypes=tuple(archetype for _, archetype in sorted(scope.archetypes.items())),
        protocol_header=_protocol_header(ordered, problems),
    )


def _protocol_header(documents: Sequence[Document], problems: Problems) -> bytes:
    """The octets that one of the documents gives."""
    given = [(document, text) for document in documents if (text := document.protocol_header) is not None]
    for document, _ in given[1:]:
        problems.add(document.at, f"a second f:protocol-header; {given[0][0].at} gives one")
    for document, text in given[:1]:
        try:
            octets = bytes.fromhex(text)
        except ValueError:
            octets = b""
        if not 1 <= len(octets) <= 4:
            problems.add(
                document.at, f"f:protocol-header {text!r} is not one to four octets, such as '00 00 09 01'"
            )
        return octets
    return b""


def _number_results(document: Document, types: dict[int, Type], scope: Scope) -> None:
    """Make the codes of result structs unique: those of one class are numbered within the class.

    The document leaves open how class and number travel together. Here the class is the upper octet of the
    code.
    """
    for section in document.sections:
        for class_ in section.classes:
            for method in class_.methods:
                result = types[id(method.result)] if method.result is not None else None
                if result is not None and result.layout is not None and result.layout.code is not None:
                    upper = number(class_.code, "class code", class_.at, scope) << 8
                    result.layout = replace(result.layout, code=upper | result.layout.code)


def _fields_of(documents: Sequence[Document]) -> Iterator[RawField]:
    for document in documents:
        for raw in types_of(document):
            yield from (*raw.fields, *raw.entries)


def _module(document: Document, types: dict[int, Type], scope: Scope) -> Module:
    return Module(
        name=make_name(document.name, "module", document.at, scope.problems),
        doc=document.doc,
        file=document.at.file,
        sha256=document.sha256,
        overlays=document.overlays,
        sections=tuple(_section(section, types, scope) for section in document.sections),
        classes=tuple(_class(raw, types, scope) for section in document.sections for raw in section.classes),
        machines=_machines(document, types, scope),
    )


def _machines(document: Document, types: dict[int, Type], scope: Scope) -> tuple[Machine, ...]:
    raws = [raw for section in document.sections for raw in section.machines]
    return resolve_machines(raws, error_conditions(types.values()), scope.problems)


def _section(raw: RawSection, types: dict[int, Type], scope: Scope) -> Section:
    return Section(
        name=make_name(raw.name, "section", raw.at, scope.problems),
        doc=raw.doc,
        types=tuple(types[id(item)] for item in raw.types),
        definitions=tuple(_definition(item, scope) for item in raw.definitions),
        ranges=tuple(_range(item, scope) for item in raw.ranges),
    )


def _definition(raw: RawDefinition, scope: Scope) -> Definition:
    one_of(raw.error_class, _CONSTANT_CLASSES, "error class", raw.at, scope)
    return Definition(
        name=make_name(raw.name, "definition", raw.at, scope.problems),
        value=parse_constant(raw.value),
        error_class=_ERROR_CLASSES.get(raw.error_class, ""),
        doc=raw.doc,
        at=raw.at,
        enumeration=_optional_name(raw.enumeration, "enumeration", raw.at, scope),
        encoding=encoding(raw.encoding, raw.name, scope) if raw.encoding is not None else None,
    )


def _optional_name(text: str | None, what: str, at: Location, scope: Scope) -> Name | None:
    return None if text is None else make_name(text, what, at, scope.problems)


def _range(raw: RawRange, scope: Scope) -> FormatRange:
    first, last = (number(text, "type code", raw.at, scope) for text in (raw.first, raw.last))
    if not 0 <= first <= last <= 0xFF:
        scope.problems.add(raw.at, f"{raw.first} to {raw.last} is not a range of type codes")
    return FormatRange(
        first=first,
        last=last,
        category=one_of(raw.category, _RANGE_CATEGORIES, "category", raw.at, scope) or "reserved",
        width=number(raw.width, "width", raw.at, scope),
        doc=raw.doc,
        at=raw.at,
    )


def _class(raw: RawClass, types: dict[int, Type], scope: Scope) -> Class:
    return Class(
        name=make_name(raw.name, "class", raw.at, scope.problems),
        code=number(raw.code, "class code", raw.at, scope),
        at=raw.at,
        doc=raw.doc,
        fields=resolve_fields(raw.fields, scope),
        methods=tuple(_method(method, raw, types, scope) for method in raw.methods),
        chassis=_chassis(raw.chassis),
        rules=resolve_rules(raw.rules, scope),
    )


def _method(raw: RawMethod, owner: RawClass, types: dict[int, Type], scope: Scope) -> Method:
    what = f"{raw.kind} {raw.name!r}"
    named = raw.header or owner.header
    header = scope.find(named, raw.at, f"{what}: header") if named is not None else None
    if header is not None and header.kind != "composite":
        scope.problems.add(raw.at, f"{what}: header {named!r} is not a struct")
    headers = () if header is None else (RawField(at=raw.at, name=header.name.xml, type=header.name.xml),)
    return Method(
        name=make_name(raw.name, raw.kind, raw.at, scope.problems),
        kind=raw.kind,
        code=number(raw.code, f"{what}: code", raw.at, scope),
        at=raw.at,
        doc=raw.doc,
        layout=_method_layout(raw, scope),
        fields=resolve_fields((*headers, *raw.fields), scope),
        is_synchronous=flag(raw.synchronous, f"synchronous of {what}", raw.at, scope),
        has_content=flag(raw.content, f"content of {what}", raw.at, scope),
        sent_by=_senders(raw, scope),
        responses=_responses(raw, owner, scope),
        result=types[id(raw.result)] if raw.result is not None else None,
        header=header,
        chassis=_chassis(raw.chassis),
        failures=tuple(failure for item in raw.exceptions if (failure := _failure(item, scope))),
        rules=resolve_rules(raw.rules, scope),
    )


def _chassis(raw: tuple[tuple[str, str], ...]) -> tuple[Chassis, ...]:
    return tuple(Chassis(peer=peer, level=level) for peer, level in raw)


def _failure(raw: RawException, scope: Scope) -> Failure | None:
    """An exception of a command; its error is a choice of one type of the dialect."""
    what = f"exception {raw.name!r}: error"
    owners = [item.name for item, _ in scope.raw for choice in item.choices if choice.name == raw.error]
    if len(owners) > 1:
        places = " and of ".join(map(repr, owners))
        scope.problems.add(raw.at, f"{what} {raw.error!r} is a choice of {places}")
    elif not owners:
        names = {choice.name for item, _ in scope.raw for choice in item.choices}
        one_of(raw.error, names, what, raw.at, scope)
    choices = (choice for _, type_ in scope.raw for choice in type_.choices)
    error = next((choice for choice in choices if choice.name.xml == raw.error), None)
    name = make_name(raw.name, "exception", raw.at, scope.problems)
    return None if error is None else Failure(name=name, error=error, doc=raw.doc)


def _method_layout(raw: RawMethod, scope: Scope) -> Layout:
    """Arguments of a method travel without presence flags, those of a control or command with them."""
    return layout("packed-bits" if raw.kind == "method" else "packing-flags", raw.layout, raw.at, scope)


def _senders(raw: RawMethod, scope: Scope) -> tuple[str, ...]:
    """Who sends a method: a chassis names a peer that has to *handle* it, so the sender is the other one."""
    known = [
        role
        for role, _ in raw.chassis
        if one_of(role, _PEERS, f"{raw.kind} {raw.name!r}: chassis", raw.at, scope)
    ]
    return tuple(sorted({_PEERS[role] for role in known}))


def _responses(raw: RawMethod, owner: RawClass, scope: Scope) -> tuple[Name, ...]:
    methods = [method.name for method in owner.methods]
    for response in raw.responses:
        one_of(response, methods, f"{raw.kind} {raw.name!r}: response", raw.at, scope)
    return tuple(make_name(response, raw.kind, raw.at, scope.problems) for response in raw.responses)

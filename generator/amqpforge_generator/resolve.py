"""From raw documents to the model of a dialect: every reference followed, every value typed.

Resolution never stops at a problem: it records it and goes on with what it has, so that one run shows them
all. The model is only fit for use when no problem was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amqpforge_generator.document import Document, RawClass, RawDefinition, RawField, RawMethod, RawSection
from amqpforge_generator.errors import Problems
from amqpforge_generator.literals import parse_constant
from amqpforge_generator.machines import error_conditions, resolve_machines
from amqpforge_generator.model import (
    Class,
    Definition,
    Dialect,
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
from amqpforge_generator.resolve_fields import declare_archetypes, mark_open, resolve_fields
from amqpforge_generator.resolve_types import (
    Scope,
    declare_type,
    flag,
    layout,
    link_types,
    number,
    one_of,
    restrict_types,
)

_ERROR_CLASSES = {None: "", "soft-error": "soft", "hard-error": "hard"}
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
    return Dialect(
        name=name,
        grammar=grammar,
        modules=tuple(_module(document, types, scope) for document in ordered),
        archetypes=tuple(archetype for _, archetype in sorted(scope.archetypes.items())),
    )


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
    )


def _definition(raw: RawDefinition, scope: Scope) -> Definition:
    one_of(raw.error_class, ("soft-error", "hard-error"), "error class", raw.at, scope)
    return Definition(
        name=make_name(raw.name, "definition", raw.at, scope.problems),
        value=parse_constant(raw.value),
        error_class=_ERROR_CLASSES.get(raw.error_class, ""),
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
        types=tuple(types[id(item)] for item in raw.types),
    )


def _method(raw: RawMethod, owner: RawClass, types: dict[int, Type], scope: Scope) -> Method:
    what = f"{raw.kind} {raw.name!r}"
    return Method(
        name=make_name(raw.name, raw.kind, raw.at, scope.problems),
        kind=raw.kind,
        code=number(raw.code, f"{what}: code", raw.at, scope),
        at=raw.at,
        doc=raw.doc,
        layout=_method_layout(raw, scope),
        fields=resolve_fields(raw.fields, scope),
        is_synchronous=flag(raw.synchronous, f"synchronous of {what}", raw.at, scope),
        has_content=flag(raw.content, f"content of {what}", raw.at, scope),
        sent_by=_senders(raw, scope),
        responses=_responses(raw, owner, scope),
        result=types[id(raw.result)] if raw.result is not None else None,
    )


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

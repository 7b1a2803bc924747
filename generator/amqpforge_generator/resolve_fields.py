"""Fields resolved: types and archetypes followed, flags read, defaults typed."""

from __future__ import annotations

from collections.abc import Iterable

from amqpforge_generator.document import Document, Location, RawField
from amqpforge_generator.errors import suggestion
from amqpforge_generator.literals import NotLegal, octets, parse_literal
from amqpforge_generator.model import Archetype, Choice, Field, Literal, Type
from amqpforge_generator.names import make_name
from amqpforge_generator.resolve_conditions import assertion, resolve_rules
from amqpforge_generator.resolve_scope import Scope, flag
from amqpforge_generator.resolve_types import choices_of, is_unformed


def declare_archetypes(documents: Iterable[Document], scope: Scope) -> None:
    """Enter every archetype that is declared or provided, with its providers in document order."""
    for document in documents:
        for section in document.sections:
            for raw in section.archetypes:
                name = make_name(raw.name, "archetype", raw.at, scope.problems)
                is_open = flag(raw.open, f"open of archetype {raw.name!r}", raw.at, scope)
                scope.archetypes.setdefault(raw.name, Archetype(name=name, is_open=is_open, doc=raw.doc))
    for _, type_ in scope.raw:
        for provided in type_.provides:
            found = scope.archetypes.get(provided)
            if found is None:
                # Whether the name is legal was checked where the type was declared.
                found = Archetype(name=make_name(provided, "archetype", type_.at, scope.problems))
                scope.archetypes[provided] = found
            if type_ not in found.providers:
                found.providers += (type_,)


def resolve_fields(raws: Iterable[RawField], scope: Scope, what: str = "field") -> tuple[Field, ...]:
    """The fields (or reserved entries) of a type or method, in order; ``what`` is their name in messages."""
    return tuple(_field(raw, index, scope, what) for index, raw in enumerate(raws))


def mark_open(scope: Scope, required: frozenset[str]) -> None:
    """Mark the types with choices whose archetype a field requires: other values may be provided too."""
    for _, type_ in scope.raw:
        type_.is_open = bool(type_.choices) and not required.isdisjoint(type_.provides)


def _field(raw: RawField, index: int, scope: Scope, what: str) -> Field:
    use = f"{what} {raw.name!r}"
    type_ = None if raw.type == "*" else scope.find(raw.type, raw.at, use)
    field = Field(
        name=make_name(raw.name, what, raw.at, scope.problems),
        at=raw.at,
        doc=raw.doc,
        index=index,
        type=type_,
        requires=_required(raw.requires, raw.at, use, scope),
        references=raw.references,
        mandatory=flag(raw.mandatory, f"mandatory of {use}", raw.at, scope),
        multiple=flag(raw.multiple, f"multiple of {use}", raw.at, scope),
        assertions=tuple(assertion(item, scope) for item in raw.asserts),
        rules=resolve_rules(raw.rules, scope),
    )
    if raw.references is not None:
        _check_references(raw, type_, use, scope)
    if raw.default is not None:
        field.default, field.default_choice = _default(raw.default, field, raw, use, scope)
    return field


def _required(name: str | None, at: Location, use: str, scope: Scope) -> Archetype | None:
    if name is None:
        return None
    found = scope.archetypes.get(name)
    if found is None or not (found.providers or found.is_open):
        known = [
            known for known, archetype in scope.archetypes.items() if archetype.providers or archetype.is_open
        ]
        scope.problems.add_unknown(
            at,
            f"{use} requires the unknown archetype {name!r}",
            suggestion(name, known),
            "; declare it open where nothing here provides it",
        )
    return found


def _check_references(raw: RawField, type_: Type | None, use: str, scope: Scope) -> None:
    name = raw.references or ""
    found = scope.archetypes.get(name)
    if found is None:
        near = suggestion(name, scope.archetypes)
        scope.problems.add_unknown(raw.at, f"{use} references the unknown archetype {name!r}", near)
    if type_ is not None and type_.base is not None and type_.primitive != "symbol":
        scope.problems.add(
            raw.at, f"{use} has f:references, which only a symbol can have, not a {type_.primitive}"
        )
    elif raw.type == "*":
        scope.problems.add(raw.at, f"{use} has f:references, which only a symbol can have")


def _default(
    text: str, field: Field, raw: RawField, use: str, scope: Scope
) -> tuple[Literal | None, Choice | None]:
    if field.mandatory:
        scope.problems.add(raw.at, f"{use} is mandatory, so its default {text!r} can never apply")
    if field.multiple:
        scope.problems.add(raw.at, f"{use} takes several values, so it cannot have the default {text!r}")
    if field.type is None:
        if raw.type == "*":
            scope.problems.add(raw.at, f"{use} takes any type, so it cannot have the default {text!r}")
        return None, None
    if (field.type.base is None and not field.type.is_wildcard) or is_unformed(field.type, scope):
        return None, None
    choices = choices_of(field.type)
    for choice in choices:
        if choice.name.xml == text:
            return choice.value, choice
    if choices and not field.type.is_open:
        _complain_choice(text, choices, raw.at, use, field.type, scope)
        return None, None
    return _plain_default(text, field.type, raw.at, use, scope), None


def _complain_choice(
    text: str, choices: tuple[Choice, ...], at: Location, use: str, type_: Type, scope: Scope
) -> None:
    names = [choice.name.xml for choice in choices]
    meant = next((choice.name.xml for choice in choices if _spells(choice.value, text)), None)
    near = f"; did you mean {meant!r}?" if meant is not None else suggestion(text, names)
    near = near or f"; the choices are {', '.join(map(repr, names))}"
    scope.problems.add(at, f"default {text!r} of {use} is not a choice of {type_.name.xml!r}{near}")


def _spells(value: Literal, text: str) -> bool:
    return value == text or (isinstance(value, int) and repr(value).lower() == text)


def _plain_default(text: str, type_: Type, at: Location, use: str, scope: Scope) -> Literal | None:
    most = type_.restriction.max_length
    try:
        value = parse_literal(text, type_)
        if most is not None and isinstance(value, str) and octets(value) > most:
            raise NotLegal(f"{octets(value)} octets long, {most} are allowed")
    except NotLegal as reason:
        scope.problems.add(at, f"default {text!r} of {use} is not a legal {type_.primitive}: {reason}")
        return None
    return value

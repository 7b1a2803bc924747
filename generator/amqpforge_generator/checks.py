"""Checks across elements: what occurs twice, what collides, what the wire could not tell apart."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from amqpforge_generator.document import Document, Location, RawClass, RawField, RawType
from amqpforge_generator.errors import Problems
from amqpforge_generator.model import Choice, Dialect, Field, Name, Type
from amqpforge_generator.order import types_of
from amqpforge_generator.resolve_types import unnamed


class Item(NamedTuple):
    """A thing with a place: what has to be unique, and how a message shows it."""

    key: Hashable
    shown: str
    at: Location


def check_documents(documents: Sequence[Document], problems: Problems) -> None:
    """Everything that is defined twice: by name, by code, by symbol."""
    raws = [raw for document in documents for raw in types_of(document)]
    sections = [section for document in documents for section in document.sections]
    _unique("module", (_named(document.name, document.at) for document in documents), problems)
    _unique("type", (_named(raw.name, raw.at) for raw in raws), problems)
    _unique(
        "definition",
        (_named(item.name, item.at) for section in sections for item in section.definitions),
        problems,
    )
    _unique(
        "archetype",
        (_named(item.name, item.at) for section in sections for item in section.archetypes),
        problems,
    )
    descriptors = [raw.descriptor for raw in raws if raw.descriptor is not None]
    _unique("descriptor symbol", (_named(item.name, item.at) for item in descriptors), problems)
    codes = ((item.code, item.at) for item in descriptors if item.code is not None)
    _unique("descriptor code", (_coded(code, at) for code, at in codes), problems)
    encodings = ((encoding.code, encoding.at) for raw in raws for encoding in raw.encodings)
    _unique("encoding code", (_coded(code, at) for code, at in encodings), problems)
    for raw in raws:
        _check_type(raw, problems)
    classes = [raw for section in sections for raw in section.classes]
    _unique("class", (_named(item.name, item.at) for item in classes), problems)
    _unique("class code", (_coded(item.code, item.at) for item in classes), problems)
    for class_ in classes:
        _check_class(class_, problems)


#: From here on two archetype names are one and its misspelling: ``frame`` and ``sasl-frame`` stay apart.
_SLIP = 0.85


def _lone_archetypes(dialect: Dialect, problems: Problems) -> None:
    """An archetype of one provider that nothing requires, spelled nearly as another, would be lost unseen."""
    types = _all_types(dialect)
    asked = {
        field.requires.name.xml
        for type_ in types
        for field in (*type_.fields, *type_.restriction.entries)
        if field.requires is not None
    }
    names = [archetype.name.xml for archetype in dialect.archetypes]
    for archetype in dialect.archetypes:
        name = archetype.name.xml
        if len(archetype.providers) != 1 or name in asked or archetype.is_open:
            continue
        near = get_close_matches(name, [other for other in names if other != name], n=1, cutoff=_SLIP)
        if near:
            provider = archetype.providers[0]
            use = f"type {provider.name.xml!r} provides {name!r}, which nothing requires"
            problems.add(provider.at, f"{use}; did you mean {near[0]!r}?")


def check_dialect(dialect: Dialect, problems: Problems) -> None:
    """Names that become one identifier, choices of one value, composites that the wire cannot tell apart."""
    _collide(
        "module", ((module.name, Location(module.file, 1)) for module in dialect.modules), _snake, problems
    )
    _lone_archetypes(dialect, problems)
    types = _all_types(dialect)
    _collide("type", ((type_.name, type_.at) for type_ in types), _camel, problems)
    definitions = (item for module in dialect.modules for item in module.definitions)
    _collide("definition", ((item.name, item.at) for item in definitions), _upper, problems)
    for type_ in types:
        _check_fields(type_.fields, problems)
        _check_fields(type_.restriction.entries, problems)
        _collide("choice", ((choice.name, choice.at) for choice in type_.choices), _upper, problems)
        _check_choice_values(type_.choices, problems)
        _check_descriptor(type_, dialect, problems)
    classes = [class_ for module in dialect.modules for class_ in module.classes]
    _collide("class", ((class_.name, class_.at) for class_ in classes), _camel, problems)
    for class_ in classes:
        _check_fields(class_.fields, problems)
        _collide("method", ((method.name, method.at) for method in class_.methods), _camel, problems)
        for method in class_.methods:
            _check_fields(method.fields, problems)


def _all_types(dialect: Dialect) -> list[Type]:
    types = list(dialect.types)
    for module in dialect.modules:
        for class_ in module.classes:
            types += class_.types
            types += (method.result for method in class_.methods if method.result is not None)
    return types


def _named(name: str, at: Location) -> Item:
    return Item(name, repr(name), at)


def _coded(code: str, at: Location) -> Item:
    """Codes are equal when their numbers are: ``0xA0`` and ``0xa0`` collide."""
    try:
        return Item(tuple(int(part, 0) for part in code.split(":")), code, at)
    except ValueError:
        return Item(code, repr(code), at)


def _unique(what: str, items: Iterable[Item], problems: Problems) -> None:
    first: dict[Hashable, Location] = {}
    for item in items:
        if item.key == "":
            continue
        earlier = first.setdefault(item.key, item.at)
        if earlier is not item.at:
            problems.add(item.at, f"duplicate {what} {item.shown}; first at {earlier}")


def _check_type(raw: RawType, problems: Problems) -> None:
    _unique("field", _fields(raw.fields), problems)
    _unique("entry", _fields(raw.entries), problems)
    _unique("choice", (_named(choice.name, choice.at) for choice in raw.choices), problems)
    names = (encoding.name or raw.name for encoding in raw.encodings)
    places = (encoding.at for encoding in raw.encodings)
    _unique("encoding", map(_named, names, places), problems)
    for provided in sorted({name for name in raw.provides if raw.provides.count(name) > 1}):
        problems.add(raw.at, f"type {raw.name!r} provides {provided!r} twice")


def _check_class(class_: RawClass, problems: Problems) -> None:
    _unique("field", _fields(class_.fields), problems)
    _unique("method", (_named(method.name, method.at) for method in class_.methods), problems)
    _unique("method code", (_coded(method.code, method.at) for method in class_.methods), problems)
    for method in class_.methods:
        _unique("field", _fields(method.fields), problems)


def _fields(fields: Iterable[RawField]) -> Iterable[Item]:
    return (_named(field.name, field.at) for field in fields)


def _snake(name: Name) -> str:
    return name.snake


def _camel(name: Name) -> str:
    return name.camel


def _upper(name: Name) -> str:
    return name.upper


def _collide(
    what: str, names: Iterable[tuple[Name, Location]], spell: Callable[[Name], str], problems: Problems
) -> None:
    """Different names with one spelling; equal names are duplicates, which are reported as such."""
    first: dict[str, tuple[Name, Location]] = {}
    for name, at in names:
        if unnamed(name):
            continue
        earlier, place = first.setdefault(spell(name), (name, at))
        if earlier.xml != name.xml:
            problems.add(
                at,
                f"{what} {name.xml!r} becomes the identifier {spell(name)}, as {earlier.xml!r} at {place}",
            )


def _check_fields(fields: Sequence[Field], problems: Problems) -> None:
    _collide("field", ((field.name, field.at) for field in fields), _snake, problems)


def _check_choice_values(choices: Sequence[Choice], problems: Problems) -> None:
    first: dict[tuple[str, object], Choice] = {}
    for choice in choices:
        earlier = first.setdefault((type(choice.value).__name__, choice.value), choice)
        if earlier is not choice:
            problems.add(
                choice.at,
                f"choice {choice.name.xml!r} has the value {choice.value!r}, "
                f"as {earlier.name.xml!r} at {earlier.at}",
            )


def _check_descriptor(type_: Type, dialect: Dialect, problems: Problems) -> None:
    """A list that stands for an archetype is known by its descriptor alone (AMQP 1.0, section 1.4)."""
    if dialect.grammar != "amqp-1.0" or type_.kind != "composite" or type_.descriptor is not None:
        return
    role = f", and stands for the archetype {type_.provides[0]!r}" if type_.provides else ""
    problems.add(type_.at, f"composite type {type_.name.xml!r} has no <descriptor>{role}")

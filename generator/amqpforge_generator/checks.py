"""Checks across elements: what occurs twice, what collides, what the wire could not tell apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import NamedTuple

from amqpforge_generator.document import (
    Document,
    Location,
    RawClass,
    RawEncoding,
    RawField,
    RawSection,
    RawType,
)
from amqpforge_generator.errors import Problems, suggestion
from amqpforge_generator.model import Choice, Class, Definition, Dialect, Field, Layout, Method, Name, Type
from amqpforge_generator.names import SpecText, make_name
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
    encodings = ((encoding.code or "", encoding.at) for encoding in _encodings(sections, raws))
    _unique("encoding code", (_coded(code, at) for code, at in encodings), problems)
    for raw in raws:
        _check_type(raw, problems)
    classes = [raw for section in sections for raw in section.classes]
    _unique("class", (_named(item.name, item.at) for item in classes), problems)
    _unique("class code", (_coded(item.code, item.at) for item in classes), problems)
    for class_ in classes:
        _check_class(class_, problems)
    _check_codes(documents, problems)


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
    _check_enumerations(dialect, problems)
    for type_ in types:
        _check_fields(type_.fields, problems)
        _check_fields(type_.restriction.entries, problems)
        _check_room(type_, type_.layout, problems)
        _collide("choice", ((choice.name, choice.at) for choice in type_.choices), _upper, problems)
        _check_choice_values(type_.choices, problems)
        _check_descriptor(type_, dialect, problems)
    classes = dialect.classes
    _collide("class", ((class_.name, class_.at) for class_ in classes), _camel, problems)
    _collide("method", _operation_names(classes, types, problems), _camel, problems, is_distinct=True)
    for class_ in classes:
        _check_fields(class_.fields, problems)
        for method in class_.methods:
            _check_fields(method.fields, problems)
            _check_room(method, method.layout, problems)
    _check_ranges(dialect, problems)
    _check_references(dialect, problems)


def _operation_names(
    classes: Sequence[Class], types: Sequence[Type], problems: Problems
) -> Iterator[tuple[Name, Location]]:
    """The names of methods and content properties, their class in front, and those of composite types.

    What is defined twice comes once: that is reported as a duplicate.
    """
    found: dict[tuple[str, ...], tuple[Name, Location]] = {
        (type_.name.xml,): (type_.name, type_.at) for type_ in types if type_.kind == "composite"
    }
    for class_ in classes:
        owner = class_.name.xml
        if class_.fields:
            name = make_name(f"{owner}.properties", "class", class_.at, problems)
            found.setdefault((owner, "", "properties"), (name, class_.at))
        for method in class_.methods:
            name = make_name(f"{owner}.{method.name.xml}", method.kind, method.at, problems)
            found.setdefault((owner, method.name.xml), (name, method.at))
    yield from found.values()


def _all_types(dialect: Dialect) -> list[Type]:
    return [*dialect.types, *(result for class_ in dialect.classes for result in class_.results)]


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


def _encodings(sections: Iterable[RawSection], raws: Iterable[RawType]) -> Iterator[RawEncoding]:
    """Every wire form, of types and of constants."""
    for raw in raws:
        yield from raw.encodings
    for section in sections:
        yield from (item.encoding for item in section.definitions if item.encoding is not None)


def _check_class(class_: RawClass, problems: Problems) -> None:
    _unique("field", _fields(class_.fields), problems)
    _unique("method", (_named(method.name, method.at) for method in class_.methods), problems)
    methods = (method for method in class_.methods if method.kind == "method")
    _unique("method code", (_coded(method.code, method.at) for method in methods), problems)
    for method in class_.methods:
        _unique("field", _fields(method.fields), problems)


def _check_codes(documents: Sequence[Document], problems: Problems) -> None:
    """What the wire tells apart by two octets, or by one in the class that makes up the other one.

    Structs that methods answer with are numbered within their class; controls and commands travel like
    structs, and share their codes.
    """
    coded: list[Item] = []
    for document in documents:
        most = 0xFF if document.grammar == "class-method" else 0xFFFF
        for section in document.sections:
            found = [("struct", "0", raw.layout, raw.at) for raw in section.types]
            for class_ in section.classes:
                results = [method.result for method in class_.methods if method.result is not None]
                found += (("struct", class_.code, raw.layout, raw.at) for raw in results)
                found += ((method.kind, "0", method.layout, method.at) for method in class_.methods)
                is_upper = any(raw.layout is not None and raw.layout.code is not None for raw in results)
                _check_code("class", class_.code, 0xFF if is_upper else 0xFFFF, class_.at, problems)
                for method in class_.methods:
                    if method.kind == "method":
                        _check_code("method", method.code, 0xFFFF, method.at, problems)
            for what, upper, layout, at in found:
                if layout is not None and layout.code is not None:
                    _check_code(what, layout.code, most, at, problems)
                    coded.append(Item(_coded(f"{upper}:{layout.code}", at).key, layout.code, at))
    _unique("code", coded, problems)


def _check_code(what: str, code: str, most: int, at: Location, problems: Problems) -> None:
    key = _coded(code, at).key
    # What is no number at all is said where numbers are read.
    if isinstance(key, tuple) and not 0 <= key[0] <= most:
        problems.add(at, f"{what} code {code} is outside 0 to {most}")


def _fields(fields: Iterable[RawField]) -> Iterable[Item]:
    return (_named(field.name, field.at) for field in fields)


def _snake(name: Name) -> str:
    return name.snake


def _camel(name: Name) -> str:
    return name.camel


def _upper(name: Name) -> str:
    return name.upper


def _collide(
    what: str,
    names: Iterable[tuple[Name, Location]],
    spell: Callable[[Name], str],
    problems: Problems,
    *,
    is_distinct: bool = False,
) -> None:
    """Different names with one spelling; equal names are duplicates, which are reported as such.

    ``is_distinct``: the names are of different things, so that even equal ones collide.
    """
    first: dict[str, tuple[Name, Location]] = {}
    for name, at in names:
        if unnamed(name):
            continue
        earlier, place = first.setdefault(spell(name), (name, at))
        if earlier.xml != name.xml or (is_distinct and name is not earlier):
            problems.add(
                at,
                f"{what} {name.xml!r} becomes the identifier {spell(name)}, as {earlier.xml!r} at {place}",
            )


def _check_fields(fields: Sequence[Field], problems: Problems) -> None:
    _collide("field", ((field.name, field.at) for field in fields), _snake, problems)


def _check_room(holder: Type | Method, layout: Layout | None, problems: Problems) -> None:
    """Every field of a struct or command needs a bit of its packing flags, where there are some."""
    room = 8 * layout.flags_width if layout is not None else 0
    if room and len(holder.fields) > room:
        count = len(holder.fields)
        problems.add(
            holder.at, f"{holder.name.xml!r} has {count} fields; its packing flags have room for {room}"
        )


def _check_ranges(dialect: Dialect, problems: Problems) -> None:
    """Ranges of type codes lie apart, and every type with a code has the form that its range gives."""
    ranges = sorted(dialect.ranges, key=lambda item: item.first)
    for earlier, later in pairwise(ranges):
        if later.first <= earlier.last:
            problems.add(later.at, f"the range from 0x{later.first:02x} overlaps that of {earlier.at}")
    # What was refused already, range or form, would only be complained about a second time.
    for form in dialect.value_encodings if ranges and not len(problems) else ():
        code = form.code or 0
        given = ("fixed" if form.category in ("fixed", "bit") else "variable", form.width)
        home = next((item for item in ranges if item.first <= code <= item.last), None)
        if home is None:
            problems.add(form.at, f"code 0x{code:02x} of {form.name!r} lies in no range")
        elif given != (home.category, home.width):
            problems.add(
                form.at,
                f"code 0x{code:02x} of {form.name!r} means {home.category} of width {home.width}, "
                f"not {given[0]} of width {given[1]}",
            )


def _check_references(dialect: Dialect, problems: Problems) -> None:
    """The fields that conditions compare with, and the constants that number the breach of a rule."""
    types, classes = _all_types(dialect), dialect.classes
    methods = [method for class_ in classes for method in class_.methods]
    holders: tuple[Type | Class | Method, ...] = (*types, *classes, *methods)
    fields = [field for holder in holders for field in holder.fields]
    names = {field.name.xml for field in fields}
    checked: tuple[Type | Field, ...] = (*types, *fields)
    for assertion in (assertion for holder in checked for assertion in holder.assertions):
        if assertion.check in ("le", "ge") and isinstance(assertion.operand, SpecText):
            _check_known(
                "field", assertion.operand, names, f"check {assertion.check!r}", assertion.at, problems
            )
    constants = {item.name.xml for module in dialect.modules for item in module.definitions}
    for rule in (rule for holder in (*holders, *fields) for rule in holder.rules):
        if rule.on_failure is not None:
            use = f"rule {rule.name.xml!r}: on-failure"
            _check_known("constant", rule.on_failure.xml, constants, use, rule.at, problems)


def _check_known(
    what: str, name: str, known: Collection[str], use: str, at: Location, problems: Problems
) -> None:
    if name not in known:
        problems.add_unknown(at, f"{use} names the unknown {what} {name!r}", suggestion(name, known))


def _check_enumerations(dialect: Dialect, problems: Problems) -> None:
    """An enumeration is in one file, under one spelling, and numbers each of its constants."""
    groups = [group for module in dialect.modules for group in module.enumerations]
    places = [(group.name, group.members[0].at) for group in groups]
    _collide("enumeration", places, _camel, problems, is_distinct=True)
    for group in groups:
        first: dict[object, Definition] = {}
        for constant in group.members:
            what = f"constant {constant.name.xml!r} of the enumeration {group.name.xml!r} has the value"
            earlier = first.setdefault(constant.value, constant)
            if not isinstance(constant.value, int):
                problems.add(constant.at, f"{what} {constant.value!r}, which is no whole number")
            elif earlier is not constant:
                problems.add(constant.at, f"{what} {constant.value}, as {earlier.name.xml!r} at {earlier.at}")


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

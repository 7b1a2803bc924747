"""The resolved model: what the templates see.

Every reference of the documents is followed, every string is typed, every alias chain is flattened to its
primitive, every archetype is the list of its providers. The model knows the four dialects but no target
language: a name offers its usual spellings, and what a language reserves is the target's business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from amqpforge_generator.document import Digest, Doc, Location

Literal = bool | int | float | str


@dataclass(frozen=True)
class Name:
    """A name and its spellings: ``link-credit`` -> link_credit, LinkCredit, LINK_CREDIT."""

    xml: str
    words: tuple[str, ...]

    @property
    def snake(self) -> str:
        return "_".join(self.words)

    @property
    def upper(self) -> str:
        return self.snake.upper()

    @property
    def camel(self) -> str:
        return "".join(word[:1].upper() + word[1:] for word in self.words)

    def __str__(self) -> str:
        return self.xml


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """One wire form of a value.

    ``category``: ``fixed`` (``width`` octets), ``variable`` (a size of ``width`` octets, then as many as it
    says), ``compound`` (a size and a count, both of ``width`` octets, then the elements), ``array``; without
    a code of their own also ``bit`` (no octet: packed with its neighbours, or told by a packing flag),
    ``rest`` (all octets that remain) and ``any`` (a type code, then the value).

    ``code``: the octet that announces the form, or None where nothing does. ``holds``: what the octets mean,
    one of `HOLDS`; empty in AMQP 1.0, whose types are told by their names. ``charset``: of text and
    characters.
    """

    name: str
    code: int | None
    category: str
    width: int
    doc: Doc
    at: Location
    holds: str = ""
    charset: str = ""


#: What the octets of a form can mean. ``decimal``: one octet of decimal places, then a signed
#: integer; ``set``: pairs of serial numbers; ``timestamp-s``: seconds, unsigned; ``timestamp-ms``:
#: milliseconds, signed.
HOLDS = (
    *("binary", "unsigned", "signed", "boolean", "float", "decimal", "text", "character", "timestamp-s"),
    *("timestamp-ms", "uuid", "map", "list", "array", "struct", "set", "void", "bit", "serial", "any"),
)


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """Symbolic name and 64-bit code (domain << 32 | id) of a described type."""

    symbol: str
    code: int


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A named, typed value."""

    name: Name
    value: Literal
    doc: Doc
    at: Location


@dataclass(frozen=True, kw_only=True)
class Assertion:
    """A condition on a value.

    ``check`` types ``operand``: an int for ``length``, a pattern that the whole text matches for ``regexp``
    and ``syntax`` (whose ``rule`` has a name), an int or the name of another field for ``le`` and ``ge``.
    """

    check: str
    operand: Literal | None
    at: Location
    rule: str = ""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What peers have to keep to, in prose; ``on_failure`` is the constant that numbers a breach, or None."""

    name: Name
    on_failure: Name | None
    doc: Doc
    at: Location


@dataclass(frozen=True, kw_only=True)
class Chassis:
    """How far a peer (``client`` or ``server``) has to implement something: ``MUST``, ``SHOULD``, ``MAY``."""

    peer: str
    level: str


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a composite's fields travel.

    ``style``: ``list`` (1.0), ``packed-bits`` (class/method arguments) or ``packing-flags`` (structs with
    presence flags); widths in octets, 0 where there is none.
    """

    style: str
    size_width: int = 0
    flags_width: int = 0
    code: int | None = None


@dataclass(frozen=True, kw_only=True)
class Restriction:
    """What a map or variable-width type allows beyond its source type.

    ``keys``: primitive type names a key may have (empty: any); ``tolerated_keys``: what peers are
    known to send in their place. ``values``: ``any``, ``simple`` (no list,
    map, array or described value) or ``described-or-null``. ``max_length``: octets, or None. ``entries``:
    keys whose values are typed.
    """

    keys: tuple[str, ...] = ()
    tolerated_keys: tuple[str, ...] = ()
    values: str = "any"
    max_length: int | None = None
    entries: tuple[Field, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.keys or self.entries) and self.values == "any" and self.max_length is None


@dataclass(kw_only=True, eq=False)
class Type:
    """A type of any grammar.

    ``kind``: ``primitive``, ``restricted`` or ``composite``. ``base`` is the primitive at the end of the
    alias chain (itself for a primitive, list for a composite of AMQP 1.0, the struct itself where no
    primitive carries structs, None for the wildcard source ``*``). ``source`` is the next type of the chain.
    ``is_open``: values outside ``choices`` are legal, because the archetype that the type provides is open
    to other providers.
    """

    name: Name
    kind: str
    at: Location
    doc: Doc
    module: str
    # What refers to other types stays out of the repr, which would otherwise print the whole dialect.
    source: Type | None = field(default=None, repr=False)
    base: Type | None = field(default=None, repr=False)
    is_wildcard: bool = False
    provides: tuple[str, ...] = ()
    descriptor: Descriptor | None = None
    encodings: tuple[Encoding, ...] = ()
    choices: tuple[Choice, ...] = ()
    is_open: bool = False
    fields: tuple[Field, ...] = field(default=(), repr=False)
    layout: Layout | None = None
    restriction: Restriction = field(default_factory=Restriction, repr=False)
    assertions: tuple[Assertion, ...] = ()
    rules: tuple[Rule, ...] = field(default=(), repr=False)
    part: str = ""

    @property
    def primitive(self) -> str:
        """The name of the base primitive; ``*`` where any type may stand."""
        return self.base.name.xml if self.base is not None else "*"


@dataclass(kw_only=True, eq=False)
class Field:
    """A field; ``type`` is None for the wildcard ``*``, whose values the archetype ``requires`` limits."""

    name: Name
    at: Location
    doc: Doc
    index: int
    type: Type | None = field(repr=False)
    requires: Archetype | None = field(default=None, repr=False)
    references: str | None = None
    mandatory: bool = False
    multiple: bool = False
    default: Literal | None = None
    default_choice: Choice | None = None
    assertions: tuple[Assertion, ...] = ()
    rules: tuple[Rule, ...] = field(default=(), repr=False)

    @property
    def primitive(self) -> str:
        """The name of the base primitive; ``*`` for the wildcard."""
        return self.type.primitive if self.type is not None else "*"


@dataclass(kw_only=True, eq=False)
class Archetype:
    """A role that types provide and fields require; ``is_open``: nobody here has to provide it."""

    name: Name
    providers: tuple[Type, ...] = field(default=(), repr=False)
    is_open: bool = False
    doc: Doc = Doc()


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A constant.

    ``error_class`` is ``soft``, ``hard`` or empty; ``enumeration`` names the enumeration that the constant is
    a member of; ``encoding`` is the form of the field table values that it numbers.
    """

    name: Name
    value: Literal
    error_class: str
    doc: Doc
    at: Location
    enumeration: Name | None = None
    encoding: Encoding | None = None


@dataclass(frozen=True, kw_only=True)
class Enumeration:
    """Constants that belong together, in document order."""

    name: Name
    members: tuple[Definition, ...]


@dataclass(frozen=True, kw_only=True)
class FormatRange:
    """The type codes from ``first`` to ``last``.

    ``category``: ``fixed``, ``variable`` or ``reserved``; ``width`` is in octets: of the value, or of the
    size in front of it.
    """

    first: int
    last: int
    category: str
    width: int
    doc: Doc
    at: Location


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A way in which a command can fail; ``error`` is the choice that numbers it."""

    name: Name
    error: Choice
    doc: Doc


@dataclass(kw_only=True, eq=False)
class Method:
    """A method, control or command: a composite with a code, senders, replies and perhaps content.

    ``header`` is the struct that precedes the arguments; it is the first of ``fields`` too.
    """

    name: Name
    kind: str
    code: int
    at: Location
    doc: Doc
    layout: Layout
    fields: tuple[Field, ...]
    is_synchronous: bool = False
    has_content: bool = False
    sent_by: tuple[str, ...] = ()
    responses: tuple[Name, ...] = ()
    result: Type | None = None
    header: Type | None = field(default=None, repr=False)
    chassis: tuple[Chassis, ...] = ()
    failures: tuple[Failure, ...] = ()
    rules: tuple[Rule, ...] = field(default=(), repr=False)


@dataclass(kw_only=True, eq=False)
class Class:
    """A class of methods; ``fields`` are its content properties."""

    name: Name
    code: int
    at: Location
    doc: Doc
    fields: tuple[Field, ...]
    methods: tuple[Method, ...]
    chassis: tuple[Chassis, ...] = ()
    rules: tuple[Rule, ...] = field(default=(), repr=False)

    @cached_property
    def results(self) -> tuple[Type, ...]:
        """The structs that methods answer with, in the order of their methods."""
        return tuple(method.result for method in self.methods if method.result is not None)


@dataclass(frozen=True, kw_only=True)
class State:
    """A state of a machine; ``index`` is its row."""

    name: Name
    index: int
    doc: Doc


@dataclass(frozen=True, kw_only=True)
class Event:
    """``direction`` is ``send``, ``receive`` or ``local``."""

    name: Name
    index: int
    direction: str
    doc: Doc


@dataclass(frozen=True, kw_only=True)
class Guard:
    """A named condition that the table of a machine cannot hold."""

    name: Name
    doc: Doc


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The answer of a machine to one (state, event) pair.

    ``result``: ``next`` (``target`` is the next state), ``ignored``, ``local-error`` or ``peer-error``
    (``condition`` is the error condition of the specification). ``guards`` are conditions the table cannot
    hold.
    """

    result: str
    target: State | None
    condition: str | None
    guards: tuple[Guard, ...]
    reason: str
    at: Location


@dataclass(kw_only=True, eq=False)
class Machine:
    """A state machine, total: ``rows[state.index][event.index]`` is a Cell."""

    name: Name
    at: Location
    doc: Doc
    initial: State
    states: tuple[State, ...]
    events: tuple[Event, ...]
    guards: tuple[Guard, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(kw_only=True, eq=False)
class Section:
    """A group of definitions inside a module, in document order."""

    name: Name
    doc: Doc
    types: tuple[Type, ...]
    definitions: tuple[Definition, ...]
    ranges: tuple[FormatRange, ...] = ()


@dataclass(kw_only=True, eq=False)
class Module:
    """One definition file, which becomes one module of the output; ``overlays`` were laid over it."""

    name: Name
    doc: Doc
    file: str
    sha256: str
    overlays: tuple[Digest, ...] = ()
    sections: tuple[Section, ...] = ()
    classes: tuple[Class, ...] = ()
    machines: tuple[Machine, ...] = ()

    @cached_property
    def types(self) -> tuple[Type, ...]:
        """All types, in document order."""
        return tuple(type_ for section in self.sections for type_ in section.types)

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """All constants, in document order."""
        return tuple(constant for section in self.sections for constant in section.definitions)

    @cached_property
    def enumerations(self) -> tuple[Enumeration, ...]:
        """The constants that belong to an enumeration, grouped; in the order of their first members."""
        groups: dict[str, list[Definition]] = {}
        for constant in self.definitions:
            if constant.enumeration is not None:
                groups.setdefault(constant.enumeration.xml, []).append(constant)
        return tuple(
            Enumeration(name=name, members=tuple(members))
            for members in groups.values()
            if (name := members[0].enumeration) is not None
        )


@dataclass(kw_only=True, eq=False)
class Dialect:
    """A whole protocol: its modules in dependency order, and its archetypes sorted by name.

    ``protocol_header`` holds the octets behind ``AMQP`` with which a connection begins, four or fewer (what
    is missing is the sender's to choose); none where the definitions give none.
    """

    name: str
    grammar: str
    modules: tuple[Module, ...]
    archetypes: tuple[Archetype, ...]
    protocol_header: bytes = b""

    @cached_property
    def types(self) -> tuple[Type, ...]:
        """All types of all modules, in module and document order."""
        return tuple(type_ for module in self.modules for type_ in module.types)

    @cached_property
    def machines(self) -> tuple[Machine, ...]:
        return tuple(machine for module in self.modules for machine in module.machines)

    @cached_property
    def classes(self) -> tuple[Class, ...]:
        """All classes of methods, controls or commands, in module and document order."""
        return tuple(class_ for module in self.modules for class_ in module.classes)

    @cached_property
    def structs(self) -> tuple[Type, ...]:
        """All composite types, those that only methods answer with included."""
        results = (result for class_ in self.classes for result in class_.results)
        return (*(type_ for type_ in self.types if type_.kind == "composite"), *results)

    @cached_property
    def ranges(self) -> tuple[FormatRange, ...]:
        """The ranges of type codes, in document order."""
        sections = (section for module in self.modules for section in module.sections)
        return tuple(item for section in sections for item in section.ranges)

    @cached_property
    def value_encodings(self) -> tuple[Encoding, ...]:
        """The forms that a value of any type can have, by code: those that have one."""
        constants = (constant for module in self.modules for constant in module.definitions)
        forms = [constant.encoding for constant in constants if constant.encoding is not None]
        forms += (form for type_ in self.types for form in type_.encodings)
        coded = [(form.code, form) for form in forms if form.code is not None]
        return tuple(form for _, form in sorted(coded, key=lambda pair: pair[0]))

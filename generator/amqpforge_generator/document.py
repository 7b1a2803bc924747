"""The raw document: what a definition file says, word for word, with the place where it says it.

A reader per grammar produces this; nothing here is interpreted. Attribute values stay the strings of the file
(``None`` when absent), so that every later complaint can quote them. All records are frozen and hashable.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A line of a definition file; prints as ``file:line``."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A file and the sha256 of its octets."""

    file: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doc:
    """Prose: a one-line label, paragraphs, and the section of the specification that the prose restates."""

    label: str = ""
    paragraphs: tuple[str, ...] = ()
    reference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEncoding:
    """One wire form of a primitive type, or of a value in a field table."""

    at: Location
    name: str | None
    code: str | None
    category: str
    width: str
    doc: Doc
    holds: str | None = None
    charset: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawDescriptor:
    """The descriptor of a described type: symbolic name and numeric code."""

    at: Location
    name: str
    code: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawChoice:
    """One value of a restricted type, or of a domain that enumerates its values."""

    at: Location
    name: str
    value: str
    doc: Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class RawAssert:
    """A condition on the values of a domain or field, such as ``notnull`` or ``length``.

    ``rule`` names the rule of a ``syntax``, and ``pattern`` says it as a regular expression.
    """

    at: Location
    check: str
    value: str | None
    rule: str | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRule:
    """What peers have to keep to, in prose; ``on_failure`` names the reply code of a breach."""

    at: Location
    name: str
    on_failure: str | None
    doc: Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class RawField:
    """A field of a composite type, struct or method; also an entry of a map type, ``name`` being the key."""

    at: Location
    name: str
    type: str
    requires: str | None = None
    default: str | None = None
    mandatory: str | None = None
    multiple: str | None = None
    references: str | None = None
    asserts: tuple[RawAssert, ...] = ()
    rules: tuple[RawRule, ...] = ()
    doc: Doc = Doc()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawLayout:
    """How the fields of a struct are laid out where the definition says so: sizes in octets, as written."""

    size: str | None = None
    pack: str | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawType:
    """A named type; ``kind`` is ``primitive``, ``restricted``, ``composite``, ``struct`` or ``domain``."""

    at: Location
    name: str
    kind: str
    source: str | None = None
    provides: tuple[str, ...] = ()
    descriptor: RawDescriptor | None = None
    encodings: tuple[RawEncoding, ...] = ()
    choices: tuple[RawChoice, ...] = ()
    fields: tuple[RawField, ...] = ()
    entries: tuple[RawField, ...] = ()
    asserts: tuple[RawAssert, ...] = ()
    rules: tuple[RawRule, ...] = ()
    layout: RawLayout | None = None
    keys: str | None = None
    tolerated_keys: str | None = None
    values: str | None = None
    max_length: str | None = None
    part: str | None = None
    doc: Doc = Doc()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawException:
    """A way in which a command can fail; ``error`` is the name of a choice."""

    at: Location
    name: str
    error: str
    doc: Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMethod:
    """A method (class/method grammar), or a control or command (the draft's grammar); ``kind`` says which.

    ``header`` names the struct that precedes the arguments.
    """

    at: Location
    name: str
    kind: str
    code: str
    synchronous: str | None = None
    content: str | None = None
    chassis: tuple[tuple[str, str], ...] = ()
    responses: tuple[str, ...] = ()
    result: RawType | None = None
    header: str | None = None
    fields: tuple[RawField, ...] = ()
    exceptions: tuple[RawException, ...] = ()
    layout: RawLayout | None = None
    rules: tuple[RawRule, ...] = ()
    doc: Doc = Doc()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawClass:
    """A class of methods; ``fields`` are the properties of the content it carries.

    ``header`` names the struct that precedes the arguments of its methods, unless they name one themselves.
    """

    at: Location
    name: str
    code: str
    chassis: tuple[tuple[str, str], ...] = ()
    fields: tuple[RawField, ...] = ()
    header: str | None = None
    methods: tuple[RawMethod, ...] = ()
    rules: tuple[RawRule, ...] = ()
    doc: Doc = Doc()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawDefinition:
    """A named constant; ``error_class`` is ``soft-error`` or ``hard-error`` where the grammar says so.

    ``enumeration`` names the enumeration that it is a member of; ``encoding`` is there when it numbers a
    type of field table values.
    """

    at: Location
    name: str
    value: str
    error_class: str | None = None
    enumeration: str | None = None
    encoding: RawEncoding | None = None
    doc: Doc = Doc()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRange:
    """A range of type codes, and the width of the values whose code lies in it."""

    at: Location
    first: str
    last: str
    category: str
    width: str
    doc: Doc = Doc()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawArchetype:
    """An explicit word about an archetype: ``open`` means that types not defined here may provide it."""

    at: Location
    name: str
    open: str | None
    doc: Doc = Doc()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawState:
    """A state of a machine."""

    at: Location
    name: str
    doc: Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEvent:
    """An event of a machine; ``direction`` is ``send``, ``receive`` or ``local``."""

    at: Location
    name: str
    direction: str
    doc: Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class RawGuard:
    """A condition that a table cannot hold; transitions name it."""

    at: Location
    name: str
    doc: Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTransition:
    """One row of a machine: states and events as name lists (``*`` alone means all), and exactly one result.

    ``result``: ``next`` (``target`` names the state), ``stay``, ``ignored``, ``local-error`` or
    ``peer-error`` (with ``condition``). ``default`` is ``true`` for a row that covers only what no other row
    gives.
    """

    at: Location
    states: tuple[str, ...]
    events: tuple[str, ...]
    result: str
    target: str | None
    condition: str | None
    guards: tuple[str, ...]
    reason: str
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMachine:
    """A state machine."""

    at: Location
    name: str
    initial: str
    states: tuple[RawState, ...]
    events: tuple[RawEvent, ...]
    guards: tuple[RawGuard, ...]
    transitions: tuple[RawTransition, ...]
    doc: Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSection:
    """A group of definitions inside one file, in document order."""

    at: Location
    name: str
    types: tuple[RawType, ...] = ()
    definitions: tuple[RawDefinition, ...] = ()
    archetypes: tuple[RawArchetype, ...] = ()
    classes: tuple[RawClass, ...] = ()
    machines: tuple[RawMachine, ...] = ()
    ranges: tuple[RawRange, ...] = ()
    doc: Doc = Doc()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One definition file: its grammar, the digest of its octets, and its sections.

    ``protocol_header`` holds the octets behind ``AMQP`` in hexadecimal, where the file gives them;
    ``overlays`` the files that were laid over this one, in the order in which that happened.
    """

    at: Location
    grammar: str
    name: str
    sha256: str
    sections: tuple[RawSection, ...]
    protocol_header: str | None = None
    overlays: tuple[Digest, ...] = ()
    doc: Doc = Doc()

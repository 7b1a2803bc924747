"""Reader of overlays: additions in the ordinary words of the class/method grammar, changes and removals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lxml import etree

from amqpforge_generator.document import (
    Doc,
    Location,
    RawClass,
    RawDefinition,
    RawField,
    RawMethod,
    RawType,
)
from amqpforge_generator.readers import class_method
from amqpforge_generator.readers.class_method import (
    NAMESPACE,
    read_class,
    read_constant,
    read_domain,
    read_field,
    read_method,
)
from amqpforge_generator.readers.shapes import Shape, check_shapes, get, need, read_doc, tag
from amqpforge_generator.xmlsource import Source

ROOT = f"{{{NAMESPACE}}}overlay"
GRAMMAR = "overlay"

#: What a change can give besides prose: the attributes of each kind, and what raw elements call them.
CHANGEABLE = {
    "constant": {"name": "name", "value": "value"},
    "class": {"name": "name", "index": "code"},
    "method": {"name": "name", "index": "code", "synchronous": "synchronous", "content": "content"},
    "field": {"name": "name", "type": "type", "domain": "type", "default": "default"},
}
_PROSE = ("label", "f:ref")
_TOP = ("constant", "domain", "class")
_ADDED = (*_TOP, "method", "field")
_HOLDERS = ("overlay", "extend")
_MEMBERS = {"class": ("chassis", "field", "method"), "method": ("chassis", "response", "field")}
_VALUES = ("name", "value", "index", "synchronous", "content", "type", "domain", "default")
#: How the names of a path are put together, by kind.
_FORMS = {"method": ("class.method",), "field": ("class.method.field", "class.field")}

SHAPES = {
    **class_method.SHAPES,
    **{
        name: replace(shape, optional=(*shape.optional, "f:before"))
        for name, shape in class_method.SHAPES.items()
        if name in _ADDED
    },
    "overlay": Shape(
        required=("name", "base"),
        optional=_PROSE,
        children=("doc", "constant", "domain", "class", "extend", "change", "remove"),
    ),
    "extend": Shape(optional=("class", "method"), children=("chassis", "response", "field", "method")),
    "change": Shape(optional=(*CHANGEABLE, *_VALUES, "was", *_PROSE), children=("doc",)),
    "remove": Shape(optional=_ADDED),
}


RawItem = RawDefinition | RawType | RawClass | RawMethod | RawField


@dataclass(frozen=True, slots=True)
class Path:
    """Where an element is: its kind, and its name behind those of its class and method.

    Without names it is the base itself.
    """

    kind: str
    names: tuple[str, ...]

    @property
    def steps(self) -> Iterator[tuple[str, Path]]:
        """The name of every element on the way, and the path of what it is in; the element itself last."""
        kinds = ("", "class", "method")
        for depth, name in enumerate(self.names):
            yield name, Path(kinds[depth], self.names[:depth])

    def __str__(self) -> str:
        return f"{self.kind} {'.'.join(self.names)!r}" if self.names else "the base"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A new ``item`` inside the element at ``owner``, at the end or in front of the one named ``before``."""

    at: Location
    kind: str
    owner: Path
    item: RawItem
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A chassis (peer and level) or a response that a class or method gets, behind those that it has."""

    at: Location
    owner: Path
    chassis: tuple[str, str] | None = None
    response: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """New ``values`` for attributes of an element; ``was`` is the old value of the only one besides its name.

    Label, paragraphs and reference of ``doc`` take the place of the old ones where there are any.
    """

    at: Location
    path: Path
    values: tuple[tuple[str, str], ...]
    was: str | None
    doc: Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """An element that is not there any more."""

    at: Location
    path: Path


Entry = Addition | Part | Change | Removal


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """One overlay file: the name of the document that it is laid over, and its entries in document order."""

    at: Location
    name: str
    base: str
    sha256: str
    entries: tuple[Entry, ...]


def read_overlay(root: etree._Element, source: Source) -> Overlay:
    """The overlay of a file; problems of form go to the source's, and an entry that has some is left out."""
    check_shapes(root, SHAPES, NAMESPACE, source)
    doc = read_doc(root, NAMESPACE)
    for element in root.iter("*"):
        parent = element.getparent()
        if get(element, "f:before") is not None and (
            parent is None or tag(parent, NAMESPACE) not in _HOLDERS
        ):
            source.complain(
                element, "f:before is for what an overlay adds by itself, not for what is inside it"
            )
    return Overlay(
        at=source.at(root),
        name=need(root, "name"),
        base=need(root, "base"),
        sha256=source.sha256,
        entries=tuple(entry for child in root for entry in _entries(child, source, doc)),
    )


def _entries(element: etree._Element, source: Source, doc: Doc) -> Iterator[Entry]:
    name = tag(element, NAMESPACE)
    if name in _TOP:
        yield _addition(element, Path("", ()), source, doc)
    elif name == "extend":
        owner = _target(element, ("class", "method"), source)
        if owner is not None:
            for child in element:
                yield from _extension(child, owner, source, doc)
    elif name == "change":
        path = _target(element, tuple(CHANGEABLE), source)
        if path is not None:
            yield _change(element, path, source)
    elif name == "remove":
        path = _target(element, _ADDED, source)
        if path is not None:
            yield Removal(at=source.at(element), path=path)


def _extension(element: etree._Element, owner: Path, source: Source, doc: Doc) -> Iterator[Entry]:
    name = tag(element, NAMESPACE)
    if name in ("method", "response") and name not in _MEMBERS[owner.kind]:
        source.complain(element, f"{owner} is extended, and a <{name}> cannot be in a {owner.kind}")
    elif name in ("field", "method"):
        yield _addition(element, owner, source, doc)
    elif name == "chassis":
        peer = need(element, "name"), need(element, "implement")
        yield Part(at=source.at(element), owner=owner, chassis=peer)
    elif name == "response":
        yield Part(at=source.at(element), owner=owner, response=need(element, "name"))


def _addition(element: etree._Element, owner: Path, source: Source, doc: Doc) -> Addition:
    return Addition(
        at=source.at(element),
        kind=tag(element, NAMESPACE),
        owner=owner,
        item=_item(element, owner, source, doc),
        before=get(element, "f:before"),
    )


def _item(element: etree._Element, owner: Path, source: Source, doc: Doc) -> RawItem:
    match tag(element, NAMESPACE):
        case "constant":
            return read_constant(element, source, doc)
        case "domain":
            return read_domain(element, source, doc)
        case "class":
            return read_class(element, source, doc)
        case "method":
            return read_method(element, source, doc, owner.names[-1])
        case _:
            return read_field(element, source, doc)


def _target(element: etree._Element, kinds: tuple[str, ...], source: Source) -> Path | None:
    """The path to the element that one of the attributes names, or None and a problem."""
    what = tag(element, NAMESPACE)
    given = [(kind, text) for kind in kinds if (text := get(element, kind)) is not None]
    if len(given) != 1:
        source.complain(element, f"<{what}> names one element, by one of the attributes {', '.join(kinds)}")
        return None
    kind, text = given[0]
    names = tuple(text.split(".")) if kind in _FORMS else (text,)
    forms = _FORMS.get(kind, (kind,))
    if not all(names) or len(names) not in (form.count(".") + 1 for form in forms):
        source.complain(element, f"{kind} {text!r} of <{what}> is not of the form {' or '.join(forms)}")
        return None
    return Path(kind, names)


def _change(element: etree._Element, path: Path, source: Source) -> Change:
    given = {name: value for name in _VALUES if (value := get(element, name)) is not None}
    known = CHANGEABLE[path.kind]
    for name in sorted(given.keys() - known.keys()):
        source.complain(element, f"a {path.kind} has no {name!r} that could be changed; {', '.join(known)}")
    if "type" in given and "domain" in given:
        source.complain(element, f"{path}: give either 'domain' or 'type'")
    values = tuple((name, value) for name, value in given.items() if name in known)
    was = get(element, "was")
    if was is not None and len(given.keys() - {"name"}) != 1:
        source.complain(
            element, f"'was' is the old value of one attribute besides the name; {path} gets others"
        )
        was = None
    doc = read_doc(element, NAMESPACE)
    if not given and doc == Doc():
        source.complain(element, f"changes nothing of {path}")
    return Change(at=source.at(element), path=path, values=values, was=was, doc=doc)

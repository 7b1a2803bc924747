"""What the elements of a grammar may hold, as data, and the walk that complains about everything else.

A schema says *that* a file is wrong; this says what is wrong in words a person can use, with the nearest
legal word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from lxml import etree

from amqpforge_generator.document import Doc
from amqpforge_generator.errors import suggestion
from amqpforge_generator.names import SpecText
from amqpforge_generator.xmlsource import Source

#: The namespace of this project's own attributes and elements, written with the prefix ``f``.
EXTENSIONS = "https://amqpforge.org/schema/extensions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One element: its attributes, the children it may have, those of them that it may have once.

    ``is_prose``: what is inside is text for people, and only its words count.
    """

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    is_prose: bool = False


Shapes = Mapping[str, Shape]


def tag(element: etree._Element, namespace: str) -> str:
    """The name of an element in messages and shapes: plain in the grammar's namespace, ``f:`` in ours."""
    return _short(str(element.tag), namespace)


def get(element: etree._Element, attribute: str) -> str | None:
    """The value of an attribute; ``f:ref`` means the extension attribute ``ref``."""
    name = f"{{{EXTENSIONS}}}{attribute[2:]}" if attribute.startswith("f:") else attribute
    value = element.get(name)
    return None if value is None else str(value)


def need(element: etree._Element, attribute: str) -> str:
    """The value of an attribute whose absence has been reported already; then the empty string."""
    return get(element, attribute) or ""


def children(element: etree._Element, namespace: str, *names: str) -> list[etree._Element]:
    """The child elements with one of the names, in document order."""
    return [child for child in element if tag(child, namespace) in names]


def check_shapes(root: etree._Element, shapes: Shapes, namespace: str, source: Source) -> None:
    """Report every element and attribute that the grammar does not know, and every one that it misses."""
    name = tag(root, namespace)
    shape = shapes[name]
    _check_attributes(root, name, shape, source)
    if shape.is_prose:
        return
    _check_text(root, root.text, name, source)
    seen: Counter[str] = Counter()
    for child in root:
        _check_text(child, child.tail, name, source)
        child_name = tag(child, namespace)
        seen[child_name] += 1
        if child_name not in shape.children:
            known = suggestion(child_name, shape.children)
            source.complain(child, f"element <{child_name}> is not known inside <{name}>{known}")
            continue
        if child_name in shape.once and seen[child_name] == 2:
            source.complain(child, f"a second <{child_name}> inside <{name}>; there can be one")
        check_shapes(child, shapes, namespace, source)


def _check_attributes(element: etree._Element, name: str, shape: Shape, source: Source) -> None:
    known = (*shape.required, *shape.optional)
    present = {_short(str(attribute), "") for attribute in element.attrib}
    for attribute in sorted(present - set(known)):
        near = suggestion(attribute, set(known) - present)
        source.complain(element, f"attribute {attribute!r} is not known on <{name}>{near}")
    for attribute in shape.required:
        if not get(element, attribute):
            state = "is missing on" if attribute not in present else "is empty on"
            source.complain(element, f"attribute {attribute!r} {state} <{name}>")


def _check_text(element: etree._Element, text: str | None, name: str, source: Source) -> None:
    words = _words(text)
    if words:
        shown = words if len(words) <= 40 else f"{words[:40]}..."
        source.complain(element, f"text {shown!r} is not known inside <{name}>; prose belongs in a <doc>")


def _short(name: str, namespace: str) -> str:
    if name.startswith(f"{{{EXTENSIONS}}}"):
        return f"f:{etree.QName(name).localname}"
    if namespace and name.startswith(f"{{{namespace}}}"):
        return etree.QName(name).localname
    return name


def read_doc(element: etree._Element, namespace: str, inherited: Doc | None = None) -> Doc:
    """Label, paragraphs and section number of an element; the number is inherited where it has none."""
    paragraphs: list[SpecText] = []
    for doc in children(element, namespace, "doc"):
        texts = [_words(doc.text), *(part for block in doc for part in (_block(block), _words(block.tail)))]
        paragraphs += [SpecText(text) for text in texts if text]
    label = get(element, "label") or get(element, "title") or ""
    own = get(element, "f:ref")
    reference = SpecText(own or "") if own or inherited is None else inherited.reference
    return Doc(label=SpecText(_words(label)), paragraphs=tuple(paragraphs), reference=reference)


def _block(block: etree._Element) -> str:
    return _words("".join(str(text) for text in block.itertext()))


def _words(text: str | None) -> str:
    return " ".join((text or "").split())

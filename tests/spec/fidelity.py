"""Facts of definition files in one comparable form, and the differences between two of them.

A fact is any attribute that is not prose and not an extension of ours, on any element that is neither. No
attribute or element is listed by name: one that the other side does not have is a difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from lxml import etree

AMQP = "{http://www.amqp.org/schema/amqp.xsd}"
FORGE = "{https://amqpforge.org/schema/extensions}"
Facts = str | list["Facts"] | dict[str, "Facts"]

_PROSE = frozenset({"label", "title"})
_GROUPS = {"encoding": "encodings", "field": "fields", "choice": "choices"}


def facts_of(root: etree._Element) -> dict[str, Facts]:
    """The facts of a definition file, laid out as in the facts file: types, definitions, sections by name."""
    sections = [section for section in root.iter(AMQP + "section") if _members(section)]
    members = [member for section in sections for member in _members(section)]
    return {
        "types": [_element(member) for member in members if member.tag != AMQP + "definition"],
        "definitions": [_element(member) for member in members if member.tag == AMQP + "definition"],
        "sections": [_attributes(section) for section in sections],
    }


def arrangement_of(root: etree._Element) -> Facts:
    """Which section holds which definitions, all by name, in document order."""
    return [
        {"name": section.get("name", ""), "holds": [member.get("name", "") for member in _members(section)]}
        for section in root.iter(AMQP + "section")
        if _members(section)
    ]


def numbers_of(root: etree._Element) -> Facts:
    """The same, with section numbers in place of the names of sections and beside those of definitions."""
    return [
        {
            "name": section.get(FORGE + "ref", ""),
            "holds": [
                f"{member.get(FORGE + 'ref', '')} {member.get('name', '')}" for member in _members(section)
            ],
        }
        for section in root.iter(AMQP + "section")
        if _members(section)
    ]


def differences(expected: Facts, found: Facts, path: str = "") -> Iterator[str]:
    """Every difference, in both directions, with the path to it."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(expected.keys() | found.keys()):
            if key not in found:
                yield f"{path}/{key}: is missing"
            elif key not in expected:
                yield f"{path}/{key}: is not in the source"
            else:
                yield from differences(expected[key], found[key], f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list):
        for index, (wanted, got) in enumerate(zip_longest(expected, found)):
            place = f"{path}[{index}{_name(wanted if wanted is not None else got)}]"
            if got is None:
                yield f"{place}: is missing"
            elif wanted is None:
                yield f"{place}: is not in the source"
            else:
                yield from differences(wanted, got, place)
    elif expected != found:
        yield f"{path}: the source has {expected!r}, the definitions have {found!r}"


def elements_in(facts: Facts) -> int:
    """How many elements the facts describe: sections, types, constants and all that types consist of."""
    if isinstance(facts, str):
        return 0
    inner = facts if isinstance(facts, list) else list(facts.values())
    return sum(map(elements_in, inner)) + any(isinstance(value, str) for value in inner)


def _members(section: etree._Element) -> list[etree._Element]:
    return [child for child in section.iterchildren("*") if _is_fact(child)]


def _is_fact(element: etree._Element) -> bool:
    return element.tag != AMQP + "doc" and not str(element.tag).startswith(FORGE)


def _attributes(element: etree._Element) -> dict[str, Facts]:
    attributes = {str(name): str(value) for name, value in element.attrib.items()}
    return {name: value for name, value in attributes.items() if name not in _PROSE and FORGE not in name}


def _element(element: etree._Element) -> dict[str, Facts]:
    facts = _attributes(element)
    for child in _members(element):
        local = etree.QName(child).localname
        if local == "descriptor" and local not in facts:
            facts[local] = _element(child)
            continue
        group = facts.setdefault(_GROUPS.get(local, f"<{local}>"), [])
        assert isinstance(group, list), f"{local}: an attribute and an element of one name"
        group.append(_element(child))
    return facts


def _name(facts: Facts | None) -> str:
    if isinstance(facts, dict):
        return f" {facts.get('name', '')}".rstrip()
    return f" {facts}" if isinstance(facts, str) else ""

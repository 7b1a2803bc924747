"""The facts of the early 1.0 draft as its page text tells them, in the form of `tests.spec.draft`.

The text is what is left of a paginated document: tables became lines with tabs, headings ran into each other,
and marks of bold and italic type are in the way. What is read here is what the page states in a form that can
be told from prose: signatures and field details, valid values, tables of types and ranges, names of states.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import cast

from tests.spec.draft import Tree
from tests.spec.fidelity import Facts

_MARKS = re.compile(r"<[^<>]*>|[*`\\]")
_HEADING = re.compile(r"^#+ (?=\d)", re.MULTILINE)
_OPERATION = re.compile(r"(?P<ref>[\d.]+) (?P<kind>Control|Command): (?P<code>0x[0-9a-f]{4}) ")
_COMPOSITE = re.compile(r"(?P<ref>[\d.]+) (?P<name>[a-z-]+) (?P<kind>struct|record) \(")
_DOMAIN = re.compile(r"(?P<ref>[\d.]+) (?P<name>[a-z-]+): (?P<type>[a-z0-9]+) \(")
_STATES = re.compile(r"(?P<ref>[\d.]+) (?P<name>Connection|Session|Transfer) States$", re.MULTILINE)
_SIGNATURE = re.compile(r"^Signature: (?P<name>[a-z-]+)\( (?P<fields>.*) \)$", re.MULTILINE)
_FIELD = re.compile(r"^(?P<name>[a-z-]+): (?P<type>[a-z][a-z0-9-]*)(?=\s)", re.MULTILINE)
_MULTIPLICITY = re.compile(r"\(\s*(?:(?P<word>required|optional|multiple)|default: (?P<default>.*?))\s*\)")
_CHOICE = re.compile(r"^(?:[-|] *)?(?P<value>\d+) \((?P<name>[a-z-]+)\)", re.MULTILINE)
_EXCEPTION = re.compile(r"^(?P<name>[a-z-]+)\t(?P<error>[a-z-]+) \((?P<code>\d+)\) ", re.MULTILINE)
_STATE = re.compile(r"^(?:- )?(?P<name>[A-Z_]+):", re.MULTILINE)
_DEFINITION = re.compile(r"Definition: (?P<name>[A-Z-]+?)\s*Value: (?P<value>\d+)")
_CODED = re.compile(r"^(?P<name>[a-z0-9-]+)\t(?P<code>0x[0-9a-f]{2})\t(?P<width>\d+)\t", re.MULTILINE)
_TYPE = re.compile(r"(?P<ref>6(?:\.\d+)+) Type: (?P<name>[a-z0-9-]+)")
_RANGE = re.compile(
    r"^(?P<first>0x..) - (?P<last>0x..)\t(?P<category>[A-Z]\w*)[^\t\n]*\t?(?P<format>.*)$", re.MULTILINE
)

#: A slip of the page (line 731 of the seed): the type that the signature and the next command have instead.
_SLIPS = {"vb32": "vbin32"}
_NUMBERS = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "four": 4,
    "five": 5,
    "eight": 8,
    "nine": 9,
    "sixteen": 16,
    "thirty-two": 32,
    "sixty-four": 64,
    "one hundred twenty-eight": 128,
}


def of_page(text: str) -> Tree:
    """What the page says. Lists of definitions are in the order of the page, operations in one list."""
    clean = _MARKS.sub("", text)
    sections = _HEADING.split(clean)
    composites = [_composite(section) for section in sections if _COMPOSITE.match(section)]
    return {
        "types": _types(clean),
        "ranges": [_range(found) for found in _RANGE.finditer(clean)],
        "definitions": [_named(found) for found in _DEFINITION.finditer(clean)],
        "domains": [_domain(section) for section in sections if _DOMAIN.match(section)],
        "structs": [tree for kind, tree in composites if kind == "struct"],
        "records": [tree for kind, tree in composites if kind == "record"],
        "operations": [_operation(section) for section in sections if _OPERATION.match(section)],
        "machines": [_machine(section) for section in sections if _STATES.match(section)],
    }


#: What the page tells in prose and figures alone, by kind of definition.
_UNTOLD = {
    "types": ("category", "holds", "charset"),
    "ranges": ("ref",),
    "definitions": ("ref",),
    "structs": ("pack",),
    "operations": ("pack",),
}


def as_the_page_tells(definitions: Tree) -> Tree:
    """Facts of definitions, section numbers included, in the form and to the extent of `of_page`."""
    classes = cast("list[Tree]", definitions["classes"])
    operations = [operation for class_ in classes for operation in class_["operations"]]
    groups = {**definitions, "operations": operations}
    del groups["classes"]
    return {
        group: [
            {key: value for key, value in item.items() if key not in _UNTOLD.get(group, ())}
            for item in cast("list[Tree]", items)
        ]
        for group, items in groups.items()
    }


def exception_codes(text: str) -> set[tuple[str, str]]:
    """The errors that exceptions lead to, as the page names and numbers them there."""
    return {(found["error"], found["code"]) for found in _EXCEPTION.finditer(_MARKS.sub("", text))}


def signatures(text: str) -> list[Facts]:
    """Name, and names and types of the fields, of each operation as its signature gives them."""
    return [
        {"name": found["name"], "fields": list[Facts](_arguments(found["fields"]))}
        for found in _SIGNATURE.finditer(_MARKS.sub("", text))
    ]


def _arguments(text: str) -> Iterator[Tree]:
    for argument in text.split(", "):
        name, _, type_ = argument.partition(": ")
        yield {"name": name, "type": type_}


def _operation(section: str) -> Tree:
    heading, signature = _match(_OPERATION, section), _search(_SIGNATURE, section)
    details, _, exceptions = section[signature.end() :].partition("Exceptions:")
    raised = list(_EXCEPTION.finditer(exceptions))
    tree: Tree = {
        "kind": heading["kind"].lower(),
        "name": signature["name"],
        "code": heading["code"],
        "ref": heading["ref"],
        "fields": _fields(details),
    }
    if raised:
        tree["exceptions"] = [{"name": found["name"], "error": found["error"]} for found in raised]
    return tree


def _composite(section: str) -> tuple[str, Tree]:
    heading = _match(_COMPOSITE, section)
    tree: Tree = {"name": heading["name"], "ref": heading["ref"]}
    fields = _fields(section)
    return heading["kind"], {**tree, "fields": fields} if fields else tree


def _fields(details: str) -> list[Facts]:
    """Fields as their details give them: each begins a line, and somewhere behind it stands what it is."""
    starts = list(_FIELD.finditer(details))
    fields: list[Facts] = []
    for start, after in zip_longest(starts, starts[1:]):
        end = after.start() if after is not None else len(details)
        found = _search(_MULTIPLICITY, details[start.end() : end])
        tree: Tree = {"name": start["name"], "type": _SLIPS.get(start["type"], start["type"])}
        # A field that has a default can be left out.
        tree["multiplicity"] = found["word"] or "optional"
        if found["default"]:
            tree["default"] = found["default"]
        fields.append(tree)
    return fields


def _domain(section: str) -> Tree:
    found = _match(_DOMAIN, section)
    tree: Tree = {"name": found["name"], "type": found["type"], "ref": found["ref"]}
    choices: list[Facts] = [_named(choice) for choice in _CHOICE.finditer(section)]
    return {**tree, "choices": choices} if choices else tree


def _machine(section: str) -> Tree:
    found = _match(_STATES, section)
    states: list[Facts] = [{"name": state["name"]} for state in _STATE.finditer(section)]
    return {"name": found["name"].lower(), "ref": found["ref"], "states": states}


def _types(clean: str) -> list[Facts]:
    """The types of the two tables, each with the number of the section on it; then the others."""
    sections = {found["name"]: found["ref"] for found in _TYPE.finditer(clean)}
    types: list[Facts] = []
    for found in _CODED.finditer(clean):
        ref = sections.pop(found["name"])
        types.append({"name": found["name"], "code": found["code"], "width": found["width"], "ref": ref})
    types += [{"name": name, "width": "0", "ref": ref} for name, ref in sections.items()]
    return types


def _range(found: re.Match[str]) -> Tree:
    number, _, _ = found["format"].partition(" octet")
    width = _NUMBERS[number.lower()] if number else 0
    return {
        "from": found["first"],
        "to": found["last"],
        "category": found["category"].lower(),
        "width": str(width),
    }


def _named(found: re.Match[str]) -> Tree:
    return {"name": found["name"], "value": found["value"]}


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.match(text)
    assert found is not None, f"no {pattern.pattern} at {text[:60]!r}"
    return found


def _search(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.search(text)
    assert found is not None, f"no {pattern.pattern} in {text[:60]!r}"
    return found

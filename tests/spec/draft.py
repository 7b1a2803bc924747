"""The facts of the early 1.0 draft in one comparable form: from the definitions, and from the facts file.

Both become a tree of names and values, whose differences `tests.spec.fidelity.differences` tells. Prose is no
fact, and neither is an extension (``f:``) but for section numbers, where the other witness has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from lxml import etree

from tests.spec.fidelity import FORGE, Facts

FILES = ("types.xml", "domains.xml", "operations.xml", "states.xml")

Tree: TypeAlias = "dict[str, Facts]"
Item: TypeAlias = Mapping[str, Any]

_GROUPS = {
    "type": "types",
    "range": "ranges",
    "definition": "definitions",
    "domain": "domains",
    "choice": "choices",
    "struct": "structs",
    "record": "records",
    "class": "classes",
    "control": "operations",
    "command": "operations",
    "exception": "exceptions",
    "field": "fields",
    "machine": "machines",
    "state": "states",
}
#: What the draft does not state: of a machine it has the names of the states alone.
_OURS = ("doc", "event", "guard", "transition")
_OUR_ATTRIBUTES = ("label", "initial")


def read_definitions(folder: Path) -> list[etree._Element]:
    """The roots of the definition files, in the order of `FILES`."""
    return [etree.parse(folder / name).getroot() for name in FILES]


def of_definitions(roots: Iterable[etree._Element], *, with_sections: bool = False) -> Tree:
    """The facts of all definition files together; ``with_sections`` keeps section numbers, as ``ref``."""
    tree: Tree = {}
    for root in roots:
        for child in root.iterchildren("*"):
            _add(tree, child, with_sections)
    return tree


def _add(tree: Tree, element: etree._Element, with_sections: bool) -> None:
    local = etree.QName(element).localname
    if local in _OURS:
        return
    group = tree.setdefault(_GROUPS.get(local, f"<{local}>"), [])
    assert isinstance(group, list), f"{local}: an attribute and an element of one name"
    facts: Tree = {"kind": local} if _GROUPS.get(local) == "operations" else {}
    for name, value in element.attrib.items():
        if name == FORGE + "ref" and with_sections:
            facts["ref"] = str(value)
        elif not str(name).startswith(FORGE) and name not in _OUR_ATTRIBUTES:
            facts[str(name)] = str(value)
    for child in element.iterchildren("*"):
        _add(facts, child, with_sections)
    group.append(facts)


#: Octets of packing flags. The facts file has no word on them; the prose of the draft has (7.2).
PACK = "2"
#: What the words of the facts file say about the content of a type: the first row that fits counts.
_MEANINGS = (
    ("opaque octet", "binary", ""),
    ("decimal:", "decimal", ""),
    ("milliseconds since", "timestamp-ms", ""),
    ("unsigned integer", "unsigned", ""),
    ("signed integer", "signed", ""),
    ("IEEE 754", "float", ""),
    ("zero is false", "boolean", ""),
    ("RFC 1982", "serial", ""),
    ("RFC 4122", "uuid", ""),
    ("empty value", "void", ""),
    ("being present", "bit", ""),
    ("ISO 8859-15 character", "character", "iso-8859-15"),
    ("character in UTF-32", "character", "utf-32-be"),
    ("ISO 8859-15 text", "text", "iso-8859-15"),
    ("UTF-8 text", "text", "utf-8"),
    ("UTF-16 text", "text", "utf-16-be"),
    ("entry count", "map", ""),
    ("item count", "list", ""),
    ("value count", "array", ""),
    ("struct code", "struct", ""),
    ("type code followed", "any", ""),
)
_CATEGORIES = {"map": "compound", "list": "compound", "array": "array", "bit": "bit", "any": "any"}
_RANGES = {"Fixed Width": "fixed", "Variable Width": "variable", "Reserved": "reserved"}


def of_facts(facts: Item) -> Tree:
    """The facts of the facts file, but for its notes and the layout of frames, which nothing defines."""
    operations = [{"kind": kind, **item} for kind in ("control", "command") for item in facts[f"{kind}s"]]
    classes = list(dict.fromkeys(item["class"] for item in operations))
    return {
        "types": [_type(item) for item in facts["primitive_types"]],
        "ranges": [
            {
                "from": item["from"],
                "to": item["to"],
                "category": _RANGES[item["category"]],
                "width": _width(item),
            }
            for item in facts["format_ranges"]
        ],
        "definitions": [_plain(item, "name", "value") for item in facts["definitions"]],
        "domains": [_composite(item) for item in facts["domains"]],
        "structs": [_composite(item, pack=PACK) for item in facts["structs"]],
        "records": [_composite(item) for item in facts["records"]],
        "classes": [
            _class(name, [item for item in operations if item["class"] == name], facts["exceptions"])
            for name in classes
        ],
        "machines": [
            {"name": name, "states": [{"name": state} for state in states]}
            for name, states in facts["states"].items()
        ],
    }


def _type(item: Item) -> Tree:
    holds, charset = next(row[1:] for row in _MEANINGS if row[0] in item["description"])
    category = _CATEGORIES.get(holds) or ("variable" if "size_octets" in item else "fixed")
    tree = {**_plain(item, "name", "code"), "category": category, "width": _width(item), "holds": holds}
    return {**tree, "charset": charset} if charset else tree


def _class(name: str, operations: list[Item], exceptions: Item) -> Tree:
    """A class, whose code is the upper octet that the codes of its operations share."""
    (code,) = {item["code"][:4] for item in operations}
    ordered = sorted(operations, key=lambda item: int(item["code"], 16))
    members: list[Facts] = []
    for item in ordered:
        raised = exceptions.get(item["name"], [])
        members.append({"kind": item["kind"], **_composite({**item, "exceptions": raised}, pack=PACK)})
    return {"name": name, "code": code, "operations": members}


def _composite(item: Item, pack: str = "") -> Tree:
    """A domain, struct, record or operation: what it is called, and the members of each kind it has."""
    tree = _plain(item, "name", "code", "type")
    if pack:
        tree["pack"] = pack
    for group in ("fields", "choices", "exceptions"):
        if item.get(group):
            tree[group] = [
                _plain(member, "name", "value", "type", "multiplicity", "default", "error")
                for member in item[group]
            ]
    return tree


def _width(item: Item) -> str:
    return str(item.get("size_octets", item.get("width", 0)))


def _plain(item: Item, *keys: str) -> Tree:
    """The values of the keys that are there, as the definitions would write them."""
    return {key: str(item[key]) for key in keys if item.get(key) is not None}

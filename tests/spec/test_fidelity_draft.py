"""The definitions of the early 1.0 draft hold the facts of their sources, and the comparison would notice.

Two witnesses: the facts file, and the page text of the draft itself as far as it states facts in a form of
its own. The transitions of the state machines are ours, since the diagrams of the draft are lost; only the
names of the states are compared.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from lxml import etree

import amqpforge_spec
from tests.spec.draft import FILES, Tree, of_definitions, of_facts, read_definitions
from tests.spec.draft_page import as_the_page_tells, exception_codes, of_page, signatures
from tests.spec.fidelity import FORGE, differences, elements_in

FACTS = "amqp-1-0-draft-facts.json"
SEED = "003_5d1be1f344f1d763.txt"

Roots = list[etree._Element]


@pytest.fixture(scope="module")
def roots() -> Roots:
    return read_definitions(amqpforge_spec.dialect_folder("amqp_1_0_draft"))


@pytest.fixture(scope="module")
def raw_facts(data: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((data / FACTS).read_text("utf-8"))
    return loaded


@pytest.fixture(scope="module")
def facts(raw_facts: dict[str, Any]) -> Tree:
    return of_facts(raw_facts)


@pytest.fixture(scope="module")
def page(material: Path) -> str:
    return (material / "seeds" / SEED).read_text("utf-8")


@pytest.fixture(scope="module")
def told(page: str) -> Tree:
    return of_page(page)


# -- the sources


def test_the_draft_has_its_files() -> None:
    folder = amqpforge_spec.dialect_folder("amqp_1_0_draft")
    assert {file.name for file in folder.glob("*.xml")} == set(FILES)


def test_definitions_hold_the_facts(roots: Roots, facts: Tree) -> None:
    assert list(differences(facts, of_definitions(roots))) == []


def test_definitions_equal_the_page(roots: Roots, told: Tree) -> None:
    found = as_the_page_tells(of_definitions(roots, with_sections=True))
    assert list(differences(told, found)) == []


def test_so_many_elements_are_compared(roots: Roots, facts: Tree) -> None:
    counts = {group: elements_in(items) for group, items in of_definitions(roots).items()}
    assert counts == {group: elements_in(items) for group, items in facts.items()}
    assert counts == {
        "types": 44,
        "ranges": 16,
        "definitions": 5,
        "domains": 10 + 41,
        "structs": 4 + 10,
        "records": 1 + 3,
        "classes": 3 + 21 + 96 + 7,
        "machines": 3 + 23,
    }


def test_so_many_elements_are_read_from_the_page(told: Tree) -> None:
    assert {group: elements_in(items) for group, items in told.items()} == {
        "types": 44,
        "ranges": 16,
        "definitions": 5,
        "domains": 10 + 41,
        "structs": 4 + 10,
        "records": 1 + 3,
        "operations": 21 + 96 + 7,
        "machines": 3 + 23,
    }


def test_each_signature_of_the_page_is_defined(roots: Roots, page: str) -> None:
    """The signature says in one line what the field details, read elsewhere, say a second time."""
    operations = as_the_page_tells(of_definitions(roots, with_sections=True))["operations"]
    found = [
        {
            "name": operation["name"],
            "fields": [{"name": item["name"], "type": item["type"]} for item in operation["fields"]],
        }
        for operation in cast("list[dict[str, Any]]", operations)
    ]
    assert len(found) == 21
    assert list(differences(signatures(page), cast("Any", found))) == []


def test_exceptions_lead_to_errors_of_the_number_that_the_page_has(roots: Roots, page: str) -> None:
    (domain,) = (item for root in roots for item in root if item.get("name") == "error-code")
    numbers = {(choice.get("name"), choice.get("value")) for choice in domain.iterchildren("{*}choice")}
    codes = exception_codes(page)
    assert len(codes) == 5
    assert codes <= numbers


def test_the_protocol_header_is_that_of_the_facts(roots: Roots, raw_facts: dict[str, Any]) -> None:
    """Behind AMQP: the version, which the constants repeat, and the flags, of which none is defined."""
    given = str(roots[0].get(f"{FORGE}protocol-header")).split()
    assert [f"0x{octet}" for octet in given[:3]] == raw_facts["protocol"]["header"]["octets"][4:7]
    constants = {str(item.get("name")): item.get("value") for item in roots[1].iterchildren("{*}definition")}
    assert [int(octet, 16) for octet in given[:3]] == [
        int(constants[name] or "") for name in ("MAJOR", "MINOR", "REVISION")
    ]
    assert raw_facts["protocol"]["header"]["octets"][7:] == ["connection-flags"]
    assert not given[3:], "the sender's to choose"


def test_the_copied_facts_are_those_of_the_material(data: Path, material: Path) -> None:
    assert (data / FACTS).read_bytes() == (material / "facts" / FACTS).read_bytes()


# -- the comparison itself

Mutation = Callable[[Roots], None]


def find(roots: Roots, path: str) -> etree._Element:
    """The element at a path such as ``control open/field options``; a range is named by its first code."""
    found = list(roots)
    for step in path.split("/"):
        kind, _, name = step.partition(" ")
        found = [
            element
            for parent in found
            for element in parent.iter(f"{{*}}{kind}")
            if name in (element.get("name"), element.get("from"))
        ]
    (element,) = found
    return element


def setting(path: str, name: str, value: str) -> Mutation:
    def mutate(roots: Roots) -> None:
        element = find(roots, path)
        assert element.get(name) != value
        element.set(name, value)

    return mutate


def unsetting(path: str, name: str) -> Mutation:
    def mutate(roots: Roots) -> None:
        del find(roots, path).attrib[name]

    return mutate


def removing(path: str) -> Mutation:
    def mutate(roots: Roots) -> None:
        element = find(roots, path)
        parent = element.getparent()
        assert parent is not None
        parent.remove(element)

    return mutate


def adding(path: str, kind: str, **attributes: str) -> Mutation:
    def mutate(roots: Roots) -> None:
        owner = find(roots, path)
        etree.SubElement(owner, f"{{{etree.QName(owner).namespace}}}{kind}", attributes)

    return mutate


def swapping(path: str, other: str) -> Mutation:
    """Move the element at ``path`` in front of ``other``, which stands before it."""

    def mutate(roots: Roots) -> None:
        find(roots, other).addprevious(find(roots, path))

    return mutate


def renaming(path: str, kind: str) -> Mutation:
    """Make another kind of element of the one at ``path``."""

    def mutate(roots: Roots) -> None:
        element = find(roots, path)
        element.tag = f"{{{etree.QName(element).namespace}}}{kind}"

    return mutate


#: What the page tells too.
MUTATIONS: dict[str, Mutation] = {
    "type code": setting("type dec32", "code", "0xc9"),
    "type width": setting("type str16", "width", "1"),
    "type missing": removing("type bin72"),
    "type renamed": setting("type void", "name", "null"),
    "types in another order": swapping("type uint8", "type int8"),
    "code added": setting("type any", "code", "0xac"),
    "range begins elsewhere": setting("range 0xB1", "from", "0xB0"),
    "range width": setting("range 0xD0", "width", "8"),
    "range category": setting("range 0xA0", "category", "fixed"),
    "range missing": removing("range 0xE0"),
    "constant changed": setting("definition MIN-MAX-FRAME-SIZE", "value", "512"),
    "constant missing": removing("definition REVISION"),
    "domain type": setting("domain distribution-mode", "type", "uint8"),
    "domain missing": removing("domain session-name"),
    "choice value": setting("domain error-code/choice not-allowed", "value", "5003"),
    "choice missing": removing("domain error-code/choice xa-heurmix"),
    "choice renamed": setting("domain close-code/choice normal", "name", "ok"),
    "choice added": adding("domain direction", "choice", name="both", value="2"),
    "struct with a code": setting("struct header", "code", "0x0401"),
    "struct field missing": removing("struct exception/field description"),
    "struct field multiplicity": setting("struct exception/field error-code", "multiplicity", "optional"),
    "struct made a record": renaming("struct message-properties", "record"),
    "record field": setting("record xid/field format", "type", "uint16"),
    "class missing": removing("class session"),
    "operation code": setting("command reject", "code", "0x0307"),
    "operation missing": removing("command noop"),
    "operation in another order": swapping("command release", "command reject"),
    "operation renamed": setting("control sasl-init", "name", "sasl-start"),
    "control made a command": renaming("control detach", "command"),
    "field missing": removing("control open/field hostname"),
    "last field missing": removing("command transfer/field footer"),
    "field added": adding("control close", "field", name="why", type="map", multiplicity="optional"),
    "field renamed": setting("command flow/field limit", "name", "credit"),
    "fields in another order": swapping("command unpark/field first", "command unpark/field mode"),
    "field type": setting("control attach/field capacity", "type", "sequence-no"),
    "field required": setting("command relink/field handle", "multiplicity", "required"),
    "field multiple": setting("control open/field incoming-locales", "multiplicity", "optional"),
    "default changed": setting("command link/field filter-type", "default", "XPATH"),
    "default dropped": unsetting("command relink/field filter-type", "default"),
    "exception's error": setting("command enlist/exception unsupported", "error", "not-allowed"),
    "exception missing": removing("command enlist/exception xa-rbtimeout"),
    "exception added": adding("command noop", "exception", name="busy", error="illegal-state"),
    "state missing": removing("machine transfer/state PARKED"),
    "state renamed": setting("machine connection/state OC_PIPE", "name", "CLOSE_OPEN_PIPE"),
    "state added": adding("machine session", "state", name="DISCARDING"),
    "machine missing": removing("machine session"),
    "unknown attribute": setting("command drain", "deprecated", "true"),
    "unknown element": adding("control open", "response", name="open"),
}

#: What only the facts file tells, and DECISIONS where that is silent too.
UNTOLD: dict[str, Mutation] = {
    "what a type holds": setting("type sequence-no", "holds", "unsigned"),
    "charset": setting("type str8-latin", "charset", "utf-8"),
    "charset missing": unsetting("type char-utf32", "charset"),
    "type category": setting("type list", "category", "variable"),
    "packing flags": setting("control open", "pack", "1"),
    "packing flags of a struct": setting("struct footer", "pack", "1"),
    "class code": setting("class link", "code", "0x04"),
    "class renamed": setting("class session", "name", "dialog"),
}

#: What only the page tells.
SECTIONS: dict[str, Mutation] = {
    "section of a type": setting("type bin40", f"{FORGE}ref", "6.6.3"),
    "section of an operation": setting("command enlist", f"{FORGE}ref", "4.13.1"),
    "section of a domain": unsetting("domain handle", f"{FORGE}ref"),
    "section of a machine": setting("machine transfer", f"{FORGE}ref", "5.14"),
}


@pytest.mark.parametrize("mutate", {**MUTATIONS, **UNTOLD}.values(), ids={**MUTATIONS, **UNTOLD}.keys())
def test_a_mutated_definition_differs_from_the_facts(mutate: Mutation, roots: Roots, facts: Tree) -> None:
    mutated = copy.deepcopy(roots)
    mutate(mutated)
    assert list(differences(facts, of_definitions(mutated))) != []
    assert list(differences(of_definitions(mutated), facts)) != []


@pytest.mark.parametrize("mutate", {**MUTATIONS, **SECTIONS}.values(), ids={**MUTATIONS, **SECTIONS}.keys())
def test_a_mutated_definition_differs_from_the_page(mutate: Mutation, roots: Roots, told: Tree) -> None:
    mutated = copy.deepcopy(roots)
    mutate(mutated)
    found = as_the_page_tells(of_definitions(mutated, with_sections=True))
    assert list(differences(told, found)) != []


def test_prose_and_transitions_do_not_count(roots: Roots, facts: Tree) -> None:
    stripped = copy.deepcopy(roots)
    for root in stripped:
        for element in list(root.iter("{*}doc", "{*}guard", "{*}event", "{*}transition")):
            parent = element.getparent()
            assert parent is not None
            parent.remove(element)
        for element in root.iter("*"):
            element.attrib.pop("label", None)
    assert list(differences(facts, of_definitions(stripped))) == []


def test_a_difference_is_told_with_its_place(roots: Roots, facts: Tree) -> None:
    mutated = copy.deepcopy(roots)
    setting("control open/field channel-max", "type", "uint32")(mutated)
    assert list(differences(facts, of_definitions(mutated))) == [
        "/classes[0 connection]/operations[0 open]/fields[4 channel-max]/type: "
        "the source has 'uint16', the definitions have 'uint32'"
    ]


# -- words


def definitions_of(roots: Roots) -> Iterator[etree._Element]:
    """Every element that stands for something of the draft."""
    for root in roots:
        yield from (
            item for item in root.iter("*") if etree.QName(item).localname not in ("doc", "p", "transition")
        )


def test_everything_has_words(roots: Roots) -> None:
    wordless = [
        item for item in definitions_of(roots) if not item.get("label") and item.find("{*}doc") is None
    ]
    assert [(etree.QName(item).localname, item.get("name")) for item in wordless] == []


def test_labels_are_phrases_and_paragraphs_are_sentences(roots: Roots) -> None:
    labels = [str(item.get("label")) for item in definitions_of(roots) if item.get("label") is not None]
    paragraphs = [" ".join("".join(p.itertext()).split()) for root in roots for p in root.iter("{*}p")]
    assert [label for label in labels if label != " ".join(label.split()) or label.endswith(".")] == []
    assert [text for text in paragraphs if not text.endswith((".", ":"))] == []


def test_each_transition_says_why_it_is_there(roots: Roots) -> None:
    """The diagrams are lost, so each arrow has to give its ground."""
    transitions = [item for root in roots for item in root.iter("{*}transition")]
    assert len(transitions) > 90
    assert [item.sourceline for item in transitions if not (item.get("reason") or "").endswith(".")] == []

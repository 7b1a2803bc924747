"""The definitions hold the facts of their sources, no more and no less, and the comparison would notice.

Three witnesses: the seed documents of transport and messaging, as the importer reads them, and the file of
facts, which covers all five parts. Prose and extensions (``f:``) are ours and left out of the comparison.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree

import amqpforge_spec
from amqpforge_generator.importer import import_definitions
from tests.spec.fidelity import (
    AMQP,
    FORGE,
    Facts,
    arrangement_of,
    differences,
    elements_in,
    facts_of,
    numbers_of,
)

PARTS = ("types", "transport", "messaging", "transactions", "security")
SEEDS = {"transport": "000_8a91a48cb71d0637.txt", "messaging": "001_450135b3d22a435f.txt"}


def definitions(part: str) -> etree._Element:
    return etree.parse(amqpforge_spec.dialect_folder("amqp_1_0") / f"{part}.xml").getroot()


@pytest.fixture(scope="module")
def facts(data: Path) -> dict[str, dict[str, Facts]]:
    loaded: dict[str, dict[str, Facts]] = json.loads((data / "amqp10-facts.json").read_text("utf-8"))
    return loaded


@pytest.fixture(scope="module")
def recovered(material: Path) -> dict[str, etree._Element]:
    """What the importer makes of the seeds, by part."""
    results = {part: import_definitions(material / "seeds" / seed) for part, seed in SEEDS.items()}
    return {part: etree.fromstring(result.xml.encode()) for part, result in results.items()}


# -- the sources


def test_the_facts_file_covers_all_parts(facts: dict[str, dict[str, Facts]]) -> None:
    assert tuple(facts) == PARTS


@pytest.mark.parametrize("part", PARTS)
def test_definitions_hold_the_facts(part: str, facts: dict[str, dict[str, Facts]]) -> None:
    assert list(differences(facts[part], facts_of(definitions(part)))) == []


@pytest.mark.parametrize(
    ("part", "count"),
    [("types", 64), ("transport", 145), ("messaging", 106), ("transactions", 29), ("security", 32)],
)
def test_so_many_elements_are_compared(part: str, count: int, facts: dict[str, dict[str, Facts]]) -> None:
    assert elements_in(facts[part]) == count
    assert elements_in(facts_of(definitions(part))) == count


def test_definitions_equal_the_transport_seed(recovered: dict[str, etree._Element]) -> None:
    seed, ours = recovered["transport"], definitions("transport")
    assert list(differences(facts_of(seed), facts_of(ours))) == []
    assert list(differences(arrangement_of(seed), arrangement_of(ours))) == []
    assert seed.get("name") == ours.get("name")


def test_definitions_equal_the_messaging_seed(recovered: dict[str, etree._Element]) -> None:
    # The page numbers its sections and gives them titles; their names in the XML it does not tell.
    seed, ours = facts_of(recovered["messaging"]), facts_of(definitions("messaging"))
    for group in ("types", "definitions"):
        assert list(differences(seed[group], ours[group], group)) == []
    numbers = numbers_of(recovered["messaging"]), numbers_of(definitions("messaging"))
    assert list(differences(*numbers)) == []
    assert recovered["messaging"].get("name") == definitions("messaging").get("name")


def test_seeds_and_facts_file_agree(
    recovered: dict[str, etree._Element], facts: dict[str, dict[str, Facts]]
) -> None:
    for part, seed in recovered.items():
        for group in ("types", "definitions"):
            assert list(differences(facts[part][group], facts_of(seed)[group], group)) == []


def test_the_copied_facts_are_those_of_the_material(data: Path, material: Path) -> None:
    copied, original = data / "amqp10-facts.json", material / "facts" / "amqp10-facts.json"
    assert copied.read_bytes() == original.read_bytes()


# -- the comparison itself

Mutation = Callable[[etree._Element], None]


def find(root: etree._Element, path: str) -> etree._Element:
    """The element at a path such as ``open/max-frame-size``: names of a definition and of its child."""
    owner, _, child = path.partition("/")
    owners = root.iter(AMQP + "section", AMQP + "type", AMQP + "definition")
    found = next(element for element in owners if element.get("name") == owner)
    if child:
        found = next(
            element for element in found if child in (element.get("name"), etree.QName(element).localname)
        )
    return found


def setting(path: str, name: str, value: str) -> Mutation:
    def mutate(root: etree._Element) -> None:
        element = find(root, path)
        assert element.get(name) != value
        element.set(name, value)

    return mutate


def unsetting(path: str, name: str) -> Mutation:
    def mutate(root: etree._Element) -> None:
        del find(root, path).attrib[name]

    return mutate


def removing(path: str) -> Mutation:
    def mutate(root: etree._Element) -> None:
        element = find(root, path)
        parent = element.getparent()
        assert parent is not None
        parent.remove(element)

    return mutate


def adding(path: str, tag: str, **attributes: str) -> Mutation:
    def mutate(root: etree._Element) -> None:
        etree.SubElement(find(root, path), tag, attributes)

    return mutate


def swapping(path: str, other: str) -> Mutation:
    """Move the element at ``path`` in front of ``other``, which stands before it."""

    def mutate(root: etree._Element) -> None:
        find(root, other).addprevious(find(root, path))

    return mutate


MUTATIONS: dict[str, tuple[str, Mutation]] = {
    "descriptor code": ("transport", setting("open/descriptor", "code", "0x00000000:0x00000011")),
    "descriptor name": ("messaging", setting("accepted/descriptor", "name", "amqp:accept:list")),
    "descriptor missing": ("messaging", removing("data/descriptor")),
    "descriptor twice": ("messaging", adding("data", AMQP + "descriptor", name="amqp:data:binary")),
    "default changed": ("transport", setting("open/channel-max", "default", "255")),
    "default dropped": ("messaging", unsetting("header/priority", "default")),
    "default added": ("messaging", setting("modified/delivery-failed", "default", "false")),
    "field missing": ("messaging", removing("properties/subject")),
    "last field missing": ("transport", removing("flow/properties")),
    "field added": ("transport", adding("close", AMQP + "field", name="reason", type="string")),
    "field renamed": ("security", setting("sasl-init/hostname", "name", "host")),
    "fields in another order": ("messaging", swapping("source/timeout", "source/expiry-policy")),
    "field type": ("transport", setting("begin/handle-max", "type", "uint")),
    "field mandatory": ("transport", setting("transfer/delivery-id", "mandatory", "true")),
    "field not mandatory": ("messaging", unsetting("received/section-offset", "mandatory")),
    "field multiple": ("messaging", setting("source/distribution-mode", "multiple", "true")),
    "field not multiple": ("transport", unsetting("open/outgoing-locales", "multiple")),
    "requires dropped": ("transactions", unsetting("declare/global-id", "requires")),
    "requires changed": ("messaging", setting("source/default-outcome", "requires", "delivery-state")),
    "choice value": ("transport", setting("role/sender", "value", "true")),
    "choice missing": ("security", removing("sasl-code/sys-temp")),
    "choice added": ("messaging", adding("std-dist-mode", AMQP + "choice", name="share", value="share")),
    "choices in another order": ("messaging", swapping("std-dist-mode/copy", "std-dist-mode/move")),
    "provides dropped": ("messaging", unsetting("message-id-uuid", "provides")),
    "provides one less": ("messaging", setting("accepted", "provides", "delivery-state")),
    "source changed": ("messaging", setting("footer", "source", "map")),
    "class changed": ("messaging", setting("received", "class", "restricted")),
    "type missing": ("transactions", removing("transaction-id")),
    "type added": ("messaging", adding("addressing", AMQP + "type", name="extra", source="map")),
    "type renamed": ("types", setting("ushort", "name", "uint16")),
    "types in another order": ("messaging", swapping("amqp-value", "data")),
    "encoding code": ("types", setting("uint/smalluint", "code", "0x53")),
    "encoding width": ("types", setting("list/list8", "width", "4")),
    "encoding category": ("types", setting("array/array8", "category", "compound")),
    "encoding missing": ("types", removing("ulong/ulong0")),
    "encoding unnamed": ("types", unsetting("string/str8-utf8", "name")),
    "constant changed": ("transport", setting("MIN-MAX-FRAME-SIZE", "value", "4096")),
    "constant missing": ("security", removing("SASL-MINOR")),
    "constant added": ("transport", adding("definitions", AMQP + "definition", name="X", value="1")),
    "section renamed": ("transport", setting("performatives", "name", "frames")),
    "unknown attribute": ("transport", setting("open/hostname", "deprecated", "true")),
    "unknown element": ("messaging", adding("header/ttl", AMQP + "unit", name="ms")),
}


@pytest.mark.parametrize(("part", "mutate"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mutated_definition_differs(
    part: str, mutate: Mutation, facts: dict[str, dict[str, Facts]]
) -> None:
    mutated = copy.deepcopy(definitions(part))
    mutate(mutated)
    assert list(differences(facts[part], facts_of(mutated))) != []
    assert list(differences(facts_of(mutated), facts[part])) != []


@pytest.mark.parametrize(
    ("part", "mutate"),
    [(part, mutate) for part, mutate in MUTATIONS.values() if part in SEEDS],
    ids=[name for name, (part, _) in MUTATIONS.items() if part in SEEDS],
)
def test_a_mutated_definition_differs_from_the_seed(
    part: str, mutate: Mutation, recovered: dict[str, etree._Element]
) -> None:
    mutated = copy.deepcopy(definitions(part))
    mutate(mutated)
    assert list(differences(facts_of(recovered[part]), facts_of(mutated))) != []


def test_a_definition_in_another_section_differs_from_the_seed(recovered: dict[str, etree._Element]) -> None:
    mutated = copy.deepcopy(definitions("transport"))
    find(mutated, "definitions").insert(0, find(mutated, "close"))
    assert list(differences(arrangement_of(recovered["transport"]), arrangement_of(mutated))) != []


def test_another_section_number_differs_from_the_seed(recovered: dict[str, etree._Element]) -> None:
    mutated = copy.deepcopy(definitions("messaging"))
    find(mutated, "footer").set(FORGE + "ref", "3.2.10")
    assert list(differences(numbers_of(recovered["messaging"]), numbers_of(mutated))) != []


@pytest.mark.parametrize("part", PARTS)
def test_prose_and_extensions_do_not_count(part: str, facts: dict[str, dict[str, Facts]]) -> None:
    stripped = copy.deepcopy(definitions(part))
    for element in list(stripped.iter("*")):
        for name in [
            name for name in map(str, element.attrib) if name in ("label", "title") or FORGE in name
        ]:
            del element.attrib[name]
        parent = element.getparent()
        if parent is not None and (element.tag == AMQP + "doc" or str(element.tag).startswith(FORGE)):
            parent.remove(element)
    assert list(differences(facts[part], facts_of(stripped))) == []


def test_a_difference_is_told_with_its_place(facts: dict[str, dict[str, Facts]]) -> None:
    mutated = copy.deepcopy(definitions("transport"))
    find(mutated, "open/channel-max").set("default", "255")
    assert list(differences(facts["transport"], facts_of(mutated))) == [
        "/types[0 open]/fields[3 channel-max]/default: the source has '65535', the definitions have '255'"
    ]

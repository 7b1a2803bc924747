"""The definitions of the 0-10 preview hold the facts of its document, and the comparison would notice.

The document is read here without the importer: the page around it is cut off, its margin removed, a sign
that no parser takes is escaped. Prose and extensions (``f:``) are ours and left out of the comparison.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree

import amqpforge_spec
from amqpforge_generator.importer import import_definitions
from amqpforge_generator.load import load_dialect
from tests.spec.fidelity import FORGE, Facts, differences, elements_in

FOLDER = amqpforge_spec.dialect_folder("amqp_0_10_preview")
CLASS_METHOD = "{https://amqpforge.org/schema/class-method}"
PROSE_ATTRIBUTES = ("label", "comment")
STRAY = re.compile(r"<(?![A-Za-z/!?])")
COUNTS = {
    "amqp": 1,
    "constant": 83,
    "domain": 49,
    "class": 15,
    "method": 108,
    "field": 340,
    "assert": 56,
    "response": 22,
    "struct": 14,
    "result": 10,
    "chassis": 168,
    "rule": 274,
}
WITHOUT_HEADER = ("connection", "session", "execution")


def definitions() -> etree._Element:
    return etree.parse(FOLDER / "amqp.xml").getroot()


@pytest.fixture(scope="module")
def seed(material: Path) -> Path:
    (found,) = (material / "seeds").glob("002_*.txt")
    return found


@pytest.fixture(scope="module")
def document(seed: Path) -> etree._Element:
    """The root of the document, as a parser reads it."""
    page = seed.read_text("utf-8")
    lines = [line for line in page.splitlines() if line.strip() != "|"]
    text = STRAY.sub("&lt;", "\n".join(lines[lines.index('<?xml version="1.0"?>') :]))
    return etree.fromstring(text.encode(), etree.XMLParser(resolve_entities=False, no_network=True))


def local(element: etree._Element) -> str:
    return etree.QName(element).localname


def facts_of(element: etree._Element) -> dict[str, Facts]:
    """The facts of an element and of all in it; the document gives its root no name, so that is none."""
    facts: dict[str, Facts] = {"element": local(element)}
    for name, value in element.attrib.items():
        is_ours = str(name).startswith(FORGE) or (name == "name" and element.getparent() is None)
        if not is_ours and name not in PROSE_ATTRIBUTES:
            facts[str(name)] = str(value)
    facts["children"] = [facts_of(child) for child in element.iterchildren("*") if local(child) != "doc"]
    return facts


# -- the document


def test_definitions_equal_the_document(document: etree._Element) -> None:
    assert list(differences(facts_of(document), facts_of(definitions()))) == []


def test_the_importer_recovers_the_document(document: etree._Element, seed: Path) -> None:
    imported = etree.fromstring(import_definitions(seed).xml.encode())
    assert list(differences(facts_of(document), facts_of(imported))) == []


def test_so_many_elements_are_compared() -> None:
    found = Counter(local(element) for element in definitions().iter("*"))
    assert {name: count for name, count in found.items() if name not in ("doc", "p")} == COUNTS
    assert elements_in(facts_of(definitions())) == sum(COUNTS.values())


# -- the comparison itself

Mutation = Callable[[etree._Element], None]


def find(root: etree._Element, path: str) -> etree._Element:
    """The element at a path of names or checks, or else of element names: ``queue/query/result``."""
    element = root
    for step in path.split("/"):
        children = element.iterchildren("*")
        element = next(
            child for child in children if step in (child.get("name"), child.get("check"), local(child))
        )
    return element


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
        etree.SubElement(find(root, path) if path else root, CLASS_METHOD + tag, attributes)

    return mutate


def swapping(path: str, other: str) -> Mutation:
    """Move the element at ``path`` in front of ``other``, which stands before it."""

    def mutate(root: etree._Element) -> None:
        find(root, other).addprevious(find(root, path))

    return mutate


def versioned(root: etree._Element) -> None:
    root.set("minor", "10")


MUTATIONS: dict[str, Mutation] = {
    "version": versioned,
    "constant value": setting("frame-end", "value", "207"),
    "constant missing": removing("xa-rdonly"),
    "constant added": adding("", "constant", name="x", value="1"),
    "constants in another order": swapping("no-route", "not-delivered"),
    "error class": setting("not-found", "class", "hard-error"),
    "error class dropped": unsetting("channel-busy", "class"),
    "table type width": setting("field-table-float", "width", "8"),
    "table type size": setting("field-table-table", "lfwidth", "2"),
    "table type datatype": setting("field-table-char", "datatype", "string"),
    "domain type": setting("command-id", "type", "longlong"),
    "domain missing": removing("reject-text"),
    "domain renamed": setting("xid", "name", "branch"),
    "domains in another order": swapping("uuid", "table"),
    "assert missing": removing("access-ticket/assert"),
    "assert value": setting("queue-name/assert", "value", "[a-z].{0,254}"),
    "assert rule": setting("path/syntax", "rule", "name"),
    "assert added": adding("reply-to", "assert", check="notnull"),
    "struct size": setting("delivery-properties/struct", "size", "short"),
    "struct pack": setting("message-properties/struct", "pack", "octet"),
    "struct pack dropped": unsetting("reply-to/struct", "pack"),
    "struct code": setting("message-properties/struct", "type", "0"),
    "struct field missing": removing("delivery-properties/struct/ttl"),
    "struct fields in another order": swapping(
        "reply-to/struct/routing-key", "reply-to/struct/exchange-name"
    ),
    "class index": setting("dtx-coordination", "index", "101"),
    "class missing": removing("tunnel"),
    "content property missing": removing("basic/reply-to"),
    "content properties in another order": swapping("file/message-id", "file/reply-to"),
    "method index": setting("queue/unbind", "index", "25"),
    "method missing": removing("message/offset"),
    "method renamed": setting("session/closed", "name", "close-ok"),
    "methods in another order": swapping("execution/sync", "execution/flush"),
    "synchronous": setting("session/flow-ok", "synchronous", "1"),
    "not synchronous": unsetting("basic/get-ok", "synchronous"),
    "content": unsetting("tunnel/request", "content"),
    "no content": setting("message/append", "content", "1"),
    "chassis missing": removing("connection/close/chassis"),
    "chassis level": setting("tx/chassis", "implement", "MUST"),
    "chassis peer": setting("basic/get/chassis", "name", "client"),
    "response missing": removing("basic/get/response"),
    "response added": adding("session/close", "response", name="closed"),
    "result missing": removing("binding/query/result"),
    "result code": setting("queue/query/result/struct", "type", "60"),
    "result field": setting("queue/query/result/struct/durable", "domain", "octet"),
    "field missing": removing("queue/declare/passive"),
    "last field missing": removing("message/subscribe/filter"),
    "field added": adding("tx/commit", "field", name="flags", domain="octet"),
    "field domain": setting("connection/tune/frame-max", "domain", "short"),
    "fields in another order": swapping("basic/consume/nowait", "basic/consume/no-local"),
    "default added": setting("basic/qos/global", "default", "1"),
    "rule missing": removing("exchange/extensions"),
    "rule renamed": setting("queue/any-content", "name", "content"),
    "rule on-failure": setting("queue/bind/transient-exchange", "on-failure", "not-found"),
    "rule on-failure dropped": unsetting("exchange/delete/exchange/exists", "on-failure"),
    "unknown attribute": setting("basic", "deprecated", "true"),
}


def mutated(mutate: Mutation) -> etree._Element:
    root = copy.deepcopy(definitions())
    mutate(root)
    return root


@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_a_mutated_definition_differs_from_the_document(mutate: Mutation, document: etree._Element) -> None:
    assert list(differences(facts_of(document), facts_of(mutated(mutate)))) != []


@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_a_mutation_is_a_difference_either_way(mutate: Mutation) -> None:
    assert list(differences(facts_of(definitions()), facts_of(mutated(mutate)))) != []
    assert list(differences(facts_of(mutated(mutate)), facts_of(definitions()))) != []


def test_prose_and_extensions_do_not_count() -> None:
    stripped = definitions()
    for element in list(stripped.iter("*")):
        for name in [str(name) for name in element.attrib if str(name) == "label" or FORGE in str(name)]:
            del element.attrib[name]
        parent = element.getparent()
        if parent is not None and local(element) == "doc":
            parent.remove(element)
    assert not list(stripped.iter(CLASS_METHOD + "doc"))
    assert list(differences(facts_of(definitions()), facts_of(stripped))) == []


def test_a_difference_is_told_with_its_place() -> None:
    root = mutated(setting("tx/commit", "index", "21"))
    assert [line.rpartition("/")[2] for line in differences(facts_of(definitions()), facts_of(root))] == [
        "index: the source has '20', the definitions have '21'"
    ]


# -- words


def test_everything_has_a_label_and_no_word_is_missing() -> None:
    root = definitions()
    labelled = ("amqp", "constant", "domain", "class", "method", "field")
    named = [element for element in root.iter("*") if local(element) in labelled]
    named += root.iterfind(f".//{CLASS_METHOD}result/{CLASS_METHOD}struct")
    assert [element.sourceline for element in named if not (element.get("label") or "").strip()] == []
    empty = [element for element in root.iter(CLASS_METHOD + "doc", CLASS_METHOD + "p") if not words(element)]
    assert [element.sourceline for element in empty] == []


def test_labels_are_phrases_and_paragraphs_are_sentences() -> None:
    root = definitions()
    labels = [str(element.get("label")) for element in root.iter("*") if element.get("label") is not None]
    assert [label for label in labels if label != " ".join(label.split()) or label.endswith(".")] == []
    paragraphs = [words(paragraph) for paragraph in root.iter(CLASS_METHOD + "p")]
    assert [text for text in paragraphs if not text.endswith((".", ":"))] == []


def test_rules_say_what_the_ledger_says() -> None:
    ledger = (FOLDER / "requirements" / "002-class-method.jsonl").read_text("utf-8").splitlines()
    required = {row["id"]: (row["on_failure"], row["text"]) for row in map(json.loads, ledger)}
    rules = [(rule_id(rule), rule) for rule in definitions().iter(CLASS_METHOD + "rule")]
    assert {name: (rule.get("on-failure"), words(rule)) for name, rule in rules} == required
    assert len(rules) == len(required)


def words(element: etree._Element) -> str:
    return " ".join("".join(map(str, element.itertext())).split())


def rule_id(rule: etree._Element) -> str:
    """The id of a rule in the ledger: ``P-``, the names of all it stands in, a slash, its own name."""
    holders = [holder for holder in rule.iterancestors() if local(holder) != "amqp"]
    names = [holder.get("name") or local(holder) for holder in reversed(holders)]
    return f"P-{'.'.join(names)}/{rule.get('name')}"


# -- what the document leaves open


def test_elementary_domains_and_no_others_have_wire_forms() -> None:
    domains = definitions().findall(CLASS_METHOD + "domain")
    elementary = {domain.get("name") for domain in domains if domain.get("type") == domain.get("name")}
    assert {domain.get("name") for domain in domains if domain.get(FORGE + "holds")} == elementary
    assert len(elementary) == 14


def test_commands_have_the_execution_header_and_controls_have_none() -> None:
    classes = load_dialect(FOLDER).modules[0].classes
    headed = {
        f"{class_.name.xml}.{method.name.xml}"
        for class_ in classes
        for method in class_.methods
        if method.header is not None and method.header.name.xml == "execution-header"
    }
    commands = {
        f"{class_.name.xml}.{method.name.xml}"
        for class_ in classes
        for method in class_.methods
        if class_.name.xml not in WITHOUT_HEADER
    }
    assert headed == commands | {"execution.noop"}


def test_constants_are_grouped() -> None:
    enumerations = load_dialect(FOLDER).modules[0].enumerations
    assert [(group.name.xml, len(group.members)) for group in enumerations] == [
        ("frame-type", 5),
        ("reply-code", 22),
        ("xa-code", 8),
        ("field-table-type", 46),
    ]


def test_the_protocol_header_gives_the_version() -> None:
    root = definitions()
    header = load_dialect(FOLDER).protocol_header
    assert header == bytes((1, 1, int(root.get("major") or ""), int(root.get("minor") or "")))


@pytest.mark.parametrize(
    ("path", "accepted", "refused"),
    [
        ("exchange-name", "abc_1 A", "amq.direct a-b"),
        ("queue-name", "q _x a/-\u20ac", "-q .q"),
        ("connection/open/virtual-host", "/ /a_b a[b]^ x:;<=>?@", "/a-b /a.b /a~"),
        ("exchange/declare/type", "fanout x-y.z:1_", "a/b a,b"),
        ("path", "/ /a /a.b/-c /x=1", "a /a/ // /.. /a,b"),
    ],
)
def test_patterns_mean_what_their_words_say(path: str, accepted: str, refused: str) -> None:
    asserts = find(definitions(), path).iterfind(CLASS_METHOD + "assert")
    (pattern,) = [
        str(found)
        for item in asserts
        if (found := item.get(FORGE + "regexp") or (item.get("check") == "regexp" and item.get("value")))
    ]
    assert all(re.fullmatch(pattern, text) for text in accepted.split())
    assert not any(re.fullmatch(pattern, text) for text in ["", *refused.split()])

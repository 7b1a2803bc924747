"""The definition files follow their schema, and nothing in them lacks words or a section number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

import amqpforge_spec

AMQP = "{http://www.amqp.org/schema/amqp.xsd}"
FORGE = "{https://amqpforge.org/schema/extensions}"
WORDED = [AMQP + name for name in ("amqp", "section", "type", "encoding", "field", "choice", "definition")]
WORDED += [FORGE + "entry", FORGE + "archetype"]
REFERENCED = [AMQP + "section", AMQP + "type"]


def definition_files() -> list[Path]:
    """All files in the 1.0 grammar, of any dialect; they are told by the namespace of their root."""
    folders = [amqpforge_spec.dialect_folder(name) for name in amqpforge_spec.DIALECTS]
    files = [file for folder in folders for file in sorted(folder.glob("*.xml"))]
    return [file for file in files if etree.parse(file).getroot().tag == AMQP + "amqp"]


FILES = definition_files()
each_file = pytest.mark.parametrize("file", FILES, ids=[f"{file.parent.name}/{file.name}" for file in FILES])


@pytest.fixture(scope="module")
def schema() -> etree.RelaxNG:
    return etree.RelaxNG(etree.parse(amqpforge_spec.schema("amqp-1.0")))


def elements(file: Path, tags: list[str]) -> Iterator[etree._Element]:
    return etree.parse(file).getroot().iter(*tags)


def prose(element: etree._Element) -> str:
    return "".join(text for doc in element.findall(AMQP + "doc") for text in doc.itertext()).strip()


def place(file: Path, element: etree._Element) -> str:
    name = element.get("name") or element.get("key") or element.get("code")
    return f"{file.name}:{element.sourceline}: {etree.QName(element).localname} {name}"


def test_all_five_parts_are_there() -> None:
    names = {file.name for file in FILES if file.parent.name == "amqp_1_0"}
    assert names == {"types.xml", "transport.xml", "messaging.xml", "transactions.xml", "security.xml"}


@each_file
def test_schema_accepts(file: Path, schema: etree.RelaxNG) -> None:
    schema.validate(etree.parse(file))
    assert [f"{file.name}:{error.line}: {error.message}" for error in schema.error_log] == []


@each_file
def test_everything_has_words(file: Path) -> None:
    wordless = [
        place(file, element)
        for element in elements(file, WORDED)
        if not (element.get("label") or prose(element))
    ]
    assert wordless == []


@each_file
def test_types_and_sections_name_their_section_of_the_specification(file: Path) -> None:
    unplaced = [element for element in elements(file, REFERENCED) if not element.get(FORGE + "ref")]
    assert [place(file, element) for element in unplaced] == []


@each_file
def test_section_numbers_of_types_are_unique_and_ascend(file: Path) -> None:
    numbers = [
        tuple(int(part) for part in type_.get(FORGE + "ref", "").split("."))
        for type_ in elements(file, [AMQP + "type"])
    ]
    assert numbers == sorted(set(numbers))


@each_file
def test_labels_are_phrases_and_paragraphs_are_sentences(file: Path) -> None:
    root = etree.parse(file).getroot()
    labels = [str(element.get("label")) for element in root.iter() if element.get("label") is not None]
    paragraphs = [" ".join("".join(p.itertext()).split()) for p in root.iter(AMQP + "p")]
    assert [label for label in labels if label != " ".join(label.split()) or label.endswith(".")] == []
    assert [text for text in paragraphs if not text.endswith((".", ":"))] == []


TINY = """<amqp xmlns="http://www.amqp.org/schema/amqp.xsd" xmlns:f="https://amqpforge.org/schema/extensions"
name="tiny"><section name="all">%s</section></amqp>"""
ENCODING = '<encoding code="0x40" category="fixed" width="0"/>'
DESCRIPTOR = '<descriptor name="x:a:list"/>'


def type_(attributes: str, content: str = "") -> str:
    return f'<type name="a" {attributes}>{content}</type>'


def primitive(content: str) -> str:
    return type_('class="primitive"', content)


def restricted(content: str = "", attributes: str = "") -> str:
    return type_(f'class="restricted" source="b" {attributes}', content)


def composite(content: str, attributes: str = "") -> str:
    return type_(f'class="composite" source="list" {attributes}', content)


ACCEPTED = {
    "primitive": primitive(ENCODING),
    "alias": restricted(attributes='f:max-length="32" provides="x, y"'),
    "choices": restricted('<choice name="c" value="1"/>'),
    "map": restricted(
        '<f:entry key="k" type="*" requires="z" multiple="true"/>', 'f:keys="symbol ulong" f:values="simple"'
    ),
    "composite": composite(DESCRIPTOR + '<field name="f" type="symbol" f:references="outcome"/>'),
    "composite of no fields": composite("<doc><p>Text.</p></doc>" + DESCRIPTOR),
    "section of a message": composite(DESCRIPTOR, 'f:part="head"'),
    "archetype": '<f:archetype name="a" open="true"><doc><p>Text.</p></doc></f:archetype>',
    "constant": '<definition name="A" value="1" f:ref="2.8.19"/>',
}

REFUSED = {
    "unknown class": type_('class="union" source="b"'),
    "no class": type_('source="b"'),
    "nameless type": '<type name="" class="restricted" source="b"/>',
    "primitive without encoding": primitive(""),
    "primitive with a source": type_('class="primitive" source="b"', ENCODING),
    "unknown category": primitive(ENCODING.replace("fixed", "odd")),
    "code of two octets": primitive(ENCODING.replace("0x40", "0x4040")),
    "composite without descriptor": composite('<field name="f" type="b"/>'),
    "composite with choices": composite(DESCRIPTOR + '<choice name="c" value="1"/>'),
    "two descriptors": restricted(DESCRIPTOR + DESCRIPTOR),
    "field without type": composite(DESCRIPTOR + '<field name="f"/>'),
    "truth value spelt yes": composite(DESCRIPTOR + '<field name="f" type="b" mandatory="yes"/>'),
    "length of nothing": restricted(attributes='f:max-length="0"'),
    "unknown kind of values": restricted(attributes='f:values="odd"'),
    "unknown part": composite(DESCRIPTOR, 'f:part="tail"'),
    "entry without key": restricted('<f:entry type="b"/>'),
    "constant without value": '<definition name="A"/>',
    "reference in words": '<definition name="A" value="1" f:ref="section two"/>',
    "unknown element": "<method/>",
    "text outside a paragraph": '<definition name="A" value="1"><doc>Text.</doc></definition>',
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_schema_accepts_each_construct(body: str, schema: etree.RelaxNG) -> None:
    assert schema.validate(etree.fromstring(TINY % body)), str(schema.error_log)


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_schema_refuses(body: str, schema: etree.RelaxNG) -> None:
    assert not schema.validate(etree.fromstring(TINY % body))


def test_schema_accepts_the_published_transport_part(material: Path, schema: etree.RelaxNG) -> None:
    """Our grammar extends the published one: the published file is valid once its page text is cut off."""
    (page,) = (material / "seeds").glob("000_*.txt")
    content = page.read_bytes()
    parser = etree.XMLParser(load_dtd=False, no_network=True, resolve_entities=False)
    document = etree.fromstring(content[content.index(b"<?xml") :], parser)
    assert schema.validate(document), str(schema.error_log)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'amqp_9_9'.*amqp_1_0"):
        amqpforge_spec.dialect_folder("amqp_9_9")
    with pytest.raises(ValueError, match=r"'amqp-9\.9'.*amqp-1\.0"):
        amqpforge_spec.schema("amqp-9.9")
    with pytest.raises(ValueError, match="no dialect"):
        amqpforge_spec.dialect_folder("../amqp_1_0")

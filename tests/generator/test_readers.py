"""Readers: every element of the three grammars arrives in the raw document, with the line where it starts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from amqpforge_generator.document import (
    Doc,
    Document,
    RawArchetype,
    RawChoice,
    RawDefinition,
    RawDescriptor,
    RawEncoding,
    RawField,
    RawType,
)
from amqpforge_generator.errors import Problems
from amqpforge_generator.load import GRAMMARS, read_document
from amqpforge_generator.names import SpecText
from amqpforge_spec import SCHEMAS
from tests.generator.inline import AMQP, CLASS_METHOD, CONTROL_COMMAND, at, read

FULL = f"""\
<?xml version="1.0"?>
<amqp {AMQP}
      name="part" label="A part" f:ref="9">
  <doc><p>First
    words.</p><p>More.</p></doc>
  <section name="one" label="One" f:ref="9.1">
    <doc>
      <p>Some <b>bold</b> words.</p>
      <ul><li>Item</li></ul>
    </doc>
    <type name="tiny" class="primitive" label="A number">
      <encoding name="small" code="0x52" category="fixed" width="1" label="One octet"/>
      <encoding code="0x70" category="fixed" width="4"/>
    </type>
    <type name="mode" class="restricted" source="tiny" provides="role, mode" f:ref="9.1.2">
      <descriptor name="a:mode:tiny" code="0x00000001:0x00000002"/>
      <choice name="on" value="1" label="Running"/>
      <choice name="off" value="0"><doc><p>Not running.</p></doc></choice>
    </type>
    <type name="table" class="restricted" source="map" f:keys="symbol ulong" f:values="simple" f:part="head"
          f:max-length="9">
      <f:entry key="reason" type="*" requires="role" multiple="true" mandatory="false" label="Why"/>
    </type>
  </section>
  <section name="two">
    <type name="thing" class="composite" source="list">
      <descriptor name="a:thing:list" code="0x00000000:0x00000003"/>
      <field name="mode" type="mode" default="on" requires="role" f:references="mode" label="The mode"/>
      <field name="names" type="string" multiple="true" mandatory="true"/>
    </type>
    <definition name="PORT" value="5672" label="Where to listen"/>
    <f:archetype name="later" open="true"><doc><p>Elsewhere.</p></doc></f:archetype>
    <f:archetype name="role"/>
  </section>
</amqp>
"""


@pytest.fixture
def full(tmp_path: Path) -> Document:
    """The document of every element of the AMQP 1.0 grammar."""
    return read(tmp_path, FULL)


def test_a_document_has_name_place_digest_and_prose(full: Document) -> None:
    assert (full.grammar, full.name, full.at) == ("amqp-1.0", "part", at(2))
    assert full.sha256 == hashlib.sha256(FULL.encode()).hexdigest()
    assert full.doc == Doc(label="A part", paragraphs=("First words.", "More."), reference="9")
    assert [(section.name, section.at.line) for section in full.sections] == [("one", 6), ("two", 25)]
    assert full.sections[0].doc == Doc(label="One", paragraphs=("Some bold words.", "Item"), reference="9.1")


def test_prose_is_marked_as_free_text(full: Document) -> None:
    doc = full.sections[0].doc
    assert {type(text) for text in (doc.label, *doc.paragraphs, doc.reference)} == {SpecText}


def test_a_primitive_type_with_its_encodings(full: Document) -> None:
    assert full.sections[0].types[0] == RawType(
        at=at(11),
        name="tiny",
        kind="primitive",
        encodings=(
            RawEncoding(
                at=at(12),
                name="small",
                code="0x52",
                category="fixed",
                width="1",
                doc=Doc(label="One octet", reference="9.1"),
            ),
            RawEncoding(
                at=at(13), name=None, code="0x70", category="fixed", width="4", doc=Doc(reference="9.1")
            ),
        ),
        doc=Doc(label="A number", reference="9.1"),
    )


def test_a_restricted_type_with_descriptor_and_choices(full: Document) -> None:
    assert full.sections[0].types[1] == RawType(
        at=at(15),
        name="mode",
        kind="restricted",
        source="tiny",
        provides=("role", "mode"),
        descriptor=RawDescriptor(at=at(16), name="a:mode:tiny", code="0x00000001:0x00000002"),
        choices=(
            RawChoice(at=at(17), name="on", value="1", doc=Doc(label="Running", reference="9.1.2")),
            RawChoice(
                at=at(18), name="off", value="0", doc=Doc(paragraphs=("Not running.",), reference="9.1.2")
            ),
        ),
        doc=Doc(reference="9.1.2"),
    )


def test_a_map_with_restrictions_and_a_reserved_key(full: Document) -> None:
    assert full.sections[0].types[2] == RawType(
        at=at(20),
        name="table",
        kind="restricted",
        source="map",
        keys="symbol ulong",
        values="simple",
        max_length="9",
        part="head",
        entries=(
            RawField(
                at=at(22),
                name="reason",
                type="*",
                requires="role",
                mandatory="false",
                multiple="true",
                doc=Doc(label="Why", reference="9.1"),
            ),
        ),
        doc=Doc(reference="9.1"),
    )


def test_a_composite_type_with_its_fields(full: Document) -> None:
    thing = full.sections[1].types[0]
    assert thing.descriptor == RawDescriptor(at=at(27), name="a:thing:list", code="0x00000000:0x00000003")
    assert thing.fields == (
        RawField(
            at=at(28),
            name="mode",
            type="mode",
            requires="role",
            default="on",
            references="mode",
            doc=Doc(label="The mode", reference="9"),
        ),
        RawField(
            at=at(29), name="names", type="string", mandatory="true", multiple="true", doc=Doc(reference="9")
        ),
    )


def test_definitions_and_archetypes(full: Document) -> None:
    assert full.sections[1].definitions == (
        RawDefinition(at=at(31), name="PORT", value="5672", doc=Doc(label="Where to listen", reference="9")),
    )
    assert full.sections[1].archetypes == (
        RawArchetype(
            at=at(32), name="later", open="true", doc=Doc(paragraphs=("Elsewhere.",), reference="9")
        ),
        RawArchetype(at=at(33), name="role", open=None, doc=Doc(reference="9")),
    )


def test_carriage_returns_do_not_shift_lines(tmp_path: Path) -> None:
    path = tmp_path / "part.xml"
    path.write_bytes(FULL.replace("\n", "\r\n").encode())
    document = read_document(path, "tiny/part.xml", Problems())
    assert document is not None
    assert document.sections[1].types[0].fields[1].at == at(29)


def test_a_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    problems = Problems()
    assert read_document(tmp_path / "none.xml", "tiny/none.xml", problems) is None
    assert [str(problem) for problem in problems.sorted()] == [
        "tiny/none.xml:1: cannot be read: No such file or directory"
    ]


def test_the_root_element_decides_the_grammar(tmp_path: Path) -> None:
    assert {grammar.name for grammar in GRAMMARS.values()} == set(SCHEMAS)
    for text, grammar in (
        (FULL, "amqp-1.0"),
        (CLASS_METHOD, "class-method"),
        (CONTROL_COMMAND, "control-command"),
    ):
        assert read(tmp_path, text).grammar == grammar

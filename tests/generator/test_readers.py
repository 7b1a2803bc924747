"""Readers: every element of the three grammars arrives in the raw document, with the line where it starts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from amqpforge_generator.document import (
    Doc,
    Document,
    Location,
    RawArchetype,
    RawAssert,
    RawChoice,
    RawDefinition,
    RawDescriptor,
    RawEncoding,
    RawField,
    RawLayout,
    RawMethod,
    RawType,
)
from amqpforge_generator.errors import Problems
from amqpforge_generator.load import GRAMMARS, read_document
from amqpforge_generator.names import SpecText
from amqpforge_spec import SCHEMAS
from tests.generator.inline import AMQP, CLASS_METHOD, CONTROL_COMMAND

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


def read(folder: Path, text: str) -> Document:
    """The raw document of a text that has nothing wrong with it."""
    path = folder / "part.xml"
    path.write_text(text, encoding="utf-8")
    problems = Problems()
    document = read_document(path, "tiny/part.xml", problems)
    assert not problems.sorted()
    assert document is not None
    return document


def at(line: int) -> Location:
    """A line of the file."""
    return Location("tiny/part.xml", line)


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


def test_class_method_constants_and_version(tmp_path: Path) -> None:
    (section,) = read(tmp_path, CLASS_METHOD).sections
    assert [(item.name, item.value, item.error_class, item.at.line) for item in section.definitions] == [
        ("major", "0", None, 1),
        ("minor", "9", None, 1),
        ("port", "5672", None, 1),
        ("frame-end", "206", None, 2),
        ("no-route", "312", "soft-error", 3),
        ("frame-error", "501", "hard-error", 4),
    ]


def test_class_method_domains(tmp_path: Path) -> None:
    (section,) = read(tmp_path, CLASS_METHOD).sections
    types = {raw.name: raw for raw in section.types}
    assert types["bit"] == RawType(at=at(5), name="bit", kind="domain", source="bit")
    assert types["queue-name"] == RawType(
        at=at(11),
        name="queue-name",
        kind="domain",
        source="shortstr",
        asserts=(
            RawAssert(at=at(12), check="length", value="127"),
            RawAssert(at=at(13), check="regexp", value="[a-z.]*"),
        ),
        doc=Doc(label="Name of a queue"),
    )
    assert types["reply-to"] == RawType(
        at=at(15),
        name="reply-to",
        kind="struct",
        fields=(
            RawField(at=at(17), name="exchange", type="shortstr"),
            RawField(at=at(18), name="routing-key", type="shortstr"),
        ),
        layout=RawLayout(size="short", pack="short", code="7"),
    )


def test_class_method_class_with_content_properties(tmp_path: Path) -> None:
    (section,) = read(tmp_path, CLASS_METHOD).sections
    (basic,) = section.classes
    assert (basic.name, basic.code, basic.at, basic.doc.label) == ("basic", "60", at(21), "Messages")
    assert basic.chassis == (("server", "MUST"),)
    assert [(field.name, field.type) for field in basic.fields] == [
        ("content-type", "shortstr"),
        ("headers", "table"),
        ("priority", "octet"),
    ]
    assert [method.name for method in basic.methods] == ["consume", "consume-ok", "publish", "query"]


def test_class_method_methods(tmp_path: Path) -> None:
    (section,) = read(tmp_path, CLASS_METHOD).sections
    consume, _, publish, query = section.classes[0].methods
    assert consume == RawMethod(
        at=at(27),
        name="consume",
        kind="method",
        code="20",
        synchronous="1",
        chassis=(("server", "MUST"),),
        responses=("consume-ok",),
        fields=(
            RawField(
                at=at(30),
                name="queue",
                type="queue-name",
                asserts=(RawAssert(at=at(30), check="notnull", value=None),),
            ),
            RawField(at=at(31), name="no-local", type="bit"),
            RawField(at=at(32), name="no-ack", type="bit", default="1"),
            RawField(at=at(33), name="prefetch", type="short", default="10"),
        ),
    )
    assert (publish.content, publish.chassis) == ("1", (("server", "MUST"), ("client", "MAY")))
    assert query.result == RawType(
        at=at(45),
        name="basic-query-result",
        kind="struct",
        fields=(RawField(at=at(45), name="depth", type="long"),),
        layout=RawLayout(size="long", code="0x1f"),
    )


def test_control_command_types(tmp_path: Path) -> None:
    (section,) = read(tmp_path, CONTROL_COMMAND).sections
    types = {raw.name: raw for raw in section.types}
    assert types["str16"].kind == "primitive"
    assert types["str16"].encodings == (
        RawEncoding(at=at(6), name=None, code="0x95", category="variable", width="2", doc=Doc()),
    )
    assert [(choice.name, choice.value) for choice in types["mode"].choices] == [
        ("destructive", "1"),
        ("non-destructive", "2"),
    ]
    assert (types["header"].kind, types["header"].layout) == (
        "struct",
        RawLayout(size="4", pack="1", code="0x0401"),
    )
    assert (types["xid"].kind, types["xid"].layout) == ("struct", RawLayout())
    assert types["xid"].fields == (RawField(at=at(15), name="format", type="uint32", mandatory="true"),)


def test_control_command_controls_and_commands(tmp_path: Path) -> None:
    (section,) = read(tmp_path, CONTROL_COMMAND).sections
    (link,) = section.classes
    control, command = link.methods
    assert (link.name, link.code) == ("link", "0x03")
    assert control == RawMethod(
        at=at(18), name="ping", kind="control", code="0x0301", layout=RawLayout(pack="2", code="0x0301")
    )
    assert (command.kind, command.layout) == ("command", RawLayout(pack="2", code="0x0302"))
    assert [(field.name, field.mandatory, field.multiple, field.default) for field in command.fields] == [
        ("handle", "true", None, None),
        ("mode", None, None, "destructive"),
        ("header", None, None, None),
        ("tags", None, "true", None),
    ]

"""Readers of the class/method and the control/command grammar: every attribute arrives, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqpforge_generator.document import (
    Doc,
    RawAssert,
    RawDefinition,
    RawEncoding,
    RawException,
    RawField,
    RawLayout,
    RawMethod,
    RawRange,
    RawRule,
    RawSection,
    RawType,
)
from tests.generator.inline import CLASS_METHOD, CONTROL_COMMAND, at, read


@pytest.fixture
def class_method(tmp_path: Path) -> RawSection:
    """The one section of a file in the class/method grammar."""
    (section,) = read(tmp_path, CLASS_METHOD).sections
    return section


@pytest.fixture
def control_command(tmp_path: Path) -> RawSection:
    """The one section of a file in the control/command grammar."""
    (section,) = read(tmp_path, CONTROL_COMMAND).sections
    return section


def test_the_protocol_header_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, CLASS_METHOD).protocol_header == "01 01 00 0a"
    assert read(tmp_path, CONTROL_COMMAND).protocol_header == "01 00 00"


# --- class/method -------------------------------------------------------------------------------------------


def test_class_method_constants_and_version(class_method: RawSection) -> None:
    assert [(item.name, item.value, item.error_class, item.at.line) for item in class_method.definitions] == [
        ("major", "0", None, 1),
        ("minor", "9", None, 1),
        ("port", "5672", None, 1),
        ("frame-method", "1", None, 3),
        ("frame-end", "206", None, 4),
        ("no-route", "312", "soft-error", 5),
        ("frame-error", "501", "hard-error", 6),
        ("table-when", "0x54", None, 7),
        ("table-text", "0x53", None, 9),
        ("table-int", "0x49", None, 11),
    ]


def test_class_method_constants_belong_to_enumerations(class_method: RawSection) -> None:
    assert {item.name: item.enumeration for item in class_method.definitions if item.enumeration} == {
        "frame-method": "frame-type",
        "no-route": "reply-code",
        "frame-error": "reply-code",
        "table-when": "table-type",
        "table-text": "table-type",
    }


def test_a_table_type_has_a_form_by_its_datatype(class_method: RawSection) -> None:
    when, text, number = class_method.definitions[-3:]
    doc = Doc(label="A moment")
    assert when == RawDefinition(
        at=at(7),
        name="table-when",
        value="0x54",
        enumeration="table-type",
        encoding=RawEncoding(
            at=at(7),
            name="table-when",
            code="0x54",
            category="fixed",
            width="8",
            holds="timestamp-s",
            doc=doc,
        ),
        doc=doc,
    )
    assert text.encoding == RawEncoding(
        at=at(9),
        name="table-text",
        code="0x53",
        category="variable",
        width="4",
        holds="text",
        charset="utf-8",
        doc=Doc(),
    )
    assert number.encoding is not None
    assert (number.encoding.category, number.encoding.width, number.encoding.holds) == (
        "fixed",
        "4",
        "signed",
    )


@pytest.mark.parametrize(
    ("datatype", "holds"),
    [
        ("binary", "binary"),
        ("signed-integer", "signed"),
        ("unsigned-integer", "unsigned"),
        ("ieee-float", "float"),
        ("boolean", "boolean"),
        ("char", "character"),
        ("string", "text"),
        ("decimal", "decimal"),
        ("void", "void"),
        ("field-table", "map"),
        ("sequence", "list"),
        ("array", "array"),
    ],
)
def test_every_datatype_says_what_it_holds(tmp_path: Path, datatype: str, holds: str) -> None:
    text = CLASS_METHOD.replace('datatype="signed-integer"', f'datatype="{datatype}"')
    (section,) = read(tmp_path, text).sections
    encoding = section.definitions[-1].encoding
    assert encoding is not None
    assert encoding.holds == holds


def test_an_elementary_domain_has_a_form(class_method: RawSection) -> None:
    types = {raw.name: raw for raw in class_method.types}
    assert types["shortstr"] == RawType(
        at=at(16),
        name="shortstr",
        kind="domain",
        source="shortstr",
        encodings=(
            RawEncoding(
                at=at(16),
                name="shortstr",
                code=None,
                category="variable",
                width="1",
                holds="text",
                charset="utf-8",
                doc=Doc(),
            ),
        ),
    )


def test_a_domain_of_another_one_has_conditions_and_rules(class_method: RawSection) -> None:
    types = {raw.name: raw for raw in class_method.types}
    doc = Doc(label="Name of a queue")
    assert types["queue-name"] == RawType(
        at=at(19),
        name="queue-name",
        kind="domain",
        source="shortstr",
        asserts=(
            RawAssert(at=at(21), check="length", value="127"),
            RawAssert(at=at(22), check="regexp", value="[a-z.]*"),
        ),
        rules=(
            RawRule(
                at=at(20),
                name="default",
                on_failure="no-route",
                doc=Doc(paragraphs=("Empty means the last one declared.",)),
            ),
        ),
        doc=doc,
    )
    assert types["path"].asserts == (
        RawAssert(at=at(25), check="syntax", value=None, rule="slashes", pattern="(/[^/]+)*"),
    )


def test_a_domain_can_be_a_struct(class_method: RawSection) -> None:
    types = {raw.name: raw for raw in class_method.types}
    assert types["reply-to"] == RawType(
        at=at(27),
        name="reply-to",
        kind="struct",
        fields=(
            RawField(at=at(29), name="exchange", type="shortstr"),
            RawField(at=at(30), name="routing-key", type="shortstr"),
        ),
        layout=RawLayout(size="short", pack="short", code="7"),
    )
    assert types["preamble"].layout == RawLayout(size="octet", pack="octet")


def test_a_class_with_content_properties_and_rules(class_method: RawSection) -> None:
    basic, tx = class_method.classes
    assert (basic.name, basic.code, basic.at, basic.doc.label) == ("basic", "60", at(36), "Messages")
    assert basic.chassis == (("server", "MUST"),)
    assert basic.rules == (
        RawRule(at=at(37), name="order", on_failure=None, doc=Doc(paragraphs=("Kept per queue.",))),
    )
    assert [(field.name, field.type) for field in basic.fields] == [
        ("content-type", "shortstr"),
        ("headers", "table"),
        ("priority", "octet"),
    ]
    assert [method.name for method in basic.methods] == ["consume", "consume-ok", "publish", "query"]
    assert (tx.name, tx.fields, tx.rules) == ("tx", (), ())


def test_a_method_with_everything(class_method: RawSection) -> None:
    assert class_method.classes[0].methods[0] == RawMethod(
        at=at(42),
        name="consume",
        kind="method",
        code="20",
        synchronous="1",
        chassis=(("server", "MUST"),),
        responses=("consume-ok",),
        fields=(
            RawField(
                at=at(46),
                name="queue",
                type="queue-name",
                asserts=(RawAssert(at=at(46), check="notnull", value=None),),
            ),
            RawField(at=at(47), name="no-local", type="bit"),
            RawField(at=at(48), name="no-ack", type="bit", default="1"),
            RawField(
                at=at(49),
                name="prefetch",
                type="short",
                default="10",
                asserts=(
                    RawAssert(at=at(51), check="le", value="priority"),
                    RawAssert(at=at(52), check="ne", value="0"),
                ),
                rules=(RawRule(at=at(50), name="bound", on_failure="frame-error", doc=Doc()),),
            ),
        ),
        rules=(RawRule(at=at(43), name="known-queue", on_failure="no-route", doc=Doc(label="No guessing")),),
    )


def test_content_results_and_headers_of_methods(class_method: RawSection) -> None:
    _, _, publish, query = class_method.classes[0].methods
    assert (publish.content, publish.chassis) == ("1", (("server", "MUST"), ("client", "MAY")))
    assert query.result == RawType(
        at=at(65),
        name="basic-query-result",
        kind="struct",
        fields=(RawField(at=at(65), name="depth", type="long"),),
        layout=RawLayout(size="long", code="0x1f"),
    )
    assert (publish.header, query.header) == (None, "preamble")


def test_a_class_and_a_method_may_name_a_header(tmp_path: Path, class_method: RawSection) -> None:
    (commit,) = class_method.classes[1].methods
    assert (class_method.classes[1].header, commit.header) == ("preamble", None)
    own = CLASS_METHOD.replace('name="commit" index="20"', 'name="commit" index="20" f:header="reply-to"')
    (section,) = read(tmp_path, own).sections
    assert section.classes[1].methods[0].header == "reply-to"


# --- control/command ----------------------------------------------------------------------------------------


def test_a_coded_type_and_one_without_a_code(control_command: RawSection) -> None:
    types = {raw.name: raw for raw in control_command.types}
    assert types["str16"] == RawType(
        at=at(8),
        name="str16",
        kind="primitive",
        encodings=(
            RawEncoding(
                at=at(8),
                name=None,
                code="0x95",
                category="variable",
                width="2",
                holds="text",
                charset="utf-8",
                doc=Doc(),
            ),
        ),
    )
    assert types["bit"].encodings == (
        RawEncoding(at=at(7), name=None, code=None, category="bit", width="0", holds="bit", doc=Doc()),
    )


def test_ranges_of_type_codes(control_command: RawSection) -> None:
    first, *others = control_command.ranges
    assert first == RawRange(
        at=at(4), first="0x00", last="0x0f", category="fixed", width="1", doc=Doc(label="One octet")
    )
    assert [(item.first, item.category, item.width) for item in others] == [
        ("0x20", "fixed", "4"),
        ("0x90", "variable", "2"),
    ]


def test_domains_structs_and_records(control_command: RawSection) -> None:
    types = {raw.name: raw for raw in control_command.types}
    assert [(choice.name, choice.value) for choice in types["mode"].choices] == [
        ("destructive", "1"),
        ("non-destructive", "2"),
    ]
    assert (types["header"].kind, types["header"].layout) == (
        "struct",
        RawLayout(size="4", pack="1", code="0x0401"),
    )
    assert (types["xid"].kind, types["xid"].layout) == ("struct", RawLayout())
    assert types["xid"].fields == (RawField(at=at(20), name="format", type="uint32", mandatory="true"),)


def test_controls_and_commands(control_command: RawSection) -> None:
    (link,) = control_command.classes
    control, command = link.methods
    assert (link.name, link.code) == ("link", "0x03")
    assert control == RawMethod(
        at=at(23), name="ping", kind="control", code="0x0301", layout=RawLayout(pack="2", code="0x0301")
    )
    assert (command.kind, command.layout) == ("command", RawLayout(pack="2", code="0x0302"))
    assert [(field.name, field.mandatory, field.multiple, field.default) for field in command.fields] == [
        ("handle", "true", None, None),
        ("mode", None, None, "destructive"),
        ("header", None, None, None),
        ("tags", None, "true", None),
    ]
    assert command.exceptions == (
        RawException(
            at=at(29), name="taken", error="destructive", doc=Doc(paragraphs=("It was taken before.",))
        ),
    )

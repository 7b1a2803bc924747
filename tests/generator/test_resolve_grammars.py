"""Resolution of the class/method and the control/command grammar: forms, defaults, rules, codes, layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqpforge_generator.document import Location
from amqpforge_generator.load import load_dialect
from amqpforge_generator.model import (
    Assertion,
    Chassis,
    Definition,
    Dialect,
    Encoding,
    FormatRange,
    Layout,
    Method,
)
from amqpforge_generator.names import SpecText
from amqpforge_spec import dialect_folder
from tests.generator.inline import CLASS_METHOD, CONTROL_COMMAND, load_only, type_named


def method_named(dialect: Dialect, name: str) -> Method:
    """The method of that XML name."""
    (found,) = [method for class_ in dialect.classes for method in class_.methods if method.name.xml == name]
    return found


def form_of(dialect: Dialect, name: str) -> Encoding:
    """The one wire form of the type of that XML name."""
    (form,) = type_named(dialect, name).encodings
    return form


def at(line: int) -> Location:
    """A line of the one file of the dialect."""
    return Location("tiny/tiny.xml", line)


@pytest.fixture
def class_method(tmp_path: Path) -> Dialect:
    """The tiny dialect of the class/method grammar."""
    return load_only(tmp_path, tiny=CLASS_METHOD)


@pytest.fixture
def control_command(tmp_path: Path) -> Dialect:
    """The tiny dialect of the control/command grammar."""
    return load_only(tmp_path, tiny=CONTROL_COMMAND)


def test_the_protocol_header_is_octets(class_method: Dialect, control_command: Dialect) -> None:
    assert class_method.protocol_header == b"\x01\x01\x00\x0a"
    assert control_command.protocol_header == b"\x01\x00\x00"


def test_a_dialect_may_have_no_protocol_header(tmp_path: Path) -> None:
    text = CONTROL_COMMAND.replace(' f:protocol-header="01 00 00"', "")
    assert load_only(tmp_path, tiny=text).protocol_header == b""


# --- class/method -------------------------------------------------------------------------------------------


def test_class_method_domains_resolve_to_elementary_types(class_method: Dialect) -> None:
    assert class_method.grammar == "class-method"
    bit, queue = type_named(class_method, "bit"), type_named(class_method, "queue-name")
    assert (bit.kind, bit.base) == ("primitive", bit)
    assert (queue.kind, queue.primitive, queue.source) == (
        "restricted",
        "shortstr",
        type_named(class_method, "shortstr"),
    )
    assert queue.assertions == (
        Assertion(check="length", operand=127, at=at(21)),
        Assertion(check="regexp", operand="[a-z.]*", at=at(22)),
    )


def test_elementary_types_have_one_form_without_a_code(class_method: Dialect) -> None:
    primitives = [type_ for type_ in class_method.types if type_.kind == "primitive"]
    forms = {type_.name.xml: form_of(class_method, type_.name.xml) for type_ in primitives}
    assert {name: (form.category, form.width, form.holds, form.charset) for name, form in forms.items()} == {
        "bit": ("bit", 0, "boolean", ""),
        "octet": ("fixed", 1, "unsigned", ""),
        "short": ("fixed", 2, "unsigned", ""),
        "long": ("fixed", 4, "unsigned", ""),
        "shortstr": ("variable", 1, "text", "utf-8"),
        "longstr": ("variable", 4, "binary", ""),
        "table": ("variable", 4, "map", ""),
    }
    assert {form.code for form in forms.values()} == {None}
    assert type_named(class_method, "queue-name").encodings == ()


def test_the_forms_of_table_values_are_sorted_by_code(class_method: Dialect) -> None:
    forms = class_method.value_encodings
    assert [(form.name, form.code, form.category, form.width, form.holds) for form in forms] == [
        ("table-int", 0x49, "fixed", 4, "signed"),
        ("table-text", 0x53, "variable", 4, "text"),
        ("table-when", 0x54, "fixed", 8, "timestamp-s"),
    ]


def test_constants_of_one_enumeration_are_grouped(class_method: Dialect) -> None:
    (module,) = class_method.modules
    groups = {
        group.name.camel: [member.name.upper for member in group.members] for group in module.enumerations
    }
    assert groups == {
        "FrameType": ["FRAME_METHOD"],
        "ReplyCode": ["NO_ROUTE", "FRAME_ERROR"],
        "TableType": ["TABLE_WHEN", "TABLE_TEXT"],
    }
    alone = [item.name.upper for item in module.definitions if item.enumeration is None]
    assert alone == ["MAJOR", "MINOR", "PORT", "FRAME_END", "TABLE_INT"]


def test_class_method_constants(class_method: Dialect) -> None:
    constants: dict[str, Definition] = {item.name.upper: item for item in class_method.modules[0].definitions}
    assert {name: item.value for name, item in constants.items()} == {
        "MAJOR": 0,
        "MINOR": 9,
        "PORT": 5672,
        "FRAME_METHOD": 1,
        "FRAME_END": 206,
        "NO_ROUTE": 312,
        "FRAME_ERROR": 501,
        "TABLE_WHEN": 0x54,
        "TABLE_TEXT": 0x53,
        "TABLE_INT": 0x49,
    }
    assert (constants["NO_ROUTE"].error_class, constants["FRAME_ERROR"].error_class) == ("soft", "hard")
    assert constants["TABLE_INT"].error_class == ""
    assert constants["TABLE_INT"].encoding == class_method.value_encodings[0]


def test_class_method_structs_have_packing_flags(class_method: Dialect) -> None:
    reply = type_named(class_method, "reply-to")
    assert (reply.kind, reply.base) == ("composite", reply)
    assert reply.layout == Layout(style="packing-flags", size_width=2, flags_width=2, code=7)
    assert [field.primitive for field in reply.fields] == ["shortstr", "shortstr"]
    assert [struct.name.xml for struct in class_method.structs] == [
        "reply-to",
        "preamble",
        "basic-query-result",
    ]


def test_class_method_method_packs_its_bits(class_method: Dialect) -> None:
    consume = method_named(class_method, "consume")
    assert (consume.kind, consume.code, consume.layout) == ("method", 20, Layout(style="packed-bits"))
    assert [(field.name.snake, field.primitive, field.default) for field in consume.fields] == [
        ("queue", "shortstr", None),
        ("no_local", "bit", None),
        ("no_ack", "bit", True),
        ("prefetch", "short", 10),
    ]
    assert [item.check for item in consume.fields[0].assertions] == ["notnull"]
    assert (consume.is_synchronous, consume.has_content) == (True, False)
    assert [response.snake for response in consume.responses] == ["consume_ok"]


@pytest.mark.parametrize(
    ("domain", "text", "value"),
    [
        ("octet", "255", 255),
        ("octet", "0xff", 255),
        ("long", "4294967295", 4294967295),
        ("bit", "false", False),
        ("bit", "1", True),
        ("shortstr", "", ""),
        ("queue-name", "a.b", "a.b"),
        ("longstr", "plain", "plain"),
    ],
)
def test_a_default_is_read_by_the_wire_form(
    tmp_path: Path, domain: str, text: str, value: int | str | bool
) -> None:
    field = f'name="prefetch" domain="{domain}" default="{text}"'
    dialect = load_only(
        tmp_path, tiny=CLASS_METHOD.replace('name="prefetch" domain="short" default="10"', field)
    )
    found = method_named(dialect, "consume").fields[3].default
    assert found == value
    assert isinstance(found, bool) is isinstance(value, bool)
    assert isinstance(found, SpecText) is isinstance(value, str)


def test_conditions_compare_with_numbers_fields_and_patterns(class_method: Dialect) -> None:
    assert method_named(class_method, "consume").fields[3].assertions == (
        Assertion(check="le", operand="priority", at=at(51)),
        Assertion(check="ne", operand=0, at=at(52)),
    )
    (syntax,) = type_named(class_method, "path").assertions
    assert syntax == Assertion(check="syntax", operand="(/[^/]+)*", rule="slashes", at=at(25))
    assert (type(syntax.operand), type(syntax.rule)) == (SpecText, SpecText)


def test_rules_name_the_constant_that_numbers_a_breach(class_method: Dialect) -> None:
    basic, consume = class_method.classes[0], method_named(class_method, "consume")
    queue = type_named(class_method, "queue-name")
    rules = [*queue.rules, *basic.rules, *consume.rules, *consume.fields[3].rules]
    assert [(rule.name.snake, rule.on_failure and rule.on_failure.upper, rule.at.line) for rule in rules] == [
        ("default", "NO_ROUTE", 20),
        ("order", None, 37),
        ("known_queue", "NO_ROUTE", 43),
        ("bound", "FRAME_ERROR", 50),
    ]
    assert rules[1].doc.paragraphs == ("Kept per queue.",)


def test_class_method_senders_are_the_other_peer(class_method: Dialect) -> None:
    senders = {
        name: method_named(class_method, name).sent_by for name in ("consume", "consume-ok", "publish")
    }
    assert senders == {"consume": ("client",), "consume-ok": ("server",), "publish": ("client", "server")}
    assert method_named(class_method, "publish").chassis == (
        Chassis(peer="server", level="MUST"),
        Chassis(peer="client", level="MAY"),
    )
    assert class_method.classes[0].chassis == (Chassis(peer="server", level="MUST"),)


def test_class_method_content_class(class_method: Dialect) -> None:
    basic, tx = class_method.classes
    assert (basic.name.camel, basic.code) == ("Basic", 60)
    assert [(field.name.snake, field.primitive) for field in basic.fields] == [
        ("content_type", "shortstr"),
        ("headers", "table"),
        ("priority", "octet"),
    ]
    assert tx.fields == ()
    assert method_named(class_method, "publish").has_content
    assert method_named(class_method, "publish").fields[0].type is type_named(class_method, "reply-to")


def test_a_header_is_the_first_field(class_method: Dialect) -> None:
    preamble = type_named(class_method, "preamble")
    query, commit = method_named(class_method, "query"), method_named(class_method, "commit")
    assert (query.header, commit.header) == (preamble, preamble)
    assert method_named(class_method, "publish").header is None
    assert [(field.name.snake, field.type, field.index) for field in query.fields] == [
        ("preamble", preamble, 0)
    ]
    assert [(field.name.snake, field.index) for field in commit.fields] == [("preamble", 0), ("name", 1)]


def test_the_code_of_a_result_has_its_class_in_the_upper_octet(class_method: Dialect) -> None:
    result = method_named(class_method, "query").result
    assert result is not None
    assert (result.name.camel, result.layout) == (
        "BasicQueryResult",
        Layout(style="packed-bits", size_width=4, code=60 << 8 | 31),
    )
    assert [field.primitive for field in result.fields] == ["long"]
    assert class_method.classes[0].results == (result,)


def test_results_of_two_classes_may_have_one_number(tmp_path: Path) -> None:
    result = '<result><struct size="long" type="0x1f"/></result>'
    text = CLASS_METHOD.replace(
        "</class>\n</amqp>", f'<method name="q" index="30">{result}</method></class></amqp>'
    )
    dialect = load_only(tmp_path, tiny=text)
    layouts = [result.layout for class_ in dialect.classes for result in class_.results]
    assert [layout and layout.code for layout in layouts] == [60 << 8 | 31, 90 << 8 | 31]


def test_every_rule_of_the_preview_that_numbers_its_breach_names_a_reply_code() -> None:
    dialect = load_dialect(dialect_folder("amqp_0_10_preview"))
    (replies,) = [
        group for module in dialect.modules for group in module.enumerations if group.name.xml == "reply-code"
    ]
    methods = [method for class_ in dialect.classes for method in class_.methods]
    rules = [rule for method in methods for rule in method.rules]
    rules += [rule for method in methods for field in method.fields for rule in field.rules]
    named = {rule.on_failure.xml for rule in rules if rule.on_failure is not None}
    assert {"access-refused", "not-allowed", "not-found"} <= named
    assert named <= {member.name.xml for member in replies.members if member.error_class}


# --- control/command ----------------------------------------------------------------------------------------


def test_control_command_packing_flags(control_command: Dialect) -> None:
    transfer, ping = method_named(control_command, "transfer"), method_named(control_command, "ping")
    assert (ping.kind, ping.fields) == ("control", ())
    assert (transfer.kind, transfer.code) == ("command", 0x0302)
    assert transfer.layout == Layout(style="packing-flags", flags_width=2, code=0x0302)
    assert [(field.name.snake, field.mandatory, field.multiple) for field in transfer.fields] == [
        ("handle", True, False),
        ("mode", False, False),
        ("header", False, False),
        ("tags", False, True),
    ]
    choice = type_named(control_command, "mode").choices[0]
    assert (transfer.fields[1].default, transfer.fields[1].default_choice) == (1, choice)


def test_control_command_struct_and_record(control_command: Dialect) -> None:
    assert type_named(control_command, "header").layout == Layout(
        style="packing-flags", size_width=4, flags_width=1, code=0x0401
    )
    assert type_named(control_command, "xid").layout == Layout(style="packing-flags")


def test_types_with_a_code_are_what_a_value_can_be(control_command: Dialect) -> None:
    assert form_of(control_command, "bit").code is None
    assert form_of(control_command, "anything").category == "any"
    forms = control_command.value_encodings
    assert [
        (form.name, form.code, form.category, form.width, form.holds, form.charset) for form in forms
    ] == [
        ("uint8", 0x02, "fixed", 1, "unsigned", ""),
        ("uint32", 0x22, "fixed", 4, "unsigned", ""),
        ("str16", 0x95, "variable", 2, "text", "utf-8"),
    ]


def test_ranges_are_numbers(control_command: Dialect) -> None:
    first, *others = control_command.ranges
    assert first == FormatRange(first=0, last=15, category="fixed", width=1, doc=first.doc, at=at(4))
    assert [(item.first, item.last, item.category) for item in others] == [
        (0x20, 0x2F, "fixed"),
        (0x90, 0x9F, "variable"),
    ]


def test_an_exception_has_the_number_of_a_choice(control_command: Dialect) -> None:
    (taken,) = method_named(control_command, "transfer").failures
    assert (taken.name.snake, taken.error) == ("taken", type_named(control_command, "mode").choices[0])
    assert taken.doc.paragraphs == ("It was taken before.",)


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        ('category="fixed" width="2" holds="signed"', "-1", -1),
        ('category="fixed" width="8" holds="float"', "0.5", 0.5),
        ('category="fixed" width="1" holds="boolean"', "true", True),
        ('category="fixed" width="4" holds="character" charset="utf-32-be"', "é", "é"),
        ('category="fixed" width="4" holds="serial"', "4294967295", 4294967295),
        ('category="fixed" width="8" holds="timestamp-ms"', "-1", -1),
        (
            'category="fixed" width="16" holds="uuid"',
            "{12345678-1234-5678-1234-567812345678}",
            "12345678-1234-5678-1234-567812345678",
        ),
        ('category="variable" width="1" holds="text" charset="utf-8"', "é" * 127, "é" * 127),
    ],
)
def test_a_default_follows_the_form_and_not_the_name(
    tmp_path: Path, form: str, text: str, value: int | float | str | bool
) -> None:
    odd = CONTROL_COMMAND.replace("<domain ", f'<type name="odd" {form}/>\n<domain ', 1)
    field = f'<field name="more" type="odd" multiplicity="optional" default="{text}"/><exception'
    dialect = load_only(tmp_path, tiny=odd.replace("<exception", field))
    assert method_named(dialect, "transfer").fields[-1].default == value

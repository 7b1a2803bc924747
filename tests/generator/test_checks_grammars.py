"""Failures of the class/method and the control/command grammar: each said by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.generator.inline import (
    CLASS_METHOD,
    CONTROL_COMMAND,
    problems_of,
)

CLASS_METHOD_FAILURES = {
    "unknown-domain": (
        ('domain="queue-name"', 'domain="queue-nam"'),
        "tiny/part.xml:46: field 'queue' has the unknown type 'queue-nam'; did you mean 'queue-name'?",
    ),
    "domain-and-type": (
        ('name="no-ack" domain="bit"', 'name="no-ack" type="bit" domain="bit"'),
        "tiny/part.xml:48: field 'no-ack' needs either the attribute 'domain' or 'type'",
    ),
    "domain-of-nothing": (
        ('<domain name="path" type="shortstr">', '<domain name="path">'),
        "tiny/part.xml:24: domain 'path' needs either the attribute 'type' or a <struct>",
    ),
    "default-out-of-range": (
        ('default="10"', 'default="65536"'),
        "tiny/part.xml:49: default '65536' of field 'prefetch' is not a legal short: outside 0 to 65535",
    ),
    "default-too-long": (
        ('name="queue" domain="queue-name"', f'name="queue" domain="shortstr" default="{"é" * 128}"'),
        f"tiny/part.xml:46: default {'é' * 128!r} of field 'queue' is not a legal shortstr: "
        "256 octets long, 255 are allowed",
    ),
    "default-that-is-no-bit": (
        ('domain="bit" default="1"', 'domain="bit" default="2"'),
        "tiny/part.xml:48: default '2' of field 'no-ack' is not a legal bit: neither '0' nor '1'",
    ),
    "unknown-check": (
        ('check="notnull"', 'check="notnul"'),
        "tiny/part.xml:46: check 'notnul' is not known; did you mean 'notnull'?",
    ),
    "check-without-value": (
        ('<assert check="length" value="127"/>', '<assert check="length"/>'),
        "tiny/part.xml:21: check 'length' needs a value",
    ),
    "check-with-value": (
        ('check="notnull"', 'check="notnull" value="1"'),
        "tiny/part.xml:46: check 'notnull' takes no value",
    ),
    "check-of-a-length": (
        ('value="127"', 'value="long"'),
        "tiny/part.xml:21: check 'length': value 'long' is not a whole number",
    ),
    "check-of-a-pattern": (
        ('value="[a-z.]*"', 'value="[a-z"'),
        "tiny/part.xml:22: regular expression '[a-z' is not legal: unterminated character set",
    ),
    "unknown-response": (
        ('<response name="consume-ok"/>', '<response name="consume-k"/>'),
        "tiny/part.xml:42: method 'consume': response 'consume-k' is not known; did you mean 'consume-ok'?",
    ),
    "unknown-chassis": (
        ('<chassis name="client" implement="MUST"/>', '<chassis name="cleint" implement="MUST"/>'),
        "tiny/part.xml:55: method 'consume-ok': chassis 'cleint' is not known; did you mean 'client'?",
    ),
    "unknown-error-class": (
        ('class="hard-error"', 'class="hard-eror"'),
        "tiny/part.xml:6: error class 'hard-eror' is not known; did you mean 'hard-error'?",
    ),
    "duplicate-method": (
        ('name="query" index="50"', 'name="publish" index="50"'),
        "tiny/part.xml:63: duplicate method 'publish'; first at tiny/part.xml:58",
    ),
    "duplicate-method-code": (
        ('name="query" index="50"', 'name="query" index="0x28"'),
        "tiny/part.xml:63: duplicate method code 0x28; first at tiny/part.xml:58",
    ),
    "duplicate-class": (
        ("</class>\n", '</class>\n  <class name="basic" index="70"/>\n'),
        "tiny/part.xml:68: duplicate class 'basic'; first at tiny/part.xml:36",
    ),
    "colliding-methods": (
        ('name="query" index="50"', 'name="consume_ok" index="50"'),
        "tiny/part.xml:63: method 'basic.consume_ok' becomes the identifier BasicConsumeOk, as "
        "'basic.consume-ok' at tiny/part.xml:55",
    ),
    "colliding-properties": (
        ('name="headers" domain', 'name="content.type" domain'),
        "tiny/part.xml:40: field 'content.type' becomes the identifier content_type, "
        "as 'content-type' at tiny/part.xml:39",
    ),
    "width": (
        ('size="short" pack="short"', 'size="short" pack="3"'),
        "tiny/part.xml:27: pack '3' is not a width of 1, 2 or 4 octets",
    ),
    "method-code": (
        ('index="50"', 'index="fifty"'),
        "tiny/part.xml:63: method 'query': code 'fifty' is not a whole number",
    ),
    "syntax-without-a-pattern": (
        (' f:regexp="(/[^/]+)*"', ""),
        "tiny/part.xml:25: check 'syntax' needs f:regexp, the rule as a pattern",
    ),
    "syntax-without-a-name": (
        ('rule="slashes" ', ""),
        "tiny/part.xml:25: check 'syntax' needs the name of its rule",
    ),
    "syntax-of-a-pattern": (
        ('f:regexp="(/[^/]+)*"', 'f:regexp="(/["'),
        "tiny/part.xml:25: regular expression '(/[' is not legal: unterminated character set",
    ),
    "rule-of-another-check": (
        ('check="ne" value="0"', 'check="ne" value="0" rule="nought"'),
        "tiny/part.xml:52: check 'ne' takes no rule",
    ),
    "pattern-of-another-check": (
        ('check="ne" value="0"', 'check="ne" value="0" f:regexp="0"'),
        "tiny/part.xml:52: check 'ne' takes no f:regexp",
    ),
    "inequality-with-a-field": (
        ('check="ne" value="0"', 'check="ne" value="priority"'),
        "tiny/part.xml:52: check 'ne': value 'priority' is not a whole number",
    ),
    "bound-that-is-nothing": (
        ('check="le" value="priority"', 'check="le" value="5x"'),
        "tiny/part.xml:51: check 'le': value '5x' is not a whole number",
    ),
    "bound-by-an-unknown-field": (
        ('check="le" value="priority"', 'check="le" value="priorty"'),
        "tiny/part.xml:51: check 'le' names the unknown field 'priorty'; did you mean 'priority'?",
    ),
    "rule-of-an-unknown-constant": (
        ('on-failure="frame-error"', 'on-failure="frame-eror"'),
        "tiny/part.xml:50: rule 'bound': on-failure names the unknown constant 'frame-eror'; "
        "did you mean 'frame-error'?",
    ),
    "rule-of-no-name": (
        ('<rule name="bound" ', "<rule "),
        "tiny/part.xml:50: attribute 'name' is missing on <rule>",
    ),
    "enumeration": (
        ('f:enum="frame-type"', 'f:enum="frame/type"'),
        "tiny/part.xml:3: enumeration name 'frame/type' is not legal: a name is made of letters and digits, "
        "with '-', '_', '.' or spaces between them",
    ),
    "enumeration-of-words": (
        ('name="frame-method" value="1"', 'name="frame-method" value="one"'),
        "tiny/part.xml:3: constant 'frame-method' of the enumeration 'frame-type' has the value 'one', "
        "which is no whole number",
    ),
    "one-number-in-an-enumeration": (
        ('name="frame-error" value="501"', 'name="frame-error" value="0x138"'),
        "tiny/part.xml:6: constant 'frame-error' of the enumeration 'reply-code' has the value 312, as "
        "'no-route' at tiny/part.xml:5",
    ),
    "enumerations-of-one-spelling": (
        ('f:enum="frame-type"', 'f:enum="reply.code"'),
        "tiny/part.xml:5: enumeration 'reply-code' becomes the identifier ReplyCode, as 'reply.code' at "
        "tiny/part.xml:3",
    ),
    "header-that-is-no-struct": (
        ('f:header="preamble"', 'f:header="queue-name"'),
        "tiny/part.xml:63: method 'query': header 'queue-name' is not a struct",
    ),
    "unknown-header": (
        ('f:header="preamble"', 'f:header="preambel"'),
        "tiny/part.xml:63: method 'query': header has the unknown type 'preambel'; did you mean 'preamble'?",
    ),
    "protocol-header": (
        ('"01 01 00 0a"', '"01 01 0"'),
        "tiny/part.xml:1: f:protocol-header '01 01 0' is not one to four octets, such as '00 00 09 01'",
    ),
    "long-protocol-header": (
        ('"01 01 00 0a"', '"41 4d 51 50 01"'),
        "tiny/part.xml:1: f:protocol-header '41 4d 51 50 01' is not one to four octets, "
        "such as '00 00 09 01'",
    ),
    "empty-protocol-header": (
        ('"01 01 00 0a"', '""'),
        "tiny/part.xml:1: f:protocol-header '' is not one to four octets, such as '00 00 09 01'",
    ),
    "code-of-a-class": (
        ('index="90"', 'index="0x10000"'),
        "tiny/part.xml:68: class code 0x10000 is outside 0 to 65535",
    ),
    "code-of-a-class-with-results": (
        ('index="60"', 'index="256"'),
        "tiny/part.xml:36: class code 256 is outside 0 to 255",
    ),
    "code-of-a-method": (
        ('index="40"', 'index="65536"'),
        "tiny/part.xml:58: method code 65536 is outside 0 to 65535",
    ),
    "code-of-a-struct": (
        ('type="7"', 'type="0x3c1f"'),
        "tiny/part.xml:27: struct code 0x3c1f is outside 0 to 255",
    ),
    "code-of-a-result": (
        ('type="0x1f"', 'type="287"'),
        "tiny/part.xml:65: struct code 287 is outside 0 to 255",
    ),
    "code-of-two-structs": (
        ('<struct size="octet" pack="octet">', '<struct size="octet" pack="octet" type="0x07">'),
        "tiny/part.xml:33: duplicate code 0x07; first at tiny/part.xml:27",
    ),
    "code-of-two-results": (
        (
            '<response name="consume-ok"/>',
            '<response name="consume-ok"/><result><struct size="long" type="31"/></result>',
        ),
        "tiny/part.xml:65: duplicate code 0x1f; first at tiny/part.xml:45",
    ),
    "more-fields-than-flags": (
        (
            '<field name="sync" domain="bit"/>',
            "".join(f'<field name="sync{number}" domain="bit"/>' for number in range(9)),
        ),
        "tiny/part.xml:33: 'preamble' has 9 fields; its packing flags have room for 8",
    ),
    "method-named-like-a-result": (
        ('<method name="query"', '<method name="query-result" index="51"/><method name="query"'),
        "tiny/part.xml:63: method 'basic.query-result' becomes the identifier BasicQueryResult, as "
        "'basic-query-result' at tiny/part.xml:65",
    ),
    "method-named-like-a-struct": (
        (
            '<domain name="preamble">',
            '<domain name="basic.query"><struct size="octet"/></domain><domain name="preamble">',
        ),
        "tiny/part.xml:63: method 'basic.query' becomes the identifier BasicQuery, as "
        "'basic.query' at tiny/part.xml:33",
    ),
    "method-named-like-the-properties": (
        ('name="query" index="50"', 'name="properties" index="50"'),
        "tiny/part.xml:63: method 'basic.properties' becomes the identifier BasicProperties, as "
        "'basic.properties' at tiny/part.xml:36",
    ),
    "methods-of-two-classes": (
        (
            '<class name="tx"',
            '<class name="basic-consume" index="91"><method name="ok" index="1"/></class><class name="tx"',
        ),
        "tiny/part.xml:68: method 'basic-consume.ok' becomes the identifier BasicConsumeOk, as "
        "'basic.consume-ok' at tiny/part.xml:55",
    ),
    "result-without-struct": (
        (
            '<result><struct size="long" type="0x1f"><field name="depth" domain="long"/></struct></result>',
            "<result/>",
        ),
        "tiny/part.xml:65: a <result> needs a <struct>",
    ),
}


@pytest.mark.parametrize(("change", "expected"), CLASS_METHOD_FAILURES.values(), ids=CLASS_METHOD_FAILURES)
def test_a_failure_of_the_class_method_grammar(
    tmp_path: Path, change: tuple[str, str], expected: str
) -> None:
    assert change[0] in CLASS_METHOD
    assert problems_of(tmp_path, part=CLASS_METHOD.replace(*change, 1)) == [expected]


OCTET = 'f:category="fixed" f:width="1" f:holds="unsigned"'
FORM = "tiny/part.xml:13: elementary domain 'octet' does not say its wire form"
TEXT = 'lfwidth="4" datatype="string"'

FORM_FAILURES = {
    "no-category": (('f:category="fixed" f:width="1"', 'f:width="1"'), f"{FORM}: f:category is missing"),
    "no-width": ((OCTET, OCTET.replace(' f:width="1"', "")), f"{FORM}: f:width is missing"),
    "no-content": ((OCTET, OCTET.replace(' f:holds="unsigned"', "")), f"{FORM}: f:holds is missing"),
    "unknown-category": (
        (OCTET, OCTET.replace("fixed", "fixd")),
        "tiny/part.xml:13: encoding category 'fixd' is not known; did you mean 'fixed'?",
    ),
    "unknown-content": (
        (OCTET, OCTET.replace("unsigned", "unsigend")),
        "tiny/part.xml:13: holds 'unsigend' is not known; did you mean 'unsigned'?",
    ),
    "width-that-is-no-number": (
        (OCTET, OCTET.replace("1", "one")),
        "tiny/part.xml:13: width 'one' is not a whole number",
    ),
    "width-for-the-content": (
        (OCTET, OCTET.replace("1", "3")),
        "tiny/part.xml:13: the form of 'octet': unsigned in 3 octets; it can be 1, 2, 4, 8",
    ),
    "width-of-a-size": (
        (
            'f:category="variable" f:width="4" f:holds="map"',
            'f:category="variable" f:width="8" f:holds="map"',
        ),
        "tiny/part.xml:18: the form of 'table': map in 8 octets; it can be 1, 2, 4",
    ),
    "width-of-a-bit": (
        ('f:width="0" f:holds="boolean"', 'f:width="1" f:holds="boolean"'),
        "tiny/part.xml:12: the form of 'bit': boolean in 1 octets; it can be 0",
    ),
    "category-for-the-content": (
        (OCTET, OCTET.replace("fixed", "variable")),
        "tiny/part.xml:13: the form of 'octet': unsigned is variable; it can be fixed",
    ),
    "text-of-a-fixed-width": (
        (TEXT, TEXT.replace("lfwidth", "width")),
        "tiny/part.xml:9: the form of 'table-text': text is fixed; it can be variable",
    ),
    "charset-missing": (
        (' f:charset="utf-8"/>\n  <domain name="longstr"', '/>\n  <domain name="longstr"'),
        "tiny/part.xml:16: the form of 'shortstr' needs a charset",
    ),
    "charset-without-text": (
        (OCTET, f'{OCTET} f:charset="utf-8"'),
        "tiny/part.xml:13: the form of 'octet' has a charset, but holds no text",
    ),
    "charset-unknown": (
        ('f:charset="utf-8" f:enum', 'f:charset="utf8" f:enum'),
        "tiny/part.xml:9: charset 'utf8' is not known; did you mean 'utf-8'?",
    ),
    "form-of-an-alias": (
        ('name="path" type="shortstr"', 'name="path" type="shortstr" f:width="1"'),
        "tiny/part.xml:24: domain 'path' has f:width, which only an elementary domain can have",
    ),
    "two-widths": (
        (TEXT, f'width="4" {TEXT}'),
        "tiny/part.xml:9: field table type 'table-text' needs either 'width' or 'lfwidth'",
    ),
    "no-width-at-all": (
        (TEXT, 'datatype="string"'),
        "tiny/part.xml:9: field table type 'table-text' needs either 'width' or 'lfwidth'",
    ),
    "no-datatype": ((TEXT, 'lfwidth="4"'), "tiny/part.xml:9: field table type 'table-text' has no datatype"),
    "unknown-datatype": (
        (TEXT, TEXT.replace("string", "strng")),
        "tiny/part.xml:9: field table type 'table-text' has the unknown datatype 'strng'; "
        "did you mean 'string'?",
    ),
    "special-of-what": (
        (' f:holds="timestamp-s" f:enum', " f:enum"),
        "tiny/part.xml:7: field table type 'table-when' is special, and needs f:holds to say what it is",
    ),
    "content-said-twice": (
        (TEXT, f'{TEXT} f:holds="text"'),
        "tiny/part.xml:9: field table type 'table-text' has f:holds, which only a special one can have",
    ),
    "code-of-a-table-type": (
        ('value="0x49"', 'value="73"'),
        "tiny/part.xml:11: encoding code '73' is not of the form 0xHH",
    ),
    "code-of-two-table-types": (
        ('value="0x49"', 'value="0x54"'),
        "tiny/part.xml:11: duplicate encoding code 0x54; first at tiny/part.xml:7",
    ),
    "form-of-a-constant": (
        ('name="frame-end" value="206"', 'name="frame-end" value="206" width="1"'),
        "tiny/part.xml:4: constant 'frame-end' has width, which only a field-table-type can have",
    ),
    "form-of-an-error": (
        ('class="soft-error"', 'class="soft-error" f:charset="utf-8"'),
        "tiny/part.xml:5: constant 'no-route' has f:charset, which only a field-table-type can have",
    ),
}


@pytest.mark.parametrize(("change", "expected"), FORM_FAILURES.values(), ids=FORM_FAILURES)
def test_a_form_of_which_no_codec_could_be_made(
    tmp_path: Path, change: tuple[str, str], expected: str
) -> None:
    assert change[0] in CLASS_METHOD
    assert problems_of(tmp_path, part=CLASS_METHOD.replace(*change, 1)) == [expected]


def test_everything_that_a_form_lacks_is_said(tmp_path: Path) -> None:
    assert problems_of(tmp_path, part=CLASS_METHOD.replace(OCTET, "")) == [
        f"{FORM}: f:category is missing",
        f"{FORM}: f:holds is missing",
        f"{FORM}: f:width is missing",
    ]


def test_a_second_protocol_header(tmp_path: Path) -> None:
    root = CLASS_METHOD[: CLASS_METHOD.index("  <constant")].replace(
        '"tiny" major="0" minor="9" port="5672"', '"other"'
    )
    assert problems_of(tmp_path, a=f"{root}</amqp>", b=CLASS_METHOD) == [
        "tiny/b.xml:1: a second f:protocol-header; tiny/a.xml:1 gives one"
    ]


def test_an_enumeration_in_two_files(tmp_path: Path) -> None:
    root = CLASS_METHOD[: CLASS_METHOD.index('name="tiny"')]
    other = f'{root} name="other"><constant name="frame-trace" value="7" f:enum="frame-type"/></amqp>'
    assert problems_of(tmp_path, a=other, b=CLASS_METHOD) == [
        "tiny/b.xml:3: enumeration 'frame-type' becomes the identifier FrameType, as 'frame-type' at "
        "tiny/a.xml:2"
    ]


def test_what_a_file_that_cannot_be_read_defines_is_not_missing(tmp_path: Path) -> None:
    text = CLASS_METHOD.replace('on-failure="frame-error"', 'on-failure="shut"')
    assert problems_of(tmp_path, part=text) == [
        "tiny/part.xml:50: rule 'bound': on-failure names the unknown constant 'shut'"
    ]
    broken = problems_of(tmp_path, part=text, other="<amqp")
    assert {line.split(":")[0] for line in broken} == {"tiny/other.xml"}


CONTROL_COMMAND_FAILURES = {
    "multiplicity": (
        ('multiplicity="multiple"', 'multiplicity="multipel"'),
        "tiny/part.xml:28: multiplicity 'multipel' of field 'tags' is not known; did you mean 'multiple'?",
    ),
    "choice": (
        ('default="destructive"', 'default="destructiv"'),
        "tiny/part.xml:26: default 'destructiv' of field 'mode' is not a choice of 'mode'; "
        "did you mean 'destructive'?",
    ),
    "range": (
        ('value="2"/>', 'value="256"/>'),
        "tiny/part.xml:14: value '256' of choice 'non-destructive' is not a legal uint8: outside 0 to 255",
    ),
    "type": (
        ('type="header"', 'type="heder"'),
        "tiny/part.xml:27: field 'header' has the unknown type 'heder'; did you mean 'header'?",
    ),
    "element": (
        ('<control name="ping" code="0x0301" pack="2"/>', '<contrl name="ping" code="0x0301" pack="2"/>'),
        "tiny/part.xml:23: element <contrl> is not known inside <class>; did you mean 'control'?",
    ),
    "code": (
        ('name="transfer" code="0x0302"', 'name="transfer" code="769"'),
        "tiny/part.xml:24: duplicate code 769; first at tiny/part.xml:23",
    ),
    "no-content": (
        ('width="1" holds="unsigned"', 'width="1"'),
        "tiny/part.xml:9: attribute 'holds' is missing on <type>",
    ),
    "width-for-the-content": (
        ('category="fixed" width="1" holds="unsigned"', 'category="fixed" width="3" holds="unsigned"'),
        "tiny/part.xml:9: the form of 'uint8': unsigned in 3 octets; it can be 1, 2, 4, 8",
    ),
    "charset": (
        (' charset="utf-8"', ""),
        "tiny/part.xml:8: the form of 'str16' needs a charset",
    ),
    "type-code": (
        ('code="0x22"', 'code="0x02"'),
        "tiny/part.xml:10: duplicate encoding code 0x02; first at tiny/part.xml:9",
    ),
    "range-reversed": (
        ('from="0x20" to="0x2f"', 'from="0x2f" to="0x20"'),
        "tiny/part.xml:5: 0x2f to 0x20 is not a range of type codes",
    ),
    "range-of-more-than-codes": (
        ('from="0x90" to="0x9f"', 'from="0x90" to="0x100"'),
        "tiny/part.xml:6: 0x90 to 0x100 is not a range of type codes",
    ),
    "range-of-an-unknown-category": (
        ('category="variable" width="2"/>', 'category="varable" width="2"/>'),
        "tiny/part.xml:6: category 'varable' is not known; did you mean 'variable'?",
    ),
    "range-inside-another": (
        ('from="0x20" to="0x2f"', 'from="0x20" to="0x93"'),
        "tiny/part.xml:6: the range from 0x90 overlaps that of tiny/part.xml:5",
    ),
    "code-outside-all-ranges": (
        ('code="0x22"', 'code="0x30"'),
        "tiny/part.xml:10: code 0x30 of 'uint32' lies in no range",
    ),
    "code-in-another-range": (
        ('code="0x22"', 'code="0x92"'),
        "tiny/part.xml:10: code 0x92 of 'uint32' means variable of width 2, not fixed of width 4",
    ),
    "error-of-an-exception": (
        ('error="destructive"', 'error="destructiv"'),
        "tiny/part.xml:29: exception 'taken': error 'destructiv' is not known; did you mean 'destructive'?",
    ),
    "exception-without-a-name": (
        ('<exception name="taken"', "<exception"),
        "tiny/part.xml:29: attribute 'name' is missing on <exception>",
    ),
    "code-of-a-struct-and-a-command": (
        ('code="0x0302"', 'code="0x0401"'),
        "tiny/part.xml:24: duplicate code 0x0401; first at tiny/part.xml:16",
    ),
    "code-of-a-command": (
        ('code="0x0302"', 'code="0x10302"'),
        "tiny/part.xml:24: command code 0x10302 is outside 0 to 65535",
    ),
    "more-fields-than-flags": (
        (
            '<field name="handle"',
            "".join(f'<field name="more{i}" type="bit" multiplicity="optional"/>' for i in range(13))
            + '<field name="handle"',
        ),
        "tiny/part.xml:24: 'transfer' has 17 fields; its packing flags have room for 16",
    ),
    "record-named-like-a-command": (
        ('<record name="xid">', '<record name="link-transfer">'),
        "tiny/part.xml:24: method 'link.transfer' becomes the identifier LinkTransfer, as "
        "'link-transfer' at tiny/part.xml:19",
    ),
    "width": (
        ('code="0x0401" size="4"', 'code="0x0401" size="many"'),
        "tiny/part.xml:16: size 'many' is not a whole number",
    ),
}


@pytest.mark.parametrize(
    ("change", "expected"), CONTROL_COMMAND_FAILURES.values(), ids=CONTROL_COMMAND_FAILURES
)
def test_a_failure_of_the_control_command_grammar(
    tmp_path: Path, change: tuple[str, str], expected: str
) -> None:
    assert CONTROL_COMMAND.count(change[0]) == 1
    assert problems_of(tmp_path, part=CONTROL_COMMAND.replace(*change)) == [expected]


def test_an_exception_with_a_choice_of_two_types(tmp_path: Path) -> None:
    """The number of an exception would be that of the one or the other by chance."""
    other = '<domain name="other" type="uint8"><choice name="destructive" value="9"/></domain>'
    assert problems_of(tmp_path, part=CONTROL_COMMAND.replace("</domain>", f"</domain>{other}")) == [
        "tiny/part.xml:29: exception 'taken': error 'destructive' is a choice of 'mode' and of 'other'"
    ]

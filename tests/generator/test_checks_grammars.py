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
        "tiny/part.xml:30: field 'queue' has the unknown type 'queue-nam'; did you mean 'queue-name'?",
    ),
    "domain-and-type": (
        ('name="no-ack" domain="bit"', 'name="no-ack" type="bit" domain="bit"'),
        "tiny/part.xml:32: field 'no-ack' needs either the attribute 'domain' or 'type'",
    ),
    "domain-of-nothing": (
        ('<domain name="table" type="table"/>', '<domain name="table"/>'),
        "tiny/part.xml:10: domain 'table' needs either the attribute 'type' or a <struct>",
    ),
    "default-out-of-range": (
        ('default="10"', 'default="65536"'),
        "tiny/part.xml:33: default '65536' of field 'prefetch' is not a legal short: outside 0 to 65535",
    ),
    "default-too-long": (
        ('name="queue" domain="queue-name"', f'name="queue" domain="shortstr" default="{"é" * 128}"'),
        f"tiny/part.xml:30: default {'é' * 128!r} of field 'queue' is not a legal shortstr: "
        "256 octets long, 255 are allowed",
    ),
    "default-that-is-no-bit": (
        ('domain="bit" default="1"', 'domain="bit" default="2"'),
        "tiny/part.xml:32: default '2' of field 'no-ack' is not a legal bit: neither '0' nor '1'",
    ),
    "unknown-check": (
        ('check="notnull"', 'check="notnul"'),
        "tiny/part.xml:30: check 'notnul' is not known; did you mean 'notnull'?",
    ),
    "check-without-value": (
        ('<assert check="length" value="127"/>', '<assert check="length"/>'),
        "tiny/part.xml:12: check 'length' needs a value",
    ),
    "check-with-value": (
        ('check="notnull"', 'check="notnull" value="1"'),
        "tiny/part.xml:30: check 'notnull' takes no value",
    ),
    "check-of-a-length": (
        ('value="127"', 'value="long"'),
        "tiny/part.xml:12: check 'length': value 'long' is not a whole number",
    ),
    "check-of-a-pattern": (
        ('value="[a-z.]*"', 'value="[a-z"'),
        "tiny/part.xml:13: regular expression '[a-z' is not legal: unterminated character set",
    ),
    "unknown-response": (
        ('<response name="consume-ok"/>', '<response name="consume-k"/>'),
        "tiny/part.xml:27: method 'consume': response 'consume-k' is not known; did you mean 'consume-ok'?",
    ),
    "unknown-chassis": (
        ('<chassis name="client" implement="MUST"/>', '<chassis name="cleint" implement="MUST"/>'),
        "tiny/part.xml:35: method 'consume-ok': chassis 'cleint' is not known; did you mean 'client'?",
    ),
    "unknown-error-class": (
        ('class="hard-error"', 'class="hard-eror"'),
        "tiny/part.xml:4: error class 'hard-eror' is not known; did you mean 'hard-error'?",
    ),
    "duplicate-method": (
        ('name="query" index="50"', 'name="publish" index="50"'),
        "tiny/part.xml:43: duplicate method 'publish'; first at tiny/part.xml:38",
    ),
    "duplicate-method-code": (
        ('name="query" index="50"', 'name="query" index="0x28"'),
        "tiny/part.xml:43: duplicate method code 0x28; first at tiny/part.xml:38",
    ),
    "duplicate-class": (
        ("</class>\n", '</class>\n  <class name="basic" index="70"/>\n'),
        "tiny/part.xml:48: duplicate class 'basic'; first at tiny/part.xml:21",
    ),
    "colliding-methods": (
        ('name="query" index="50"', 'name="consume_ok" index="50"'),
        "tiny/part.xml:43: method 'consume_ok' becomes the identifier ConsumeOk, as "
        "'consume-ok' at tiny/part.xml:35",
    ),
    "colliding-properties": (
        ('name="headers" domain', 'name="content.type" domain'),
        "tiny/part.xml:25: field 'content.type' becomes the identifier content_type, "
        "as 'content-type' at tiny/part.xml:24",
    ),
    "width": (
        ('size="short" pack="short"', 'size="short" pack="3"'),
        "tiny/part.xml:15: pack '3' is not a width of 1, 2 or 4 octets",
    ),
    "method-code": (
        ('index="50"', 'index="fifty"'),
        "tiny/part.xml:43: method 'query': code 'fifty' is not a whole number",
    ),
    "result-without-struct": (
        (
            '<result><struct size="long" type="0x1f"><field name="depth" domain="long"/></struct></result>',
            "<result/>",
        ),
        "tiny/part.xml:45: a <result> needs a <struct>",
    ),
}


@pytest.mark.parametrize(("change", "expected"), CLASS_METHOD_FAILURES.values(), ids=CLASS_METHOD_FAILURES)
def test_a_failure_of_the_class_method_grammar(
    tmp_path: Path, change: tuple[str, str], expected: str
) -> None:
    assert change[0] in CLASS_METHOD
    assert problems_of(tmp_path, part=CLASS_METHOD.replace(*change, 1 if "class>" in change[0] else -1)) == [
        expected
    ]


CONTROL_COMMAND_FAILURES = {
    "multiplicity": (
        ('multiplicity="multiple"', 'multiplicity="multipel"'),
        "tiny/part.xml:23: multiplicity 'multipel' of field 'tags' is not known; did you mean 'multiple'?",
    ),
    "choice": (
        ('default="destructive"', 'default="destructiv"'),
        "tiny/part.xml:21: default 'destructiv' of field 'mode' is not a choice of 'mode'; "
        "did you mean 'destructive'?",
    ),
    "range": (
        ('value="2"/>', 'value="256"/>'),
        "tiny/part.xml:9: value '256' of choice 'non-destructive' is not a legal uint8: outside 0 to 255",
    ),
    "type": (
        ('type="header"', 'type="heder"'),
        "tiny/part.xml:22: field 'header' has the unknown type 'heder'; did you mean 'header'?",
    ),
    "element": (
        ('<control name="ping" code="0x0301" pack="2"/>', '<contrl name="ping" code="0x0301" pack="2"/>'),
        "tiny/part.xml:18: element <contrl> is not known inside <class>; did you mean 'control'?",
    ),
    "code": (
        ('name="transfer" code="0x0302"', 'name="transfer" code="769"'),
        "tiny/part.xml:19: duplicate method code 769; first at tiny/part.xml:18",
    ),
    "width": (
        ('code="0x0401" size="4"', 'code="0x0401" size="many"'),
        "tiny/part.xml:11: size 'many' is not a whole number",
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

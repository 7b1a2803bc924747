"""What is wrong with a definition is said once, by file and line, in words that help."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amqpforge_generator.document import Location
from amqpforge_generator.errors import Problem, Problems, SpecErrors, suggestion
from amqpforge_generator.load import load_dialect, load_dialects
from tests.generator.inline import (
    AMQP,
    CLASS_METHOD,
    CONTROL_COMMAND,
    PRIMITIVES,
    load,
    problems,
    problems_of,
    section,
)

#: Lines 3 and 4 of a file: a composite type to hang fields into; ``END`` closes it.
TYPE = (
    '<type name="t" class="composite" source="list">',
    '<descriptor name="d" code="0x00000000:0x00000001"/>',
)
END = "</type>"
MODE = (
    '<type name="mode" class="restricted" source="ubyte">',
    '<choice name="first" value="0"/><choice name="mixed" value="2"/>',
    "</type>",
)

FORM = {
    "unknown-element": (
        [*TYPE, '<feild name="a" type="uint"/>', END],
        ["part.xml:5: element <feild> is not known inside <type>; did you mean 'field'?"],
    ),
    "unknown-element-of-another-namespace": (
        ['<x:type xmlns:x="urn:x" name="a"/>'],
        ["part.xml:3: element <{urn:x}type> is not known inside <section>"],
    ),
    "unknown-attribute": (
        [*TYPE, '<field name="a" type="uint" manditory="true"/>', END],
        ["part.xml:5: attribute 'manditory' is not known on <field>; did you mean 'mandatory'?"],
    ),
    "unknown-extension-attribute": (
        ['<type name="t" class="restricted" source="binary" f:maxlength="3"/>'],
        ["part.xml:3: attribute 'f:maxlength' is not known on <type>; did you mean 'f:max-length'?"],
    ),
    "missing-attribute": (
        [*TYPE, '<field type="uint"/>', END],
        ["part.xml:5: attribute 'name' is missing on <field>"],
    ),
    "empty-attribute": (
        ['<type name="" class="restricted" source="uint"/>'],
        ["part.xml:3: attribute 'name' is empty on <type>"],
    ),
    "unknown-class": (
        ['<type name="t" class="restrictd" source="uint"/>'],
        ["part.xml:3: class 'restrictd' of type 't' is not known; did you mean 'restricted'?"],
    ),
    "child-of-another-class": (
        ['<type name="t" class="restricted" source="uint">', '<field name="a" type="uint"/>', END],
        ["part.xml:4: type 't' is restricted, which cannot have <field>"],
    ),
    "attribute-of-another-class": (
        [
            '<type name="t" class="primitive" source="uint">',
            '<encoding code="0x60" category="fixed" width="2"/></type>',
        ],
        ["part.xml:3: type 't' is primitive, which cannot have the attribute 'source'"],
    ),
    "primitive-without-encoding": (
        ['<type name="t" class="primitive"/>'],
        ["part.xml:3: primitive type 't' has no <encoding>"],
    ),
    "second-descriptor": (
        [*TYPE, '<descriptor name="e" code="0x00000000:0x00000002"/>', END],
        ["part.xml:5: a second <descriptor> inside <type>; there can be one"],
    ),
    "neither-true-nor-false": (
        [*TYPE, '<field name="a" type="uint" mandatory="yes"/>', END],
        ["part.xml:5: mandatory of field 'a' is 'yes', neither 'true' nor 'false'"],
    ),
    "text-where-none-belongs": (
        [*TYPE, "stray words", END, "and " * 20],
        [
            "part.xml:3: text 'and and and and and and and and and and ...' is not known inside <section>; "
            "prose belongs in a <doc>",
            "part.xml:4: text 'stray words' is not known inside <type>; prose belongs in a <doc>",
        ],
    ),
    "illegal-name": (
        ['<definition name="A;B" value="1"/>'],
        [
            "part.xml:3: definition name 'A;B' is not legal: a name is made of letters and digits, "
            "with '-', '_', '.' or spaces between them"
        ],
    ),
}

REFERENCES = {
    "unknown-source": (
        ['<type name="t" class="restricted" source="unit"/>'],
        ["part.xml:3: type 't' has the unknown type 'unit'; did you mean 'uint'?"],
    ),
    "unknown-field-type": (
        [*TYPE, '<field name="a" type="strnig"/>', END],
        ["part.xml:5: field 'a' has the unknown type 'strnig'; did you mean 'string'?"],
    ),
    "no-source": (
        ['<type name="t" class="restricted"/>'],
        ["part.xml:3: type 't' is restricted and names no source type"],
    ),
    "composite-of-a-map": (
        [
            '<type name="t" class="composite" source="map">',
            '<descriptor name="d" code="0x00000000:0x00000001"/></type>',
        ],
        ["part.xml:3: type 't' is composite, and its source can only be 'list', not 'map'"],
    ),
    "alias-cycle": (
        [
            '<type name="a" class="restricted" source="b"/>',
            '<type name="b" class="restricted" source="c"/>',
            '<type name="c" class="restricted" source="a"/>',
            '<type name="d" class="restricted" source="b"/>',
        ],
        ["part.xml:3: alias cycle: a -> b -> c -> a"],
    ),
    "alias-of-itself": (
        ['<type name="a" class="restricted" source="a"/>'],
        ["part.xml:3: alias cycle: a -> a"],
    ),
    "unknown-archetype": (
        [
            *TYPE,
            '<field name="a" type="*" requires="adress"/>',
            END,
            PROVIDER := (
                '<type name="address-string" class="restricted" source="string" provides="address"/>'
            ),
        ],
        ["part.xml:5: field 'a' requires the unknown archetype 'adress'; did you mean 'address'?"],
    ),
    "archetype-provided-by-a-slip-of-the-pen": (
        [
            '<type name="a" class="restricted" source="uint" provides="frame"/>',
            '<type name="b" class="restricted" source="uint" provides="frame"/>',
            '<type name="c" class="restricted" source="uint" provides="fram"/>',
            '<type name="d" class="restricted" source="uint" provides="sasl-frame"/>',
        ],
        ["part.xml:5: type 'c' provides 'fram', which nothing requires; did you mean 'frame'?"],
    ),
    "archetype-provided-by-nobody": (
        [
            '<f:archetype name="global-tx-id"/>',
            *TYPE,
            '<field name="a" type="*" requires="global-tx-id"/>',
            END,
        ],
        [
            "part.xml:6: field 'a' requires the unknown archetype 'global-tx-id'; "
            "declare it open where nothing here provides it"
        ],
    ),
    "unknown-reference": (
        [PROVIDER, *TYPE, '<field name="a" type="symbol" f:references="adress"/>', END],
        ["part.xml:6: field 'a' references the unknown archetype 'adress'; did you mean 'address'?"],
    ),
    "reference-that-is-no-symbol": (
        [PROVIDER, *TYPE, '<field name="a" type="string" f:references="address"/>', END],
        ["part.xml:6: field 'a' has f:references, which only a symbol can have, not a string"],
    ),
    "reference-of-any-type": (
        [PROVIDER, *TYPE, '<field name="a" type="*" f:references="address"/>', END],
        ["part.xml:6: field 'a' has f:references, which only a symbol can have"],
    ),
    "provided-twice": (
        ['<type name="a" class="restricted" source="string" provides="x, x"/>'],
        ["part.xml:3: type 'a' provides 'x' twice"],
    ),
}

DUPLICATES = {
    "type": (
        [
            '<type name="a" class="restricted" source="uint"/>',
            '<type name="a" class="restricted" source="ubyte"/>',
        ],
        ["part.xml:4: duplicate type 'a'; first at tiny/part.xml:3"],
    ),
    "type-of-another-file": (
        ['<type name="uint" class="restricted" source="ubyte"/>'],
        ["types.xml:5: duplicate type 'uint'; first at tiny/part.xml:3"],
    ),
    "descriptor-code": (
        [
            *TYPE,
            END,
            '<type name="u" class="composite" source="list">',
            DESCRIPTOR := ('<descriptor name="e" code="0x00000000:0x00000001"/>'),
            END,
        ],
        ["part.xml:7: duplicate descriptor code 0x00000000:0x00000001; first at tiny/part.xml:4"],
    ),
    "descriptor-symbol": (
        [
            *TYPE,
            END,
            '<type name="u" class="composite" source="list">',
            '<descriptor name="d" code="0x00000000:0x00000002"/>',
            END,
        ],
        ["part.xml:7: duplicate descriptor symbol 'd'; first at tiny/part.xml:4"],
    ),
    "field": (
        [*TYPE, '<field name="a" type="uint"/>', '<field name="a" type="ubyte"/>', END],
        ["part.xml:6: duplicate field 'a'; first at tiny/part.xml:5"],
    ),
    "entry": (
        [
            '<type name="t" class="restricted" source="map">',
            '<f:entry key="a" type="uint"/>',
            '<f:entry key="a" type="uint"/>',
            END,
        ],
        ["part.xml:5: duplicate entry 'a'; first at tiny/part.xml:4"],
    ),
    "choice-name": (
        [
            '<type name="t" class="restricted" source="uint">',
            '<choice name="a" value="0"/>',
            '<choice name="a" value="1"/>',
            END,
        ],
        ["part.xml:5: duplicate choice 'a'; first at tiny/part.xml:4"],
    ),
    "choice-value": (
        [
            '<type name="t" class="restricted" source="uint">',
            '<choice name="a" value="1"/>',
            '<choice name="b" value="0x01"/>',
            END,
        ],
        ["part.xml:5: choice 'b' has the value 1, as 'a' at tiny/part.xml:4"],
    ),
    "definition": (
        ['<definition name="PORT" value="1"/>', '<definition name="PORT" value="2"/>'],
        ["part.xml:4: duplicate definition 'PORT'; first at tiny/part.xml:3"],
    ),
    "encoding-code": (
        [
            '<type name="t" class="primitive">',
            '<encoding name="a" code="0xA0" category="variable" width="1"/></type>',
        ],
        ["types.xml:15: duplicate encoding code 0xa0; first at tiny/part.xml:4"],
    ),
    "encoding-name": (
        [
            '<type name="t" class="primitive">',
            '<encoding code="0x60" category="fixed" width="2"/>',
            '<encoding name="t" code="0x61" category="fixed" width="2"/>',
            END,
        ],
        ["part.xml:5: duplicate encoding 't'; first at tiny/part.xml:4"],
    ),
    "archetype": (
        ['<f:archetype name="a" open="true"/>', '<f:archetype name="a"/>'],
        ["part.xml:4: duplicate archetype 'a'; first at tiny/part.xml:3"],
    ),
}

VALUES = {
    "default-of-the-wrong-type": (
        [*TYPE, '<field name="a" type="uint" default="many"/>', END],
        ["part.xml:5: default 'many' of field 'a' is not a legal uint: not a whole number"],
    ),
    "default-out-of-range": (
        [
            *TYPE,
            '<field name="a" type="ubyte" default="256"/>',
            '<field name="b" type="uint" default="-1"/>',
            END,
        ],
        [
            "part.xml:5: default '256' of field 'a' is not a legal ubyte: outside 0 to 255",
            "part.xml:6: default '-1' of field 'b' is not a legal uint: outside 0 to 4294967295",
        ],
    ),
    "default-out-of-range-through-aliases": (
        [
            '<type name="small" class="restricted" source="smaller"/>',
            '<type name="smaller" class="restricted" source="ubyte"/>',
            *TYPE,
            '<field name="a" type="small" default="256"/>',
            END,
        ],
        ["part.xml:7: default '256' of field 'a' is not a legal ubyte: outside 0 to 255"],
    ),
    "default-that-is-no-boolean": (
        [*TYPE, '<field name="a" type="boolean" default="True"/>', END],
        ["part.xml:5: default 'True' of field 'a' is not a legal boolean: neither 'true' nor 'false'"],
    ),
    "default-that-is-no-choice": (
        [*MODE, *TYPE, '<field name="a" type="mode" default="mixd"/>', END],
        ["part.xml:8: default 'mixd' of field 'a' is not a choice of 'mode'; did you mean 'mixed'?"],
    ),
    "default-that-is-the-value-of-a-choice": (
        [*MODE, *TYPE, '<field name="a" type="mode" default="2"/>', END],
        ["part.xml:8: default '2' of field 'a' is not a choice of 'mode'; did you mean 'mixed'?"],
    ),
    "default-far-from-any-choice": (
        [*MODE, *TYPE, '<field name="a" type="mode" default="zzz"/>', END],
        [
            "part.xml:8: default 'zzz' of field 'a' is not a choice of 'mode'; "
            "the choices are 'first', 'mixed'"
        ],
    ),
    "default-of-a-mandatory-field": (
        [*TYPE, '<field name="a" type="uint" mandatory="true" default="1"/>', END],
        ["part.xml:5: field 'a' is mandatory, so its default '1' can never apply"],
    ),
    "default-of-a-field-of-many": (
        [*TYPE, '<field name="a" type="uint" multiple="true" default="1"/>', END],
        ["part.xml:5: field 'a' takes several values, so it cannot have the default '1'"],
    ),
    "default-of-any-type": (
        [*TYPE, '<field name="a" type="*" default="1"/>', END],
        ["part.xml:5: field 'a' takes any type, so it cannot have the default '1'"],
    ),
    "default-of-a-map": (
        [*TYPE, '<field name="a" type="map" default="1"/>', END],
        [
            "part.xml:5: default '1' of field 'a' is not a legal map: a value of 'map' "
            "cannot be written in a definition"
        ],
    ),
    "default-too-long": (
        [
            '<type name="tag" class="restricted" source="symbol" f:max-length="3"/>',
            *TYPE,
            '<field name="a" type="tag" default="abcd"/>',
            END,
        ],
        ["part.xml:6: default 'abcd' of field 'a' is not a legal symbol: 4 octets long, 3 are allowed"],
    ),
    "default-of-a-type-that-is-wrong-itself": (
        [
            '<type name="a" class="restricted" source="unit"><choice name="x" value="y"/></type>',
            *TYPE,
            '<field name="a" type="a" default="1"/>',
            '<field name="b" type="unit" default="1"/>',
            END,
        ],
        [
            "part.xml:3: type 'a' has the unknown type 'unit'; did you mean 'uint'?",
            "part.xml:7: field 'b' has the unknown type 'unit'; did you mean 'uint'?",
        ],
    ),
    "default-beyond-ascii": (
        [*TYPE, '<field name="a" type="symbol" default="&#233;"/>', END],
        ["part.xml:5: default 'é' of field 'a' is not a legal symbol: not ASCII"],
    ),
    "default-of-two-characters": (
        [*TYPE, '<field name="a" type="char" default="ab"/>', END],
        ["part.xml:5: default 'ab' of field 'a' is not a legal char: not a single character"],
    ),
    "default-that-is-no-uuid": (
        [*TYPE, '<field name="a" type="uuid" default="1234"/>', END],
        ["part.xml:5: default '1234' of field 'a' is not a legal uuid: not a UUID"],
    ),
    "default-that-is-not-finite": (
        [
            *TYPE,
            '<field name="a" type="double" default="nan"/>',
            '<field name="b" type="double" default="x"/>',
            END,
        ],
        [
            "part.xml:5: default 'nan' of field 'a' is not a legal double: not a finite number",
            "part.xml:6: default 'x' of field 'b' is not a legal double: not a number",
        ],
    ),
    "illegal-choice": (
        ['<type name="t" class="restricted" source="ubyte">', '<choice name="a" value="300"/>', END],
        ["part.xml:4: value '300' of choice 'a' is not a legal ubyte: outside 0 to 255"],
    ),
    "choice-of-any-type": (
        ['<type name="t" class="restricted" source="*">', '<choice name="a" value="300"/>', END],
        [
            "part.xml:4: value '300' of choice 'a' is not a legal *: a value of '*' cannot "
            "be written in a definition"
        ],
    ),
    "descriptor-code": (
        [TYPE[0], '<descriptor name="d" code="0x10"/>', END],
        ["part.xml:4: descriptor code '0x10' is not of the form 0xHHHHHHHH:0xHHHHHHHH"],
    ),
    "descriptor-symbol": (
        [TYPE[0], '<descriptor name="d&#233;" code="0x00000000:0x00000001"/>', END],
        ["part.xml:4: descriptor symbol 'dé' is not ASCII"],
    ),
    "no-descriptor": (
        ['<type name="t" class="composite" source="list" provides="outcome"/>'],
        ["part.xml:3: composite type 't' has no <descriptor>, and stands for the archetype 'outcome'"],
    ),
    "encoding-code": (
        ['<type name="t" class="primitive">', '<encoding code="60" category="fixed" width="2"/></type>'],
        ["part.xml:4: encoding code '60' is not of the form 0xHH"],
    ),
    "encoding-category": (
        ['<type name="t" class="primitive">', '<encoding code="0x60" category="fixt" width="2"/></type>'],
        ["part.xml:4: encoding category 'fixt' is not known; did you mean 'fixed'?"],
    ),
    "encoding-width": (
        ['<type name="t" class="primitive">', '<encoding code="0x60" category="fixed" width="4"/></type>'],
        ["part.xml:4: encoding code 0x60 means fixed of width 2, not fixed of width 4"],
    ),
    "encoding-out-of-all-ranges": (
        ['<type name="t" class="primitive">', '<encoding code="0x30" category="fixed" width="4"/></type>'],
        ["part.xml:4: encoding code 0x30 is not in the range of any category"],
    ),
    "encoding-width-no-number": (
        ['<type name="t" class="primitive">', '<encoding code="0x60" category="fixed" width="two"/></type>'],
        [
            "part.xml:4: encoding code 0x60 means fixed of width 2, not fixed of width two",
            "part.xml:4: width 'two' is not a whole number",
        ],
    ),
}

MAPS = {
    "keys-of-no-map": (
        ['<type name="t" class="restricted" source="uint" f:keys="symbol"/>'],
        ["part.xml:3: type 't' has f:keys, which only a map can have"],
    ),
    "values-of-no-map": (
        ['<type name="t" class="restricted" source="uint" f:values="simple"/>'],
        ["part.xml:3: type 't' has f:values, which only a map can have"],
    ),
    "entry-of-no-map": (
        ['<type name="t" class="restricted" source="uint"><f:entry key="a" type="uint"/></type>'],
        ["part.xml:3: type 't' has f:entry, which only a map can have"],
    ),
    "unknown-key-type": (
        ['<type name="t" class="restricted" source="map" f:keys="symbol simbol"/>'],
        ["part.xml:3: f:keys of type 't' has the unknown type 'simbol'; did you mean 'symbol'?"],
    ),
    "key-that-is-no-primitive": (
        ['<type name="t" class="restricted" source="map" f:keys="t"/>'],
        ["part.xml:3: f:keys of type 't': 't' is not a primitive type"],
    ),
    "unknown-values": (
        ['<type name="t" class="restricted" source="map" f:values="simpel"/>'],
        ["part.xml:3: f:values 'simpel' is not known; did you mean 'simple'?"],
    ),
    "unknown-part": (
        ['<type name="t" class="restricted" source="map" f:part="haed"/>'],
        ["part.xml:3: part 'haed' is not known; did you mean 'head'?"],
    ),
    "unknown-entry-type": (
        ['<type name="t" class="restricted" source="map"><f:entry key="a" type="unit"/></type>'],
        ["part.xml:3: entry 'a' has the unknown type 'unit'; did you mean 'uint'?"],
    ),
    "unknown-entry-archetype": (
        ['<type name="t" class="restricted" source="map"><f:entry key="a" type="*" requires="x"/></type>'],
        [
            "part.xml:3: entry 'a' requires the unknown archetype 'x'; "
            "declare it open where nothing here provides it"
        ],
    ),
    "length-of-a-number": (
        ['<type name="t" class="restricted" source="uint" f:max-length="3"/>'],
        ["part.xml:3: type 't' has f:max-length, which only binary, string, symbol can have"],
    ),
    "length-of-nothing": (
        ['<type name="t" class="restricted" source="binary" f:max-length="0"/>'],
        ["part.xml:3: f:max-length of type 't' is 0; it must be at least 1"],
    ),
    "length-below-nothing": (
        ['<type name="t" class="restricted" source="binary" f:max-length="-1"/>'],
        ["part.xml:3: f:max-length of type 't' is -1; it must be at least 1"],
    ),
    "length-that-is-no-number": (
        ['<type name="t" class="restricted" source="binary" f:max-length="ten"/>'],
        ["part.xml:3: f:max-length 'ten' is not a whole number"],
    ),
}

IDENTIFIERS = {
    "types": (
        [
            '<type name="a-b" class="restricted" source="uint"/>',
            '<type name="A.B" class="restricted" source="uint"/>',
        ],
        ["part.xml:4: type 'A.B' becomes the identifier AB, as 'a-b' at tiny/part.xml:3"],
    ),
    "definitions": (
        ['<definition name="A-B" value="1"/>', '<definition name="a_b" value="2"/>'],
        ["part.xml:4: definition 'a_b' becomes the identifier A_B, as 'A-B' at tiny/part.xml:3"],
    ),
    "fields": (
        [*TYPE, '<field name="a-b" type="uint"/>', '<field name="a_b" type="uint"/>', END],
        ["part.xml:6: field 'a_b' becomes the identifier a_b, as 'a-b' at tiny/part.xml:5"],
    ),
    "entries": (
        [
            '<type name="t" class="restricted" source="map">',
            '<f:entry key="a-b" type="uint"/>',
            '<f:entry key="A-B" type="uint"/>',
            END,
        ],
        ["part.xml:5: field 'A-B' becomes the identifier a_b, as 'a-b' at tiny/part.xml:4"],
    ),
    "choices": (
        [
            '<type name="t" class="restricted" source="uint">',
            '<choice name="a b" value="0"/>',
            '<choice name="a-b" value="1"/>',
            END,
        ],
        ["part.xml:5: choice 'a-b' becomes the identifier A_B, as 'a b' at tiny/part.xml:4"],
    ),
}

FAILURES = {
    f"{group}-{name}": case
    for group, cases in {
        "form": FORM,
        "reference": REFERENCES,
        "duplicate": DUPLICATES,
        "value": VALUES,
        "map": MAPS,
        "identifier": IDENTIFIERS,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize(("lines", "expected"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_reported_by_file_and_line(
    tmp_path: Path, lines: list[str], expected: list[str]
) -> None:
    assert problems(tmp_path, *lines) == [f"tiny/{message}" for message in expected]


def test_the_schema_speaks_where_nothing_else_does(tmp_path: Path) -> None:
    found = problems(tmp_path, '<definition name="A" value="1" f:ref="two"/>')
    assert found
    assert all(
        re.match(r"tiny/part\.xml:[123]: against the schema amqp-1\.0\.rng: ", message) for message in found
    )
    wrong = problems(
        tmp_path, '<definition name="A" value="1" f:ref="two"/>', '<definition name="A" value="1"/>'
    )
    assert wrong == ["tiny/part.xml:4: duplicate definition 'A'; first at tiny/part.xml:3"]


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


def test_all_problems_of_all_files_come_in_one_run(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        '<type name="a" class="restricted" source="unit"/>',
        *TYPE,
        '<field name="x" type="ubyte" default="256"/>',
        '<field name="x" type="strnig" manditory="true"/>',
        END,
        broken="<amqp>\n<section>\n</amqp>",
        entity='<!DOCTYPE a [<!ENTITY x "y">]>\n<a/>',
        other=section(
            '<definition name="A-B" value="1"/>', '<definition name="A_B" value="1"/>', name="other"
        ),
    )
    assert found == [
        "tiny/broken.xml:3: not well-formed XML: Opening and ending tag mismatch: section line 2 and amqp",
        "tiny/entity.xml:1: entity 'x' is declared; entities are refused, write the text out",
        "tiny/other.xml:4: definition 'A_B' becomes the identifier A_B, as 'A-B' at tiny/other.xml:3",
        "tiny/part.xml:3: type 'a' has the unknown type 'unit'; did you mean 'uint'?",
        "tiny/part.xml:6: default '256' of field 'x' is not a legal ubyte: outside 0 to 255",
        "tiny/part.xml:7: attribute 'manditory' is not known on <field>; did you mean 'mandatory'?",
        "tiny/part.xml:7: duplicate field 'x'; first at tiny/part.xml:6",
        "tiny/part.xml:7: field 'x' has the unknown type 'strnig'; did you mean 'string'?",
    ]


def test_the_line_is_where_the_start_tag_begins(tmp_path: Path) -> None:
    assert problems(tmp_path, *TYPE, "<field", '  name="a"', '  type="unit"', "/>", END) == [
        "tiny/part.xml:5: field 'a' has the unknown type 'unit'; did you mean 'uint'?"
    ]


def test_two_modules_of_one_name(tmp_path: Path) -> None:
    assert problems(tmp_path, other=section(name="part")) == [
        "tiny/part.xml:1: duplicate module 'part'; first at tiny/other.xml:1"
    ]
    assert problems(tmp_path, other=section(name="PART")) == [
        "tiny/part.xml:1: module 'part' becomes the identifier part, as 'PART' at tiny/other.xml:1"
    ]


def test_a_root_of_no_known_grammar(tmp_path: Path) -> None:
    assert problems(tmp_path, other="\n<amqp/>") == [
        "tiny/other.xml:2: root element 'amqp' belongs to no known grammar"
    ]
    near = '<amqp xmlns="http://www.amqp.org/schema/amqp.xs"/>'
    assert problems(tmp_path, other=near) == [
        "tiny/other.xml:1: root element '{http://www.amqp.org/schema/amqp.xs}amqp' "
        "belongs to no known grammar; "
        "did you mean '{http://www.amqp.org/schema/amqp.xsd}amqp'?"
    ]


def test_two_grammars_in_one_dialect(tmp_path: Path) -> None:
    found = problems_of(tmp_path, a=PRIMITIVES, b=CONTROL_COMMAND)
    assert (
        "tiny/b.xml:1: written in the grammar 'control-command', but tiny/a.xml in 'amqp-1.0'; "
        "a dialect has one"
    ) in found


def test_a_folder_without_definitions(tmp_path: Path) -> None:
    for folder in (tmp_path / "empty", tmp_path / "missing"):
        with pytest.raises(SpecErrors) as error:
            load_dialect(folder)
        assert str(error.value) == f"{folder.name}:1: holds no definition files (*.xml)"


def test_a_folder_that_cannot_name_a_dialect(tmp_path: Path) -> None:
    folder = tmp_path / "1.0"
    folder.mkdir()
    (folder / "types.xml").write_text(PRIMITIVES)
    with pytest.raises(SpecErrors) as error:
        load_dialect(folder)
    assert str(error.value) == "1.0:1: the folder name '1.0' cannot name a dialect"


def test_problems_of_several_dialects_come_together(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.xml").write_text(section() if name == "two" else "<a>")
    with pytest.raises(SpecErrors) as error:
        load_dialects([tmp_path / name for name in ("two", "one", "three")])
    assert [str(problem.at) for problem in error.value.problems] == ["one/part.xml:1", "three/part.xml:1"]
    assert [dialect.name for dialect in load_dialects([tmp_path / "two"])] == ["two"]


def test_what_is_legal_is_not_reported(tmp_path: Path) -> None:
    dialect = load(
        tmp_path,
        part=section(
            *MODE,
            *TYPE,
            '<field name="a" type="mode" default="mixed"/>',
            '<field name="b" type="uint" default="4294967295"/>',
            '<field name="c" type="*" requires="later"/>',
            END,
            '<f:archetype name="later" open="true"/>',
        ),
    )
    assert [field.name.xml for field in dialect.modules[1].types[1].fields] == ["a", "b", "c"]


def test_problems_sort_and_count_once() -> None:
    problems = Problems()
    for line, message in ((10, "b"), (9, "a"), (10, "a"), (10, "b")):
        problems.add(Location("a.xml", line), message)
    assert len(problems) == 3
    assert problems.sorted() == (
        Problem(Location("a.xml", 9), "a"),
        Problem(Location("a.xml", 10), "a"),
        Problem(Location("a.xml", 10), "b"),
    )
    with pytest.raises(SpecErrors, match=r"^a\.xml:9: a\na\.xml:10: a\na\.xml:10: b$"):
        problems.raise_if_any()
    Problems().raise_if_any()


def test_a_suggestion_needs_a_near_word() -> None:
    assert suggestion("unit", {"uint", "ulong"}) == "; did you mean 'uint'?"
    assert suggestion("zzz", {"uint", "ulong"}) == ""


def test_the_namespace_prefix_does_not_matter(tmp_path: Path) -> None:
    text = section('<x:definition name="PORT" value="1"/>').replace(
        f"<amqp {AMQP}", f'<amqp {AMQP} xmlns:x="{NS}"'
    )
    assert load(tmp_path, part=text).modules[0].definitions[0].value == 1


NS = "http://www.amqp.org/schema/amqp.xsd"


def test_a_file_that_cannot_be_read_is_not_buried_under_what_it_would_define(tmp_path: Path) -> None:
    lines = [
        '<type name="a" class="restricted" source="unit"/>',
        *TYPE,
        '<field name="x" type="elsewhere"/>',
        END,
    ]
    asking = '<field name="y" type="*" requires="elsewhere-too"/>'
    lines[-1:] = [asking, END]
    typo = "tiny/part.xml:3: type 'a' has the unknown type 'unit'; did you mean 'uint'?"
    assert problems(tmp_path, *lines, broken="<amqp>") == [
        "tiny/broken.xml:1: not well-formed XML: Premature end of data in tag amqp line 1",
        typo,
    ]
    assert problems(tmp_path, *lines, broken=section(name="broken")) == [
        typo,
        "tiny/part.xml:6: field 'x' has the unknown type 'elsewhere'",
        "tiny/part.xml:7: field 'y' requires the unknown archetype 'elsewhere-too'; "
        "declare it open where nothing here provides it",
    ]

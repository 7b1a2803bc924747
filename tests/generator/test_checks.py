"""What is wrong with a definition is said once, by file and line, in words that help."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.generator.inline import (
    END,
    MODE,
    TYPE,
    problems,
)

#: Lines 3 and 4 of a file: a composite type to hang fields into; ``END`` closes it.

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

"""An invented dialect of the class/method grammar: forms, layouts and assertions that the real ones lack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generator.forging import run

DEFINITIONS = """\
<amqp xmlns="https://amqpforge.org/schema/class-method" xmlns:f="https://amqpforge.org/schema/extensions"
      name="domains" major="7" minor="0" port="1" f:protocol-header="00 00 07 00">
  <constant name="frame-method" value="1" f:enum="frame-type"/>
  <constant name="frame-header" value="2" f:enum="frame-type"/>
  <constant name="frame-body" value="3" f:enum="frame-type"/>
  <constant name="frame-heartbeat" value="8" f:enum="frame-type"/>
  <constant name="frame-min-size" value="4096"/>
  <constant name="frame-end" value="206"/>
  <constant name="fine" value="200" f:enum="reply-code"/>
  <constant name="no-route" value="312" class="soft-error" f:enum="reply-code"/>
  <constant name="frame-error" value="501" class="hard-error" f:enum="reply-code"/>
  <constant name="t-truth" value="0x74" class="field-table-type" width="1" datatype="boolean"/>
  <constant name="t-int" value="0x49" class="field-table-type" width="4" datatype="signed-integer"/>
  <constant name="t-other-int" value="0x4a" class="field-table-type" width="4" datatype="signed-integer"/>
  <constant name="t-real" value="0x66" class="field-table-type" width="4" datatype="ieee-float"/>
  <constant name="t-text" value="0x73" class="field-table-type" lfwidth="1" datatype="string"
            f:charset="utf-8"/>
  <constant name="t-more-text" value="0x6d" class="field-table-type" lfwidth="2" datatype="string"
            f:charset="utf-8"/>
  <constant name="t-same-text" value="0x6e" class="field-table-type" lfwidth="2" datatype="string"
            f:charset="utf-8"/>
  <constant name="t-triple" value="0x62" class="field-table-type" width="3" datatype="binary"/>
  <constant name="t-money" value="0x64" class="field-table-type" width="9" datatype="decimal"/>
  <constant name="t-table" value="0x46" class="field-table-type" lfwidth="2" datatype="field-table"/>
  <constant name="t-sequence" value="0x71" class="field-table-type" lfwidth="1" datatype="sequence"/>
  <constant name="t-array" value="0x61" class="field-table-type" lfwidth="2" datatype="array"/>
  <domain name="bit" type="bit" f:category="bit" f:width="0" f:holds="boolean"/>
  <domain name="octet" type="octet" f:category="fixed" f:width="1" f:holds="unsigned"/>
  <domain name="short" type="short" f:category="fixed" f:width="2" f:holds="unsigned"/>
  <domain name="shortstr" type="shortstr" f:category="variable" f:width="1" f:holds="text" f:charset="utf-8"/>
  <domain name="blob" type="blob" f:category="variable" f:width="2" f:holds="binary"/>
  <domain name="table" type="table" f:category="variable" f:width="2" f:holds="map"/>
  <domain name="name" type="shortstr">
    <assert check="notnull"/><assert check="length" value="5"/><assert check="regexp" value="[a-z.]*"/>
  </domain>
  <domain name="short-name" type="name"><assert check="length" value="3"/></domain>
  <domain name="path" type="shortstr">
    <assert check="syntax" rule="slashes" f:regexp="(/[^/]+)*"/>
    <assert check="regexp" value="[^x]*"/>
  </domain>
  <domain name="number" type="octet">
    <assert check="notnull"/><assert check="ge" value="2"/><assert check="le" value="9"/>
    <assert check="ne" value="5"/>
  </domain>
  <domain name="key" type="blob">
    <assert check="notnull"/><assert check="regexp" value="[\\x00-\\x7f]+"/>
  </domain>
  <domain name="extras" type="table"><assert check="notnull"/><assert check="length" value="2"/></domain>
  <domain name="checked">
    <struct size="short" pack="octet" type="3">
      <field name="name" domain="short-name"/>
      <field name="path" domain="path"/>
      <field name="number" domain="number"><assert check="le" value="name"/></field>
      <field name="key" domain="key"/>
      <field name="extras" domain="extras"/>
      <field name="own" domain="shortstr"><assert check="regexp" value="[A-Z]+"/></field>
      <field name="encode" domain="bit"><assert check="notnull"/></field>
    </struct>
  </domain>
  <domain name="same" type="checked"/>
  <domain name="bits">
    <struct size="octet">
      <field name="first" domain="bit"/><field name="b2" domain="bit"/><field name="b3" domain="bit"/>
      <field name="b4" domain="bit"/><field name="b5" domain="bit"/><field name="b6" domain="bit"/>
      <field name="b7" domain="bit"/><field name="b8" domain="bit"/><field name="ninth" domain="bit"/>
      <field name="number" domain="short"/>
      <field name="checked" domain="same"/>
      <field name="last" domain="bit"/>
    </struct>
  </domain>
  <class name="c" index="1">
    <method name="m" index="2">
      <chassis name="server" implement="MUST"/>
      <field name="name" domain="name"/>
      <field name="number" domain="number"/>
      <field name="extras" domain="table"/>
    </method>
  </class>
</amqp>
"""

START = """
from amqpforge_protocol.invented import *
from amqpforge_protocol.invented import domains, values
from amqpforge_protocol._support.containers import Array
from amqpforge_protocol._support.wrappers import CodedBytes, CodedInt, CodedStr, Long
from decimal import Decimal


def refused(call, *words):
    try:
        call()
    except (DecodeError, EncodeError) as error:
        for word in words:
            assert word in str(error), (word, str(error))
        return error
    raise AssertionError(words)


def decode(reader, octets):
    value, behind = reader(octets, 0, [1000, 9])
    assert behind == len(octets)
    return value
"""

VALUES = """
for text, value in {
    "49 ffffffff": -1, "4a ffffffff": CodedInt(-1, 0x4A), "66 3fc00000": 1.5, "73 01 61": "a",
    "6d 0001 61": CodedStr("a", 0x6D), "6d 0100" + "61" * 256: "a" * 256,
    "6e 0100" + "61" * 256: CodedStr("a" * 256, 0x6E),
    "62 616263": CodedBytes(b"abc", 0x62), "64 01 000000000000000f": Decimal("1.5"),
    "46 0007 01 6b 49 00000001": {"k": 1}, "71 04 74 01 74 00": [True, False], "71 00": [],
    "61 000d 4a 00000002 00000001 ffffffff": Array([CodedInt(1, 0x4A), CodedInt(-1, 0x4A)], "t-other-int"),
}.items():
    octets = bytes.fromhex(text)
    found, behind = decode_value(octets)
    assert repr(found) == repr(value), (found, value)
    assert encode_value(value) == encode_value(found) == octets[:behind] == octets
for value in (2**31, None, b"octets", "a" * 65536, [True] * 256, {"k": "a" * 65536}, Long(1)):
    refused(lambda: encode_value(value))
refused(lambda: encode_value(["a" * 99] * 99), "t-sequence holds at most 255")
refused(lambda: encode_table({"k": ["a" * 90]} | {str(n): "a" * 250 for n in range(300)}), "at most 65535")
assert encode_value(Array([1, -1], "t-other-int")) == bytes.fromhex("61 000d 4a 00000002 00000001 ffffffff")
assert ReplyCode.NO_ROUTE.is_soft and not ReplyCode.NO_ROUTE.is_hard and ReplyCode.FRAME_ERROR.is_hard
assert not ReplyCode.FINE.is_soft and not ReplyCode.FINE.is_hard
"""

ASSERTIONS = """
good = dict(name="ab", path="/a/b", number=2, key=b"k", extras={"k": 1}, own="A")
octets = Checked(**good).encode()
assert decode(domains.decode_checked, octets) == Checked(**good)
assert Checked(**good).number == 2 and Checked.FIELDS[-1].attribute == "encode_"
for field, wrong, rule in [
    ("name", "", "notnull"), ("name", "abcd", "length 3"), ("name", "abcdef", "length"),
    ("name", "A", "regexp [a-z.]*"), ("name", "a\\n", "regexp [a-z.]*"),
    ("path", "a", "syntax slashes"), ("path", "/a/", "syntax slashes"), ("path", "/x", "regexp [^x]*"),
    ("number", 1, "ge 2"), ("number", 10, "le 9"), ("number", 5, "ne 5"),
    ("key", b"", "notnull"), ("key", b"a\\x80", "regexp"),
    ("extras", {}, "notnull"), ("extras", {"a": 1, "b": 1, "c": 1}, "length 2"),
    ("own", "a", "regexp [A-Z]+"), ("own", "Aa", "regexp [A-Z]+"),
]:
    place = f"checked.{field}"
    error = refused(lambda: Checked(**(good | {field: wrong})).encode(), place, "breaks the rule", rule)
    assert isinstance(error, EncodeError) and (error.type, error.field) == ("checked", field)
    # The same octets without the assertion: put them together by hand.
    index = list(good).index(field)
    encoded = values.FIELD_ENCODERS[Checked.FIELDS[index].primitive](wrong)
    body = bytes((0, 3, 1 << index)) + encoded
    error = refused(lambda: decode(domains.decode_checked, bytes((0, len(body))) + body), place, rule)
    assert isinstance(error, DecodeError) and error.offset == 5 + len(encoded), (error, error.offset)
assert Checked(own="").encode() == bytes.fromhex("0004 0003 20 00")  # empty is null: no pattern holds for it
assert Checked().encode() == bytes.fromhex("0003 0003 00")
assert Checked(encode_=True).encode() == bytes.fromhex("0003 0003 40")

method = CM(name="a", number=2, extras={})
assert decode_method(method.encode()) == method
refused(lambda: CM(name="A", number=2, extras={}).encode(), "c.m.name", "regexp [a-z.]*")
refused(lambda: CM(name="a", number=5, extras={}).encode(), "c.m.number", "ne 5")
refused(lambda: decode_method(bytes.fromhex("0001 0002 01 41 02 0000")), "c.m.name", "regexp")
"""

BITS = """
nine = dict(first=True, b2=False, b3=True, b4=False, b5=False, b6=False, b7=False, b8=True, ninth=True)
bits = Bits(**nine, number=0x1234, checked=Checked(name="a"), last=True)
octets = bytes.fromhex("0c 85 01 1234 0005 0003 01 01 61 01")
assert bits.encode() == octets
assert decode(domains.decode_bits, octets) == bits
least = dict(number=1, checked=Checked(), last=True)
refused(lambda: Bits(**(nine | {"b3": None}), **least).encode(), "bits.b3", "required but None")
refused(lambda: Bits(**nine, number=65536, checked=Checked(), last=True).encode(), "bits.number", "65536")
refused(lambda: Bits(**nine, number=1, checked=None, last=True).encode(), "bits.checked")
for length in range(1, len(octets)):
    error = refused(lambda: decode(domains.decode_bits, octets[:length]))
    assert error.offset <= length
for text, word in (("0d", "its size says 13"), ("0b", "its size says 11")):
    wrong = bytes.fromhex(text) + octets[1:] + b"\\0"
    refused(lambda: domains.decode_bits(wrong, 0, [9, 9]), word)
assert values.FIELD_ENCODERS["bits"] is domains.encode_bits
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder to import the rendered dialect from."""
    root = tmp_path_factory.mktemp("invented")
    write(root, DEFINITIONS)
    result = run("--spec", root / "spec", "--out", root)
    assert (result.code, result.err) == (0, "")
    return root / "generated"


def write(root: Path, definitions: str) -> None:
    (root / "spec" / "invented").mkdir(parents=True)
    (root / "spec" / "invented" / "domains.xml").write_text(definitions, encoding="utf-8")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(VALUES, id="values"),
        pytest.param(ASSERTIONS, id="assertions"),
        pytest.param(BITS, id="bits", marks=pytest.mark.spec("A-FRAME-002")),
    ],
)
def test_what_an_invented_dialect_does(folder: Path, script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START + script],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'value="0x4a" class="field-table-type" width="4" datatype="signed-integer"',
            'value="0x4a" class="field-table-type" width="1" datatype="boolean"',
            "the codes 0x74 and 0x4a mean the same",
        ),
        ('name="key" type="blob"', 'name="value" type="blob"', 'a type cannot be called "value"'),
        (
            '<field name="number" domain="short"/>',
            '<field name="number" domain="rest"/>',
            'field "number" takes all octets that remain',
        ),
    ],
)
def test_what_this_target_cannot_render(tmp_path: Path, old: str, new: str, message: str) -> None:
    rest = '<domain name="rest" type="rest" f:category="rest" f:width="0" f:holds="binary"/>'
    definitions = DEFINITIONS.replace('  <domain name="name"', f'  {rest}\n  <domain name="name"')
    assert old in definitions
    write(tmp_path, definitions.replace(old, new).replace('domain="key"', 'domain="blob"'))
    result = run("--spec", tmp_path / "spec", "--out", tmp_path)
    assert result.code != 0
    assert message in result.err

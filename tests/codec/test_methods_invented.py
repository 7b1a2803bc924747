"""An invented dialect of the class/method grammar: nothing of a published one is built into the templates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generator.forging import run

PROPERTIES = "\n".join(
    f'    <field name="p{number}" domain="{"bit" if number in (2, 16) else "octet"}"/>'
    for number in range(1, 18)
)

DEFINITIONS = f"""\
<amqp xmlns="https://amqpforge.org/schema/class-method" xmlns:f="https://amqpforge.org/schema/extensions"
      name="words" f:protocol-header="07">
  <constant name="frame-method" value="11" f:enum="frame-type"/>
  <constant name="frame-header" value="12" f:enum="frame-type"/>
  <constant name="frame-body" value="13" f:enum="frame-type"/>
  <constant name="frame-heartbeat" value="14" f:enum="frame-type"/>
  <constant name="frame-end" value="0x7f"/>
  <constant name="frame-min-size" value="64"/>
  <constant name="frame-error" value="501" class="hard-error"/>
  <domain name="bit" type="bit" f:category="bit" f:width="0" f:holds="boolean"/>
  <domain name="octet" type="octet" f:category="fixed" f:width="1" f:holds="unsigned"/>
  <domain name="degree" type="degree" f:category="fixed" f:width="2" f:holds="signed"/>
  <domain name="real" type="real" f:category="fixed" f:width="8" f:holds="float"/>
  <domain name="moment" type="moment" f:category="fixed" f:width="8" f:holds="timestamp-s"/>
  <domain name="word" type="word" f:category="variable" f:width="2" f:holds="text" f:charset="iso-8859-15"/>
  <domain name="data" type="data" f:category="variable" f:width="1" f:holds="binary"/>
  <domain name="rest" type="rest" f:category="rest" f:width="0" f:holds="binary"/>
  <domain name="preamble">
    <struct size="octet" pack="octet"><field name="loud" domain="bit"/></struct>
  </domain>
  <class name="class" index="1">
    <chassis name="server" implement="MUST"/>
    <method name="import" index="2" synchronous="1">
      <chassis name="server" implement="MUST"/>
      <response name="return"/>
      <result>
        <struct size="octet"><field name="from" domain="word"/><field name="sure" domain="bit"/></struct>
      </result>
      <field name="b1" domain="bit"/><field name="b2" domain="bit"/><field name="b3" domain="bit"/>
      <field name="b4" domain="bit"/><field name="b5" domain="bit"/><field name="b6" domain="bit"/>
      <field name="b7" domain="bit"/><field name="b8" domain="bit"/>
      <field name="b9" domain="bit" default="1"/>
      <field name="degree" domain="degree" default="-3"/>
      <field name="real" domain="real" default="0.5"/>
      <field name="moment" domain="moment"/>
      <field name="self" domain="word"><assert check="length" value="4"/></field>
      <field name="data" domain="data" default="x"/>
      <field name="bits" domain="bit"/>
    </method>
    <method name="return" index="3">
      <chassis name="client" implement="MUST"/>
      <field name="pos" domain="octet"/>
      <field name="new" domain="rest"/>
    </method>
    <method name="none" index="4" f:header="preamble"><chassis name="client" implement="MUST"/></method>
  </class>
  <class name="bulk" index="2">
{PROPERTIES}
    <method name="send" index="1" content="1"><chassis name="server" implement="MUST"/></method>
  </class>
  <class name="bare" index="3">
    <method name="send" index="1" content="1"><chassis name="client" implement="MUST"/></method>
  </class>
</amqp>
"""

FEATURES = """
from amqpforge_protocol.invented import *
import amqpforge_protocol.invented as invented


def error(call, *arguments):
    try:
        call(*arguments)
    except (DecodeError, EncodeError) as caught:
        return str(caught)
    raise AssertionError(arguments)


# Bits fill octets from the lowest bit; a ninth begins another octet; a run goes on over them.
least = ClassImport(
    b1=True, b2=False, b3=True, b4=False, b5=False, b6=False, b7=False, b8=True,
    moment=PosixTime(258), self="\\u20ac", bits=True,
)
assert (least.b9, least.degree, least.real, least.data) == (True, -3, 0.5, b"x")
octets = bytes.fromhex("00010002 85 01 fffd 3fe0000000000000 0000000000000102 0001 a4 01 78 01")
assert least.encode() == octets
assert decode_method(octets) == least
assert [info.default for info in ClassImport.FIELDS][8:11] == [True, -3, 0.5]
cut = {4: "b1", 5: "b9", 6: "degree", 8: "real", 16: "moment", 24: "self", 27: "data", 29: "bits"}
for size, field in cut.items():
    assert f"class.import.{field}: the data ends" in error(decode_method, octets[:size]), (size, field)
least.self = "12345"
assert "class.import.self: '12345' breaks the rule 'length 4'" in error(least.encode)
least.self, least.b9 = "", 2
assert "class.import.b9" in error(least.encode)

# The rest of the octets; a struct in front of the arguments; a result.
assert ClassReturn(pos=7, new=b"all").encode() == bytes.fromhex("00010003 07 616c6c")
assert decode_method(bytes.fromhex("00010003 07 616c6c")) == ClassReturn(pos=7, new=b"all")
assert ClassNone().encode() == bytes.fromhex("00010004 01 00")
assert ClassNone(preamble=Preamble(loud=True)).encode() == bytes.fromhex("00010004 01 01")
assert ClassImportResult(from_="a", sure=True).encode() == bytes.fromhex("04 0001 61 01")
assert RULES[ClassReturn].requests == (ClassImport,) and RULES[ClassNone].kind == "asynchronous"
assert RULES[ClassReturn].sent_by == ("server",)

# Fifteen properties a word, its last bit for another one; bits are told by their flags alone.
header = ContentHeader(BulkProperties(p1=1, p2=True, p15=15, p16=True, p17=17), 0)
assert header.encode() == bytes.fromhex("0002 0000 0000000000000000 c003 c000 01 0f 11")
assert decode_content_header(header.encode()) == header
small = ContentHeader(BulkProperties(p3=3), 0)
assert small.encode() == bytes.fromhex("0002 0000 0000000000000000 2000 03")
assert decode_content_header(small.encode()) == small
assert decode_content_header(small.encode()).properties.p16 is False
later = ContentHeader(BulkProperties(p17=17), 0)
assert later.encode() == bytes.fromhex("0002 0000 0000000000000000 0001 4000 11")
assert decode_content_header(later.encode()) == later
start = bytes.fromhex("0002 0000 0000000000000000")
assert "a flag for property 18 of 17" in error(decode_content_header, start + b"\\0\\1\\x20\\0")
assert "for more than its 17 properties" in error(decode_content_header, start + b"\\0\\1\\0\\1")
assert "bulk.properties.p17: the data ends" in error(decode_content_header, later.encode()[:-1])
assert "bulk.properties.p15" in error(ContentHeader(BulkProperties(p15=256), 0).encode)

# A class without properties; frames by the constants; a header of eight octets.
assert ContentHeader(BareProperties(), 3).encode() == bytes.fromhex("0003 0000 0000000000000003 0000")
assert decode_content_header(ContentHeader(BareProperties(), 3).encode()).properties == BareProperties()
assert encode_frame(ClassReturn(pos=1, new=b""), 2) == bytes.fromhex("0b 0002 00000005 00010003 01 7f")
assert encode_frame(None) == bytes.fromhex("0e 0000 00000000 7f")
assert [(kind.name, kind.value) for kind in FrameType][1:3] == [("HEADER", 12), ("BODY", 13)]
assert PROTOCOL_HEADER == b"AMQP" + bytes((7, 0, 0, 0))
content = Content(BareProperties(), b"body")
reader, assembler = FrameReader(), Assembler("server")
assert reader.max_frame_size == 64 == FRAME_MIN_SIZE
frames = reader.feed(encode_content(BareSend(), content, 1))
found = [assembler.feed(decode_frame(frame)[0].payload) for frame in frames]
assert found == [None, None, (BareSend(), content)]
try:
    assembler.feed(b"body")
except SequenceError as caught:
    assert caught.reply_code == FRAME_ERROR  # the nearest of the codes that there are
assembler = Assembler("server", max_body_size=1)
assembler.feed(BareSend())
try:
    assembler.feed(ContentHeader(BareProperties(), 2))
except SequenceError as caught:
    assert caught.reply_code is None
else:
    raise AssertionError

from amqpforge_protocol._dialects import invented as mark

assert (mark.NAME, mark.GRAMMAR, mark.PROTOCOL_HEADERS) == ("INVENTED", "class-method", (b"AMQP\\x07",))
"""


def write(root: Path, definitions: str) -> None:
    (root / "spec" / "invented").mkdir(parents=True)
    (root / "spec" / "invented" / "words.xml").write_text(definitions, encoding="utf-8")


@pytest.mark.spec("A-FRAME-002", "A-FRAME-020")
def test_an_invented_dialect_works(tmp_path: Path) -> None:
    write(tmp_path, DEFINITIONS)
    result = run("--spec", tmp_path / "spec", "--out", tmp_path)
    assert (result.code, result.err) == (0, "")
    done = subprocess.run(
        [sys.executable, "-c", FEATURES],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "generated")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('<constant name="frame-end" value="0x7f"/>', "", "is the constant frame-end, without which"),
        ('name="preamble">', 'name="bulk-properties">', "bulk-properties"),
        ('index="1" content="1"><chassis name="server"', 'index="1"><chassis name="nobody"', "nobody"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in DEFINITIONS
    write(tmp_path, DEFINITIONS.replace(old, new).replace('f:header="preamble"', ""))
    result = run("--spec", tmp_path / "spec", "--out", tmp_path)
    assert result.code != 0
    assert problem in result.err


def test_names_of_the_dialects_are_in_no_template() -> None:
    """What a dialect calls its classes and methods may not decide what the templates render."""
    import amqpforge_templates

    templates = Path(amqpforge_templates.__file__).parent / "python"
    for name in OWN:
        text = (templates / name).read_text(encoding="utf-8")
        for word in (
            "basic",
            "exchange",
            "deliver",
            "publish",
            "queue",
            "shortstr",
            "amqp_0",
            "rabbit",
            "preview",
        ):
            assert word not in text.lower(), (name, word)


OWN = [
    *("_arguments.j2", "_properties.j2", "class.py.j2", "methods.py.j2", "content.py.j2"),
    *("method_framing.py.j2", "method_dialect.py.j2", "marks.py.j2"),
]

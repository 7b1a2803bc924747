"""A new dialect needs a folder of definitions and nothing else: two are made up here, forged and spoken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import amqpforge
from amqpforge_spec import dialect_folder
from tests.generator.forging import run

ROOT = 'xmlns="https://amqpforge.org/schema/{}" xmlns:f="https://amqpforge.org/schema/extensions"'

#: A dialect of classes and methods: tables, bits, content, packed structs, a result, numbered errors.
PARCEL = f"""\
<amqp {ROOT.format("class-method")} name="terms" major="0" minor="1" port="7000"
      f:protocol-header="09 09 00 01" label="Parcels by class and method">
  <constant name="frame-method" value="1" f:enum="frame-type" label="a method"/>
  <constant name="frame-header" value="2" f:enum="frame-type" label="what a content is"/>
  <constant name="frame-body" value="3" f:enum="frame-type" label="octets of a content"/>
  <constant name="frame-heartbeat" value="9" f:enum="frame-type" label="nothing"/>
  <constant name="frame-end" value="0xab" label="what ends a frame"/>
  <constant name="frame-min-size" value="64" label="what every peer takes"/>
  <constant name="lost" value="404" class="soft-error" f:enum="outcome" label="nobody knows where it is"/>
  <constant name="burnt" value="500" class="hard-error" f:enum="outcome" label="nothing is left"/>
  <constant name="in-flag" value="0x01" class="field-table-type" width="1" datatype="boolean"/>
  <constant name="in-number" value="0x02" class="field-table-type" width="8" datatype="signed-integer"/>
  <constant name="in-words" value="0x03" class="field-table-type" lfwidth="2" datatype="string"
            f:charset="utf-8"/>
  <constant name="in-table" value="0x04" class="field-table-type" lfwidth="4" datatype="field-table"/>
  <constant name="in-row" value="0x05" class="field-table-type" lfwidth="2" datatype="sequence"/>
  <constant name="in-moment" value="0x06" class="field-table-type" width="8" datatype="special"
            f:holds="timestamp-s"/>
  <constant name="in-price" value="0x07" class="field-table-type" width="5" datatype="decimal"/>
  <constant name="in-nothing" value="0x08" class="field-table-type" width="0" datatype="void"/>
  <constant name="in-octets" value="0x0a" class="field-table-type" lfwidth="1" datatype="binary"/>
  <domain name="bit" type="bit" f:category="bit" f:width="0" f:holds="boolean" label="one bit"/>
  <domain name="small" type="small" f:category="fixed" f:width="1" f:holds="unsigned" label="a number"/>
  <domain name="middle" type="middle" f:category="fixed" f:width="2" f:holds="unsigned" label="a number"/>
  <domain name="long" type="long" f:category="fixed" f:width="4" f:holds="unsigned" label="a number"/>
  <domain name="words" type="words" f:category="variable" f:width="1" f:holds="text" f:charset="utf-8"
          label="a text"/>
  <domain name="table" type="table" f:category="variable" f:width="4" f:holds="map" label="named values"/>
  <domain name="tag" type="words" label="a name in small letters">
    <assert check="regexp" value="[a-z]+"/>
  </domain>
  <domain name="address" label="where a parcel goes">
    <struct size="short" pack="octet" type="3">
      <field name="street" domain="words" label="which street"/>
      <field name="number" domain="middle" label="which house"/>
      <field name="is-office" domain="bit" label="whether it is an office"/>
    </struct>
  </domain>
  <domain name="marks" label="what precedes arguments">
    <struct size="octet" pack="octet"><field name="urgent" domain="bit" label="at once"/></struct>
  </domain>
  <class name="parcel" index="7" label="Parcels">
    <field name="weight" domain="middle" label="in grams"/>
    <field name="fragile" domain="bit" label="with care"/>
    <field name="extras" domain="table" label="all else"/>
    <method name="send" index="1" content="1" label="send a parcel">
      <chassis name="server" implement="MUST"/>
      <field name="to" domain="address" label="where it goes"/>
      <field name="tag" domain="tag" label="its name"/>
      <field name="fast" domain="bit" label="by plane"/>
      <field name="signed" domain="bit" default="1" label="against a signature"/>
      <field name="copies" domain="small" default="2" label="how often"/>
      <field name="extras" domain="table" label="all else"/>
    </method>
    <method name="query" index="2" synchronous="1" f:header="marks" label="ask for a parcel">
      <chassis name="server" implement="MUST"/>
      <response name="found"/>
      <result>
        <struct size="long" type="1">
          <field name="count" domain="long" label="how many there are"/>
          <field name="open" domain="bit" label="whether more can come"/>
        </struct>
      </result>
      <field name="tag" domain="tag" label="its name"/>
    </method>
    <method name="found" index="3" label="it is there"><chassis name="client" implement="MUST"/></method>
  </class>
</amqp>
"""

SPEAK_PARCEL = """
import dataclasses
from decimal import Decimal
from amqpforge_protocol import parcel_0_1 as p
from amqpforge_protocol._dialects import parcel_0_1 as mark

assert p.PROTOCOL_HEADER == b"AMQP\\x09\\x09\\x00\\x01" and mark.PROTOCOL_HEADERS == (p.PROTOCOL_HEADER,)
assert (mark.GRAMMAR, p.PORT, p.FrameType.HEARTBEAT) == ("class-method", 7000, 9)
assert p.Outcome.LOST.is_soft and p.Outcome.BURNT.is_hard and p.Outcome(404) is p.Outcome.LOST

send = p.ParcelSend(
    to=p.Address(street="Mill Lane", number=3, is_office=True),
    tag="abc",
    fast=True,
    copies=3,
    extras={"a": True},
)
octets = send.encode()
assert octets.hex(" ") == (
    "00 07 00 01"
    " 00 0f 00 03 07 09 4d 69 6c 6c 20 4c 61 6e 65 00 03"  # size, code, flags, fields
    " 03 61 62 63 03 03"  # tag, bits, copies
    " 00 00 00 04 01 61 01 01"
), octets.hex(" ")
assert p.decode_method(octets) == send
assert (send.CLASS_ID, send.METHOD_ID, send.XML_NAME) == (7, 1, "parcel.send")
assert send.HAS_CONTENT and send.SENT_BY == ("client",) and p.ParcelQuery.RESPONSES == ("parcel.found",)
assert p.ParcelQuery.IS_SYNCHRONOUS and p.decode_method(p.ParcelFound().encode()) == p.ParcelFound()

table = {
    "flag": True, "number": -5, "words": "text", "table": {"in": 1}, "row": [1, "two", [None]],
    "moment": p.PosixTime(1), "price": Decimal("1.25"), "nothing": None, "octets": b"x",
}
data = p.encode_table(table)
back, end = p.decode_table(data)
assert back == table and end == len(data) and p.encode_table(back) == data, back
assert p.encode_table({"a": "bc"}).hex(" ") == "00 00 00 07 01 61 03 00 02 62 63"

query = p.ParcelQuery(tag="abc", marks=p.Marks(urgent=True))
assert query.encode().hex(" ") == "00 07 00 02 01 01 03 61 62 63"
assert p.decode_method(query.encode()) == query
result = p.ParcelQueryResult(count=5, open=True)
assert result.encode().hex(" ") == "00 00 00 07 07 01 00 00 00 05 01"

frame = p.encode_frame(query, 5)
assert frame.hex(" ") == "01 00 05 00 00 00 0a 00 07 00 02 01 01 03 61 62 63 ab"
assert p.decode_frame(frame) == (p.Frame(p.FrameType.METHOD, 5, query), len(frame))

content = p.Content(p.ParcelProperties(weight=7, fragile=True, extras={"k": "v"}), b"x" * 200)
reader, assembler, done = p.FrameReader(), p.Assembler("client"), []
stream = p.encode_content(send, content, 5)
for start in range(0, len(stream), 11):
    for item in reader.feed(stream[start : start + 11]):
        frame = p.decode_frame(item)[0]
        assert frame.channel == 5
        done.append((frame.type, assembler.feed(frame.payload)))
assert [int(kind) for kind, _ in done] == [1, 2, 3, 3, 3, 3]
((method, whole),) = [arrived for _, arrived in done if arrived]
assert method == send and whole.properties == content.properties and whole.body == content.body

for field, value in ("tag", "ABC"), ("copies", 256), ("fast", 2), ("extras", {"k": object()}):
    try:
        dataclasses.replace(send, **{field: value}).encode()
    except p.EncodeError as error:
        assert error.field == field, error
    else:
        raise AssertionError(field)
"""

#: A dialect of controls and commands, over several files, of which one holds neither constants nor classes.
KINDS = f"""\
<amqp {ROOT.format("control-command")} name="kinds" f:protocol-header="09 01 00" label="Kinds of values">
  <definition name="MIN-MAX-FRAME-SIZE" value="256" label="what every peer takes"/>
  <range from="0x00" to="0x0f" category="fixed" width="1" label="one octet"/>
  <range from="0x10" to="0x1f" category="fixed" width="2" label="two octets"/>
  <range from="0x20" to="0x2f" category="fixed" width="4" label="four octets"/>
  <range from="0x80" to="0x8f" category="variable" width="1" label="a size of one octet"/>
  <range from="0xa0" to="0xaf" category="variable" width="4" label="a size of four octets"/>
  <range from="0xf0" to="0xff" category="fixed" width="0" label="no octets"/>
  <type name="bit" code="0xf1" category="bit" width="0" holds="bit" label="a flag"/>
  <type name="nothing" code="0xf0" category="fixed" width="0" holds="void" label="no value"/>
  <type name="truth" code="0x08" category="fixed" width="1" holds="boolean" label="a truth value"/>
  <type name="middle" code="0x12" category="fixed" width="2" holds="unsigned" label="a number"/>
  <type name="whole" code="0x21" category="fixed" width="4" holds="signed" label="a number with a sign"/>
  <type name="words" code="0x85" category="variable" width="1" holds="text" charset="utf-8" label="a text"/>
  <type name="index" code="0xa8" category="compound" width="4" holds="map" label="values by name"/>
  <type name="row" code="0xa9" category="compound" width="4" holds="list" label="values in a row"/>
  <type name="packed" code="0xab" category="variable" width="4" holds="struct" label="a struct by its code"/>
  <type name="anything" category="any" width="0" holds="any" label="a value of any kind"/>
</amqp>
"""
THINGS = f"""\
<amqp {ROOT.format("control-command")} name="things" label="What parcels are made of">
  <domain name="fault" type="middle" label="what went wrong">
    <choice name="gone" value="404" label="nobody knows where it is"/>
    <choice name="burnt" value="500" label="nothing is left"/>
  </domain>
  <struct name="address" pack="1" label="where a parcel goes">
    <field name="street" type="words" multiplicity="required" label="which street"/>
    <field name="number" type="middle" multiplicity="optional" label="which house"/>
    <field name="is-office" type="bit" multiplicity="optional" label="whether it is an office"/>
  </struct>
  <struct name="letter" code="0x0901" size="4" pack="2" label="what lies in a parcel">
    <field name="text" type="words" multiplicity="optional" label="what it says"/>
  </struct>
  <record name="point" label="a place on the map">
    <field name="x" type="whole" multiplicity="required" label="across"/>
    <field name="y" type="whole" multiplicity="required" label="up"/>
  </record>
</amqp>
"""
ACTS = f"""\
<amqp {ROOT.format("control-command")} name="acts" label="What peers say">
  <class name="post" code="0x09" label="Parcels">
    <control name="hello" code="0x0911" pack="2" label="begin">
      <field name="version" type="middle" multiplicity="required" label="of the peer"/>
    </control>
    <command name="send" code="0x0912" pack="2" label="send a parcel">
      <field name="to" type="address" multiplicity="required" label="where it goes"/>
      <field name="at" type="point" multiplicity="optional" label="where that is"/>
      <field name="tags" type="words" multiplicity="multiple" label="its names"/>
      <field name="extras" type="index" multiplicity="optional" label="all else"/>
      <field name="note" type="anything" multiplicity="optional" label="whatever the sender likes"/>
      <field name="urgent" type="bit" multiplicity="optional" label="at once"/>
      <field name="fault" type="fault" multiplicity="optional" default="gone" label="what was wrong before"/>
      <exception name="lost" error="gone" label="the parcel got lost"/>
    </command>
  </class>
</amqp>
"""

SPEAK_POST = """
from amqpforge_protocol import post_0_1 as p
from amqpforge_protocol._dialects import post_0_1 as mark

assert p.PROTOCOL_HEADER == b"AMQP\\x09\\x01\\x00\\x00" and mark.PROTOCOL_HEADERS == (b"AMQP\\x09\\x01\\x00",)
assert (mark.GRAMMAR, p.MIN_MAX_FRAME_SIZE) == ("control-command", 256)

hello = p.PostHello(version=3)
assert hello.encode().hex(" ") == "00 00 00 06 09 11 01 00 00 03"
assert p.decode_operation(hello.encode()) == (hello, 10)
assert (hello.KIND, hello.CODE, hello.XML_NAME) == ("control", 0x0911, "post.hello")

send = p.PostSend(
    to=p.Address(street="Mill Lane", is_office=True), at=p.Point(x=1, y=-1), tags=["a", "bc"],
    extras={"k": True, "l": [1, None, "two"]}, note=p.Letter(text="hi"), urgent=True, fault=p.Fault.BURNT,
)
octets = send.encode()
size = len(octets) - 4
assert octets.hex(" ").startswith(
    f"00 00 00 {size:02x} 09 12 7f 00"  # size, code, flags
    " 05 09 4d 69 6c 6c 20 4c 61 6e 65"  # the address: flags, street
    " 00 00 00 01 ff ff ff ff"  # the point
    " 00 00 00 02 01 61 02 62 63"  # the tags
), octets.hex(" ")
back, end = p.decode_operation(octets)
assert back == send and end == len(octets) and back.encode() == octets, back
bare = p.PostSend(to=p.Address(street=""))
assert p.decode_operation(bare.encode())[0].fault in (None, p.Fault.GONE)
assert p.decode_operation(bare.encode())[0] == bare
assert dict(send.FAILURES) == {"lost": p.Fault.GONE}

frame = p.encode_frame(send, 5, command_id=9, capacity=7, flags=p.FrameFlags.SYNC)
assert frame[:24].hex(" ") == (
    f"00 00 00 {len(frame):02x} 01 02 00 05 00 00 00 00 00 00 00 00 00 00 00 07 00 00 00 09"
)
found = []
reader = p.FrameReader()
stream = p.PROTOCOL_HEADER + frame + p.encode_frame(hello)
for start in range(0, len(stream), 7):
    found += [bytes(item) for item in reader.feed(stream[start : start + 7])]
assert found[0] == p.PROTOCOL_HEADER and len(found) == 3
frames = [p.decode_frame(item)[0] for item in found[1:]]
assert (frames[0].operation, frames[0].channel, frames[0].command_id) == (send, 5, 9)
assert (frames[1].operation, frames[1].type) == (hello, p.FrameType.CONTROL)
try:
    p.PostHello(version=None).encode()
except p.EncodeError as error:
    assert error.field == "version", error
else:
    raise AssertionError("a required field was missing")
"""

DIALECTS = {
    "parcel_0_1": ({"terms": PARCEL}, SPEAK_PARCEL),
    "post_0_1": ({"kinds": KINDS, "things": THINGS, "acts": ACTS}, SPEAK_POST),
}

RECORD = {
    "parcel_0_1": """
import sys
from amqpforge_protocol import parcel_0_1 as p

query = p.ParcelQuery(tag="abc", marks=p.Marks(urgent=True))
to = p.Address(street="Lane", number=3, is_office=True)
send = p.ParcelSend(to=to, tag="abc", fast=True, extras={"a": 1})
content = p.Content(p.ParcelProperties(weight=7, fragile=True, extras={}), b"x" * 60)
frames = p.encode_frame(query, 5) + p.encode_content(send, content, 5) + p.encode_frame(None)
sys.stdout.buffer.write(p.PROTOCOL_HEADER + frames)
""",
    "post_0_1": """
import sys
from amqpforge_protocol import post_0_1 as p

send = p.PostSend(to=p.Address(street="Lane"), tags=["a"], extras={"k": True}, fault=p.Fault.BURNT)
frames = p.encode_frame(p.PostHello(version=3)) + p.encode_frame(send, 5, command_id=9)
sys.stdout.buffer.write(p.PROTOCOL_HEADER + frames)
""",
}

#: What `amqpforge decode` says of the recordings, without directions and protocol headers.
DECODED = {
    "parcel_0_1": [
        'ch 5 parcel.query marks=marks(urgent=true), tag="abc"',
        'ch 5 parcel.send to=address(street="Lane", number=3, is-office=true), tag="abc", fast=true, '
        'signed=true, copies=2, extras={"a": 1}',
        "ch 5 content-header class-id=7, weight=0, body-size=60, "
        "properties=parcel.properties(weight=7, fragile=true, extras={})",
        "ch 5 body +56 octets",
        "ch 5 body +4 octets",
        "ch 0 heartbeat",
    ],
    "post_0_1": [
        "ch 0 post.hello version=3",
        'ch 5 post.send to=address(street="Lane", is-office=false), tags=["a"], extras={"k": true}, '
        "urgent=false, fault=burnt",
    ],
}


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder to import from: what the Python target makes of both, beside AMQP 1.0, and nothing else."""
    root = tmp_path_factory.mktemp("forged")
    shutil.copytree(dialect_folder("amqp_1_0"), root / "spec" / "amqp_1_0")
    for name, (files, _) in DIALECTS.items():
        (root / "spec" / name).mkdir()
        for file, text in files.items():
            (root / "spec" / name / f"{file}.xml").write_text(text, encoding="utf-8")
    result = run("--spec", root / "spec", "--target", "python", "--out", root)
    assert (result.code, result.err) == (0, "")
    return root / "generated"


def python(forged: Path, *arguments: str, data: bytes = b"") -> bytes:
    """What a Python process says that knows the forged packages and the runtime, and complains of nothing."""
    path = os.pathsep.join([str(forged), str(Path(amqpforge.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=forged,
        input=data,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_that_nobody_has_heard_of_can_be_spoken(forged: Path, name: str) -> None:
    assert python(forged, "-c", DIALECTS[name][1]) == b""


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_that_nobody_has_heard_of_can_be_read(forged: Path, name: str) -> None:
    recorded = python(forged, "-c", RECORD[name])
    lines = python(forged, "-m", "amqpforge", "decode", "-", data=recorded).decode().splitlines()
    shown = [" ".join(line.partition(" c2s ")[2].split()) for line in lines]
    assert shown[0] == f"header {name.split('_')[0].upper()} 0-1"
    assert shown[1:] == DECODED[name]

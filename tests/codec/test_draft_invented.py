"""An invented dialect of the draft's grammar: nothing of the draft's own is built into its templates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generator.forging import run

DEFINITIONS = """\
<amqp xmlns="https://amqpforge.org/schema/control-command" xmlns:f="https://amqpforge.org/schema/extensions"
      name="words" f:protocol-header="07 08 09 0a">
  <definition name="LIMIT" value="3"/>
  <type name="tick" category="bit" width="0" holds="bit"/>
  <type name="small" code="0x02" category="fixed" width="1" holds="unsigned"/>
  <type name="whole" code="0x21" category="fixed" width="4" holds="signed"/>
  <type name="text" code="0x95" category="variable" width="2" holds="text" charset="utf-8"/>
  <type name="dictionary" code="0xa8" category="compound" width="4" holds="map"/>
  <type name="packed" code="0xab" category="variable" width="4" holds="struct"/>
  <domain name="mood" type="small">
    <choice name="calm" value="1"/>
    <choice name="import" value="2"/>
  </domain>
  <domain name="colour" type="whole">
    <choice name="red" value="-1"/>
  </domain>
  <struct name="note" pack="1" size="2" code="0x0901">
    <field name="text" type="text" multiplicity="required"/>
    <field name="loud" type="tick" multiplicity="optional"/>
  </struct>
  <struct name="frame-flags" pack="4">
    <field name="depth" type="small" multiplicity="optional"/>
  </struct>
  <record name="pair">
    <field name="left" type="small" multiplicity="required"/>
    <field name="right" type="note" multiplicity="required"/>
  </record>
  <class name="class" code="0x07">
    <control name="hello" code="0x0701" pack="1">
      <field name="from" type="text" multiplicity="required"/>
      <field name="moods" type="mood" multiplicity="multiple"/>
      <field name="wait" type="tick" multiplicity="optional"/>
    </control>
    <command name="do" code="0x0702" pack="4">
      <field name="self" type="whole" multiplicity="required"/>
      <field name="flags" type="frame-flags" multiplicity="optional"/>
      <field name="pairs" type="pair" multiplicity="multiple"/>
      <field name="mood" type="mood" multiplicity="optional" default="calm"/>
      <field name="body" type="dictionary" multiplicity="optional"/>
      <field name="colour" type="colour" multiplicity="optional"/>
      <field name="data" type="text" multiplicity="optional" default="x"/>
      <field name="pos" type="small" multiplicity="optional" default="7"/>
      <field name="budget" type="tick" multiplicity="optional"/>
      <exception name="no" error="import"/>
    </command>
  </class>
  <class name="other" code="0x08">
    <command name="nothing" code="0x0801" pack="2"/>
  </class>
</amqp>
"""

FEATURES = """
from amqpforge_protocol.invented import *
import amqpforge_protocol.invented as invented

assert PROTOCOL_HEADER == b"AMQP" + bytes((7, 8, 9, 10)) == ProtocolHeader().encode()
assert LIMIT == 3 and not hasattr(invented, "MIN_MAX_FRAME_SIZE")
assert [kind.XML_NAME for kind in OPERATIONS.values()] == ["class.hello", "class.do", "other.nothing"]
assert CONTROLS == {ClassHello} and COMMANDS == {ClassDo, OtherNothing}
assert ClassDo.FAILURES == {"no": Mood.IMPORT} and ClassHello.FAILURES == {}
assert ClassDo.KIND == "command" and ClassHello.KIND == "control" and ClassDo.CODE == 0x0702

hello = ClassHello(from_="me", moods=[Mood.CALM, 2])
assert hello.encode() == bytes.fromhex("0000000d 0701 03 0002 6d65 00000002 01 02")
assert decode_operation(hello.encode()) == (hello, 17)
assert ClassHello(from_="", wait=True).encode() == bytes.fromhex("00000005 0701 05 0000")

least = ClassDo(self=-2)
assert least.encode() == bytes.fromhex("0000000a 0702 01000000 fffffffe")
assert (least.mood, least.data, least.pos, least.budget) == (Mood.CALM, "x", 7, False)
full = ClassDo(
    self=1,
    flags=AmqpFrameFlags(depth=3),
    pairs=[Pair(left=1, right=Note(text="a", loud=True))],
    mood=Mood.IMPORT,
    body={"k": True if False else 5, "n": Note(text="b")},
    colour=Colour.RED,
    data="y",
    pos=8,
    budget=True,
)
assert decode_operation(full.encode()) == (full, len(full.encode()))
assert full.encode()[6:10] == bytes.fromhex("ff010000")
assert full.encode()[14:] == bytes.fromhex(
    "01000000 03"  # flags: presence bits in four octets, then the depth
    "00000001 01 0006 0901 03 0001 61"  # pairs: a count, a record, in it a struct with size and code
    "02"  # mood
    "00000018 00000002 016b 21 00000005 016e ab 00000006 0901 01 0001 62"  # body: a map with a struct
    "ffffffff"  # colour
    "0001 79"  # data
    "08"  # pos; budget is its flag
)

reader = FrameReader(1000)
frame = encode_frame(full, 5, command_id=1, flags=FrameFlags.SYNC)
assert reader.feed(PROTOCOL_HEADER + frame) == [PROTOCOL_HEADER, frame]
found, behind = decode_frame(frame)
assert found == Frame(FrameType.COMMAND, 5, full, FrameFlags.SYNC, command_id=SerialNumber(1))
assert decode_frame(encode_frame(OtherNothing()))[0].operation == OtherNothing()
for octets in (least.encode()[:-1], b"\\0\\0\\0\\4\\x07\\x03\\0\\0"):
    try:
        decode_operation(octets)
    except DecodeError:
        continue
    raise AssertionError(octets)
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
    (root / "spec" / "invented" / "words.xml").write_text(definitions, encoding="utf-8")


def test_an_invented_dialect_works(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FEATURES],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_names_of_the_draft_are_in_no_template() -> None:
    """What the draft calls its operations and domains may not decide what the templates render."""
    import amqpforge_templates

    templates = Path(amqpforge_templates.__file__).parent / "python"
    found = {name: (templates / name).read_text(encoding="utf-8") for name in OWN}
    for name, text in found.items():
        for word in ("noop", "transfer", "detach", "sasl", "close-code", "enlist", "unpark"):
            assert word not in text, name


OWN = ["operation.py.j2", "operations.py.j2", "operation_framing.py.j2", "operation_dialect.py.j2"]


def test_a_dialect_without_protocol_header_is_refused(tmp_path: Path) -> None:
    write(tmp_path, DEFINITIONS.replace(' f:protocol-header="07 08 09 0a"', ""))
    result = run("--spec", tmp_path / "spec", "--out", tmp_path)
    assert result.code != 0
    assert "gives f:protocol-header" in result.err


def test_names_that_would_collide_are_refused(tmp_path: Path) -> None:
    write(tmp_path, DEFINITIONS.replace('<struct name="note"', '<struct name="class-do"'))
    result = run("--spec", tmp_path / "spec", "--out", tmp_path)
    assert result.code != 0
    assert "words.xml" in result.err or "both define ClassDo" in result.err

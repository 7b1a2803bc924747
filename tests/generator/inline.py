"""Tiny definitions for tests: a few primitives, and the frames that put a few lines of XML into a dialect."""

from __future__ import annotations

from pathlib import Path

from amqpforge_generator.document import Document, Location
from amqpforge_generator.errors import Problem, Problems, SpecErrors
from amqpforge_generator.load import load_dialect, read_document
from amqpforge_generator.model import Dialect, Type

AMQP = 'xmlns="http://www.amqp.org/schema/amqp.xsd" xmlns:f="https://amqpforge.org/schema/extensions"'

PRIMITIVES = f"""\
<amqp {AMQP} name="types">
  <section name="encodings">
    <type name="boolean" class="primitive"><encoding code="0x56" category="fixed" width="1"/></type>
    <type name="ubyte" class="primitive"><encoding code="0x50" category="fixed" width="1"/></type>
    <type name="uint" class="primitive">
      <encoding code="0x70" category="fixed" width="4"/>
      <encoding name="smalluint" code="0x52" category="fixed" width="1"/>
      <encoding name="uint0" code="0x43" category="fixed" width="0"/>
    </type>
    <type name="ulong" class="primitive"><encoding code="0x80" category="fixed" width="8"/></type>
    <type name="int" class="primitive"><encoding code="0x71" category="fixed" width="4"/></type>
    <type name="double" class="primitive"><encoding code="0x82" category="fixed" width="8"/></type>
    <type name="char" class="primitive"><encoding code="0x73" category="fixed" width="4"/></type>
    <type name="uuid" class="primitive"><encoding code="0x98" category="fixed" width="16"/></type>
    <type name="binary" class="primitive"><encoding code="0xa0" category="variable" width="1"/></type>
    <type name="string" class="primitive"><encoding code="0xa1" category="variable" width="1"/></type>
    <type name="symbol" class="primitive"><encoding code="0xa3" category="variable" width="1"/></type>
    <type name="list" class="primitive"><encoding code="0xc0" category="compound" width="1"/></type>
    <type name="map" class="primitive"><encoding code="0xc1" category="compound" width="1"/></type>
  </section>
</amqp>
"""

#: The lines around the fields of a composite, and an enumeration.
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

#: The class/method grammar in small: table values, bits that share an octet, conditions, rules, a result.
CLASS_METHOD = """\
<amqp xmlns="https://amqpforge.org/schema/class-method" xmlns:f="https://amqpforge.org/schema/extensions"
      name="tiny" major="0" minor="9" port="5672" f:protocol-header="01 01 00 0a">
  <constant name="frame-method" value="1" f:enum="frame-type"/>
  <constant name="frame-end" value="206"/>
  <constant name="no-route" value="312" class="soft-error" f:enum="reply-code"/>
  <constant name="frame-error" value="501" class="hard-error" f:enum="reply-code"/>
  <constant name="table-when" value="0x54" class="field-table-type" width="8" datatype="special"
            f:holds="timestamp-s" f:enum="table-type" label="A moment"/>
  <constant name="table-text" value="0x53" class="field-table-type" lfwidth="4" datatype="string"
            f:charset="utf-8" f:enum="table-type"/>
  <constant name="table-int" value="0x49" class="field-table-type" width="4" datatype="signed-integer"/>
  <domain name="bit" type="bit" f:category="bit" f:width="0" f:holds="boolean"/>
  <domain name="octet" type="octet" f:category="fixed" f:width="1" f:holds="unsigned"/>
  <domain name="short" type="short" f:category="fixed" f:width="2" f:holds="unsigned"/>
  <domain name="long" type="long" f:category="fixed" f:width="4" f:holds="unsigned"/>
  <domain name="shortstr" type="shortstr" f:category="variable" f:width="1" f:holds="text" f:charset="utf-8"/>
  <domain name="longstr" type="longstr" f:category="variable" f:width="4" f:holds="binary"/>
  <domain name="table" type="table" f:category="variable" f:width="4" f:holds="map"/>
  <domain name="queue-name" type="shortstr" label="Name of a queue">
    <rule name="default" on-failure="no-route"><doc>Empty means the last one declared.</doc></rule>
    <assert check="length" value="127"/>
    <assert check="regexp" value="[a-z.]*"/>
  </domain>
  <domain name="path" type="shortstr">
    <assert check="syntax" rule="slashes" f:regexp="(/[^/]+)*"/>
  </domain>
  <domain name="reply-to">
    <struct size="short" pack="short" type="7">
      <field name="exchange" type="shortstr"/>
      <field name="routing-key" type="shortstr"/>
    </struct>
  </domain>
  <domain name="preamble">
    <struct size="octet" pack="octet"><field name="sync" domain="bit"/></struct>
  </domain>
  <class name="basic" index="60" label="Messages">
    <rule name="order"><doc>Kept per queue.</doc></rule>
    <chassis name="server" implement="MUST"/>
    <field name="content-type" domain="shortstr"/>
    <field name="headers" domain="table"/>
    <field name="priority" domain="octet"/>
    <method name="consume" synchronous="1" index="20">
      <rule name="known-queue" on-failure="no-route" label="No guessing"/>
      <chassis name="server" implement="MUST"/>
      <response name="consume-ok"/>
      <field name="queue" domain="queue-name"><assert check="notnull"/></field>
      <field name="no-local" domain="bit"/>
      <field name="no-ack" domain="bit" default="1"/>
      <field name="prefetch" domain="short" default="10">
        <rule name="bound" on-failure="frame-error"/>
        <assert check="le" value="priority"/>
        <assert check="ne" value="0"/>
      </field>
    </method>
    <method name="consume-ok" synchronous="1" index="21">
      <chassis name="client" implement="MUST"/>
    </method>
    <method name="publish" content="1" index="40">
      <chassis name="server" implement="MUST"/>
      <chassis name="client" implement="MAY"/>
      <field name="reply-to" domain="reply-to"/>
    </method>
    <method name="query" index="50" f:header="preamble">
      <chassis name="server" implement="MUST"/>
      <result><struct size="long" type="0x1f"><field name="depth" domain="long"/></struct></result>
    </method>
  </class>
  <class name="tx" index="90" f:header="preamble">
    <method name="commit" index="20"><field name="name" domain="longstr" default=""/></method>
  </class>
</amqp>
"""

#: The control/command grammar in small: coded types, ranges, choices, packing flags, a record, an exception.
CONTROL_COMMAND = """\
<amqp xmlns="https://amqpforge.org/schema/control-command" xmlns:f="https://amqpforge.org/schema/extensions"
      name="tiny" f:protocol-header="01 00 00">
  <definition name="PORT" value="5672"/>
  <range from="0x00" to="0x0f" category="fixed" width="1" label="One octet"/>
  <range from="0x20" to="0x2f" category="fixed" width="4"/>
  <range from="0x90" to="0x9f" category="variable" width="2"/>
  <type name="bit" category="bit" width="0" holds="bit"/>
  <type name="str16" code="0x95" category="variable" width="2" holds="text" charset="utf-8"/>
  <type name="uint8" code="0x02" category="fixed" width="1" holds="unsigned"/>
  <type name="uint32" code="0x22" category="fixed" width="4" holds="unsigned"/>
  <type name="anything" category="any" width="0" holds="any"/>
  <domain name="mode" type="uint8">
    <choice name="destructive" value="1"/>
    <choice name="non-destructive" value="2"/>
  </domain>
  <struct name="header" code="0x0401" size="4" pack="1">
    <field name="durable" type="bit" multiplicity="optional"/>
  </struct>
  <record name="xid">
    <field name="format" type="uint32" multiplicity="required"/>
  </record>
  <class name="link" code="0x03">
    <control name="ping" code="0x0301" pack="2"/>
    <command name="transfer" code="0x0302" pack="2">
      <field name="handle" type="uint32" multiplicity="required"/>
      <field name="mode" type="mode" multiplicity="optional" default="destructive"/>
      <field name="header" type="header" multiplicity="optional"/>
      <field name="tags" type="str16" multiplicity="multiple"/>
      <exception name="taken" error="destructive"><doc><p>It was taken before.</p></doc></exception>
    </command>
  </class>
</amqp>
"""


def section(*lines: str, name: str = "part") -> str:
    """An AMQP 1.0 definition file with one section; the first of the lines is line 3 of the file."""
    return "\n".join(
        [f'<amqp {AMQP} name="{name}">', '<section name="all">', *lines, "</section>", "</amqp>"]
    )


def at(line: int) -> Location:
    """A line of the file ``part.xml``."""
    return Location("tiny/part.xml", line)


def read(folder: Path, text: str) -> Document:
    """The raw document of a text, named ``part.xml``, that has nothing wrong with it."""
    path = folder / "part.xml"
    path.write_text(text, encoding="utf-8")
    found = Problems()
    document = read_document(path, "tiny/part.xml", found)
    assert not found.sorted()
    assert document is not None
    return document


def type_named(dialect: Dialect, name: str) -> Type:
    """The type of that XML name."""
    (found,) = [type_ for type_ in dialect.types if type_.name.xml == name]
    return found


def load(folder: Path, **files: str) -> Dialect:
    """The dialect made of the primitives and the given files (``part="<amqp ..."`` is ``tiny/part.xml``)."""
    return _load(folder, {"types": PRIMITIVES, **files})


def load_only(folder: Path, **files: str) -> Dialect:
    """The dialect made of the given files alone."""
    return _load(folder, files)


def problems(folder: Path, *lines: str, **files: str) -> list[str]:
    """What is wrong with a section of these lines, as ``file:line: message``; nothing when it loads."""
    return problems_of(folder, types=PRIMITIVES, part=section(*lines), **files)


def problems_of(folder: Path, **files: str) -> list[str]:
    """What is wrong with a dialect of these files alone; both ways of reporting have to agree."""
    collected = Problems()
    raised: tuple[Problem, ...] = ()
    try:
        _load(folder, files, collected)
    except SpecErrors as error:
        raised = error.problems
    assert raised == collected.sorted()
    return [str(problem) for problem in raised]


def _load(folder: Path, files: dict[str, str], collected: Problems | None = None) -> Dialect:
    dialect = folder / "tiny"
    dialect.mkdir(exist_ok=True)
    for name, text in files.items():
        (dialect / f"{name}.xml").write_text(text, encoding="utf-8")
    return load_dialect(dialect, problems=collected)

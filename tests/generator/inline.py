"""Tiny definitions for tests: a few primitives, and the frames that put a few lines of XML into a dialect."""

from __future__ import annotations

from pathlib import Path

from amqpforge_generator.errors import Problem, Problems, SpecErrors
from amqpforge_generator.load import load_dialect
from amqpforge_generator.model import Dialect

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

#: The class/method grammar in small: bits that share an octet, a condition, content properties, a result.
CLASS_METHOD = """\
<amqp xmlns="https://amqpforge.org/schema/class-method" name="tiny" major="0" minor="9" port="5672">
  <constant name="frame-end" value="206"/>
  <constant name="no-route" value="312" class="soft-error"/>
  <constant name="frame-error" value="501" class="hard-error"/>
  <domain name="bit" type="bit"/>
  <domain name="octet" type="octet"/>
  <domain name="short" type="short"/>
  <domain name="long" type="long"/>
  <domain name="shortstr" type="shortstr"/>
  <domain name="table" type="table"/>
  <domain name="queue-name" type="shortstr" label="Name of a queue">
    <assert check="length" value="127"/>
    <assert check="regexp" value="[a-z.]*"/>
  </domain>
  <domain name="reply-to">
    <struct size="short" pack="short" type="7">
      <field name="exchange" type="shortstr"/>
      <field name="routing-key" type="shortstr"/>
    </struct>
  </domain>
  <class name="basic" index="60" label="Messages">
    <rule name="order"><doc>Kept per queue.</doc></rule>
    <chassis name="server" implement="MUST"/>
    <field name="content-type" domain="shortstr"/>
    <field name="headers" domain="table"/>
    <field name="priority" domain="octet"/>
    <method name="consume" synchronous="1" index="20">
      <chassis name="server" implement="MUST"/>
      <response name="consume-ok"/>
      <field name="queue" domain="queue-name"><assert check="notnull"/></field>
      <field name="no-local" domain="bit"/>
      <field name="no-ack" domain="bit" default="1"/>
      <field name="prefetch" domain="short" default="10"/>
    </method>
    <method name="consume-ok" synchronous="1" index="21">
      <chassis name="client" implement="MUST"/>
    </method>
    <method name="publish" content="1" index="40">
      <chassis name="server" implement="MUST"/>
      <chassis name="client" implement="MAY"/>
      <field name="reply-to" domain="reply-to"/>
    </method>
    <method name="query" index="50">
      <chassis name="server" implement="MUST"/>
      <result><struct size="long" type="0x1f"><field name="depth" domain="long"/></struct></result>
    </method>
  </class>
</amqp>
"""

#: The control/command grammar in small: coded types, a domain with choices, packing flags, a record.
CONTROL_COMMAND = """\
<amqp xmlns="https://amqpforge.org/schema/control-command" name="tiny">
  <definition name="PORT" value="5672"/>
  <type name="bit" code="0xf1" category="fixed" width="0"/>
  <type name="uint8" code="0x02" category="fixed" width="1"/>
  <type name="uint32" code="0x22" category="fixed" width="4"/>
  <type name="str16" code="0x95" category="variable" width="2"/>
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
    </command>
  </class>
</amqp>
"""


def section(*lines: str, name: str = "part") -> str:
    """An AMQP 1.0 definition file with one section; the first of the lines is line 3 of the file."""
    return "\n".join(
        [f'<amqp {AMQP} name="{name}">', '<section name="all">', *lines, "</section>", "</amqp>"]
    )


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

"""The import command and the class/method grammar: pages with a margin, and damage of every element."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from lxml import etree

import amqpforge_spec
from amqpforge_generator.errors import Problems
from amqpforge_generator.importer import ImportResult, import_definitions
from amqpforge_generator.load import read_document
from tests.generator.forging import run
from tests.generator.importing import Reader, lines

CLASS_METHOD = "{https://amqpforge.org/schema/class-method}"
FORGE = "{https://amqpforge.org/schema/extensions}"
OCTET = '<domain name="octet" type="octet" label="an octet"/>'
PAIR = """\
<domain name="pair">
<struct size="short" pack="octet" type="0">
<field name="left" domain="octet"/>
<field name="right" domain="octet"/>
</struct>
</domain>"""
GET = """\
<method name="get" synchronous="1" index="20">
<rule name="polite" on-failure="not-found"/>
<chassis name="server" implement="MUST"/>
<response name="got"/>
<field name="flags" type="octet" default=""><assert check="ne" value="0"/></field>
<result>
<struct size="long" type="1">
<field name="count" domain="octet"/>
</struct>
</result>
</method>"""
DOCUMENT = f"""\
<amqp major="0" minor="9" port="5672" comment="ours">
<constant name="not-found" value="404" class="soft-error"><doc>Gone.</doc></constant>
<constant name="table-text" value="0x84" lfwidth="1" datatype="string" class="field-table-type"/>
{OCTET}
<class name="shop" index="10">
<field name="type" domain="octet"/>
{GET}
</class>
</amqp>
"""
XML = """\
<?xml version="1.0" encoding="UTF-8"?>
<amqp xmlns="https://amqpforge.org/schema/class-method" name="source" major="0" minor="9" port="5672">
  <constant name="not-found" value="404" class="soft-error"/>
  <constant name="table-text" value="0x84" class="field-table-type" lfwidth="1" datatype="string"/>
  <domain name="octet" type="octet"/>
  <class name="shop" index="10">
    <field name="type" domain="octet"/>
    <method name="get" index="20" synchronous="1">
      <rule name="polite" on-failure="not-found"/>
      <chassis name="server" implement="MUST"/>
      <response name="got"/>
      <field name="flags" type="octet" default="">
        <assert check="ne" value="0"/>
      </field>
      <result>
        <struct size="long" type="1">
          <field name="count" domain="octet"/>
        </struct>
      </result>
    </method>
  </class>
</amqp>
"""
NAMED = "line 1: <amqp name='source'>: named after the file"


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    return Reader(tmp_path / "source.txt")


def names(result: ImportResult) -> list[str]:
    """The names of constants, domains, classes and methods, in document order."""
    units = [CLASS_METHOD + name for name in ("constant", "domain", "class", "method")]
    return [element.get("name", "") for element in etree.fromstring(result.xml.encode()).iter(*units)]


def document(content: str) -> str:
    """A document that has a domain in line 2 and ``content`` from line 3 on."""
    return f'<amqp name="small">\n{OCTET}\n{content}\n</amqp>\n'


def in_class(content: str) -> str:
    """Such a document with a class in line 3 and ``content`` in it from line 4 on."""
    return document(f'<class name="shop" index="10">\n{content}\n</class>')


# -- documents


def test_facts_are_kept_and_prose_is_dropped(read: Reader) -> None:
    result = read(DOCUMENT)
    assert result.xml == XML
    assert lines(result) == [NAMED]
    assert result.counts == {"constants": 2, "domains": 1, "classes": 1, "methods": 1, "fields": 3}


def test_output_comes_back_as_it_is(read: Reader) -> None:
    result = read(XML)
    assert (result.xml, lines(result)) == (XML, [])


def test_a_page_with_a_margin(read: Reader) -> None:
    broken = DOCUMENT.replace(" lfwidth", "\nlfwidth").replace("Gone.", "Gone, if id <= mark")
    spelled = f'a viewer\n<?xml version="1.0"?>\n<!-- gone: \\ufffd, \ufffd -->\n{broken}'
    result = read(spelled.replace("\n", "\n|\n |\n"))
    assert result.xml == XML
    marks = 2 * spelled.count("\n")
    assert lines(result) == [
        NAMED,
        "line 1: text before the document: dropped",
        f"line 2: '|' alone in {marks} lines, the last of them {3 * (marks // 2)}: a margin, dropped",
        "line 7: U+FFFD spelled out: a character was lost before, and stays lost",
        "line 7: octets that are not UTF-8: replaced by U+FFFD",
        "line 13: '<' begins no tag: read as text",
    ]


def test_a_drawing_is_no_margin(read: Reader) -> None:
    drawing = "<!-- drawn:\n|\n|\n|\n-->\n"
    assert lines(read(drawing + DOCUMENT)) == [NAMED]


def test_a_comment_defines_nothing(read: Reader) -> None:
    result = read(DOCUMENT.replace('<response name="got"/>', '<!-- <response name="got"/> -->'))
    assert "response" not in result.xml
    assert lines(result) == [NAMED]


@pytest.mark.parametrize(
    ("content", "first"),
    [
        ('<class name="shop" index="1"/><type name="t" class="restricted" source="uint"/>', "type"),
        (f'{OCTET}{OCTET}<type name="t" class="restricted" source="uint"/>', "domain"),
    ],
)
def test_the_grammar_with_more_elements_is_the_grammar(content: str, first: str, read: Reader) -> None:
    root = etree.fromstring(read(f'<amqp name="a">{content}</amqp>').xml.encode())
    (found,) = {etree.QName(element).localname for element in root.iter("*")} & {"type", "domain", "class"}
    assert found == first


def test_what_the_grammar_does_not_have_is_remarked_on(read: Reader) -> None:
    content = '<note/>\n<domain name="d" type="octet" since="2"><choice name="a" value="1"/></domain>'
    result = read(document(content))
    assert names(result) == ["octet", "d"]
    assert lines(result) == [
        "line 3: <note> is not an element of the grammar: dropped",
        "line 4: <choice> is not an element of the grammar: dropped",
        "line 4: attribute 'since' of <domain> is not one of the grammar: dropped",
    ]


# -- damage: what travels is taken as it stands or not at all; what is said about it may go alone

LEFT_OUT = {
    "a constant without a value": ('<constant name="x"/>', "<constant name='x'> has no value"),
    "an unknown class of errors": (
        '<constant name="x" value="1" class="odd"/>',
        "<constant name='x'> has the class 'odd'",
    ),
    "a width of no table type": (
        '<constant name="x" value="1" width="1"/>',
        "<constant name='x'> is no field table type and has a width",
    ),
    "a table type without a datatype": (
        '<constant name="x" value="1" class="field-table-type" width="1"/>',
        "<constant name='x'> is a field table type and has no datatype",
    ),
    "a table type without a width": (
        '<constant name="x" value="1" class="field-table-type" datatype="binary"/>',
        "<constant name='x'> is a field table type and has neither width nor lfwidth",
    ),
    "a table type with two widths": (
        '<constant name="x" value="1" class="field-table-type" width="1" lfwidth="1" datatype="binary"/>',
        "<constant name='x'> is a field table type and has both width and lfwidth",
    ),
    "a domain of nothing": (
        '<domain name="x"/>',
        "<domain name='x'> has neither a type nor a struct",
    ),
    "a domain of two things": (
        PAIR.replace('"pair"', '"pair" type="octet"'),
        "<domain name='pair'> has both a type and a struct",
    ),
    "a domain without an end": (
        PAIR.removesuffix("</domain>"),
        "<domain name='pair'> does not end",
    ),
    "a struct without a size": (
        PAIR.replace('size="short" ', ""),
        "<domain name='pair'> its <struct> in line 4 has no size",
    ),
    "a struct without an end": (
        PAIR.replace("</struct>", ""),
        "<domain name='pair'> its <struct> in line 4 does not end",
    ),
    "a struct's field without a domain": (
        PAIR.replace(' domain="octet"', "", 1),
        "<domain name='pair'> its <field name='left'> in line 5 has neither a domain nor a type",
    ),
    "a domain of two structs": (
        PAIR.replace("</domain>", '<struct size="short"/></domain>'),
        "<domain name='pair'> has 2 structs",
    ),
    "a class without a number": (
        '<class name="x">\n<method name="y" index="1"/>\n</class>',
        "<class name='x'> has no index",
    ),
    "a class whose property is damaged": (
        '<class name="x" index="1">\n<field name=y domain="octet"/>\n</class>',
        "<class name='x'> its <field> in line 4 has a damaged tag",
    ),
}


@pytest.mark.parametrize(("content", "remark"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_is_left_out(content: str, remark: str, read: Reader) -> None:
    result = read(document(content))
    assert lines(result) == [f"line 3: {remark}: left out"]
    assert names(result) == ["octet"]


SPOILT = {
    "no number": (' index="20"', "", "has no index"),
    "synchronous as a word": ('synchronous="1"', 'synchronous="yes"', "has the synchronous 'yes'"),
    "no end": ("</method>", "", "does not end"),
    "a damaged field": ("default=", "default", "its <field> in line 8 has a damaged tag"),
    "a field of two types": (
        'type="octet"',
        'type="octet" domain="octet"',
        "its <field name='flags'> in line 8 has both a domain and a type",
    ),
    "a struct whose code is no number": (
        'type="1"',
        'type="one"',
        "its <struct> in line 10 has the type 'one'",
    ),
    "a result without an end": ("</result>", "", "its <result> in line 9 does not end"),
    "a result without a struct": (
        '<struct size="long" type="1">\n<field name="count" domain="octet"/>\n</struct>\n',
        "",
        "its <result> in line 9 has no struct",
    ),
}


@pytest.mark.parametrize(("old", "new", "remark"), SPOILT.values(), ids=SPOILT)
def test_what_spoils_a_method(old: str, new: str, remark: str, read: Reader) -> None:
    assert GET.count(old) == 1
    result = read(in_class(GET.replace(old, new) + '<method name="put" index="30"/>'))
    assert lines(result) == [f"line 4: <method name='get'> {remark}: left out"]
    assert names(result) == ["octet", "shop", "put"]


LOST_ALONE = {
    "rule": ('<rule name="polite" on-failure="not-found"/>', "<rule/>", "line 5: <rule> has no name"),
    "chassis": ('"MUST"', '"must"', "line 6: <chassis name='server'> has the implement 'must'"),
    "response": ('<response name="got"/>', "<response name=got/>", "line 7: <response> has a damaged tag"),
    "assert": ('check="ne" ', "", "line 8: <assert> has no check"),
}


@pytest.mark.parametrize(("old", "new", "remark"), LOST_ALONE.values(), ids=LOST_ALONE)
def test_what_is_lost_alone(old: str, new: str, remark: str, read: Reader) -> None:
    assert GET.count(old) == 1
    result = read(in_class(GET.replace(old, new)))
    assert lines(result) == [f"{remark}: left out"]
    assert names(result) == ["octet", "shop", "get"]
    assert result.counts["fields"] == 2


def test_small_repairs(read: Reader) -> None:
    result = read(
        '<amqp name="small">\n<constant name="x" value="1">\n<class name="a" index="1">\n'
        '<method name="get" index="1">\n<rule name="r">\n<field name="f" domain="octet">\n</method>\n'
        '<class name="b" index="2"/>\n</chassis>'
    )
    assert names(result) == ["x", "a", "get", "b"]
    assert lines(result) == [
        "line 1: <amqp name='small'> does not end: taken to end before line 9",
        "line 2: <constant name='x'> does not end: taken to end before line 3",
        "line 3: <class name='a'> does not end: taken to end before line 8",
        "line 5: <rule name='r'> does not end: taken to end before line 6",
        "line 6: <field name='f'> does not end: taken to end before line 7",
        "line 9: </chassis> ends nothing: dropped",
    ]


def test_a_method_outside_of_a_class(read: Reader) -> None:
    result = read(document('<method name="lost" index="1">\n</method>'))
    assert names(result) == ["octet"]
    assert lines(result) == [
        "line 3: <method name='lost'> stands in no class, domain or field: left out",
    ]


def test_a_source_without_a_root(read: Reader) -> None:
    result = read(DOCUMENT.partition("\n")[2].replace("</amqp>", ""))
    assert names(result) == ["not-found", "table-text", "octet", "shop", "get"]
    assert lines(result) == [NAMED]


@pytest.mark.parametrize(
    "piece", ["<class>", "<method ", "<field name='a' domain='b'>", "< ", "<rule>", "|\n", "<result><struct>"]
)
def test_hostile_repetition_takes_linear_time(piece: str, read: Reader) -> None:
    # Quadratic time would be minutes at this size; the bound leaves room for a busy machine.
    started = time.process_time()
    result = read(piece * (200_000 // len(piece)) + DOCUMENT)
    assert time.process_time() - started < 5
    assert result.counts["domains"] >= 1


# -- the documents themselves


@pytest.fixture(scope="module")
def schema() -> etree.RelaxNG:
    return etree.RelaxNG(etree.parse(amqpforge_spec.schema("class-method")))


def test_output_follows_the_schema(read: Reader, schema: etree.RelaxNG) -> None:
    assert schema.validate(etree.fromstring(read(DOCUMENT).xml.encode()).getroottree()), schema.error_log


def test_the_seed(material: Path, tmp_path: Path) -> None:
    source, output = material / "seeds" / "002_2aa57edb51e5c7dd.txt", tmp_path / "preview.xml"
    result = run("import", source, "-o", output)
    assert result.code == 0
    report = [line.removeprefix(f"{source.as_posix()}:") for line in result.err.splitlines()]
    assert report == [
        "1: <amqp name='002-2aa57edb51e5c7dd'>: named after the file",
        "1: text before the document: dropped",
        "10: '|' alone in 14339 lines, the last of them 20294: a margin, dropped",
        "59: U+FFFD spelled out: a character was lost before, and stays lost",
        "6169: '<' begins no tag: read as text",
        "20076: '<' begins no tag: read as text",
        "constants: 83, domains: 49, classes: 15, methods: 108, fields: 340, remarks: 6",
    ]
    assert dict(etree.parse(output).getroot().attrib) == {
        "name": "002-2aa57edb51e5c7dd",
        "major": "99",
        "minor": "0",
        "port": "5672",
    }


def test_the_reader_misses_only_extensions_in_the_seed(material: Path, tmp_path: Path) -> None:
    """Wire forms, which the document does not give, have to be added by hand; nothing else has to."""
    output, problems = tmp_path / "preview.xml", Problems()
    output.write_text(import_definitions(material / "seeds" / "002_2aa57edb51e5c7dd.txt").xml)
    assert read_document(output, "preview.xml", problems) is not None
    root = etree.parse(output).getroot()
    formless = {domain.get("name") for domain in root.iter("*") if domain.get("type") == domain.get("name")}
    formless |= {constant.get("name") for constant in root.iter("*") if constant.get("datatype") == "special"}
    wanted = [problem.message for problem in problems.sorted()]
    assert {message.split("'")[1] for message in wanted} == formless - {None}
    assert [message for message in wanted if "f:" not in message] == []


def test_importing_our_own_definitions_changes_no_fact() -> None:
    file = amqpforge_spec.dialect_folder("amqp_0_10_preview") / "amqp.xml"
    ours, imported = etree.parse(file).getroot(), etree.fromstring(import_definitions(file).xml.encode())
    facts = [
        [
            (str(element.tag), {name: value for name, value in element.attrib.items() if is_fact(str(name))})
            for element in root.iter("*")
            if etree.QName(element).localname not in ("doc", "p")
        ]
        for root in (ours, imported)
    ]
    assert facts[0] == facts[1]


def is_fact(attribute: str) -> bool:
    return attribute != "label" and FORGE not in attribute

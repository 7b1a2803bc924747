"""The import command: facts out of documents as people have them, and a word on every line that gave none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from lxml import etree

import amqpforge_spec
from amqpforge_generator import xmlsource
from amqpforge_generator.importer import ImportResult, import_definitions
from tests.generator.forging import run, run_process
from tests.generator.importing import Reader, lines

AMQP = "{http://www.amqp.org/schema/amqp.xsd}"
FORGE = "{https://amqpforge.org/schema/extensions}"
HANDLE = '<type name="handle" class="restricted" source="uint"/>'
POINT = """\
<type name="point" class="composite" source="list">
<descriptor name="test:point:list" code="0x00000000:0x00000001"/>
<field name="x" type="int" mandatory="true"/>
<field name="y" type="int" default="0"/>
</type>"""
DOCUMENT = f"""\
<amqp name="small">
<section name="shapes">
{POINT}
{HANDLE}
</section>
</amqp>
"""
PAGE = """\
AMQP Version 1.0
Part 3 : Shapes

      2.1.1 Point

2.1 Plane Shapes

2.1.1 Point

<type name="point" class="composite" source="list"> <descriptor name="test:point:list"/> \
<field name="x" type="int" mandatory="true"/> <field name="x-unit" type="symbol" multiple="true"/> </type>

xthe distance from the leftmandatory int

x-unitwhat it is measured inoptional symbol[]

2.1.2 Constant Definitions

MAX-POINTS512how many points there may be.

2.2 Solid Shapes

2.2.1 Corner

<type name="corner" class="restricted" source="point"/>
"""


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    return Reader(tmp_path / "source.txt")


def names(result: ImportResult) -> list[str]:
    root = etree.fromstring(result.xml.encode())
    return [element.get("name", "") for element in root.iter(AMQP + "type", AMQP + "definition")]


def document(content: str) -> str:
    """A document whose section ``shapes`` begins in line 2 and holds ``content`` from line 3 on."""
    return f'<amqp name="small">\n<section name="shapes">\n{content}\n</section>\n</amqp>\n'


# -- documents


def test_a_plain_document_comes_back_without_remarks(read: Reader) -> None:
    result = read(DOCUMENT)
    assert result.remarks == ()
    assert result.counts == {"types": 2, "constants": 0, "sections": 1}
    assert (
        result.xml
        == """\
<?xml version="1.0" encoding="UTF-8"?>
<amqp xmlns="http://www.amqp.org/schema/amqp.xsd" name="small">
  <section name="shapes">
    <type name="point" class="composite" source="list">
      <descriptor name="test:point:list" code="0x00000000:0x00000001"/>
      <field name="x" type="int" mandatory="true"/>
      <field name="y" type="int" default="0"/>
    </type>
    <type name="handle" class="restricted" source="uint"/>
  </section>
</amqp>
"""
    )


def test_page_text_and_a_missing_dtd(read: Reader) -> None:
    page = (
        'blob: 1234 [file] [blame]\n<?xml version="1.0"?>\n<!-- a <type name="no"/> -->\n'
        '<!DOCTYPE amqp SYSTEM "amqp.dtd">\n'
    )
    result = read(page + DOCUMENT + "\n\nPowered by a viewer\n")
    assert names(result) == ["point", "handle"]
    assert lines(result) == [
        "line 1: text before the document: dropped",
        "line 4: '<!DOCTYPE amqp SYSTEM \"amqp.dtd\">': not read; nothing it names is loaded",
        "line 17: text after the document: dropped",
    ]


def test_prose_is_dropped_facts_are_kept(read: Reader) -> None:
    content = """\
<doc title="t"><p>A <xref name="point"/> &lt;type&gt; with <b>5 < 6</b> & so on, &nbsp; even <so.</p>
<picture><![CDATA[ <type name="drawn" class="restricted" source="uint"/> ]]></picture></doc>
<type class="restricted"
      source = 'symbol'
      label="a mode &undefined;"
      provides="mode,
                other" name="&lt;mode&#x3e;">
<choice name="on" value="" label="not off"><doc><p>On.</p></doc></choice>
</type>
<definition name="LIMIT" value="10" label="ten"><doc/></definition>"""
    result = read(document(content))
    mode = etree.fromstring(result.xml.encode()).find(f".//{AMQP}type")
    assert mode is not None
    assert dict(mode.attrib) == {
        "name": "<mode>",
        "class": "restricted",
        "source": "symbol",
        "provides": "mode, other",
    }
    assert [dict(choice.attrib) for choice in mode] == [{"name": "on", "value": ""}]
    assert names(result) == ["<mode>", "LIMIT"]
    assert "label" not in result.xml
    assert "On." not in result.xml
    assert lines(result) == ["line 3: '<' begins no tag: read as text"]


def test_a_section_without_definitions_is_left_out(read: Reader) -> None:
    result = read(f'<amqp name="a">\n<section name="talk"/>\n<section name="facts">{HANDLE}</section></amqp>')
    assert lines(result) == ["line 2: <section name='talk'> defines nothing that could be read: left out"]
    assert result.counts["sections"] == 1


def test_what_the_grammar_does_not_have_is_remarked_on(read: Reader) -> None:
    content = '<note/>\n<type name="t" class="restricted" source="uint" since="2"><rule name="r"/></type>'
    result = read(document(content))
    assert names(result) == ["t"]
    assert lines(result) == [
        "line 3: <note> is not an element of the grammar: dropped",
        "line 4: <rule> is not an element of the grammar: dropped",
        "line 4: attribute 'since' of <type> is not one of the grammar: dropped",
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks(encoding: str, read: Reader) -> None:
    assert read(DOCUMENT.replace("\n", "\r\n").encode(encoding)).xml == read(DOCUMENT).xml


def test_octets_that_are_not_utf8_cost_prose_only(read: Reader) -> None:
    result = read(b"caf\xe9\n\n" + DOCUMENT.encode())
    assert names(result) == ["point", "handle"]
    assert lines(result)[0] == "line 1: octets that are not UTF-8: replaced by U+FFFD"


def test_facts_beyond_ascii_survive_any_stream(read: Reader) -> None:
    result = read(document('<definition name="PRICE-\u20ac" value="1"/>'))
    assert result.xml.isascii()
    assert names(result) == ["PRICE-\u20ac"]


# -- damage: a fact is taken as it stands, or not at all

DAMAGED = {
    "no end tag": (
        f"{POINT.removesuffix('</type>')}\n{HANDLE}",
        ["line 3: <type name='point'> does not end: left out"],
    ),
    "a field without a type": (
        POINT.replace(' type="int" default="0"', "") + HANDLE,
        ["line 3: <type name='point'> its <field name='y'> in line 6 has no type: left out"],
    ),
    "a damaged field": (
        POINT.replace('default="0"/>', 'default="0/>') + HANDLE,
        ["line 3: <type name='point'> its <field> in line 6 has a damaged tag: left out"],
    ),
    "an attribute without quotes": (
        POINT.replace('"true"', "true") + HANDLE,
        ["line 3: <type name='point'> its <field> in line 5 has a damaged tag: left out"],
    ),
    "an attribute twice": (
        POINT.replace('default="0"', 'type="uint"') + HANDLE,
        ["line 3: <type name='point'> its <field name='y'> in line 6 has no readable type: left out"],
    ),
    "an undefined entity in a fact": (
        POINT.replace('"x"', '"&x;"') + HANDLE,
        ["line 3: <type name='point'> its <field> in line 5 has no readable name: left out"],
    ),
    "a character that XML does not have": (
        POINT.replace('"x"', '"&#0;"') + HANDLE,
        ["line 3: <type name='point'> its <field> in line 5 has no readable name: left out"],
    ),
    "mandatory neither true nor false": (
        POINT.replace('"true"', '"maybe"') + HANDLE,
        ["line 3: <type name='point'> its <field name='x'> in line 5 has the mandatory 'maybe': left out"],
    ),
    "an unknown class": (
        POINT.replace("composite", "complex") + HANDLE,
        ["line 3: <type name='point'> has the class 'complex': left out"],
    ),
    "no descriptor": (
        POINT.replace("<descriptor", "<!-- descriptor").replace("1000", "1").replace('01"/>', '01" -->')
        + HANDLE,
        ["line 3: <type name='point'> is composite and has no descriptor: left out"],
    ),
    "no source": (
        POINT.replace(' source="list"', "") + HANDLE,
        ["line 3: <type name='point'> is composite and has no source: left out"],
    ),
    "a choice in a composite": (
        POINT.replace("<field name", '<choice name="a" value="b"/><field name', 1) + HANDLE,
        ["line 3: <type name='point'> is composite and has a child <choice>: left out"],
    ),
    "no encoding": (
        f'<type name="byte" class="primitive"/>{HANDLE}',
        ["line 3: <type name='byte'> is primitive and has no encoding: left out"],
    ),
    "an empty name": (
        f'<type name="" class="restricted" source="map"/>{HANDLE}',
        ["line 3: <type> has an empty name: left out"],
    ),
    "a constant without a value": (
        f'<definition name="PORT"/>{HANDLE}',
        ["line 3: <definition name='PORT'> has no value: left out"],
    ),
    "a field that is not closed": (
        f'{HANDLE}<type name="t" class="restricted" source="symbol">\n<choice name="a" value="a">\n</type>',
        ["line 4: <choice name='a'> does not end: taken to end before line 5"],
    ),
    "a field outside of a type": (
        f'<field name="lost" type="uint">\n</field>\n{HANDLE}',
        ["line 3: <field name='lost'> stands in no type: left out"],
    ),
    "an end tag too many": (f"</type>\n{HANDLE}", ["line 3: </type> ends nothing: dropped"]),
    "a comment without an end": (
        f"<!-- never\n{HANDLE}",
        ["line 3: a comment never ends: what follows is read all the same"],
    ),
}


@pytest.mark.parametrize(("content", "remarks"), DAMAGED.values(), ids=DAMAGED)
def test_damage(content: str, remarks: list[str], read: Reader) -> None:
    result = read(document(content))
    assert lines(result) == remarks
    assert "handle" in names(result)
    assert "point" not in names(result)


def test_a_document_that_breaks_off(read: Reader) -> None:
    result = read(DOCUMENT[: DOCUMENT.index("</section>")] + '<type name="cut" class="rest')
    assert names(result) == ["point", "handle"]
    assert lines(result) == [
        "line 1: <amqp name='small'> does not end: taken to end before line 9",
        "line 2: <section name='shapes'> does not end: taken to end before line 9",
        "line 9: <type> has a damaged tag; does not end: left out",
    ]


def test_a_section_whose_tag_is_damaged(read: Reader) -> None:
    result = read(f'<amqp name="a">\n<section name=shapes>\n{HANDLE}\n</section>\n</amqp>')
    assert names(result) == ["handle"]
    assert lines(result) == [
        "line 2: <section> has a damaged tag: what it defines is kept without it",
        "line 3: <section name='definitions'>: the text names none",
    ]


def test_a_root_that_is_damaged_or_gone(read: Reader) -> None:
    damaged = read(DOCUMENT.replace('"small"', "small"))
    assert lines(damaged) == [
        "line 1: <amqp name='source'>: named after the file",
        "line 1: <amqp> has a damaged tag: what it holds is kept",
    ]
    gone = read(DOCUMENT.partition("\n")[2])
    assert names(damaged) == names(gone) == ["point", "handle"]
    assert lines(gone) == [
        "line 1: <amqp name='source'>: named after the file",
        "line 9: </amqp> ends nothing: dropped",
    ]


def test_two_documents_in_one_source(read: Reader) -> None:
    result = read(DOCUMENT + DOCUMENT.replace("small", "second"))
    assert result.counts["sections"] == 2
    assert lines(result) == ["line 11: <amqp name='second'> begins another document: joined to the first"]


# -- pages of prose


def test_a_page_gives_sections_numbers_and_constants(read: Reader) -> None:
    result = read(PAGE)
    assert (
        result.xml
        == """\
<?xml version="1.0" encoding="UTF-8"?>
<amqp xmlns="http://www.amqp.org/schema/amqp.xsd" xmlns:f="https://amqpforge.org/schema/extensions" \
name="shapes">
  <section name="plane-shapes" f:ref="2.1">
    <type name="point" class="composite" source="list" f:ref="2.1.1">
      <descriptor name="test:point:list"/>
      <field name="x" type="int" mandatory="true"/>
      <field name="x-unit" type="symbol" multiple="true"/>
    </type>
    <definition name="MAX-POINTS" value="512" f:ref="2.1.2"/>
  </section>
  <section name="solid-shapes" f:ref="2.2">
    <type name="corner" class="restricted" source="point" f:ref="2.2.1"/>
  </section>
</amqp>
"""
    )
    assert lines(result) == [
        "line 2: <amqp name='shapes'>: named after the title of the page",
        "line 6: <section name='plane-shapes'>: named after the heading 'Plane Shapes'",
        "line 18: constant MAX-POINTS = 512: taken from a line whose columns run together",
        "line 20: <section name='solid-shapes'>: named after the heading 'Solid Shapes'",
    ]


@pytest.mark.spec("M-FORMAT-009")
@pytest.mark.parametrize(
    ("entry", "remark"),
    [
        ("xthe distanceoptional int", "the entry of field 'x' says optional int"),
        ("xthe distancemandatory long", "the entry of field 'x' says mandatory long"),
        ("x-unitits unitoptional symbol", "the entry of field 'x-unit' says optional symbol"),
        ("x-unitits unitmandatory symbol[]", "the entry of field 'x-unit' says mandatory symbol[]"),
    ],
)
def test_a_fused_entry_never_overrules_the_definition(entry: str, remark: str, read: Reader) -> None:
    changed = PAGE.replace("xthe distance from the leftmandatory int", entry)
    result = read(changed)
    assert result.xml == read(PAGE).xml
    assert f"line 12: {remark}: <type name='point'> is followed instead" in lines(read(changed))


def test_a_fused_entry_of_a_lost_field_is_remarked_on(read: Reader) -> None:
    result = read(PAGE.replace("x-unitwhat", "zhow high it isoptional int\n\nx-unitwhat"))
    assert "line 14: an entry 'zhow high it is' fits no field of <type name='point'>: not used" in lines(
        result
    )


def test_numbers_in_prose_are_no_constants(read: Reader) -> None:
    result = read(PAGE.replace("2.1.2 Constant Definitions", "2.1.2 Other Remarks"))
    assert names(result) == ["point", "corner"]


def test_a_section_heading_that_is_lost(read: Reader) -> None:
    result = read(PAGE.replace("2.2 Solid Shapes", ""))
    assert "line 24: <section name='section-2-2'>: the text names none" in lines(result)


# -- what is refused

ENTITIES = {
    "internal": '<!DOCTYPE amqp [\n<!ENTITY a "aaaa">\n]>',
    "external": '<!DOCTYPE amqp [\n<!ENTITY a SYSTEM "file:///etc/passwd">\n]>',
    "parameter": '<!DOCTYPE amqp SYSTEM "x" [\n<!ENTITY % a SYSTEM "http://localhost/a">\n%a; ]>',
    "after a quoted comment opener": '<!DOCTYPE amqp [<!NOTATION n SYSTEM "<!--">\n<!ENTITY a "b">]>',
    "after a comment": '<!DOCTYPE amqp [<!-- ]> " -->\n<!ENTITY a "b">]>',
    "without a document type": '\n<!ENTITY a "b">',
}


@pytest.mark.parametrize("declaration", ENTITIES.values(), ids=ENTITIES)
def test_entity_declarations_are_refused(declaration: str, read: Reader) -> None:
    problems = read.fails(declaration + DOCUMENT.replace('"0"', '"&a;"'))
    assert problems == ["source.txt:2: an entity is declared; entities are refused, write the text out"]


def test_every_entity_declaration_is_reported(read: Reader) -> None:
    bomb = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">\n' for level in range(1, 10))
    assert len(read.fails(f'<!DOCTYPE amqp [\n<!ENTITY e0 "ha">\n{bomb}]>\n{DOCUMENT}')) == 10


def test_an_entity_declaration_in_a_comment_is_none(read: Reader) -> None:
    assert names(read('<!DOCTYPE amqp [<!-- <!ENTITY a "b"> -->]>' + DOCUMENT)) == ["point", "handle"]


NOTHING = (
    "source.txt:1: holds no definitions (<type>, <definition>, <constant>, <domain>, <class>) "
    "that can be read"
)
UNUSABLE = {
    "empty": (b"", "source.txt:1: is empty"),
    "blank": (b" \n\t\n", "source.txt:1: is empty"),
    "binary": (b"\x89PNG\r\n\x1a\n\0\0", "source.txt:2: is not text: it holds control characters"),
    "UTF-16 unmarked": (
        DOCUMENT.encode("utf-16-le"),
        "source.txt:1: is not text: it holds control characters",
    ),
    "prose only": (
        b"Nothing here.",
        NOTHING,
    ),
    "nothing usable": (
        document('<type name="t"/>').encode(),
        NOTHING,
    ),
    "an end tag alone": (
        b"</amqp>",
        NOTHING,
    ),
}


@pytest.mark.parametrize(("source", "problem"), UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_sources(source: bytes, problem: str, read: Reader) -> None:
    assert read.fails(source) == [problem]


def test_the_size_is_bounded(read: Reader) -> None:
    problems = read.fails(b" " * (xmlsource.MAX_OCTETS + 1))
    assert problems == [
        f"source.txt:1: larger than {xmlsource.MAX_OCTETS} octets; no definition file is that large"
    ]


@pytest.mark.parametrize(
    "piece",
    [
        "<!--",
        "<![CDATA[",
        "<?",
        "<type ",
        '<type name="',
        "<!DOCTYPE ",
        "<!DOCTYPE [\"'",
        "<type x='",
        "<a",
        "<section>",
        "<field name='a' type='b'>",
        "2.1 A\n",
        "A1x\n",
        "aoptional b\n",
        "&",
        "<type" + " a" * 200,
    ],
    ids=repr,
)
def test_hostile_repetition_takes_linear_time(piece: str, read: Reader) -> None:
    # Quadratic time would be minutes at this size; the bound leaves room for a busy machine.
    started = time.process_time()
    result = read(piece * (200_000 // len(piece)) + DOCUMENT)
    assert time.process_time() - started < 5
    assert result.counts["types"] >= 0


# -- the command


def test_the_command_writes_the_file_and_reports(tmp_path: Path) -> None:
    source, output = tmp_path / "page.txt", tmp_path / "out" / "shapes.xml"
    source.write_text("page\n" + DOCUMENT)
    result = run("import", source, "-o", output)
    assert result.code == 0
    assert result.out == ""
    assert result.err == (
        f"{source.as_posix()}:1: text before the document: dropped\n"
        "types: 2, constants: 0, sections: 1, remarks: 1\n"
    )
    assert output.read_text() == import_definitions(source).xml
    assert [file.name for file in output.parent.iterdir()] == ["shapes.xml"]


def test_the_command_writes_to_standard_output(tmp_path: Path) -> None:
    source = tmp_path / "small.xml"
    source.write_text(DOCUMENT)
    result = run("import", source, "-o", "-")
    assert (result.code, result.out) == (0, import_definitions(source).xml)


def test_failures_exit_with_1_and_leave_the_output_alone(tmp_path: Path) -> None:
    source, output = tmp_path / "empty.txt", tmp_path / "old.xml"
    source.write_bytes(b"")
    output.write_text("old")
    result = run("import", source, "-o", output)
    assert (result.code, result.out, result.err) == (1, "", f"{source.as_posix()}:1: is empty\n")
    assert output.read_text() == "old"
    missing = run("import", tmp_path / "nowhere.txt", "-o", output)
    assert missing.code == 1
    assert (
        missing.err
        == f"{(tmp_path / 'nowhere.txt').as_posix()}:1: cannot be read: No such file or directory\n"
    )


def test_the_source_is_never_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "small.xml"
    source.write_text(DOCUMENT)
    result = run("import", source, "-o", tmp_path / "." / "small.xml")
    assert (result.code, source.read_text()) == (1, DOCUMENT)
    assert result.err.endswith("small.xml: is the source itself; name another file\n")


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    source = tmp_path / "small.xml"
    source.write_text(DOCUMENT)
    result = run("import", source, "-o", source / "below.xml")
    assert result.code == 1
    assert (
        result.err.endswith("below.xml: cannot be written: File exists\n") or "Not a directory" in result.err
    )


def test_output_is_the_same_for_every_hash_seed(tmp_path: Path) -> None:
    source = tmp_path / "page.txt"
    source.write_text(PAGE)
    first, second = (
        run_process("import", source, "-o", "-", cwd=tmp_path, PYTHONHASHSEED=seed) for seed in ("1", "2")
    )
    assert first.code == 0
    assert first == second


# -- the documents themselves


@pytest.fixture(scope="module")
def schema() -> etree.RelaxNG:
    return etree.RelaxNG(etree.parse(amqpforge_spec.schema("amqp-1.0")))


@pytest.mark.parametrize("source", [DOCUMENT, PAGE], ids=["document", "page"])
def test_output_follows_the_schema(source: str, read: Reader, schema: etree.RelaxNG) -> None:
    assert schema.validate(etree.fromstring(read(source).xml.encode()).getroottree()), schema.error_log


SEEDS = {
    "000_8a91a48cb71d0637.txt": (27, 6, 2, [1, 86, 90, 264, 388, 512, 860, 1140]),
    "001_450135b3d22a435f.txt": (31, 1, 3, [2, 163, 367, 384, 522]),
}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_seeds(seed: str, material: Path, schema: etree.RelaxNG) -> None:
    types, definitions, sections, remarked = SEEDS[seed]
    result = import_definitions(material / "seeds" / seed)
    assert result.counts == {"types": types, "constants": definitions, "sections": sections}
    assert [remark.line for remark in result.remarks] == remarked
    assert schema.validate(etree.fromstring(result.xml.encode()).getroottree()), schema.error_log


@pytest.mark.parametrize("part", ["types", "transport", "messaging", "transactions", "security"])
def test_importing_our_own_definitions_changes_no_fact(part: str) -> None:
    file = amqpforge_spec.dialect_folder("amqp_1_0") / f"{part}.xml"
    ours, imported = etree.parse(file), etree.fromstring(import_definitions(file).xml.encode())
    for tag in ("type", "field", "choice", "encoding", "descriptor", "definition"):
        facts = [
            [
                {
                    name: value
                    for name, value in element.attrib.items()
                    if name != "label" and FORGE not in str(name)
                }
                for element in tree.iter(AMQP + tag)
            ]
            for tree in (ours, imported)
        ]
        assert facts[0] == facts[1]

"""Problems of whole dialects: all of them in one run, each at its place, none of them noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqpforge_generator.document import Location
from amqpforge_generator.errors import Problem, Problems, SpecErrors, suggestion
from amqpforge_generator.load import load_dialect, load_dialects
from tests.generator.inline import (
    AMQP,
    CONTROL_COMMAND,
    END,
    MODE,
    PRIMITIVES,
    TYPE,
    load,
    problems,
    problems_of,
    section,
)


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

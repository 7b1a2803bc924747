"""The reference pages: one for everything, every link with an end, and on them what the definitions say."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from amqpforge_generator.load import load_dialect
from amqpforge_spec import dialect_folder
from tests.generator.forging import SPEC, run

LINK = re.compile(r"(?<!\\)\]\(([^)#]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the reference of all golden dialects."""
    root = tmp_path_factory.mktemp("golden")
    assert run("--spec", SPEC, "--target", "markdown", "--out", root).code == 0
    return root / "docs" / "reference"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the reference of the dialects that come with the project."""
    root = tmp_path_factory.mktemp("shipped")
    spec = dialect_folder("amqp_1_0").parent
    assert run("--spec", spec, "--target", "markdown", "--out", root).code == 0
    return root / "docs" / "reference"


def anchors(text: str) -> set[str]:
    """What the headings of a page can be linked to by: their words in small letters, with hyphens between."""
    titles = (title.replace("\\", "").lower() for title in HEADING.findall(text))
    return {re.sub(r"[^a-z0-9 _-]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", ["golden", "shipped"])
def test_there_is_a_page_for_everything_and_no_broken_link(request: pytest.FixtureRequest, name: str) -> None:
    folder: Path = request.getfixturevalue(name)
    pages = {file: file.read_text(encoding="utf-8") for file in folder.rglob("*.md")}
    reached = {folder / "index.md"}
    for page, text in pages.items():
        for link, anchor in LINK.findall(text):
            end = page.parent.joinpath(link).resolve() if link else page
            assert end in pages, (page, link)
            assert not anchor or anchor in anchors(pages[end]), (page, link, anchor)
            reached.add(end)
    assert reached == pages.keys()


def test_no_page_has_an_empty_or_ragged_table(golden: Path, shipped: Path) -> None:
    for file in (*golden.rglob("*.md"), *shipped.rglob("*.md")):
        for table in re.findall(r"(?:^\|.*\n)+", file.read_text(encoding="utf-8"), re.MULTILINE):
            rows = [re.sub(r"\\.", "", row).count("|") for row in table.splitlines()]
            assert len(rows) > 2, (file, table)
            assert len(set(rows)) == 1, (file, table)


def test_the_diagram_of_a_machine_has_an_arrow_for_every_move(golden: Path) -> None:
    page = golden / "machine" / "states" / "machine-door.md"
    diagram = page.read_text(encoding="utf-8").split("```")[1].splitlines()
    assert diagram == [
        "mermaid",
        "stateDiagram-v2",
        "    [*] --> CLOSED",
        "    CLOSED --> OPEN: push",
        "    OPEN --> CLOSED: pull, wind",
    ]


def rows_of(page: Path) -> dict[str, list[str]]:
    """The rows of the tables of a page under the heading that they follow."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^#+ ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, rest = part.partition("\n")
        lines = [line for line in rest.splitlines() if line.startswith("|")]
        found[title] = [line.strip("|").strip() for line in lines if line.strip("| -")]
    return found


def test_the_page_of_a_class_says_all_about_its_methods(golden: Path) -> None:
    rows = rows_of(golden / "bits" / "bits" / "class-queue.md")
    assert rows["Class queue"] == [
        "Code | 50",
        "For a server | MUST",
        "For a client | MUST",
        "Methods | [declare](#method-declare), [declare-ok](#method-declare-ok), [publish](#method-publish), "
        "[query](#method-query)",
    ]
    assert rows["Rules"][1:] == ["lasting |  | A durable queue outlives its server."]
    assert rows["Properties of its content"][1:] == [
        "priority | [short](../bits/short.md) | optional | A property of the content."
    ]
    assert rows["Method declare"] == [
        "Code | 10",
        "Synchronous | yes",
        "Carries content | no",
        "Sent by | client",
        "Answered by | [declare-ok](#method-declare-ok)",
        "For a server | MUST",
        "Argument | Type | Default | Conditions | Meaning",
        "queue | [queue-name](../bits/queue_name.md) |  |  | Which one.",
        "passive | [bit](../bits/bit.md) |  |  | Only look.",
        "durable | [bit](../bits/bit.md) | true |  | Keep it.",
        "length | [short](../bits/short.md) | 100 | not 0; at most priority | How many messages at most.",
        "Field | Rule | On failure | What it says",
        "| once | content-too-large | No queue is made twice.",
        "length | sensible | content-too-large |",
    ]


def test_the_page_of_a_class_shows_headers_and_results(golden: Path) -> None:
    rows = rows_of(golden / "bits" / "bits" / "class-queue.md")
    assert "Header | [preamble](../bits/preamble.md), in front of the other arguments" in rows["Method query"]
    assert "Result | queue-query-result, below" in rows["Method query"]
    assert rows["Result queue-query-result"] == [
        "Layout | a size of 4 octets; a code of 2 octets; all fields, neighbouring bits in one octet",
        "Code | 0x3201",
        "Argument | Type | Default | Conditions | Meaning",
        "depth | [short](../bits/short.md) |  |  | How many messages.",
        "busy | [bit](../bits/bit.md) |  |  | Whether somebody reads.",
    ]


def test_the_page_of_a_class_of_commands_says_what_can_fail(golden: Path) -> None:
    rows = rows_of(golden / "flags" / "flags" / "class-message.md")
    assert rows["Class message"] == [
        "Code | 0x04",
        "Operations | [transfer](#command-transfer), [stop](#control-stop)",
    ]
    assert rows["Command transfer"] == [
        "Code | 0x04a1",
        "Layout | a code of 2 octets; packing flags of 2 octets; the fields whose flag is set",
        "Field | Type | Presence | Meaning",
        "accept-mode | [mode](../flags/mode.md) | default all | How to accept.",
        "headers | [header](../flags/header.md), one or many | optional | One or many.",
        "note | [any](../flags/any.md) | optional | Whatever the sender likes.",
        "Exception | Error | Number | Meaning",
        "half-taken | some | 1 | Only a part was taken.",
    ]


def test_the_page_of_a_type_says_its_form_layout_conditions_and_rules(golden: Path) -> None:
    bits, flags = golden / "bits" / "bits", golden / "flags" / "flags"
    assert rows_of(bits / "shortstr.md")["shortstr"] == [
        "Kind | primitive",
        "Wire form | text in utf-8: a size of 1 octet, then the octets",
    ]
    assert rows_of(flags / "uint16.md")["uint16"][1:] == [
        "Type code | 0x12",
        "Wire form | whole number without a sign: 2 octets",
    ]
    name = rows_of(bits / "queue_name.md")
    assert name["queue-name"][1:] == [
        "Source | [shortstr](../bits/shortstr.md)",
        "Condition | at most 127 octets",
        "Condition | matches ^\\[a-z\\]\\*$",
    ]
    assert name["Rules"][1:] == ["own-names | content-too-large | A peer makes up names in its own part."]
    assert rows_of(bits / "path.md")["path"][-1] == "Condition | slashes: (/\\[a-z\\]+)\\*"
    place = rows_of(bits / "place.md")
    assert place["place"] == [
        "Kind | composite",
        "Layout | a size of 2 octets; a code of 2 octets; packing flags of 2 octets; "
        "the fields whose flag is set",
        "Code | 0x0007",
    ]
    assert len(place["Fields"]) == 3


def test_the_page_of_a_dialect_lists_its_classes_values_and_ranges(golden: Path) -> None:
    flags = golden / "flags" / "index.md"
    rows = rows_of(flags)
    assert rows["flags"] == [
        "Grammar of the definitions | control-command",
        "A connection begins with | 41 4D 51 50 01 00 00 00",
        "Primitive types | 5",
        "Types made of others | 1",
        "Types with fields | 2",
        "Classes | 1",
        "Controls | 1",
        "Commands | 1",
    ]
    assert rows["Classes"][1:] == [
        "[message](flags/class-message.md) | 4 | [transfer](flags/class-message.md#command-transfer), "
        "[stop](flags/class-message.md#control-stop)"
    ]
    assert rows["Values that tell their type"][1:] == [
        "0x08 | [boolean](flags/boolean.md) | truth value: 1 octet | one octet",
        "0x12 | [uint16](flags/uint16.md) | whole number without a sign: 2 octets | two octets",
        "0x95 | [str16](flags/str16.md) | text in utf-8: a size of 2 octets, then the octets | text",
    ]
    assert rows["Ranges of codes"][1:] == [
        "0x00 | 0x0f | 1 octet | One octet.",
        "0x10 | 0x1f | 2 octets | Two octets.",
        "0x90 | 0x9f | a size of 2 octets, then as many octets | A size of two octets.",
        "0xb0 | 0xbf | not known: reserved | For later.",
    ]
    tables = rows_of(golden / "tables" / "index.md")["Values that tell their type"]
    assert tables[1] == "0x41 | table-list | list: a size of 4 octets, then the octets | values in a row"


def test_the_page_of_a_module_groups_constants_by_their_enumeration(golden: Path) -> None:
    rows = rows_of(golden / "tables" / "tables" / "index.md")
    assert rows["Types and constants"][-1] == "frame-end | 206 | What ends a frame."
    assert rows["Enumeration frame-type"][1:] == [
        "frame-method | 1 | A method.",
        "frame-body | 3 | Octets of a content.",
    ]
    assert rows["Enumeration reply-code"][1:] == [
        "no-route | 312 | Soft error. Nobody takes it.",
        "frame-error | 501 | Hard error. Not a frame.",
    ]
    assert rows["Enumeration table-type"][:2] == [
        "Constant | Code | Wire form | Meaning",
        "table-moment | 0x54 | seconds since 1970: 8 octets | a moment",
    ]


def test_every_class_and_operation_of_the_shipped_dialects_has_its_heading(shipped: Path) -> None:
    exchange = rows_of(shipped / "amqp_0_10_preview" / "domains" / "class-exchange.md")
    assert {"Method declare", "Method delete", "Method query", "Result exchange-query-result"} <= set(
        exchange
    )
    assert any(row.startswith("ticket | validity | access-refused |") for row in exchange["Method declare"])
    session = rows_of(shipped / "amqp_1_0_draft" / "operations" / "class-session.md")
    assert {"Control attach", "Command enlist"} <= set(session)


def test_the_overview_of_dialects_counts_what_the_definitions_hold() -> None:
    """It is written by hand, names every dialect that ships, and has the numbers right."""
    text = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text(encoding="utf-8")
    lines = [line for line in text.split("## What")[0].splitlines() if line.startswith("|")]
    table = {
        row: cells for row, *cells in ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    }
    names = [cell.strip("`") for cell in table["Package"]]
    folders = dialect_folder("amqp_1_0").parent.iterdir()
    assert sorted(names) == sorted(folder.name for folder in folders if list(folder.glob("*.xml")))
    for column, name in enumerate(names):
        dialect = load_dialect(dialect_folder(name))
        kinds = Counter(method.kind for class_ in dialect.classes for method in class_.methods)
        operations = [kinds[kind] for kind in ("method", "control", "command") if kinds[kind]]
        frames = [type_ for type_ in dialect.types if {"frame", "sasl-frame"} & set(type_.provides)]
        found = {
            "Primitive types": [sum(type_.kind == "primitive" for type_ in dialect.types)],
            "Forms of a value of any type": [len(dialect.value_encodings)],
            "State machines": [len(dialect.machines)] if dialect.machines else [],
            "Operations": [*operations, len(dialect.classes)] if operations else [len(frames)],
        }
        for row, numbers in found.items():
            assert [int(number) for number in re.findall(r"\d+", table[row][column])] == numbers, (name, row)
        assert dialect.protocol_header.hex(" ") in table["Protocol header"][column]
        for class_ in dialect.classes:
            assert not class_.fields or class_.name.xml in table["Content"][column]

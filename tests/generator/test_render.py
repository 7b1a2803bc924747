"""From the model to the text: golden files, filters that nothing dangerous passes, targets that complain."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from amqpforge_generator.target import TargetErrors, load_target
from amqpforge_spec import dialect_folder
from tests.generator.forging import GOLDEN, SPEC, TARGET, make_workshop, run, tree
from tests.generator.inline import section

UPDATE = "AMQPFORGE_UPDATE_GOLDEN"


# --- golden files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["plain", "go"])
def test_golden_files(tmp_path: Path, target: str) -> None:
    """Each feature's tiny definition renders as it is on file; ``AMQPFORGE_UPDATE_GOLDEN=1`` renews it."""
    expected = GOLDEN / "expected" / target
    if os.environ.get(UPDATE):
        assert run("--spec", SPEC, "--templates", GOLDEN / target, "--out", expected).code == 0
        for manifest in expected.rglob(".manifest-*.json"):
            manifest.unlink()
    assert run("--spec", SPEC, "--templates", GOLDEN / target, "--out", tmp_path).code == 0
    found, wanted = tree(tmp_path), tree(expected)
    assert sorted(found) == sorted(wanted)
    for path, data in wanted.items():
        assert found[path].decode() == data.decode(), path


PYTHON_DEFINITIONS = sorted((GOLDEN / "python").glob("*.xml"))


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the Python target makes of AMQP 1.0 and further definitions: the folder to import from."""
    root = tmp_path_factory.mktemp("extended")
    folder = root / "spec" / "extended"
    shutil.copytree(dialect_folder("amqp_1_0"), folder)
    for definition in PYTHON_DEFINITIONS:
        shutil.copy(definition, folder)
    result = run("--spec", root / "spec", "--out", root)
    assert (result.code, result.err) == (0, "")
    return root / "generated"


@pytest.mark.parametrize("name", [definition.stem for definition in PYTHON_DEFINITIONS])
def test_golden_files_of_the_python_target(extended: Path, name: str) -> None:
    """Further definitions beside those of AMQP 1.0 become the modules on file (renewed as above)."""
    made = extended / "amqpforge_protocol" / "extended" / f"{name}.py"
    expected = GOLDEN / "expected" / "python" / f"{name}.py"
    if os.environ.get(UPDATE):
        expected.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, expected)
    assert made.read_text(encoding="utf-8") == expected.read_text(encoding="utf-8")


def test_what_the_python_target_makes_of_further_definitions_works(extended: Path) -> None:
    script = """
from amqpforge_protocol import extended as e
sample = e.Sample(from_="x", side=e.Role.SENDER, wait=e.Milliseconds(5), tags=["a"], anything=[1])
sample.state = e.Accepted()
assert e.decode_value(sample.encode())[0] == sample
assert e.decode_value(e.Sample(from_="x").encode())[0] == e.Sample(from_="x", count=7, side=e.Role.RECEIVER)
assert e.Bare().encode() == bytes.fromhex("008000000fff0000000245")
assert e.Level.HIGH.value == 9
assert [choice.value for choice in e.Hostile] == ['"; import os #', chr(92), "{{ 7 * 7 }}"]
assert "turned" in e.Hostile.__doc__ and chr(0x202E) not in e.Hostile.__doc__
assert e.LIMIT == 42
"""
    assert _run_script(extended, script) == (0, "")


def test_names_that_python_has_other_plans_for_still_work(extended: Path) -> None:
    script = """
from decimal import Decimal
from uuid import UUID
from amqpforge_protocol import extended as e
clash = e.Clash(encode_=1, self=2, type="a", len="b", str_="c", bytes_=b"d", list_=[3], int_=4, body=b"e")
clash.pack_uint, clash.budget = 5, e.AmqpDecimal(6)
assert e.decode_value(clash.encode())[0] == clash
assert e.Clash.FIELDS[0][:2] == ("encode", "encode_") and e.Clash().encode()[-1] == 0x45
message = e.AmqpMessage(price=Decimal("1.5"))
assert e.decode_value(message.encode())[0] == message
assert e.Message(body=e.AmqpValue(1)) == e.decode_message(e.encode_message(e.Message(body=e.AmqpValue(1))))
"""
    assert _run_script(extended, script) == (0, "")


def test_maps_take_keys_of_any_types(extended: Path) -> None:
    script = """
from uuid import UUID
from amqpforge_protocol.extended import *
store = Store(letter=Letter.A)
store.shelf = {ULong(1): "a", Symbol("b"): 2}
store.drawer = {UInt(1): "a", UUID(int=1): 2, UInt(2): None}
store.box = {"text": 1, Symbol("symbol"): [2]}
store.heap = {1: True, "b": 2.5}
back = decode_value(store.encode())[0]
assert back.encode() == store.encode() and back.shelf == store.shelf and back.box == store.box
assert [type(key) for key in back.drawer] == [UInt, UUID, UInt] and dict(back.drawer.items()) == store.drawer
assert [type(key) for key in back.box] == [str, Symbol] and back.heap == store.heap
assert Store(shelf={"b": 1}).encode() == Store(shelf={Symbol("b"): 1}).encode()
same = Store(drawer=Map([(UInt(1), "a"), (UUID(int=1), "b")]))
assert list(decode_value(same.encode())[0].drawer.items()) == list(same.drawer.items())
for field, key in ("drawer", 1), ("drawer", "a"), ("shelf", 1), ("box", 1):
    try:
        Store(**{field: {key: 0}}).encode()
    except EncodeError as error:
        assert error.field == field and f"the key {key!r} is not of type" in error.reason, error
    else:
        raise AssertionError(field)
try:
    decode_value(Store(heap={1: []}).encode())
except EncodeError as error:
    assert "simple types only" in error.reason
"""
    assert _run_script(extended, script) == (0, "")


def test_a_dialect_without_frames_or_messages_is_a_package_too(tmp_path: Path) -> None:
    folder = tmp_path / "spec" / "mini"
    folder.mkdir(parents=True)
    shutil.copy(dialect_folder("amqp_1_0") / "types.xml", folder)
    (folder / "things.xml").write_text(
        section(
            '<type name="thing" class="composite" source="list" label="A thing">',
            '<descriptor name="example:thing:list" code="0x00000fff:0x00000001"/>',
            '<field name="weight" type="double" label="In grams"/>',
            "</type>",
            name="things",
        ),
        encoding="utf-8",
    )
    result = run("--spec", tmp_path / "spec", "--out", tmp_path)
    assert (result.code, result.err) == (0, "")
    made = {file.name for file in (tmp_path / "generated" / "amqpforge_protocol" / "mini").iterdir()}
    assert made == {"__init__.py", "archetypes.py", "registry.py", "things.py", "types.py"}
    script = """
from amqpforge_protocol.mini import Thing, decode_value
assert decode_value(Thing(weight=1.5).encode())[0] == Thing(weight=1.5)
"""
    assert _run_script(tmp_path / "generated", script) == (0, "")


def test_what_the_python_target_cannot_write_is_said_by_file_and_line(tmp_path: Path) -> None:
    folder = tmp_path / "spec" / "mini"
    folder.mkdir(parents=True)
    shutil.copy(dialect_folder("amqp_1_0") / "types.xml", folder)
    (folder / "things.xml").write_text(
        section(
            '<type name="thing" class="composite" source="list" label="A thing">',
            '<descriptor name="example:thing:list" code="0x00000fff:0x00000001"/>',
            '<field name="parts" type="thing" multiple="true" label="Smaller things"/>',
            "</type>",
            name="things",
        ),
        encoding="utf-8",
    )
    result = run("--spec", tmp_path / "spec", "--out", tmp_path)
    assert result.code == 1
    assert 'mini/things.xml:5: field "parts" of "thing" takes several described values' in result.err
    assert not (tmp_path / "generated").exists()


def _run_script(folder: Path, script: str) -> tuple[int, str]:
    """Run a script that imports from ``folder``; its exit code and what it wrote to the error stream."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr


def test_every_feature_has_a_definition_and_a_golden_file() -> None:
    features = {folder.name for folder in SPEC.iterdir()}
    amqp = {"primitives", "composite", "choices", "maps", "machine", "hostile"}
    assert features == amqp | {"bits", "tables", "flags"}
    assert {path.split("/")[0] for path in tree(GOLDEN / "expected" / "plain")} == features


def test_a_target_for_another_language_has_no_python() -> None:
    suffixes = {file.suffix for file in (GOLDEN / "go").rglob("*") if file.is_file()}
    assert suffixes == {".toml", ".j2", ".go"}


# --- identifiers --------------------------------------------------------------------------------------------


# --- templates ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{{ nothing }}", "'nothing' is undefined"),
        ("{{ type.nothing }}", "has no attribute 'nothing'"),
        ("{{ type.doc.label }}", "needs a filter"),
        ("{{ type.doc.label | upper }}", "needs a filter"),
        ('{{ "x" ~ type.doc.label }}', "literal or comment filter"),
        ("{{ [type.doc.label] | join }}", "literal or comment filter"),
        ('{{ "%s" % type.doc.label }}', "literal or comment filter"),
        ('{{ "{}".format(type.doc.label) }}', "literal or comment filter"),
        ("{{ type.doc.label + 'x' }}", "needs a filter"),
        ("{{ type.doc.label[1:] }}", "needs a filter"),
        ("{{ type.name }}", "Name cannot be printed as it is"),
        ("{{ type.is_open }}", "bool cannot be printed as it is"),
        ("{{ type.provides }}", "tuple cannot be printed as it is"),
        ("{{ none }}", "NoneType cannot be printed as it is"),
        ("{{ archetype('frame') | class_name }}", "there is no archetype 'frame'"),
        ("{{ type_named('ulong') | class_name }}", "there is no type 'ulong'"),
        ("{{ module_named('x') | class_name }}", "there is no module 'x'"),
        ("{{ fail('this type is too odd') }}", "this type is too odd"),
        ("{{ 1 // 0 }}", "integer division or modulo by zero"),
        ("{% for %}", "Expected"),
        ("{{ type | random }}", "No filter named 'random'"),
        ("{% include 'other.j2' %}", "other.j2"),
        ("{% include '../secret' %}", "../secret"),
        ("{{ type.__class__.__mro__ }}", "unsafe"),
        ("{{ type.doc.__init__.__globals__ }}", "unsafe"),
    ],
)
def test_a_template_that_does_what_it_must_not_is_named_with_its_line(
    tmp_path: Path, template: str, complaint: str
) -> None:
    shop = make_workshop(tmp_path, type_txt=f"first line\n{template}\n")
    result = shop.run()
    assert (result.code, result.out) == (1, "")
    assert all(line.startswith(f"{shop.target / 'type.txt.j2'}:2: ") for line in result.err.splitlines())
    assert complaint in result.err
    assert not shop.out.exists()


def test_all_templates_that_fail_are_reported_in_one_run(tmp_path: Path) -> None:
    entries = '\n[[render]]\ntemplate = "other.txt.j2"\neach = "once"\npath = "once.txt"\n'
    shop = make_workshop(tmp_path, TARGET + entries, type_txt="{{ a }}", other_txt="{{ b }}")
    lines = shop.run().err.splitlines()
    assert len(lines) == 3
    assert {line.rpartition("[")[2] for line in lines} == {
        "small/uint.txt]",
        "small/handle.txt]",
        "once.txt]",
    }


def test_what_is_rendered_once_cannot_see_a_definition(tmp_path: Path) -> None:
    toml = TARGET.replace('each = "type"', 'each = "once"').replace("{dialect}/{type}", "all")
    shop = make_workshop(tmp_path, toml, type_txt="{{ dialect.name | quote }}")
    assert "'dialect' is undefined" in shop.run().err
    (shop.target / "type.txt.j2").write_text("{{ dialects | join }}", encoding="utf-8")
    assert shop.run().code == 0


def test_free_data_of_the_target_is_seen_and_cannot_be_changed(tmp_path: Path) -> None:
    values = '\n[values]\nkinds = { uint = "u32" }\nwords = ["a", "b"]\n'
    shop = make_workshop(
        tmp_path, TARGET + values, type_txt="{{ values.kinds.uint }} {{ values.words | join('+') }}"
    )
    assert shop.run().code == 0
    assert (shop.out / "small" / "uint.txt").read_text(encoding="utf-8").endswith("\nu32 a+b\n")
    (shop.target / "type.txt.j2").write_text("{% do values.kinds.update({}) %}", encoding="utf-8")
    assert shop.run().code == 1


def test_output_has_one_kind_of_line_ending_and_one_at_the_end(tmp_path: Path) -> None:
    shop = make_workshop(tmp_path, type_txt="\r\n\r\na\r\nb\r\n\r\n")
    assert shop.run().code == 0
    assert (shop.out / "small" / "uint.txt").read_bytes().endswith(b"\n\na\nb\n")


def test_python_that_the_formatter_cannot_read_is_named_with_its_template(tmp_path: Path) -> None:
    toml = TARGET + '\n[format]\ntool = "black"\nsuffixes = [".txt"]\n'
    shop = make_workshop(tmp_path, toml, type_txt="def broken(:\n")
    result = shop.run()
    assert result.code == 1
    assert len(result.err.splitlines()) == 2
    assert result.err.startswith(f"{shop.target / 'type.txt.j2'}: its output small/")
    assert "is not legal Python" in result.err


# --- selection and paths ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ('grammar = "class-method"', {"bits", "tables"}),
        ('grammar = ["class-method", "control-command"]', {"bits", "tables", "flags"}),
        ('dialects = ["maps"]', {"maps"}),
        ('has = "machines"', {"machine"}),
        ('has = ["classes", "primitives"]', {"bits", "flags"}),
        ('has = "parts"', {"maps"}),
        ('provides = "outcome"', {"composite"}),
        ('provides = ["frame", "section"]', set()),
        ('has = "described"', {"composite", "choices", "maps"}),
        ('lacks = ["machines", "described"]', {"primitives", "bits", "flags", "hostile", "tables"}),
        ('has = "composites", grammar = "amqp-1.0"', {"composite", "choices", "maps"}),
    ],
)
def test_conditions_select_dialects(tmp_path: Path, when: str, expected: set[str]) -> None:
    toml = (
        TARGET.replace('"type"', '"dialect"').replace("{dialect}/{type}", "{dialect}")
        + f"when = {{ {when} }}\n"
    )
    shop = make_workshop(tmp_path, toml, type_txt="x")
    assert shop.run("--spec", SPEC).code == 0
    assert {path.removesuffix(".txt") for path in tree(shop.out)} == expected


def test_conditions_select_modules_and_types(tmp_path: Path) -> None:
    toml = (
        TARGET
        + 'when = { modules = ["terms", "types"], except_modules = "types", has = ["described", "fields"] }\n'
    )
    shop = make_workshop(tmp_path, toml)
    assert shop.run("--spec", SPEC).code == 0
    assert sorted(tree(shop.out)) == ["composite/class.txt"]


@pytest.mark.parametrize(
    ("each", "path", "expected"),
    [
        ("section", "{dialect}/{module}/{section}", ["small/small/types"]),
        ("module", "m-{module:constant_name}", ["m-SMALL"]),
        ("type", "{type:class_name}", ["Handle", "Uint"]),
        ("dialect", "{dialect:quote}", ['"small"']),
    ],
)
def test_paths_are_made_of_names_and_filters(
    tmp_path: Path, each: str, path: str, expected: list[str]
) -> None:
    toml = TARGET.replace('each = "type"', f'each = "{each}"').replace("{dialect}/{type}.txt", path)
    shop = make_workshop(tmp_path, toml, type_txt="x")
    if '"' in expected[0]:
        assert shop.run().code == 1
    else:
        assert shop.run().code == 0
        assert sorted(tree(shop.out)) == expected


def test_two_outputs_of_one_path_are_an_error(tmp_path: Path) -> None:
    shop = make_workshop(tmp_path, TARGET.replace("{type}", "all"), type_txt="x")
    result = shop.run()
    assert result.code == 1
    assert "both make small/all.txt" in result.err


def test_paths_that_differ_only_in_case_are_an_error(tmp_path: Path) -> None:
    again = (
        '\n[[render]]\ntemplate = "type.txt.j2"\neach = "type"\npath = "{dialect}/{type:class_name}.txt"\n'
    )
    shop = make_workshop(tmp_path, TARGET + again)
    result = shop.run()
    assert result.code == 1
    assert "both make small/Handle.txt" in result.err


def test_an_unknown_part_of_a_path_is_an_error(tmp_path: Path) -> None:
    shop = make_workshop(tmp_path, TARGET.replace("{type}", "{machine}"))
    assert "no {machine} here; there are: dialect, module, section, type" in shop.run().err


# --- target.toml --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ('output = "x"', "name is missing"),
        ('name = "a b"\noutput = "x"', "'a b' is not a plain word"),
        ('name = "t"', "output is missing"),
        ('name = "t"\noutput = "../x"', "'../x' is not a relative path without '..'"),
        ('name = "t"\noutput = "/x"', "'/x' is not a relative path"),
        ('name = "t"\noutput = "x"\nline_length = 3', "line_length must be a whole number from 40 to 1000"),
        ('name = "t"\noutput = "x"\ncolour = "red"', "colour is not a known key"),
        ('name = "t"\noutput = 5', "output must be a string"),
        ('name = "t"\noutput = "x"\nrender = 1', "render must be an array of tables"),
        (
            'name = "t"\noutput = "x"\n[[render]]\ntemplate = "no.j2"\neach = "type"\npath = "p"',
            "there is no no.j2",
        ),
        (
            'name = "t"\noutput = "x"\n[[render]]\ntemplate = "t.j2"\neach = "field"\npath = "p"',
            "'field' is not one of once, ",
        ),
        (
            'name = "t"\noutput = "x"\n[[render]]\ntemplate = "t.j2"\neach = "type"',
            "[[render]] number 1: path is missing",
        ),
        ('name = "t"\noutput = "x"\n[[copy]]\nsource = "no"\npath = "p"', "there is no no in"),
        ('name = "t"\noutput = "x"\n[format]\ntool = "gofmt"', "'gofmt' is not one of none, black"),
        ('name = "t"\noutput = "x"\n[names]\nvalue = "studly"', "'studly' is not one of snake"),
        ('name = "t"\noutput = "x"\n[names]\nreserved = 1', "reserved must be a string or a list of strings"),
        (
            'name = "t"\noutput = "x"\n[names]\nreserved_classes = ["A"]',
            "reserved_classes needs class_prefix_when_reserved",
        ),
        ('name = "t"\noutput = "x"\n[literals]\noctet = "{1}"', "is not a pattern for one number"),
        (
            'name = "t"\noutput = "x"\n[text.comment]\nescapes = ["a"]',
            "escapes must be a list of pairs of strings",
        ),
        (
            'name = "t"\noutput = "x"\n[[render]]\ntemplate = "t.j2"\neach = "type"\nwhen = { has = "x" }',
            "has: 'x' is not one of types, primitives",
        ),
        ('name = "t"\noutput = "x"\n[values', "target.toml: "),
    ],
)
def test_a_mistake_in_a_target_is_named(tmp_path: Path, toml: str, complaint: str) -> None:
    (tmp_path / "t.j2").write_text("", encoding="utf-8")
    (tmp_path / "target.toml").write_text(toml, encoding="utf-8")
    with pytest.raises(TargetErrors) as caught:
        load_target(tmp_path)
    assert all(problem.startswith(str(tmp_path / "target.toml")) for problem in caught.value.problems)
    assert any(complaint in problem for problem in caught.value.problems)


def test_all_mistakes_in_a_target_are_reported_in_one_run(tmp_path: Path) -> None:
    (tmp_path / "target.toml").write_text("x = 1\ny = 2\nline_length = true\n", encoding="utf-8")
    with pytest.raises(TargetErrors) as caught:
        load_target(tmp_path)
    assert len(caught.value.problems) == 5


def test_a_folder_without_a_target_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TargetErrors, match=r"a target is a folder with a target\.toml"):
        load_target(tmp_path)


@pytest.mark.parametrize("name", ["python", "markdown"])
def test_the_shipped_targets_are_in_order(name: str) -> None:
    from amqpforge_templates import target_folder, target_names

    assert name in target_names()
    assert load_target(target_folder(name)).name == name


def test_a_slip_of_syntax_is_reported_once(tmp_path: Path) -> None:
    shop = make_workshop(tmp_path, type_txt="{{ type | class_name }}\n{% if %}\n")
    result = shop.run()
    assert result.code == 1
    assert [line.partition(": ")[0] for line in result.err.splitlines()] == [
        f"{shop.target / 'type.txt.j2'}:2"
    ]

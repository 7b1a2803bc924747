"""AMQP 0-9-1 with its overlay is what the facts file says, no more and no less; the comparison would notice.

The facts file describes the dialect that RabbitMQ speaks. It is silent about responses, chassis and the
letters of field tables; those are held here to what they have to be, whatever their source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import amqpforge_spec
from amqpforge_generator.errors import SpecErrors
from amqpforge_generator.load import load_dialect
from amqpforge_generator.model import Class, Dialect, Field, Literal
from amqpforge_generator.names import SpecText
from tests.spec.fidelity import Facts, differences, elements_in

FOLDER = amqpforge_spec.dialect_folder("amqp_0_9_1")
FACTS = "amqp-0-9-1-facts.json"
VERSION = ("major", "minor", "revision", "port")

Item = Mapping[str, Any]


@pytest.fixture(scope="module")
def source(data: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((data / FACTS).read_text("utf-8"))
    return loaded


@pytest.fixture(scope="module")
def facts(source: dict[str, Any]) -> dict[str, Facts]:
    return of_source(source)


@pytest.fixture(scope="module")
def dialect() -> Dialect:
    return load_dialect(FOLDER)


# -- both in one form; order counts for fields alone, and everything else goes by name


def of_source(source: Item) -> dict[str, Facts]:
    """The facts of the facts file; it writes constants in capitals, and gives tables the default {}."""
    return {
        "protocol": {name: str(source["protocol"][name]) for name in VERSION},
        "domains": {item["name"]: {"type": item["type"]} for item in source["domains"]},
        "constants": {
            item["name"].lower(): {"value": str(item["value"]), "class": item.get("class", "")}
            for item in source["constants"]
        },
        "classes": {
            item["name"]: {
                "index": str(item["index"]),
                "properties": _source_fields(item["properties"]),
                "methods": {method["name"]: _source_method(method) for method in item["methods"]},
            }
            for item in source["classes"]
        },
    }


def _source_method(method: Item) -> dict[str, Facts]:
    return {
        "index": str(method["index"]),
        "synchronous": _text(method["synchronous"]),
        "content": _text(method["content"]),
        "fields": _source_fields(method["fields"]),
    }


def _source_fields(fields: Iterable[Item]) -> list[Facts]:
    return [
        {"name": item["name"], "type": item.get("domain") or item["type"]}
        | ({"default": _text(item["default-value"])} if item.get("default-value", {}) != {} else {})
        for item in fields
    ]


def of_dialect(dialect: Dialect) -> dict[str, Facts]:
    """The facts of the definitions, overlay included; the constants that number table values are none."""
    (module,) = dialect.modules
    constants = {item.name.xml: item for item in module.definitions if item.encoding is None}
    return {
        "protocol": {name: _text(constants.pop(name).value) for name in VERSION},
        "domains": {type_.name.xml: {"type": (type_.source or type_).name.xml} for type_ in module.types},
        "constants": {
            name: {"value": _text(item.value), "class": item.error_class and f"{item.error_class}-error"}
            for name, item in constants.items()
        },
        "classes": {class_.name.xml: _class(class_) for class_ in dialect.classes},
    }


def _class(class_: Class) -> dict[str, Facts]:
    methods: dict[str, Facts] = {
        method.name.xml: {
            "index": str(method.code),
            "synchronous": _text(method.is_synchronous),
            "content": _text(method.has_content),
            "fields": _fields(method.fields),
        }
        for method in class_.methods
    }
    return {"index": str(class_.code), "properties": _fields(class_.fields), "methods": methods}


def _fields(fields: Iterable[Field]) -> list[Facts]:
    return [_field(field) for field in fields]


def _field(field: Field) -> dict[str, Facts]:
    facts: dict[str, Facts] = {"name": field.name.xml, "type": field.type.name.xml if field.type else "*"}
    return facts if field.default is None else facts | {"default": _text(field.default)}


def _text(value: Literal) -> str:
    """A value as JSON, so that 0, false and an empty text stay apart."""
    return json.dumps(value.plain if isinstance(value, SpecText) else value)


# -- the comparison


def test_the_dialect_holds_the_facts(dialect: Dialect, facts: dict[str, Facts]) -> None:
    assert list(differences(facts, of_dialect(dialect))) == []


def test_so_many_elements_are_compared(dialect: Dialect, facts: dict[str, Facts]) -> None:
    assert elements_in(facts) == elements_in(of_dialect(dialect)) == 293
    classes = dialect.classes
    assert len(classes) == 8
    assert sum(len(class_.methods) for class_ in classes) == 66
    assert [len(class_.fields) for class_ in classes if class_.fields] == [14]


def test_the_facts_file_is_silent_about_responses(source: dict[str, Any]) -> None:
    assert {method["answer"] for class_ in source["classes"] for method in class_["methods"]} == {None}


def test_the_copied_facts_are_those_of_the_material(data: Path, material: Path) -> None:
    assert (data / FACTS).read_bytes() == (material / "facts" / FACTS).read_bytes()


AMQP, RABBITMQ = "amqp.xml", "rabbitmq.xml"
MOVED_FIELD = """
  <remove field="basic.qos.prefetch-size"/>
  <extend method="basic.qos"><field name="prefetch-size" type="long" default="0"/></extend>
"""
MOVED_PROPERTY = """
  <remove field="basic.app-id"/>
  <extend class="basic"><field name="app-id" type="shortstr"/></extend>
"""
#: A file, a text that occurs in it once, and what to put in its place.
MUTATIONS = {
    "version": (AMQP, 'revision="1"', 'revision="2"'),
    "port": (AMQP, 'port="5672"', 'port="5671"'),
    "constant's value": (AMQP, 'value="206"', 'value="207"'),
    "constant's class": (AMQP, 'value="404" class="soft-error"', 'value="404" class="hard-error"'),
    "constant without class": (AMQP, 'value="404" class="soft-error"', 'value="404"'),
    "constant's name": (AMQP, 'name="reply-success"', 'name="success"'),
    "constant missing": (
        RABBITMQ,
        '<change field="basic.qos',
        '<remove constant="not-found"/><change field="basic.qos',
    ),
    "constant added": (
        RABBITMQ,
        '<remove domain="no-wait"/>',
        '<remove domain="no-wait"/><constant name="x" value="1"/>',
    ),
    "domain's type": (AMQP, 'name="delivery-tag" type="longlong"', 'name="delivery-tag" type="long"'),
    "domain's name": (RABBITMQ, '<domain name="reference"', '<domain name="references"'),
    "domain kept": (RABBITMQ, '<remove domain="no-wait"/>', ""),
    "class's index": (AMQP, 'name="tx" index="90"', 'name="tx" index="91"'),
    "class's name": (RABBITMQ, '<class name="access"', '<class name="entry"'),
    "method's index": (RABBITMQ, 'name="unbind-ok" index="51"', 'name="unbind-ok" index="41"'),
    "method's name": (RABBITMQ, '<method name="unblocked"', '<method name="freed"'),
    "method synchronous": (AMQP, '<method name="ack"', '<method name="ack" synchronous="1"'),
    "method not synchronous": (AMQP, '<method name="qos" synchronous="1"', '<method name="qos"'),
    "method with content": (AMQP, '<method name="reject"', '<method name="reject" content="1"'),
    "method without content": (AMQP, '<method name="return" content="1"', '<method name="return"'),
    "field's name": (RABBITMQ, 'name="internal"', 'name="inner"'),
    "field's type": (AMQP, 'name="consumer-count" domain="long"', 'name="consumer-count" domain="short"'),
    "field's domain": (AMQP, 'domain="queue-name" label="Its', 'domain="shortstr" label="Its'),
    "field's domain kept": (RABBITMQ, '<change field="basic.get.no-ack" type="bit" was="no-ack"/>', ""),
    "field's default": (AMQP, 'default="direct"', 'default="topic"'),
    "field's empty default": (
        RABBITMQ,
        '"basic.get-empty.reserved-1"',
        '"basic.get-empty.reserved-1" default="x"',
    ),
    "field without default": (AMQP, 'default="direct"', ""),
    "field with default": (AMQP, 'name="consumer-count"', 'name="consumer-count" default="0"'),
    "field missing": (
        RABBITMQ,
        '<extend class="basic">',
        '<remove field="basic.get.queue"/><extend class="basic">',
    ),
    "field added": (AMQP, '<field name="if-empty"', '<field name="x" domain="bit"/><field name="if-empty"'),
    "field in another place": (RABBITMQ, "</overlay>", MOVED_FIELD + "</overlay>"),
    "property's name": (RABBITMQ, 'reserved" name="cluster-id"', 'reserved" name="cluster"'),
    "property's type": (AMQP, 'name="priority" domain="octet"', 'name="priority" domain="short"'),
    "property in another place": (RABBITMQ, "</overlay>", MOVED_PROPERTY + "</overlay>"),
}


def mutated(folder: Path, file: str, old: str, new: str) -> Path:
    """A copy of the dialect's definitions in which the only occurrence of a text is another one."""
    copy = folder / FOLDER.name
    copy.mkdir()
    for path in FOLDER.glob("*.xml"):
        text = path.read_text("utf-8")
        if path.name == file:
            assert text.count(old) == 1
            text = text.replace(old, new)
        (copy / path.name).write_text(text, "utf-8")
    return copy


@pytest.mark.parametrize(("file", "old", "new"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mutated_dialect_differs(
    file: str, old: str, new: str, tmp_path: Path, facts: dict[str, Facts]
) -> None:
    changed = of_dialect(load_dialect(mutated(tmp_path, file, old, new)))
    assert list(differences(facts, changed)) != []


# -- what a base that moves on underneath the overlay leads to

RENAMED = (
    '<field name="reserved-2" domain="bit" default="0" label="Not used"/>\n      <field name="reserved-3"'
)


def line_of(path: Path, text: str) -> int:
    """The line of the only occurrence of a text in a file."""
    content = path.read_text("utf-8")
    assert content.count(text) == 1
    return content.count("\n", 0, content.index(text)) + 1


def test_a_bit_renamed_in_the_base_is_told_with_both_places(tmp_path: Path) -> None:
    folder = mutated(tmp_path, "amqp.xml", RENAMED, RENAMED.replace("reserved-2", "spare"))
    with pytest.raises(SpecErrors) as raised:
        load_dialect(folder)
    there = line_of(folder / "amqp.xml", 'label="See that an exchange is there"')
    here = line_of(folder / "rabbitmq.xml", '"exchange.declare.reserved-2"')
    assert [str(problem) for problem in raised.value.problems] == [
        f"amqp_0_9_1/rabbitmq.xml:{here}: method 'exchange.declare' (amqp_0_9_1/amqp.xml:{there}) "
        "has no field 'reserved-2'; did you mean 'reserved-3'?"
    ]


def test_a_type_changed_in_the_base_is_told_with_both_places(tmp_path: Path) -> None:
    field = 'name="virtual-host" domain="path"'
    folder = mutated(tmp_path, "amqp.xml", field, field.replace("path", "reply-text"))
    with pytest.raises(SpecErrors) as raised:
        load_dialect(folder)
    there = line_of(folder / "amqp.xml", 'name="virtual-host"')
    here = line_of(folder / "rabbitmq.xml", '"connection.open.virtual-host"')
    assert [str(problem) for problem in raised.value.problems] == [
        f"amqp_0_9_1/rabbitmq.xml:{here}: field 'connection.open.virtual-host' "
        f"(amqp_0_9_1/amqp.xml:{there}) has the type 'reply-text', not 'path'"
    ]


# -- what the facts file is silent about


def test_requests_are_answered_by_the_methods_made_for_it(dialect: Dialect) -> None:
    """What has a response is synchronous, every -ok is one, and it comes from the other peer."""
    answers = {
        (class_.name.xml, name.xml): method
        for class_ in dialect.classes
        for method in class_.methods
        for name in method.responses
    }
    assert answers.keys() == {
        (class_.name.xml, method.name.xml)
        for class_ in dialect.classes
        for method in class_.methods
        if method.name.xml.endswith(("-ok", "get-empty"))
    }
    other = {("client",): ("server",), ("server",): ("client",), ("client", "server"): ("client", "server")}
    for class_ in dialect.classes:
        for method in class_.methods:
            assert method.is_synchronous is bool(method.responses)
            own = answers.get((class_.name.xml, method.name.xml))
            assert method.sent_by in other
            assert own is None or method.sent_by == other[own.sent_by]


def test_what_either_peer_may_send(dialect: Dialect) -> None:
    assert {
        f"{class_.name}.{method.name}"
        for class_ in dialect.classes
        for method in class_.methods
        if method.sent_by == ("client", "server")
    } == {
        *("connection.close", "connection.close-ok", "channel.flow", "channel.flow-ok"),
        *("channel.close", "channel.close-ok", "basic.ack", "basic.nack", "basic.cancel", "basic.cancel-ok"),
    }


def test_the_letters_of_field_tables_are_those_in_use(dialect: Dialect) -> None:
    letters = {
        chr(form.code or 0): (form.holds, form.category, form.width) for form in dialect.value_encodings
    }
    assert letters == {
        "t": ("boolean", "fixed", 1),
        "b": ("signed", "fixed", 1),
        "B": ("unsigned", "fixed", 1),
        "s": ("signed", "fixed", 2),
        "u": ("unsigned", "fixed", 2),
        "I": ("signed", "fixed", 4),
        "i": ("unsigned", "fixed", 4),
        "l": ("signed", "fixed", 8),
        "L": ("signed", "fixed", 8),
        "f": ("float", "fixed", 4),
        "d": ("float", "fixed", 8),
        "D": ("decimal", "fixed", 5),
        "S": ("text", "variable", 4),
        "x": ("binary", "variable", 4),
        "A": ("list", "variable", 4),
        "F": ("map", "variable", 4),
        "T": ("timestamp-s", "fixed", 8),
        "V": ("void", "fixed", 0),
    }


def test_constants_that_belong_together_are_told(dialect: Dialect, facts: dict[str, Facts]) -> None:
    (module,) = dialect.modules
    groups = {item.name.xml: [member.name.xml for member in item.members] for item in module.enumerations}
    assert groups["frame-type"] == ["frame-method", "frame-header", "frame-body", "frame-heartbeat"]
    constants = facts["constants"]
    assert isinstance(constants, dict)
    assert set(groups["reply-code"]) == constants.keys() - {
        *groups["frame-type"],
        "frame-end",
        "frame-min-size",
    }
    assert len(groups["field-table-type"]) == len(dialect.value_encodings) == 18
    assert dialect.protocol_header == bytes((0, 0, 9, 1))


def test_everything_has_a_label(dialect: Dialect) -> None:
    (module,) = dialect.modules
    methods = [method for class_ in dialect.classes for method in class_.methods]
    fields = [field for class_ in dialect.classes for field in class_.fields]
    fields += [field for method in methods for field in method.fields]
    constants = [item for item in module.definitions if item.name.xml not in VERSION]
    labels = [
        *((item.at, item.doc.label) for item in constants),
        *((item.at, item.doc.label) for item in module.types),
        *((item.at, item.doc.label) for item in dialect.classes),
        *((item.at, item.doc.label) for item in methods),
        *((item.at, item.doc.label) for item in fields),
    ]
    assert [str(at) for at, label in labels if not label] == []

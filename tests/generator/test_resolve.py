"""Resolution: aliases flattened, archetypes united, values typed, files in order; in small and in earnest."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqpforge_generator.document import Location
from amqpforge_generator.load import load_dialect
from amqpforge_generator.model import (
    Archetype,
    Descriptor,
    Dialect,
    Encoding,
    Layout,
    Restriction,
    Type,
)
from amqpforge_generator.names import SpecText
from amqpforge_spec import dialect_folder
from tests.generator.inline import load, section, type_named


def archetype_named(dialect: Dialect, name: str) -> Archetype:
    """The archetype of that XML name."""
    (found,) = [archetype for archetype in dialect.archetypes if archetype.name.xml == name]
    return found


def names(types: tuple[Type, ...]) -> list[str]:
    """The XML names of types."""
    return [type_.name.xml for type_ in types]


def test_alias_chains_end_at_the_primitive(tmp_path: Path) -> None:
    dialect = load(
        tmp_path,
        part=section(
            '<type name="delivery-number" class="restricted" source="sequence-no"/>',
            '<type name="sequence-no" class="restricted" source="uint"/>',
        ),
    )
    number, sequence = type_named(dialect, "delivery-number"), type_named(dialect, "sequence-no")
    uint = type_named(dialect, "uint")
    assert (number.source, number.base, number.primitive) == (sequence, uint, "uint")
    assert (sequence.source, sequence.base) == (uint, uint)
    assert (uint.source, uint.base, uint.kind) == (None, uint, "primitive")


def test_a_wildcard_has_no_base(tmp_path: Path) -> None:
    dialect = load(
        tmp_path,
        part=section(
            '<type name="any" class="restricted" source="*"/>',
            '<type name="other" class="restricted" source="any"/>',
        ),
    )
    for name in ("any", "other"):
        type_ = type_named(dialect, name)
        assert (type_.is_wildcard, type_.base, type_.primitive) == (True, None, "*")


def test_a_composite_is_a_described_list(tmp_path: Path) -> None:
    dialect = load(
        tmp_path,
        part=section(
            '<type name="t" class="composite" source="list">',
            '<descriptor name="a:t:list" code="0x00000001:0x000000ff"/>',
            "</type>",
        ),
    )
    type_ = type_named(dialect, "t")
    assert type_.descriptor == Descriptor(symbol="a:t:list", code=0x1_0000_00FF)
    assert type_.descriptor is not None
    assert type(type_.descriptor.symbol) is SpecText
    assert (type_.base, type_.layout) == (type_named(dialect, "list"), Layout(style="list"))


def test_encodings_are_numbers(tmp_path: Path) -> None:
    uint = type_named(load(tmp_path), "uint")
    assert [(item.name, item.code, item.category, item.width) for item in uint.encodings] == [
        ("uint", 0x70, "fixed", 4),
        ("smalluint", 0x52, "fixed", 1),
        ("uint0", 0x43, "fixed", 0),
    ]
    assert isinstance(uint.encodings[0], Encoding)


@pytest.mark.parametrize(
    ("primitive", "text", "value"),
    [
        ("boolean", "false", False),
        ("ubyte", "0x10", 16),
        ("uint", "4294967295", 4294967295),
        ("int", "-2147483648", -2147483648),
        ("double", "1.5", 1.5),
        ("char", "x", "x"),
        ("uuid", "00010203-0405-0607-0809-0A0B0C0D0E0F", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("binary", "abc", "abc"),
        ("string", "é", "é"),
        ("symbol", "", ""),
    ],
)
def test_defaults_are_typed(tmp_path: Path, primitive: str, text: str, value: object) -> None:
    dialect = load(
        tmp_path,
        part=section(
            f'<type name="alias" class="restricted" source="{primitive}"/>',
            '<type name="t" class="composite" source="list">',
            '<descriptor name="d" code="0x00000000:0x00000001"/>',
            f'<field name="a" type="{primitive}" default="{text}"/>',
            f'<field name="b" type="alias" default="{text}"/>',
            "</type>",
        ),
    )
    for field in type_named(dialect, "t").fields:
        assert (field.default, field.default_choice) == (value, None)
        assert type(field.default) is (SpecText if isinstance(value, str) else type(value))


CHOICES = section(
    '<type name="mode" class="restricted" source="ubyte">',
    '<choice name="first" value="0"/><choice name="mixed" value="2"/>',
    "</type>",
    '<type name="alias" class="restricted" source="mode"/>',
    '<type name="condition" class="restricted" source="symbol" provides="error-condition">',
    '<choice name="not-found" value="amqp:not-found"/>',
    "</type>",
    '<type name="policy" class="restricted" source="symbol" provides="unused">',
    '<choice name="never" value="no"/></type>',
    '<type name="t" class="composite" source="list">',
    '<descriptor name="d" code="0x00000000:0x00000001"/>',
    '<field name="mode" type="mode" default="mixed"/>',
    '<field name="again" type="alias" default="mixed"/>',
    '<field name="policy" type="policy" default="never"/>',
    '<field name="condition" type="symbol" requires="error-condition" mandatory="true"/>',
    '<field name="named" type="condition" default="not-found"/>',
    '<field name="free" type="condition" default="other:thing"/>',
    "</type>",
)


def test_a_default_may_name_a_choice(tmp_path: Path) -> None:
    dialect = load(tmp_path, part=CHOICES)
    mode = type_named(dialect, "mode")
    fields = {field.name.xml: field for field in type_named(dialect, "t").fields}
    assert (fields["mode"].default, fields["mode"].default_choice) == (2, mode.choices[1])
    assert (fields["again"].default, fields["again"].default_choice) == (2, mode.choices[1])
    assert fields["policy"].default == "no"
    assert fields["named"].default == "amqp:not-found"


def test_choices_are_open_where_a_field_requires_their_archetype(tmp_path: Path) -> None:
    dialect = load(tmp_path, part=CHOICES)
    open_ones = [type_.name.xml for type_ in dialect.types if type_.is_open]
    assert open_ones == ["condition"]
    free = type_named(dialect, "t").fields[5]
    assert (free.default, free.default_choice) == ("other:thing", None)


def test_an_archetype_is_the_list_of_its_providers_in_model_order(tmp_path: Path) -> None:
    dialect = load(
        tmp_path,
        part=section(
            '<f:archetype name="later" open="true"><doc><p>Elsewhere.</p></doc></f:archetype>',
            '<type name="z" class="restricted" source="uint" provides="id, key"/>',
            '<type name="a" class="restricted" source="string" provides="id"/>',
            '<type name="t" class="composite" source="list">',
            '<descriptor name="d" code="0x00000000:0x00000001"/>',
            '<field name="id" type="*" requires="id"/>',
            '<field name="later" type="*" requires="later"/>',
            "</type>",
        ),
    )
    assert [archetype.name.xml for archetype in dialect.archetypes] == ["id", "key", "later"]
    identifier, later = archetype_named(dialect, "id"), archetype_named(dialect, "later")
    assert (names(identifier.providers), identifier.is_open) == (["z", "a"], False)
    assert (names(later.providers), later.is_open, later.doc.paragraphs) == ([], True, ("Elsewhere.",))
    fields = type_named(dialect, "t").fields
    assert [(field.requires, field.type, field.primitive) for field in fields] == [
        (identifier, None, "*"),
        (later, None, "*"),
    ]


def test_flags_and_positions_of_fields(tmp_path: Path) -> None:
    dialect = load(
        tmp_path,
        part=section(
            '<type name="id" class="restricted" source="uint" provides="outcome"/>',
            '<type name="t" class="composite" source="list">',
            '<descriptor name="d" code="0x00000000:0x00000001"/>',
            '<field name="snd-settle-mode" type="uint" mandatory="true"/>',
            '<field name="outcomes" type="symbol" multiple="true" mandatory="false" f:references="outcome"/>',
            "</type>",
        ),
    )
    first, second = type_named(dialect, "t").fields
    assert (first.index, first.name.snake, first.mandatory, first.multiple, first.references) == (
        0, "snd_settle_mode", True, False, None,
    )  # fmt: skip
    assert (second.index, second.mandatory, second.multiple, second.references) == (1, False, True, "outcome")


def test_restrictions_are_inherited_along_the_chain(tmp_path: Path) -> None:
    dialect = load(
        tmp_path,
        part=section(
            '<type name="nodes" class="restricted" source="fields">',
            '<f:entry key="kind" type="uint"/><f:entry key="more" type="uint"/>',
            "</type>",
            '<type name="fields" class="restricted" source="map" f:keys="symbol" f:values="simple">',
            '<f:entry key="name" type="string"/><f:entry key="kind" type="symbol"/>',
            "</type>",
            '<type name="wide" class="restricted" source="tag" f:max-length="64"/>',
            '<type name="tag" class="restricted" source="binary" f:max-length="32"/>',
        ),
    )
    nodes, tag, wide = (type_named(dialect, name).restriction for name in ("nodes", "tag", "wide"))
    assert (nodes.keys, nodes.values) == (("symbol",), "simple")
    assert [(entry.name.xml, entry.primitive, entry.index) for entry in nodes.entries] == [
        ("name", "string", 0),
        ("kind", "uint", 1),
        ("more", "uint", 2),
    ]
    assert (tag, wide) == (Restriction(max_length=32), Restriction(max_length=32))
    assert type_named(dialect, "uint").restriction.is_empty


def test_definitions_are_numbers_where_they_read_as_such(tmp_path: Path) -> None:
    lines = ('<definition name="PORT" value="5672"/>', '<definition name="MASK" value="0xff"/>')
    dialect = load(tmp_path, part=section(*lines, '<definition name="WORD" value="5 seconds"/>'))
    values = {item.name.xml: item.value for module in dialect.modules for item in module.definitions}
    assert values == {"PORT": 5672, "MASK": 255, "WORD": "5 seconds"}


DESCRIBED = (
    '<type name="{0}" class="composite" source="list">'
    '<descriptor name="{0}" code="0x00000000:{1}"/>{2}</type>'
)


def test_files_come_after_those_they_refer_to(tmp_path: Path) -> None:
    dialect = load(
        tmp_path,
        a=section(DESCRIBED.format("last", "0x00000001", '<field name="x" type="first"/>'), name="a"),
        b=section(DESCRIBED.format("second", "0x00000030", ""), name="b"),
        c=section(DESCRIBED.format("first", "0x00000020", ""), name="c"),
        d=section('<type name="alias" class="restricted" source="uint"/>', name="d"),
    )
    assert [module.name.xml for module in dialect.modules] == ["types", "d", "c", "a", "b"]


def test_files_that_refer_to_each_other_are_still_ordered(tmp_path: Path) -> None:
    dialect = load(
        tmp_path,
        a=section(DESCRIBED.format("one", "0x00000002", '<field name="x" type="two"/>'), name="a"),
        b=section(DESCRIBED.format("two", "0x00000001", '<field name="x" type="one"/>'), name="b"),
    )
    assert [module.name.xml for module in dialect.modules] == ["types", "b", "a"]


def test_places_do_not_depend_on_where_the_folder_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(tmp_path, part=section('<definition name="A" value="1"/>'))
    monkeypatch.chdir(tmp_path / "tiny")
    for folder in (Path(), tmp_path / "tiny", tmp_path / "tiny" / ".." / "tiny"):
        dialect = load_dialect(folder)
        assert dialect.name == "tiny"
        assert [module.file for module in dialect.modules] == ["tiny/part.xml", "tiny/types.xml"]
        assert dialect.modules[0].definitions[0].at == Location("tiny/part.xml", 3)


@pytest.fixture(scope="module")
def amqp() -> Dialect:
    """AMQP 1.0 as it is defined here."""
    return load_dialect(dialect_folder("amqp_1_0"))


def test_amqp_files_are_in_the_order_of_the_published_parts(amqp: Dialect) -> None:
    parts = ["types", "transport", "messaging", "transactions", "security"]
    assert [module.name.xml for module in amqp.modules if not module.machines] == parts
    assert [module.file for module in amqp.modules][:5] == [f"amqp_1_0/{part}.xml" for part in parts]
    assert amqp.grammar == "amqp-1.0"


def test_amqp_archetypes_unite_types_of_several_files(amqp: Dialect) -> None:
    assert names(archetype_named(amqp, "delivery-state").providers) == [
        "received",
        "accepted",
        "rejected",
        "released",
        "modified",
        "declared",
        "transactional-state",
    ]
    assert names(archetype_named(amqp, "target").providers) == ["target", "coordinator"]
    assert [archetype.name.xml for archetype in amqp.archetypes if archetype.is_open] == ["global-tx-id"]


def test_amqp_open_enumerations(amqp: Dialect) -> None:
    assert [type_.name.xml for type_ in amqp.types if type_.is_open] == [
        "amqp-error",
        "connection-error",
        "session-error",
        "link-error",
        "std-dist-mode",
        "txn-capability",
        "transaction-error",
    ]


def test_amqp_defaults_that_name_choices(amqp: Dialect) -> None:
    named = {
        f"{type_.name.xml}.{field.name.xml}": (field.default, field.default_choice.name.xml)
        for type_ in amqp.types
        for field in type_.fields
        if field.default_choice is not None
    }
    assert named == {
        "attach.snd-settle-mode": (2, "mixed"),
        "attach.rcv-settle-mode": (0, "first"),
        "source.durable": (0, "none"),
        "source.expiry-policy": ("session-end", "session-end"),
        "target.durable": (0, "none"),
        "target.expiry-policy": ("session-end", "session-end"),
    }


def test_amqp_maps_and_sections(amqp: Dialect) -> None:
    parts = [(type_.name.xml, type_.part) for type_ in amqp.types if type_.part]
    assert parts == [
        ("transfer", "payload"),
        ("header", "head"),
        ("delivery-annotations", "head"),
        ("message-annotations", "head"),
        ("properties", "bare"),
        ("application-properties", "bare"),
        ("data", "body-many"),
        ("amqp-sequence", "body-many"),
        ("amqp-value", "body-one"),
        ("footer", "foot"),
    ]
    node = type_named(amqp, "node-properties").restriction
    assert (node.keys, [entry.name.xml for entry in node.entries]) == (
        ("symbol",),
        ["lifetime-policy", "supported-dist-modes"],
    )
    assert type_named(amqp, "footer").restriction.keys == ("symbol", "ulong")
    assert type_named(amqp, "delivery-tag").restriction.max_length == 32
    assert type_named(amqp, "application-properties").restriction.values == "simple"
    assert type_named(amqp, "filter-set").restriction.values == "described-or-null"


def test_amqp_loads_the_same_twice(amqp: Dialect) -> None:
    again = load_dialect(dialect_folder("amqp_1_0"))
    assert [str(type_.at) for type_ in again.types] == [str(type_.at) for type_ in amqp.types]
    assert repr(again.types) == repr(amqp.types)

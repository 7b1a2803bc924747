"""What has fields is a StructType, Arrow has the same types as Spark, and the documented table says which."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

import amqpforge_spark.amqp_1_0 as spark_amqp
from amqpforge_generator.load import load_dialect
from amqpforge_generator.model import Dialect
from amqpforge_spark._support.arrow import arrow_schema, arrow_type
from amqpforge_spark._support.tagged import TAGGED
from amqpforge_spec import dialect_folder

DIALECTS = ("amqp_1_0", "amqp_0_9_1", "amqp_0_10_preview", "amqp_1_0_draft")
TABLE = Path(__file__).resolve().parents[2] / "docs" / "spark-types.md"


def schema_of(dialect: str) -> ModuleType:
    return importlib.import_module(f"amqpforge_spark.{dialect}.schema")


def structs(dialect: str) -> dict[str, StructType]:
    module = schema_of(dialect)
    return {name: getattr(module, name) for name in module.__all__}


def names_of(model: Dialect) -> dict[str, tuple[str, ...]]:
    """The constant of each thing with fields, and the names of those."""
    things: dict[str, Any] = {type_.name.upper: type_.fields for type_ in model.structs}
    for class_ in model.classes:
        if class_.fields:
            things[f"{class_.name.upper}_PROPERTIES"] = class_.fields
        for method in class_.methods:
            things[f"{class_.name.upper}_{method.name.upper}"] = method.fields
    return {name: tuple(field.name.snake for field in fields) for name, fields in things.items()}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_everything_with_fields_has_a_struct_type(dialect: str) -> None:
    made = {
        name: tuple(field.rstrip("_") for field in struct.names) for name, struct in structs(dialect).items()
    }
    wanted = names_of(load_dialect(dialect_folder(dialect)))
    assert len(wanted) > 20
    assert {name: made.get(name) for name in wanted} == wanted
    assert all(name.startswith("ANY_") for name in made.keys() - wanted.keys())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_arrow_has_the_types_that_spark_asks_for(dialect: str) -> None:
    package = importlib.import_module(f"amqpforge_spark.{dialect}")
    assert package.FRAME_SCHEMA.equals(to_arrow_schema(package.FRAME, timezone="UTC"))
    for struct in structs(dialect).values():
        assert arrow_schema(struct).equals(to_arrow_schema(struct, timezone="UTC"))


def test_the_message_is_in_the_order_that_readers_and_writers_rely_on() -> None:
    assert spark_amqp.MESSAGE_SCHEMA.equals(to_arrow_schema(spark_amqp.MESSAGE, timezone="UTC"))
    assert spark_amqp.MESSAGE.names == [
        *(
            "address",
            "link",
            "delivery_tag",
            "received_at",
            "message_format",
            "header",
            "delivery_annotations",
        ),
        *("message_annotations", "properties", "application_properties", "body_kind", "body", "body_sizes"),
        *("body_value", "body_sequence", "footer", "_rest", "_corrupt"),
    ]


def test_a_frame_has_a_struct_for_each_performative_that_has_fields() -> None:
    names = spark_amqp.FRAME.names
    start = names.index("open")
    assert (
        names[start : start + 14]
        == (
            "open begin attach flow transfer disposition detach end close sasl_mechanisms sasl_init "
            "sasl_challenge sasl_response sasl_outcome"
        ).split()
    )
    assert names[start + 14 :] == ["message", "_rest", "_corrupt"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_struct_is_empty_inside_a_frame(dialect: str) -> None:
    """Parquet has no struct without fields."""

    def inside(kind: DataType) -> list[StructType]:
        if isinstance(kind, StructType):
            return [kind, *(found for field in kind.fields for found in inside(field.dataType))]
        if isinstance(kind, ArrayType):
            return inside(kind.elementType)
        return inside(kind.valueType) if isinstance(kind, MapType) else []

    frame = importlib.import_module(f"amqpforge_spark.{dialect}").FRAME
    assert all(struct.fields for struct in inside(frame))


def test_a_type_without_a_column_is_refused() -> None:
    class Strange(DataType):
        pass

    with pytest.raises(TypeError, match="the type of no column"):
        arrow_type(Strange())
    assert arrow_type(StructType([StructField("x", ArrayType(TAGGED))])).num_fields == 1


# --- the documented table -----------------------------------------------------------------------------------


def rows_of(heading: str) -> dict[str, str]:
    """The first two columns of the table under a heading."""
    part = TABLE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]
    return {name: second for first, second, *_ in cells for name in first.split(", ")}


def simple(kind: DataType) -> str:
    text = kind.simpleString()
    return text.replace(TAGGED.simpleString(), "TAGGED")


def test_the_table_of_primitive_types_is_what_fields_become() -> None:
    table = rows_of("AMQP 1.0: fields")
    model = load_dialect(dialect_folder("amqp_1_0"))
    found = structs("amqp_1_0")
    seen: set[str] = set()
    for type_ in model.structs:
        for field in type_.fields:
            kind = found[type_.name.upper][field.name.snake.rstrip("_")].dataType
            if field.type is None or field.type.choices or field.type.fields or field.primitive == "map":
                continue
            seen.add(field.primitive)
            wanted = table[field.primitive]
            assert simple(kind) == (f"array<{wanted}>" if field.multiple else wanted), (
                type_.name,
                field.name,
            )
    assert {"boolean", "ubyte", "ushort", "uint", "ulong", "timestamp", "binary", "string", "symbol"} <= seen


def test_the_table_of_values_of_any_type_is_how_they_are_tagged() -> None:
    from tests.spark.values import VALUES

    table = rows_of("Values of any type")
    assert table.keys() >= VALUES.keys()
    for kind, values in VALUES.items():
        columns = spark_amqp.MessageColumns()
        for value in values:
            columns.append(values_message(value))
        body = columns.finish().column("body_value").to_pylist()
        for tagged in body:
            assert tagged["kind"] == kind
            filled = [name for name, held in tagged.items() if held is not None and name != "kind"]
            assert filled == ([] if table[kind] == "none" else [table[kind]]), (kind, tagged)


def values_message(value: object) -> bytes:
    import amqpforge_protocol.amqp_1_0 as amqp

    return amqp.encode_message(amqp.Message(body=amqp.AmqpValue(value)))


def test_the_forms_of_the_other_dialects_are_in_the_table() -> None:
    table = rows_of("The other dialects: fields")
    basic = structs("amqp_0_9_1")["BASIC_PROPERTIES"]
    assert simple(basic["headers"].dataType) == table["table or map"] == "map<string,TAGGED>"
    assert simple(basic["timestamp"].dataType) == table["moment in seconds or milliseconds"]
    assert simple(basic["priority"].dataType) == table["unsigned of 1 octet"]
    assert (
        simple(structs("amqp_0_9_1")["BASIC_DELIVER"]["delivery_tag"].dataType)
        == table["unsigned of 8 octets"]
    )
    ack = structs("amqp_0_10_preview")["SESSION_ACK"]
    assert simple(ack["seen_frame_set"].dataType) == table["set of serial numbers"]
    assert pa.types.is_list(arrow_type(ack["seen_frame_set"].dataType))

"""Which tables can be written: judged by their columns, before anything is sent."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from amqpforge.errors import LocalError
from amqpforge.spark.options import OptionError
from amqpforge.spark.sink import batch_writer, stream_writer
from amqpforge.spark.sink.columns import check_table
from amqpforge.spark.sink.errors import ColumnError
from amqpforge.spark.sink.options import SinkOptions
from amqpforge_spark.amqp_1_0 import MESSAGE

TAGGED = MESSAGE["body_value"].dataType
URL = {"url": "amqp://127.0.0.1:5672"}


def table(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_what_the_source_gives_can_be_written() -> None:
    check_table(MESSAGE, has_address=False)


@pytest.mark.parametrize(
    "columns",
    [
        {"body": StringType()},
        {"body": BinaryType()},
        {"body_value": DoubleType(), "subject": StringType(), "ttl": IntegerType(), "priority": ByteType()},
        {"body_value": TAGGED, "message_id": TAGGED, "correlation_id": DecimalType(20, 0)},
        {"application_properties": MapType(StringType(), LongType()), "creation_time": TimestampType()},
        {"properties": table(subject=StringType(), group_sequence=ShortType()), "durable": NullType()},
        {"body_sequence": ArrayType(ArrayType(StringType()))},
        {"body": NullType(), "header": NullType(), "properties": NullType()},
    ],
)
def test_columns_by_name(columns: dict[str, DataType]) -> None:
    check_table(table(**{"body": BinaryType()} | columns), has_address=True)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (
            {"colour": StringType()},
            "column 'colour' (string) has no place in a message; possible are address, ",
        ),
        ({"body": LongType()}, "column 'body' is bigint; possible is string or binary"),
        ({"subject": LongType()}, "column 'subject' is bigint; possible is string"),
        ({"ttl": StringType()}, "column 'ttl' is string; possible is bigint"),
        ({"body_value": DateType()}, "column 'body_value' is date; possible is string, binary, boolean, "),
        ({"message_id": DecimalType(10, 2)}, "column 'message_id' is decimal(10,2); possible is string, "),
        (
            {"properties": table(sujbect=StringType())},
            "column 'properties' has a field 'sujbect'; possible are ",
        ),
        ({"header": table(ttl=StringType())}, "column 'header.ttl' is string; possible is bigint"),
        (
            {"properties": StringType()},
            "column 'properties' is string; possible is struct with any of the fields ",
        ),
        (
            {"application_properties": MapType(LongType(), StringType())},
            "column 'application_properties.key' is bigint; possible is string",
        ),
        (
            {"properties": table(to=StringType()), "subject": StringType()},
            "column 'subject' is a part of column 'properties': leave one of them out",
        ),
    ],
)
def test_a_column_that_does_not_fit_is_named_with_its_type_and_what_is_possible(
    columns: dict[str, DataType], problem: str
) -> None:
    with pytest.raises(ColumnError) as caught:
        check_table(table(**{"body": BinaryType()} | columns), has_address=True)
    assert [one for one in caught.value.problems if one.startswith(problem)], caught.value.problems


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ColumnError) as caught:
        check_table(table(colour=StringType(), body=DateType()), has_address=False)
    assert len(caught.value.problems) == 3


def test_a_message_has_a_body() -> None:
    with pytest.raises(ColumnError, match="no column of a body: body, body_value, body_sequence"):
        check_table(table(subject=StringType()), has_address=True)


def test_a_column_twice_is_refused() -> None:
    twice = StructType([StructField("body", StringType()), StructField("body", StringType())])
    with pytest.raises(ColumnError, match="two columns 'body'"):
        check_table(twice, has_address=True)


def test_an_address_is_an_option_or_a_column_of_text() -> None:
    check_table(table(address=StringType(), body=StringType()), has_address=False)
    with pytest.raises(ColumnError, match=r"no column 'address' \(string\), and there is no option address"):
        check_table(table(body=StringType()), has_address=False)
    with pytest.raises(ColumnError, match="column 'address' is bigint; possible is string"):
        check_table(table(address=LongType(), body=StringType()), has_address=False)


# --- writers and their options ---


def test_a_batch_does_not_overwrite() -> None:
    with pytest.raises(LocalError, match="append"):
        batch_writer(URL | {"address": "q"}, table(body=StringType()), True)


def test_a_writer_is_made_for_a_table_that_fits_alone() -> None:
    with pytest.raises(ColumnError):
        batch_writer(URL, table(body=StringType()), False)
    with pytest.raises(ColumnError):
        stream_writer(URL | {"checkpointLocation": "/x"}, table(body=StringType()), False)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"adress": "q"}, "adress"),
        ({"window": "0"}, "window"),
        ({"transactional": "yes"}, "transactional"),
        ({"messageId": "random"}, "messageId"),
        ({"messageId": "keep", "writeId": "a"}, "writeId"),
        ({"writeId": "a" * 200}, "writeId"),
        ({"address": "q", "deadLetterAddress": "q"}, "deadLetterAddress"),
        ({"timeout": "-1"}, "timeout"),
        ({"passwordFile": "/x"}, "passwordFile"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], name: str) -> None:
    with pytest.raises(OptionError) as caught:
        SinkOptions.for_batch(URL | options)
    assert caught.value.option == name


def test_a_write_id_is_for_batches() -> None:
    with pytest.raises(OptionError, match="writeid"):
        SinkOptions.for_stream(URL | {"writeId": "a"})


def test_a_writer_shows_no_password() -> None:
    secret = {"user": "me", "password": "hush", "address": "q"}
    writer = batch_writer(URL | secret, table(body=StringType()), False)
    assert "hush" not in repr(writer.options)

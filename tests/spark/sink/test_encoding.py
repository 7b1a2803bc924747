"""Rows in Arrow batches as messages: what the columns say, and ids that are the same in each attempt."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from amqpforge.message import Message
from amqpforge.spark.sink import encoding
from amqpforge.spark.sink.encoding import RowEncoder
from amqpforge.spark.sink.errors import WriteFailed
from amqpforge_protocol.amqp_1_0 import (
    AmqpSequence,
    AmqpValue,
    Byte,
    Char,
    Data,
    Decimal32,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    decode_message,
)
from amqpforge_spark.amqp_1_0 import MessageColumns

NOW = datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def messages(*batches: pa.RecordBatch, id_prefix: str | None = None) -> list[Message]:
    encoder = RowEncoder(0, address="q", id_prefix=id_prefix)
    return [Message.from_octets(row.octets) for row in encoder.rows(batches)]


def ids(*batches: pa.RecordBatch) -> list[Any]:
    return [message.message_id for message in messages(*batches, id_prefix="w:0:0")]


def read(*octets: bytes) -> pa.RecordBatch:
    """A batch as the source gives it."""
    columns = MessageColumns()
    for one in octets:
        columns.append(one, address="elsewhere", link="l", delivery_tag=b"t", received_at=1)
    return columns.finish()


# --- columns ---


def test_columns_become_fields() -> None:
    (message,) = messages(
        batch(
            body=["hello"],
            subject=["s"],
            to=["t"],
            content_type=["text/plain"],
            correlation_id=pa.array([7], pa.decimal128(20, 0)),
            user_id=[b"me"],
            group_sequence=[3],
            creation_time=[NOW],
            durable=[True],
            priority=pa.array([9], pa.int16()),
            ttl=[1500],
            application_properties=pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        )
    )
    assert message.body == "hello"
    assert isinstance(message.sections.body, AmqpValue)
    assert (message.subject, message.to, message.content_type) == ("s", "t", "text/plain")
    assert type(message.correlation_id) is ULong
    assert (message.user_id, message.group_sequence, message.creation_time) == (b"me", 3, NOW)
    assert (message.durable, message.priority, message.ttl) == (True, 9, 1.5)
    assert message.application_properties == {"a": 1}
    assert message.message_id is None


def test_octets_become_data() -> None:
    (message,) = messages(batch(body=[b"\x00\xff"]))
    assert message.sections.body == [Data(b"\x00\xff")]


def test_nulls_are_absent() -> None:
    one, two = messages(
        batch(body=["a", "b"], subject=["s", None], durable=pa.array([None, True]), to=pa.nulls(2))
    )
    assert (one.subject, one.sections.header, one.to) == ("s", None, None)
    assert two.sections.properties is None
    assert two.durable is True


def test_a_null_for_a_body_is_the_value_null() -> None:
    written = messages(batch(body=["a", None], body_value=pa.array([None, None], pa.int64())))
    assert [message.sections.body for message in written] == [AmqpValue("a"), AmqpValue(None)]
    (written_alone,) = messages(batch(body=pa.nulls(1), body_kind=pa.nulls(1)))
    assert written_alone.sections.body == AmqpValue(None)


VALUES = [
    None,
    True,
    UByte(255),
    UShort(65535),
    UInt(2**32 - 1),
    ULong(2**64 - 1),
    Byte(-128),
    Short(-32768),
    Int(-(2**31)),
    -(2**63),
    Float(0.5),
    -1.5e300,
    Decimal32("1.5"),
    Decimal("1.25"),
    Char("x"),
    Timestamp(int(NOW.timestamp() * 1000)),
    UUID(int=5),
    b"\x00\x01",
    "text",
    Symbol("symbol"),
    [1, "two", None],
    {"a": UInt(1), Symbol("b"): [b""]},
    Described(Symbol("x:y"), [1]),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_of_each_type_that_was_read_is_written_as_it_was(value: Any) -> None:
    octets = Message(AmqpValue(value)).encode()
    (written,) = messages(read(octets))
    assert written.encode() == octets


@pytest.mark.parametrize("kept", ["keep", "generate"])
def test_whole_messages_that_were_read_are_written_as_they_were(kept: str) -> None:
    sent = [
        Message(
            [Data(b"a"), Data(b""), Data(b"bc")],
            durable=True,
            priority=200,
            ttl=1,
            first_acquirer=True,
            delivery_count=3,
            message_id=UUID(int=9),
            correlation_id=b"c",
            user_id=b"u",
            to="t",
            reply_to="r",
            content_type="a/b",
            content_encoding="gzip",
            absolute_expiry_time=NOW,
            creation_time=NOW,
            group_id="g",
            group_sequence=2**32 - 1,
            reply_to_group_id="h",
            application_properties={"i": UInt(1), "n": None, "s": "x", "t": Timestamp(5)},
            annotations={"x-opt-a": [1, 2]},
            delivery_annotations={"x-opt-b": Symbol("s")},
            footer={"x-opt-c": b"crc"},
        ),
        Message([AmqpSequence([1, UInt(2)]), AmqpSequence([])], message_id="own"),
        Message(None, message_id=ULong(4)),
    ]
    octets = [message.encode() for message in sent]
    written = messages(read(*octets), id_prefix="w:0:0" if kept == "generate" else None)
    assert [decode_message(message.encode()) for message in written] == [
        decode_message(one) for one in octets
    ]


def test_a_row_that_cannot_be_encoded_is_named() -> None:
    with pytest.raises(WriteFailed, match=r"partition 0, row 5: it is no message: .*300") as caught:
        messages(batch(body=["a"] * 3), batch(body=["a"] * 4, priority=[1, 2, 300, 4]))
    assert caught.value.row == 5


def test_a_row_that_was_corrupt_is_not_sent_empty() -> None:
    with pytest.raises(WriteFailed, match=r"row 1: it holds octets that are no message \(_corrupt\)"):
        messages(read(Message("fine").encode(), b"\xff"))


def test_a_row_of_another_format_is_refused() -> None:
    with pytest.raises(WriteFailed, match="row 1: its message_format is not 0"):
        messages(batch(body=["a", "b"], message_format=[None, 1]))


def test_rows_are_grouped_by_address_and_keep_their_numbers() -> None:
    encoder = RowEncoder(0, address=None, id_prefix=None)
    found = [
        *encoder.rows(
            [batch(body=list("abcd"), address=["p", "q", "p", "q"]), batch(body=["e"], address=["p"])]
        )
    ]
    assert [(row.address, row.number) for row in found] == [("p", 0), ("p", 2), ("q", 1), ("q", 3), ("p", 4)]
    assert [Message.from_octets(row.octets).body for row in found] == ["a", "c", "b", "d", "e"]


def test_the_option_stands_above_the_column() -> None:
    encoder = RowEncoder(0, address="q", id_prefix=None)
    assert [row.address for row in encoder.rows([batch(body=["a", "b"], address=["p", None])])] == ["q", "q"]


def test_a_row_without_an_address_is_named() -> None:
    encoder = RowEncoder(2, address=None, id_prefix=None)
    with pytest.raises(WriteFailed, match="partition 2, row 1: it has no address"):
        list(encoder.rows([batch(body=["a", "b"], address=["p", None])]))


def test_rows_are_encoded_a_piece_at_a_time() -> None:
    large = batch(body=[b"x" * 3_000_000] * 10)
    coming = RowEncoder(0, address="q", id_prefix=None).rows(iter([large]))
    assert len(next(coming).octets) > 3_000_000
    assert [one.num_rows for one in encoding._pieces(large, 100)] == [2] * 5
    assert [one.num_rows for one in encoding._pieces(large.slice(0, 3), 1)] == [1] * 3
    assert sum(1 for _ in coming) == 9


# --- ids ---


def test_ids_are_all_different_and_the_same_again() -> None:
    same = batch(body=["a"] * 500)
    first = ids(same, same)
    assert len(set(first)) == 1000
    assert first == ids(same, same)
    assert all(id.startswith("w:0:0:") for id in first)


def test_ids_do_not_depend_on_how_rows_are_cut_into_batches() -> None:
    whole = batch(body=[str(number) for number in range(100)])
    assert ids(whole) == ids(whole.slice(0, 1), whole.slice(1, 63), whole.slice(64))


def test_another_row_in_the_same_place_has_another_id() -> None:
    one, two = batch(body=["a", "b"]), batch(body=["b", "a"])
    assert not {*ids(one)} & {*ids(two)}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["own", None]),
        (pa.binary(), [b"own", None]),
        (pa.large_string(), ["own", None]),
        (pa.large_binary(), [b"own", None]),
        (pa.decimal128(20, 0), [Decimal(7), None]),
        (pa.decimal128(5, 0), [Decimal(7), None]),
        (
            pa.struct([("kind", pa.string()), ("string", pa.string())]),
            [{"kind": "string", "string": "own"}, None],
        ),
    ],
)
@pytest.mark.parametrize("place", ["column", "struct"])
def test_a_row_with_an_id_keeps_it(kind: Any, values: list[Any], place: str) -> None:
    column = pa.array(values, kind)
    if place == "column":
        given = batch(body=["a", "b"], message_id=column, subject=["s", "t"])
    else:
        struct = pa.StructArray.from_arrays([column, pa.array(["s", "t"])], names=["message_id", "subject"])
        given = batch(body=["a", "b"], properties=struct)
    kept, made = messages(given, id_prefix="w:0:0")
    assert kept.message_id in ("own", b"own", 7)
    assert str(made.message_id).startswith("w:0:0:1:")
    assert (kept.subject, made.subject) == ("s", "t")
    assert [message.message_id for message in messages(given.slice(0, 1), id_prefix="w:0:0")] == [
        kept.message_id
    ]


def test_the_id_of_a_message_that_has_it_elsewhere_too_is_sealed_in_its_place() -> None:
    (id,) = ids(batch(body=["w:0:0:0:000000000000"]))
    (message,) = messages(batch(body=["w:0:0:0:000000000000"]), id_prefix="w:0:0")
    assert (message.message_id, message.body) == (id, "w:0:0:0:000000000000")
    assert not str(id).endswith("000000000000")

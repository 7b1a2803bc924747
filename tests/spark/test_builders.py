"""Messages to columns and back: every type, nulls, limits, bad octets, and what fits no column."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import amqpforge_protocol.amqp_1_0 as amqp
import amqpforge_spark.amqp_1_0 as spark_amqp
from amqpforge.notation import from_json
from amqpforge_protocol._support.errors import EncodeError
from amqpforge_protocol._support.limits import Limits
from tests.spark.batches import column
from tests.spark.values import VALUES

ALL = [value for values in VALUES.values() for value in values]


def decoded(*messages: bytes, limits: Limits | None = None) -> Any:
    columns = spark_amqp.MessageColumns() if limits is None else spark_amqp.MessageColumns(limits)
    for octets in messages:
        columns.append(octets)
    assert len(columns) == len(messages)
    batch = columns.finish()
    batch.validate(full=True)
    assert batch.schema.equals(spark_amqp.MESSAGE_SCHEMA)
    assert len(columns) == 0
    return batch


def shortest(message: amqp.Message) -> bytes:
    """The octets of a message, whatever those were that it came in."""
    message.bare = None
    return amqp.encode_message(message)


def body_of(value: Any) -> bytes:
    return amqp.encode_message(amqp.Message(body=amqp.AmqpValue(value)))


# --- there and back -----------------------------------------------------------------------------------------

simple = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1).map(amqp.ULong),
    st.integers(0, 2**32 - 1).map(amqp.UInt),
    st.integers(-(2**31), 2**31 - 1).map(amqp.Int),
    st.integers(0, 255).map(amqp.UByte),
    st.floats(allow_nan=False),
    st.floats(width=32, allow_nan=False).map(amqp.Float),
    st.decimals(allow_nan=False, places=3, min_value=-(10**20), max_value=10**20),
    st.integers(-(2**63), 2**63 - 1).map(amqp.Timestamp),
    st.uuids(),
    st.binary(max_size=20),
    st.text(max_size=20),
    st.text(st.characters(codec="ascii"), max_size=10).map(amqp.Symbol),
    st.sampled_from(ALL[: -len(VALUES["list"])]).filter(lambda value: value == value),
)
flat = simple.filter(lambda value: not isinstance(value, list | dict | amqp.Array | amqp.Described))
values = st.recursive(
    simple,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
symbols = st.text(st.characters(codec="ascii"), min_size=1, max_size=8).map(amqp.Symbol)
annotation_maps = st.dictionaries(symbols | st.integers(0, 2**64 - 1).map(amqp.ULong), values, max_size=4)
message_ids = st.one_of(
    st.none(),
    st.text(max_size=9),
    st.binary(max_size=9),
    st.uuids(),
    st.integers(0, 2**64 - 1).map(amqp.ULong),
)
texts = st.none() | st.text(max_size=10)
moments = st.none() | st.integers(-(2**63), 2**63 - 1).map(amqp.Timestamp)
headers = st.builds(
    amqp.Header,
    durable=st.booleans(),
    priority=st.integers(0, 255),
    ttl=st.none() | st.integers(0, 2**32 - 1),
    first_acquirer=st.booleans(),
    delivery_count=st.integers(0, 2**32 - 1),
)
properties = st.builds(
    amqp.Properties,
    message_id=message_ids,
    user_id=st.none() | st.binary(max_size=9),
    to=texts,
    subject=texts,
    reply_to=texts,
    correlation_id=message_ids,
    content_type=st.none() | symbols,
    absolute_expiry_time=moments,
    creation_time=moments,
    group_id=texts,
    group_sequence=st.none() | st.integers(0, 2**32 - 1),
    reply_to_group_id=texts,
)
bodies = st.one_of(
    st.lists(st.binary(max_size=30).map(amqp.Data), min_size=1, max_size=3),
    st.lists(st.lists(values, max_size=3).map(amqp.AmqpSequence), min_size=1, max_size=3),
    values.map(amqp.AmqpValue),
)
messages = st.builds(
    amqp.Message,
    header=st.none() | headers,
    delivery_annotations=annotation_maps,
    message_annotations=annotation_maps,
    properties=st.none() | properties,
    application_properties=st.dictionaries(st.text(max_size=6), flat, max_size=4),
    body=bodies,
    footer=annotation_maps,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.lists(messages, min_size=1, max_size=6))
def test_messages_become_columns_and_the_same_messages_again(sent: list[amqp.Message]) -> None:
    octets = [amqp.encode_message(message) for message in sent]
    batch = decoded(*octets)
    assert column(batch, "_corrupt") == [None] * len(sent)
    back = spark_amqp.encode_messages(batch)
    assert [amqp.decode_message(one) for one in back] == [amqp.decode_message(one) for one in octets]
    assert [spark_amqp.encode_messages(batch.slice(row, 1))[0] for row in range(len(sent))] == back


@pytest.mark.parametrize("kind", VALUES)
def test_every_type_comes_back_octet_for_octet(kind: str) -> None:
    """In a body, an annotation and, where they may be there, in application properties."""
    sent: list[bytes] = []
    for value in VALUES[kind]:
        message = amqp.Message(body=amqp.AmqpValue(value), footer={amqp.Symbol("f"): value})
        if kind not in ("list", "map", "array", "described"):
            message.application_properties = {"a": value, "b": None}
        sent.append(amqp.encode_message(message))
    batch = decoded(*sent)
    assert spark_amqp.encode_messages(batch) == sent
    assert [tagged["kind"] for tagged in column(batch, "body_value")] == [kind] * len(sent)


def test_values_of_all_types_in_one_sequence() -> None:
    octets = amqp.encode_message(amqp.Message(body=[amqp.AmqpSequence(ALL), amqp.AmqpSequence([])]))
    batch = decoded(octets, body_of("x"), octets)
    assert spark_amqp.encode_messages(batch) == [octets, body_of("x"), octets]
    assert [len(part) for part in column(batch, "body_sequence")[0]] == [len(ALL), 0]


@pytest.mark.parametrize("text", ["NaN", "-NaN", "sNaN", "NaN123"])
def test_decimals_that_are_no_number_keep_what_they_carry(text: str) -> None:
    octets = body_of(Decimal(text))
    assert spark_amqp.encode_messages(decoded(octets)) == [octets]


def test_a_body_of_several_data_sections_keeps_its_boundaries() -> None:
    sent = [
        amqp.Message(body=[amqp.Data(part) for part in parts]) for parts in ([b"ab", b"", b"c"], [b"abc"])
    ]
    octets = [amqp.encode_message(message) for message in sent]
    batch = decoded(*octets)
    assert column(batch, "body") == [b"abc", b"abc"]
    assert column(batch, "body_sizes") == [[2, 0, 1], None]
    assert column(batch, "body_kind") == ["data", "data"]
    assert spark_amqp.encode_messages(batch) == octets


def test_a_body_that_is_null_is_not_a_body_that_is_missing() -> None:
    nothing = amqp.Header(durable=True).encode()
    batch = decoded(body_of(None), nothing)
    assert column(batch, "body_kind") == ["amqp-value", None]
    assert [value and value["kind"] for value in column(batch, "body_value")] == ["null", None]
    assert spark_amqp.encode_messages(batch.slice(0, 1)) == [body_of(None)]
    with pytest.raises(EncodeError, match=r"^row 1: .*has a body"):
        spark_amqp.encode_messages(batch)


def test_a_large_body_passes_through() -> None:
    octets = amqp.encode_message(amqp.Message(body=[amqp.Data(bytes(10 << 20))]))
    batch = decoded(octets)
    assert spark_amqp.encode_messages(batch) == [octets]


# --- what fits no column ------------------------------------------------------------------------------------


def test_keys_and_moments_that_fit_no_column_are_kept_and_restored() -> None:
    far = amqp.Timestamp(2**62)
    message = amqp.Message(
        message_annotations={amqp.Symbol("a"): 1, amqp.ULong(7): "x"},
        properties=amqp.Properties(creation_time=far, to="q"),
        body=amqp.AmqpValue(far),
    )
    octets = amqp.encode_message(message)
    plain = body_of(1)
    batch = decoded(plain, octets, plain)
    rests = column(batch, "_rest")
    assert rests[0] is None
    assert rests[2] is None
    rest = json.loads(rests[1])
    assert rest.keys() == {"message_annotations", "properties.creation_time"}
    assert [[from_json(part) for part in pair] for pair in rest["message_annotations"]] == [
        [amqp.ULong(7), "x"]
    ]
    assert from_json(rest["properties.creation_time"]) == far
    assert column(batch, "message_annotations")[1][0][0] == "a"
    assert column(batch, "properties")[1]["creation_time"] is None
    tagged = column(batch, "body_value")[1]
    assert (tagged["kind"], tagged["timestamp"]) == ("timestamp", None)
    assert from_json(json.loads(tagged["json"])) == far
    back = spark_amqp.encode_messages(batch)
    assert [amqp.decode_message(one) for one in back] == [
        amqp.decode_message(one) for one in (plain, octets, plain)
    ]


def test_the_ends_of_the_calendar_are_still_moments() -> None:
    first, last = amqp.Timestamp(-62_135_596_800_000), amqp.Timestamp(253_402_300_799_999)
    batch = decoded(
        body_of(first), body_of(last), body_of(int(first) - 1), body_of(amqp.Timestamp(int(last) + 1))
    )
    held = [tagged["timestamp"] for tagged in column(batch, "body_value")]
    assert (held[0].year, held[1].year, held[3]) == (1, 9999, None)


def test_a_text_key_where_symbols_belong_is_kept_apart() -> None:
    """Some peers send them; in the map nobody could tell which of the two a key was."""
    section = b"\x00\x53\x72" + amqp.encode_value({"b": 1, amqp.Symbol("a"): 2})
    batch = decoded(section + body_of(0))
    assert [key for key, _ in column(batch, "message_annotations")[0]] == ["a"]
    assert json.loads(column(batch, "_rest")[0]) == {
        "message_annotations": [["b", {"type": "long", "value": "1"}]]
    }


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("no json", "_rest is not what a message left"),
        ('{"nothing": []}', "_rest is not what a message left"),
        ('{"footer": [["a", 1]], "header.ttl": 1}', "row 0"),
        (
            '{"message_annotations": [[{"type": "symbol", "value": "a"}, 1]]}',
            "has a key that its section has too",
        ),
    ],
)
def test_a_rest_that_nobody_left_is_refused(rest: str, reason: str) -> None:
    batch = decoded(
        amqp.encode_message(amqp.Message(message_annotations={amqp.Symbol("a"): 1}, body=amqp.AmqpValue(1)))
    )
    index = batch.schema.get_field_index("_rest")
    batch = batch.set_column(index, "_rest", pa.array([rest]))
    with pytest.raises(EncodeError, match=reason):
        spark_amqp.encode_messages(batch)


def test_what_fits_no_column_stays_with_its_message() -> None:
    """Messages are taken apart many at a time, and not all have the section."""
    key = {amqp.ULong(7): "x"}
    odd = {70: amqp.Message(message_annotations=key), 131: amqp.Message(footer=key)}
    late = amqp.Message(properties=amqp.Properties(creation_time=amqp.Timestamp(2**62)))
    body = [amqp.Data(b"")]
    sent = [odd.get(row) or (late if row == 199 else amqp.Message()) for row in range(200)]
    for message in sent:
        message.body = body
    batch = decoded(*map(amqp.encode_message, sent))
    rest = {row: json.loads(text) for row, text in enumerate(column(batch, "_rest")) if text is not None}
    assert {row: [*found] for row, found in rest.items()} == {
        70: ["message_annotations"],
        131: ["footer"],
        199: ["properties.creation_time"],
    }


# --- bad octets ---------------------------------------------------------------------------------------------

WHOLE = amqp.encode_message(
    amqp.Message(
        header=amqp.Header(durable=True),
        properties=amqp.Properties(message_id="x", to="q"),
        application_properties={"a": 1},
        body=[amqp.Data(b"abc")],
    )
)


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_a_message_cut_short_is_a_row_with_its_octets(size: int) -> None:
    cut = WHOLE[:size]
    try:
        amqp.decode_message(cut)
    except amqp.DecodeError as error:
        expected: Any = {
            "error": error.reason,
            "type": error.type,
            "field": error.field,
            "offset": error.offset,
            "octets": cut,
        }
    else:
        expected = None
    batch = decoded(WHOLE, cut, WHOLE)
    assert column(batch, "_corrupt") == [None, expected, None]
    if expected is not None:
        row = batch.slice(1, 1).to_pylist()[0]
        assert {name for name, value in row.items() if value is not None} == {"message_format", "_corrupt"}
    assert column(batch, "body") == [b"abc", None, b"abc"]


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=60)
    | st.tuples(st.just(WHOLE), st.integers(0, len(WHOLE) - 1), st.integers(0, 255)).map(
        lambda given: given[0][: given[1]] + bytes([given[2]]) + given[0][given[1] + 1 :]
    )
)
def test_no_octets_raise(octets: bytes) -> None:
    batch = decoded(octets)
    corrupt = column(batch, "_corrupt")[0]
    assert corrupt is None or corrupt["octets"] == octets


def test_limits_make_a_corrupt_row() -> None:
    octets = body_of([[[[1]]]])
    assert column(decoded(octets, limits=Limits(depth=3)), "_corrupt")[0]["octets"] == octets
    assert column(decoded(octets), "_corrupt") == [None]


def test_a_message_format_of_others_is_not_decoded() -> None:
    columns = spark_amqp.MessageColumns()
    columns.append(WHOLE, message_format=0x100)
    columns.append(WHOLE, message_format=1)
    batch = columns.finish()
    corrupt = column(batch, "_corrupt")
    assert "message-format 256" in corrupt[0]["error"]
    assert corrupt[1] is None
    assert column(batch, "message_format") == [256, 1]


# --- batches of payloads ------------------------------------------------------------------------------------


def test_a_batch_of_payloads_keeps_what_is_known_of_deliveries() -> None:
    moment = pa.array([5, None], pa.int64()).cast(pa.timestamp("us", "UTC"))
    spool = pa.RecordBatch.from_arrays(
        [
            pa.array([WHOLE, b"bad"]),
            pa.array(["q", None]),
            moment,
            pa.array([b"t", b"u"]),
            pa.array([0, 0], pa.uint32()),
            pa.array([True, False]),
        ],
        names=["payload", "address", "received_at", "delivery_tag", "message_format", "redelivered"],
    )
    batch = spark_amqp.decode_messages(spool)
    assert batch.schema.equals(spark_amqp.MESSAGE_SCHEMA)
    columns = spark_amqp.MessageColumns()
    columns.append(WHOLE, "q", None, b"t", 5)
    columns.append(b"bad", None, None, b"u", None)
    assert batch.equals(columns.finish())
    assert spark_amqp.decode_messages(spool.slice(1, 1)).equals(batch.slice(1, 1))


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (pa.RecordBatch.from_pydict({"octets": [b""]}), "no column 'payload' .* there are: octets"),
        (pa.RecordBatch.from_pydict({"payload": [b"", None]}), "has 1 nulls"),
    ],
)
def test_a_batch_without_payloads_is_refused(batch: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        spark_amqp.decode_messages(batch)


# --- rows that somebody else made ---------------------------------------------------------------------------


def test_plain_columns_stand_for_values() -> None:
    moment = pa.array([1_700_000_000_123_456], pa.int64()).cast(pa.timestamp("us", "UTC"))
    strings = pa.map_(pa.string(), pa.string())
    batch = pa.RecordBatch.from_arrays(
        [
            pa.StructArray.from_arrays([pa.array(["m"]), moment], names=["message_id", "creation_time"]),
            pa.array([[("a", "1"), ("b", None)]], strings),
            pa.array([[("x-opt-a", 5)]], pa.map_(pa.string(), pa.int32())),
            pa.array(["text"]),
        ],
        names=["properties", "application_properties", "message_annotations", "body"],
    )
    message = amqp.decode_message(spark_amqp.encode_messages(batch)[0])
    assert message == amqp.Message(
        message_annotations={amqp.Symbol("x-opt-a"): amqp.Int(5)},
        properties=amqp.Properties(message_id="m", creation_time=amqp.Timestamp(1_700_000_000_123)),
        application_properties={"a": "1", "b": None},
        body=amqp.AmqpValue("text"),
    )
    assert type(message.message_annotations["x-opt-a"]) is amqp.Int


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (pa.array([7], pa.int8()), amqp.Byte(7)),
        (pa.array([7], pa.int16()), amqp.Short(7)),
        (pa.array([7], pa.int64()), 7),
        (pa.array([2**64 - 1], pa.uint64()).cast(pa.decimal128(20, 0)), amqp.ULong(2**64 - 1)),
        (pa.array([0.5], pa.float32()), amqp.Float(0.5)),
        (pa.array([0.1]), 0.1),
        (pa.array([True]), True),
        (pa.array([b"x"]), b"x"),
    ],
)
def test_a_plain_value_has_the_type_of_its_column(array: Any, value: Any) -> None:
    batch = pa.RecordBatch.from_arrays([array], names=["body_value"])
    assert spark_amqp.encode_messages(batch) == [body_of(value)]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"body": [b""], "boddy": [1]}, "no column boddy"),
        ({"subject": ["x"]}, "no column subject"),
        ({"properties": [{"to": "q"}]}, "no column has a body"),
        ({"body": [5]}, "the column body is of the type int64"),
        ({"body": [b""], "properties": [{"too": "q"}]}, "properties has no field too; it has message_id"),
        (
            {"body": [b""], "properties": [{"to": 5}]},
            "the column properties.to is of the type int64; expected string",
        ),
        ({"body": [b""], "application_properties": [5]}, "a map from text"),
        ({"body": [b""], "body_kind": [5]}, "the column body_kind"),
        ({"body": [b""], "header": [{"priority": "x"}]}, "header.priority"),
        ({"body": [b""], "body_sizes": ["x"]}, "a list of numbers"),
        ({"body_sequence": [[5]]}, "a list of lists"),
    ],
)
def test_columns_that_no_message_has_are_refused_by_name(columns: dict[str, Any], reason: str) -> None:
    batch = pa.RecordBatch.from_pydict(columns)
    with pytest.raises(EncodeError, match=reason):
        spark_amqp.check_columns(batch.schema)
    with pytest.raises(EncodeError, match=reason):
        spark_amqp.encode_messages(batch)


def tagged(**columns: Any) -> dict[str, Any]:
    return {**dict.fromkeys(("kind", "long", "string", "json")), **columns}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (tagged(kind="ubyte", long=300), "row 1: .*no value of the kind ubyte"),
        (tagged(kind="uuid", string="x"), "row 1: .*no value of the kind uuid"),
        (tagged(kind="nothing"), "row 1: .*neither a kind 'nothing' nor JSON"),
        (tagged(kind="long", string="5"), "row 1: .*the column long is null"),
        (tagged(long=5), "row 1: .*a value has no kind"),
        (tagged(kind="list", json="[1"), "row 1: .*no value of the kind list"),
        (tagged(kind="string"), "row 1: .*the column string is null"),
    ],
)
def test_tagged_values_that_are_none_are_refused_with_their_row(value: dict[str, Any], reason: str) -> None:
    kinds = pa.struct(
        [("kind", pa.string()), ("long", pa.int64()), ("string", pa.string()), ("json", pa.string())]
    )
    good = tagged(kind="string", string="x")
    batch = pa.RecordBatch.from_arrays([pa.array([good, value], kinds)], names=["body_value"])
    with pytest.raises(EncodeError, match=reason):
        spark_amqp.encode_messages(batch)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"body": [b"x"], "body_value": ["x"]}, "row 0: has more than one of body"),
        ({"body": [b"x"], "body_kind": ["amqp-value"]}, "row 0: has no body of the kind amqp-value"),
        ({"body": [b"x"], "body_kind": ["sequence"]}, "row 0: has no body of the kind sequence"),
        (
            {"body": [b"x"], "body_sizes": [[2]]},
            "row 0: has a body of 1 octets, and body_sizes that add up to 2",
        ),
        ({"body": [b"x", None]}, "row 1: .*has a body"),
        ({"body": ["x"], "properties": [{"content_encoding": "gzip"}]}, "row 0: .*only for a body of data"),
        ({"body": [b"x"], "header": [{"ttl": -1}]}, "row 0: .*ttl"),
        ({"body": [b"x"], "header": [{"priority": 70000}]}, "header"),
    ],
)
def test_rows_that_are_no_message_are_refused_with_their_number(columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        spark_amqp.encode_messages(pa.RecordBatch.from_pydict(columns))


def test_a_key_twice_is_refused() -> None:
    entries = pa.array([[], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))
    batch = pa.RecordBatch.from_arrays(
        [entries, pa.array([b"", b""])], names=["application_properties", "body"]
    )
    with pytest.raises(EncodeError, match="row 1: a map has the same key twice"):
        spark_amqp.encode_messages(batch)


def test_rows_do_not_see_what_the_row_before_had() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "header": [{"durable": True, "ttl": 5}, {"durable": None, "ttl": None}, None],
            "properties": [{"to": "q", "message_id": "m"}, {"to": None, "message_id": None}, None],
            "body": [b"1", b"2", b"3"],
        }
    )
    first, second, third = map(amqp.decode_message, spark_amqp.encode_messages(batch))
    assert first.header == amqp.Header(durable=True, ttl=amqp.Milliseconds(5))
    assert second.header == amqp.Header()
    assert second.properties == amqp.Properties()
    assert third.header is None
    assert third.properties is None


def test_uuids_are_their_usual_text() -> None:
    batch = decoded(body_of(UUID(int=1)))
    assert column(batch, "body_value")[0]["string"] == "00000000-0000-0000-0000-000000000001"

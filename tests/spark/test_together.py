"""What is decoded all at once gives the same columns as what is decoded one by one."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import amqpforge_protocol.amqp_1_0 as amqp
import amqpforge_spark.amqp_1_0 as spark_amqp
from amqpforge_protocol._support.limits import Limits
from amqpforge_spark._support import together as usual
from tests.codec import strategies
from tests.spark.values import VALUES

ROWS = 520
"""More than are decoded one by one in any case."""

VALUE = [value for values in VALUES.values() for value in values]


class Apart:
    """Counts the messages that are decoded one by one, and the calls for some of many."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        decode = usual._decode_usual

        def counted(payloads: Any, form: Any) -> Any:
            arrays, right = decode(payloads, form)
            self.rows += len(right) - right.true_count
            return arrays, right

        monkeypatch.setattr(usual, "_decode_usual", counted)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Apart:
    return Apart(monkeypatch)


def together(messages: Sequence[bytes], limits: Limits | None = None) -> pa.RecordBatch:
    """The columns of many messages: these, again and again."""
    rows = [messages[row % len(messages)] for row in range(max(ROWS, len(messages)))]
    formats = pa.array([0] * len(rows), pa.int64())
    batch = pa.RecordBatch.from_arrays([pa.array(rows, pa.binary()), formats], ["payload", "message_format"])
    found = spark_amqp.decode_messages(batch, limits=limits or Limits())
    found.validate(full=True)
    return found


def singly(messages: Sequence[bytes], limits: Limits | None = None) -> list[dict[str, Any]]:
    """The rows of messages, each of which is decoded by itself."""
    columns = spark_amqp.MessageColumns(limits or Limits())
    rows: list[dict[str, Any]] = []
    for octets in messages:
        columns.append(octets)
        rows += columns.finish().to_pylist()
    return rows


def compare(messages: Sequence[bytes], limits: Limits | None = None) -> None:
    expected = singly(messages, limits)
    compare_rows(together(messages, limits), expected)


def compare_rows(batch: pa.RecordBatch, expected: list[dict[str, Any]]) -> None:
    """The first rows are these, and so are the last ones: they are repeated all along."""
    count = len(expected)
    for begin in (0, (batch.num_rows // count - 1) * count):
        for values, right in zip(batch.slice(begin, count).to_pylist(), expected, strict=True):
            assert repr(values) == repr(right)  # NaN is not equal to itself.


def encoded(message: amqp.Message) -> Iterator[bytes]:
    """The octets of a message, if it may have what it has."""
    with suppress(amqp.EncodeError):
        yield amqp.encode_message(message)


def test_all_kinds_of_values(apart: Apart) -> None:
    messages: list[bytes] = []
    for value in VALUE:
        body = amqp.AmqpValue(value)
        messages += encoded(amqp.Message(body=body))
        messages += encoded(
            amqp.Message(message_annotations={amqp.Symbol("a"): value, amqp.Symbol("b"): True}, body=body)
        )
        messages += encoded(amqp.Message(application_properties={"a": value, "b": True}, body=body))
        messages += encoded(amqp.Message(properties=amqp.Properties(message_id=value), body=body))
    compare(messages)
    assert 0 < apart.rows < len(messages)


USUAL = [
    amqp.Message(body=[amqp.Data(b"")]),
    amqp.Message(
        header=amqp.Header(),
        properties=amqp.Properties(content_encoding=amqp.Symbol("gzip")),
        body=[amqp.Data(bytes(300))],
    ),
    amqp.Message(
        header=amqp.Header(
            durable=True,
            priority=amqp.UByte(9),
            ttl=amqp.Milliseconds(2**32 - 1),
            delivery_count=amqp.UInt(3),
        ),
        message_annotations={amqp.Symbol("x-opt-sequence-number"): 2**63 - 1, amqp.Symbol("b"): "text"},
        properties=amqp.Properties(
            message_id=amqp.ULong(2**64 - 1),
            user_id=b"guest",
            to="there",
            subject="\u20ac" * 100,
            reply_to="here",
            correlation_id="c",
            content_type=amqp.Symbol("text/plain"),
            absolute_expiry_time=amqp.Timestamp(-1),
            creation_time=amqp.Timestamp(1_790_000_000_000),
            group_id="g",
            group_sequence=amqp.SequenceNo(2**32 - 1),
            reply_to_group_id="r",
        ),
        application_properties={f"{number}": number for number in range(16)},
        body=amqp.AmqpValue("text"),
        footer={amqp.Symbol("crc"): amqp.UInt(7)},
    ),
    amqp.Message(
        properties=amqp.Properties(), application_properties={"a": None, "": ""}, body=amqp.AmqpValue(None)
    ),
]


def test_the_usual_form_needs_nobody_else(apart: Apart) -> None:
    compare([amqp.encode_message(message) for message in USUAL])
    assert apart.rows == 0


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\x00",
        b"\x00\x53\x75",
        b"\x00\x53\x75\xa0\x05abc",
        b"\x00\x53\x75\xb0\xff\xff\xff\xff",
        b"\x00\x53\x75\xa1\x01a",
        b"\x00\x53\x77\xa1\x01\xff",
        b"\x00\x53\x77\xa3\x02\xc3\xa9",
        b"\x00\x53\x77\x56\x02",
        b"\x00\x53\x77\x83" + struct.pack(">q", 2**62),
        b"\x00\x53\x77\x45",
        b"\x00\x53\x77\x00\x53\x77\x40",
        b"\x00\x53\x77\x40\x00",
        b"\x00\x80\0\0\0\0\0\0\0\x77\x40",
        b"\x00\x53\x77\x40\x00\x53\x77\x40",
        b"\x00\x53\x75\xa0\x01a\x00\x53\x75\xa0\x01b",
        b"\x00\x53\x76\x45\x00\x53\x76\xc0\x02\x01\x41",
        b"\x00\x53\x78\xc1\x01\x00",
        b"\x00\x53\x73\x45\x00\x53\x70\x45\x00\x53\x77\x40",
        b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x77\x40",
        b"\x00\x53\x70\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x41\x00\x53\x77\x40",
        b"\x00\x53\x70\xc0\x03\x01\x41\x00\x53\x77\x40",
        b"\x00\x53\x70\xc0\x07\x06\x40\x40\x40\x40\x40\x40\x00\x53\x77\x40",
        b"\x00\x53\x70\xc0\x02\x01\xa1\x00\x53\x77\x40",
        b"\x00\x53\x73\xc0\x04\x03\x40\x40\x43\x00\x53\x77\x40",
        b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\x45\x00\x53\x77\x40",
        b"\x00\x53\x74\xc1\x05\x02\xa3\x01a\x40\x00\x53\x77\x40",
        b"\x00\x53\x74\xc1\x04\x01\xa1\x01a\x00\x53\x77\x40",
        b"\x00\x53\x74\xc1\x09\x04\xa1\x01a\x40\xa1\x01a\x41\x00\x53\x77\x40",
        b"\x00\x53\x74\xd1\x00\x00\x00\x08\x00\x00\x00\x02\xa1\x01a\x41\x00\x53\x77\x40",
        b"\x00\x53\x72\xc1\x04\x02\x44\x41\x40\x00\x53\x77\x40",
        b"\x00\x53\x72\xc1\x06\x02\xa3\x02\xc3\xa9\x40\x00\x53\x77\x40",
        b"\x00\x53\x71\xc1\x0c\x02\xa3\x08rejected\x40\x00\x53\x77\x40",
        b"\x00\x53\x71\xc1\x01\x00\x00\x53\x77\x40",
    ],
    ids=lambda octets: octets.hex() or "nothing",
)
def test_octets_by_hand(octets: bytes) -> None:
    compare([amqp.encode_message(USUAL[2]), octets, amqp.encode_message(USUAL[0])])
    compare([octets])


def test_long_maps_and_many_fields() -> None:
    compare(
        [
            amqp.encode_message(
                amqp.Message(
                    application_properties={f"{key}": key for key in range(count)}, body=[amqp.Data(b"x")]
                )
            )
            for count in (0, 1, 15, 16, 17, 40)
        ]
    )


def test_other_formats_and_slices() -> None:
    rows = [amqp.encode_message(USUAL[row % len(USUAL)]) for row in range(2 * ROWS)]
    formats = [0, 1, 255, 256, 2**32 - 1] * (2 * ROWS // 5)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(rows, pa.binary()), pa.array(formats, pa.int64())], ["payload", "message_format"]
    )
    found = spark_amqp.decode_messages(batch).column("_corrupt")
    assert [one.is_valid for one in found] == [number > 255 for number in formats]
    part = spark_amqp.decode_messages(batch.slice(ROWS - 7, ROWS))
    assert part.equals(spark_amqp.decode_messages(batch).slice(ROWS - 7, ROWS))


def test_limits() -> None:
    messages = [amqp.encode_message(message) for message in USUAL]
    for limits in (
        Limits(elements=0),
        Limits(elements=10),
        Limits(depth=0),
        Limits(depth=1),
        Limits(strict=True),
    ):
        compare(messages, limits)


def changed(octets: bytes, place: int, octet: int) -> bytes:
    """A message with another octet at a place."""
    return octets[:place] + bytes((octet,)) + octets[place + 1 :]


def damaged(octets: bytes) -> st.SearchStrategy[bytes]:
    """A message, one that ends early, or one with another octet."""
    place = st.integers(0, len(octets) - 1)
    others = st.builds(changed, st.just(octets), place, st.integers(0, 255))
    return st.one_of(st.just(octets), place.map(lambda at: octets[:at]), others)


every = strategies.messages().map(amqp.encode_message) | st.sampled_from(
    [amqp.encode_message(message) for message in USUAL]
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(every.flatmap(damaged), min_size=1, max_size=12))
def test_whatever_comes(messages: list[bytes]) -> None:
    compare(messages)


# --- frames -------------------------------------------------------------------------------------------------

ONE = amqp.DeliveryNumber(amqp.SequenceNo(1))
FRAMES = [
    amqp.encode_frame(
        amqp.Transfer(
            handle=amqp.Handle(300), delivery_id=ONE, delivery_tag=amqp.DeliveryTag(bytes(32)), settled=False
        ),
        7,
        b"payload",
    ),
    amqp.encode_frame(amqp.Transfer(handle=amqp.Handle(0), state=amqp.Accepted(), more=True), 2**16 - 1),
    amqp.encode_frame(
        amqp.Transfer(handle=amqp.Handle(0), rcv_settle_mode=amqp.ReceiverSettleMode.SECOND, aborted=True), 1
    ),
    amqp.encode_frame(
        amqp.Disposition(role=amqp.Role.RECEIVER, first=ONE, last=ONE, settled=True, state=amqp.Released())
    ),
    amqp.encode_frame(
        amqp.Flow(
            next_incoming_id=amqp.TransferNumber(amqp.SequenceNo(2**32 - 1)),
            incoming_window=2**32 - 1,
            next_outgoing_id=amqp.TransferNumber(amqp.SequenceNo(0)),
            outgoing_window=2048,
            handle=amqp.Handle(1),
            link_credit=100,
            drain=True,
        )
    ),
    amqp.encode_frame(
        amqp.Begin(
            next_outgoing_id=amqp.TransferNumber(amqp.SequenceNo(5)), incoming_window=1, outgoing_window=1
        )
    ),
    amqp.encode_frame(amqp.Detach(handle=amqp.Handle(0), closed=True)),
    amqp.encode_frame(amqp.End()),
    amqp.encode_frame(amqp.Close()),
    amqp.encode_frame(amqp.Open(container_id="here", max_frame_size=512)),
]
"""Of the usual form."""

PERFORMATIVES = ("open", "begin", "attach", "flow", "transfer", "disposition", "detach", "end", "close")


def compare_frames(frames: Sequence[bytes]) -> None:
    many = spark_amqp.FrameColumns()
    times = max(ROWS, len(frames)) // len(frames) + 1
    sizes = [*map(len, frames)] * times
    many.extend(b"".join(frames) * times, sizes, time=5, offset=3)
    batch = many.finish()
    batch.validate(full=True)
    assert batch.column("offset").to_pylist() == list(accumulate(sizes[:-1], initial=3))
    batch = batch.set_column(
        batch.schema.get_field_index("offset"), "offset", pa.nulls(len(sizes), pa.int64())
    )
    expected: list[dict[str, Any]] = []
    for octets in frames:
        one = spark_amqp.FrameColumns()
        one.append(octets, time=5)
        expected += one.finish().to_pylist()
    compare_rows(batch, expected)


def test_the_usual_frames_need_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    compare_frames(FRAMES)
    taken: list[bytes] = []
    monkeypatch.setattr(spark_amqp.FrameColumns, "add_frame", lambda _, octets: taken.append(octets))
    columns = spark_amqp.FrameColumns()
    columns.extend(b"".join(FRAMES) * ROWS, [*map(len, FRAMES)] * ROWS)
    columns.finish()
    assert not taken


def test_errors_stay_in_their_rows() -> None:
    columns = spark_amqp.FrameColumns()
    for row in range(ROWS):
        if row % 100 == 7:
            columns.append_error(FRAMES[0], f"error {row}")
        else:
            columns.append(b"AMQP\x00\x01\x00\x00" if row % 100 == 9 else FRAMES[row % 2])
    rows = columns.finish().to_pylist()
    for row, values in enumerate(rows):
        kind = "error" if row % 100 == 7 else "header" if row % 100 == 9 else "amqp"
        assert values["kind"] == kind
        assert (values["_corrupt"] or {}).get("error") == (f"error {row}" if kind == "error" else None)
        assert (values["transfer"] is not None) == (kind == "amqp")
        assert (values["protocol_header"] is not None) == (kind == "header")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "0053",
        "00531445",
        "005314c0020143",
        "005314c0020140",
        "005314c0030143",
        "005314c0030143" + "00" * 9,
        "005314d000000005000000014300537740",
        "005314c0250343" + "40" + "a021" + "00" * 33,
        "005314c0240343" + "40" + "a020" + "00" * 32,
        "005314c0080743" + "404040404050" + "01",
        "005314c00a0743" + "4040404040" + "5001" + "abcd",
        "005314c00a0743" + "4040404040" + "5002" + "abcd",
        "005314c0040243" + "5601" + "00",
        "005314c0070543" + "404040" + "5601",
        "005314c0070543" + "404040" + "5602",
        "005314c00c0843" + "404040404040" + "00532445",
        "005314c00e0843" + "404040404040" + "005324c00100",
        "005314c00f0843" + "404040404040" + "005324c0020140",
        "005314c00c0843" + "404040404040" + "00532945",
        "005314c00c0843" + "404040404040" + "00532345",
        "005314c00c0c43" + "4040404040404040404040",
        "005315c0080441" + "43" + "4041" + "4040",
        "00531745",
        "005317c00100",
        "0053174500",
        "005341c00100",
        "00800000000000000014c0020143",
        "00a30d616d71703a636c6f73653a6c69737445",
    ],
)
def test_frames_by_hand(body: str) -> None:
    octets = bytes.fromhex(body)
    frame = (8 + len(octets)).to_bytes(4, "big") + b"\x02\x00\x00\x07" + octets
    compare_frames([FRAMES[0], frame, FRAMES[3]])
    for place in (3, 4, 5):  # Another size, data offset, and type.
        compare_frames([FRAMES[0], changed(frame, place, frame[place] ^ 1)])


frames = st.sampled_from(PERFORMATIVES).flatmap(strategies.composites).map(amqp.encode_frame)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists((frames | st.sampled_from(FRAMES)).flatmap(damaged), min_size=1, max_size=12))
def test_whatever_frames_come(some: list[bytes]) -> None:
    compare_frames(some)

"""Frames to columns: every dialect, bad octets, and what fits no column."""

from __future__ import annotations

import importlib
import json
from datetime import UTC, datetime
from decimal import Decimal
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amqpforge_protocol.amqp_1_0 as amqp
import amqpforge_spark.amqp_1_0 as spark_amqp
from amqpforge.notation import from_json
from amqpforge_protocol._support.serial import SerialNumber
from tests.spark.batches import column

DIALECTS = ("amqp_1_0", "amqp_0_9_1", "amqp_0_10_preview", "amqp_1_0_draft")


def test_performatives_fill_their_struct_and_no_other() -> None:
    origin = (3, "10.0.0.1", 5000, "10.0.0.2", 5672, "client")
    attach = amqp.Attach(
        name="l",
        handle=amqp.Handle(1),
        role=amqp.Role.RECEIVER,
        snd_settle_mode=amqp.SenderSettleMode.MIXED,
        source=amqp.Source(address="q", filter={amqp.Symbol("f"): amqp.Described(amqp.Symbol("f"), "x")}),
        target=amqp.Coordinator(capabilities=[amqp.Symbol("amqp:local-transactions")]),
        max_message_size=2**64 - 1,
        unsettled={b"tag": amqp.Received(section_number=1, section_offset=2)},
        properties={amqp.Symbol("p"): [1]},
    )
    disposition = amqp.Disposition(
        role=amqp.Role.SENDER,
        first=amqp.DeliveryNumber(amqp.SequenceNo(1)),
        state=amqp.Rejected(error=amqp.Error(condition=amqp.AmqpError.NOT_FOUND, description="d")),
    )
    columns = spark_amqp.FrameColumns()
    columns.append(b"AMQP\x03\x01\x00\x00", origin, 7, 0)
    columns.append(amqp.encode_frame(attach, 2), origin, 8, 8)
    columns.append(amqp.encode_frame(disposition, 2), origin, 9, 100)
    transfer = amqp.Transfer(
        handle=amqp.Handle(1),
        delivery_tag=amqp.DeliveryTag(b"t"),
        delivery_id=amqp.DeliveryNumber(amqp.SequenceNo(4)),
        state=amqp.Accepted(),
    )
    columns.append(
        amqp.encode_frame(transfer, 2, b"12345"),
        message=amqp.encode_message(amqp.Message(body=[amqp.Data(b"abc")])),
    )
    columns.append(amqp.encode_frame(None))
    columns.append(amqp.encode_frame(amqp.SaslOutcome(code=amqp.SaslCode.OK)))
    columns.append_error(b"??", "lost octets", origin, 10, 200)
    batch = columns.finish()
    batch.validate(full=True)
    assert batch.schema.equals(spark_amqp.FRAME_SCHEMA)
    assert column(batch, "kind") == ["header", "amqp", "amqp", "amqp", "empty", "sasl", "error"]
    assert column(batch, "name") == [None, "attach", "disposition", "transfer", None, "sasl-outcome", None]
    assert column(batch, "channel") == [None, 2, 2, 2, 0, None, None]
    assert column(batch, "payload_size") == [0, 0, 0, 5, 0, 0, 0]
    assert column(batch, "stream") == [3, 3, 3, None, None, None, 3]
    assert column(batch, "direction")[0] == "client"
    assert column(batch, "destination_port")[1] == 5672
    assert column(batch, "offset") == [0, 8, 100, None, None, None, 200]
    assert column(batch, "protocol_header")[0] == {"protocol_id": 3, "major": 1, "minor": 0, "revision": 0}
    row = column(batch, "attach")[1]
    assert (row["role"], row["snd_settle_mode"], row["max_message_size"]) == ("receiver", "mixed", 2**64 - 1)
    assert row["source"]["kind"] == "source"
    assert row["source"]["source"]["address"] == "q"
    assert row["source"]["source"]["filter"][0][1]["kind"] == "described"
    assert row["target"] == {
        "kind": "coordinator",
        "target": None,
        "json": None,
        "coordinator": {"capabilities": ["amqp:local-transactions"]},
    }
    assert row["unsettled"]["kind"] == "map"
    assert "received" in row["unsettled"]["json"]
    state = column(batch, "disposition")[2]["state"]
    assert state["kind"] == "rejected"
    assert state["rejected"]["error"]["condition"] == "amqp:not-found"
    assert column(batch, "transfer")[3]["state"]["kind"] == "accepted"
    assert [row is not None for row in column(batch, "message")] == [
        False,
        False,
        False,
        True,
        False,
        False,
        False,
    ]
    assert column(batch, "message")[3]["body"] == b"abc"
    assert column(batch, "sasl_outcome")[5] == {"code": "ok", "additional_data": None}
    assert column(batch, "_corrupt")[6]["error"] == "lost octets"
    for name in ("open", "attach", "flow", "transfer"):
        assert [row for row in range(7) if column(batch, name)[row] is not None] == (
            [1] if name == "attach" else [3] if name == "transfer" else []
        )


def test_a_delivery_state_of_others_is_json() -> None:
    state = amqp.Described(amqp.Symbol("x:state:list"), [1])
    columns = spark_amqp.FrameColumns()
    columns.append(
        amqp.encode_frame(
            amqp.Disposition(
                role=amqp.Role.SENDER, first=amqp.DeliveryNumber(amqp.SequenceNo(1)), state=state
            )
        )
    )
    held = column(columns.finish(), "disposition")[0]["state"]
    assert held["kind"] == "described"
    assert from_json(json.loads(held["json"])) == state


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60, deadline=None)
@given(octets=st.lists(st.binary(max_size=40), max_size=5))
def test_no_frame_raises(dialect: str, octets: list[bytes]) -> None:
    columns = importlib.import_module(f"amqpforge_spark.{dialect}").FrameColumns()
    for one in octets:
        columns.append(one)
    batch = columns.finish()
    batch.validate(full=True)
    assert batch.num_rows == len(octets)
    assert len(columns) == 0


@pytest.mark.parametrize("size", range(40))
def test_a_frame_cut_short_or_too_long_is_corrupt(size: int) -> None:
    frame = amqp.encode_frame(
        amqp.Transfer(
            handle=amqp.Handle(1),
            delivery_tag=amqp.DeliveryTag(b"t"),
            delivery_id=amqp.DeliveryNumber(amqp.SequenceNo(4)),
        ),
        2,
        b"12345",
    )
    columns = spark_amqp.FrameColumns()
    octets = (frame + bytes(40))[:size]
    columns.append(octets)
    columns.append(frame)
    batch = columns.finish()
    assert column(batch, "kind")[1] == "amqp"
    expected = "amqp" if size == len(frame) else "error"
    assert column(batch, "kind")[0] == expected
    assert (column(batch, "_corrupt")[0] is None) == (expected == "amqp")


def test_methods_contents_and_heartbeats_of_amqp_0_9_1() -> None:
    import amqpforge_protocol.amqp_0_9_1 as p
    import amqpforge_spark.amqp_0_9_1 as spark_091

    headers = {"n": 1, "s": "x", "d": Decimal("1.5"), "l": [1], "none": None, "b": True}
    columns = spark_091.FrameColumns()
    for octets in (
        p.PROTOCOL_HEADER,
        p.encode_frame(p.BasicPublish(exchange="e", routing_key="r"), 1),
        p.encode_frame(p.ContentHeader(p.BasicProperties(headers=headers, priority=5), 2**64 - 1), 1),
        p.encode_frame(b"0123", 1),
        p.encode_frame(None),
        p.encode_frame(p.ChannelCloseOk(), 3),
    ):
        columns.append(octets)
    batch = columns.finish()
    batch.validate(full=True)
    assert column(batch, "kind") == ["header", "method", "content-header", "body", "heartbeat", "method"]
    assert column(batch, "name")[1::4] == ["basic.publish", "channel.close-ok"]
    assert column(batch, "body_size")[2] == 2**64 - 1
    assert column(batch, "class_id")[2] == 60
    assert column(batch, "basic_publish")[1]["routing_key"] == "r"
    held = dict(column(batch, "basic_properties")[2]["headers"])
    assert (held["n"]["long"], held["s"]["string"], held["d"]["string"], held["b"]["bool"]) == (
        1,
        "x",
        "1.5",
        True,
    )
    assert held["none"]["kind"] == "field-table-void"
    assert held["l"]["json"]
    assert column(batch, "payload_size") == [0, 0, 0, 4, 0, 0]


def test_commands_and_the_state_of_sessions_of_the_draft() -> None:
    import amqpforge_protocol.amqp_1_0_draft as p
    import amqpforge_spark.amqp_1_0_draft as spark_draft

    columns = spark_draft.FrameColumns()
    columns.append(
        p.encode_frame(p.LinkFlow(handle=1, limit=SerialNumber(7)), 3, flags=1, command_id=9, capacity=100)
    )
    columns.append(p.encode_frame(p.ConnectionClose(close_code=p.CloseCode.NORMAL, close_text="bye"), 0))
    batch = columns.finish()
    batch.validate(full=True)
    assert column(batch, "kind") == ["command", "control"]
    assert column(batch, "command_id") == [9, None]
    assert column(batch, "capacity") == [100, None]
    assert column(batch, "link_flow")[0]["limit"] == 7
    assert column(batch, "connection_close")[1]["close_text"] == "bye"


def test_what_fits_no_column_is_kept_in_its_own_row() -> None:
    """Frames are taken apart many at a time; each still has what is its own."""
    import amqpforge_protocol.amqp_0_9_1 as p
    import amqpforge_spark.amqp_0_9_1 as spark_091

    moments = {70: 2**62, 130: 1, 131: 2**63}
    columns = spark_091.FrameColumns()
    for row in range(200):
        sent = p.BasicProperties(timestamp=p.PosixTime(moments[row])) if row in moments else None
        columns.append(p.encode_frame(p.ContentHeader(sent, 5) if sent else p.ChannelCloseOk(), 1))
    batch = columns.finish()
    batch.validate(full=True)
    rest = column(batch, "_rest")
    assert [row for row, text in enumerate(rest) if text is not None] == [70, 131]
    assert [*json.loads(rest[70])] == ["basic_properties.timestamp"]
    times = [held and held["timestamp"] for held in column(batch, "basic_properties")]
    assert times == [None] * 130 + [datetime.fromtimestamp(1, UTC)] + [None] * 69
    assert column(batch, "name").count("channel.close-ok") == 197


def test_several_frames_are_the_rows_of_each() -> None:
    message = amqp.encode_message(amqp.Message(body=[amqp.Data(b"abc")]))
    transfer = amqp.Transfer(handle=amqp.Handle(0), delivery_id=amqp.DeliveryNumber(amqp.SequenceNo(4)))
    frames = [amqp.encode_frame(transfer, 1, message), amqp.encode_frame(None), b"AMQP", b"\x00\x00\x00\x09"]
    origin = (1, "192.0.2.1", 40000, "192.0.2.2", 5672, "c2s")
    messages = [message, None, None, None]
    together, apart = spark_amqp.FrameColumns(), spark_amqp.FrameColumns()
    sizes = list(map(len, frames))
    together.extend(b"".join(frames), sizes, origin, 77, 8, messages)
    for octets, offset, held in zip(frames, accumulate(sizes[:-1], initial=8), messages, strict=True):
        apart.append(octets, origin, 77, offset, held)
    assert len(together) == 4
    found = together.finish()
    assert found.equals(apart.finish())
    assert column(found, "kind") == ["amqp", "empty", "error", "error"]
    assert column(found, "message")[0]["body"] == b"abc"


def padded(frame: bytes) -> bytes:
    """The same with an extended header, for which a frame is not decoded in the short way."""
    return (len(frame) + 4).to_bytes(4, "big") + b"\x03" + frame[5:8] + b"pad!" + frame[8:]


@pytest.mark.parametrize("behind", [b"", b"\x00\x53\x77\x40"])
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_the_short_way_gives_what_the_long_way_gives(behind: bytes, cut: int) -> None:
    """Octets behind a performative are a payload of transfers alone; what breaks off is an error."""
    one = amqp.DeliveryNumber(amqp.SequenceNo(1))
    sent = (
        amqp.Begin(
            next_outgoing_id=amqp.TransferNumber(amqp.SequenceNo(1)), incoming_window=1, outgoing_window=1
        ),
        amqp.Transfer(handle=amqp.Handle(0), delivery_id=one, state=amqp.Accepted()),
        amqp.Disposition(role=amqp.Role.SENDER, first=one, state=amqp.Modified(delivery_failed=True)),
        amqp.Close(error=amqp.Error(condition=amqp.AmqpError.NOT_FOUND)),
    )
    bodies = [amqp.encode_frame(one)[8:] for one in sent]
    bodies = [body[: len(body) - cut] + behind for body in bodies]
    frames = [(8 + len(body)).to_bytes(4, "big") + b"\x02\x00\x00\x07" + body for body in bodies]
    short, long = spark_amqp.FrameColumns(), spark_amqp.FrameColumns()
    for columns, some in ((short, frames), (long, [padded(frame) for frame in frames])):
        columns.extend(b"".join(some), list(map(len, some)))
    found, expected = short.finish(), long.finish()
    for name in found.schema.names:
        if name != "_corrupt":
            assert column(found, name) == column(expected, name)
    errors = [[held is None for held in column(one, "_corrupt")] for one in (found, expected)]
    assert errors[0] == errors[1]
    if not cut:
        assert column(found, "payload_size") == [0, len(behind), 0, 0]


def test_what_a_frame_has_not_takes_little_room() -> None:
    """Nearly all columns of a row are null. Lists and maps among them have nothing below."""
    columns = spark_amqp.FrameColumns()
    for _ in range(1000):
        columns.append(bytes.fromhex("0000000802000000"))
    batch = columns.finish()
    batch.validate(full=True)
    assert pa.ipc.get_record_batch_size(batch) / batch.num_rows < 1500  # 3,000 with pyarrow's own nulls.

"""Streams of the control/command dialects and of the 0-10 preview, made here: no captures of them exist."""

from __future__ import annotations

import io
import itertools
import json
from typing import Any

import pytest

from amqpforge.capture import class_method, control_command
from amqpforge.capture.dialects import dialects
from amqpforge.capture.objects import as_object
from amqpforge.capture.reader import CaptureReader
from amqpforge.capture.record import Record
from amqpforge.capture.text import line
from amqpforge_protocol import amqp_0_10_preview as preview
from amqpforge_protocol import amqp_1_0_draft as draft
from tests.capture import build
from tests.capture.build import Talk

ITEMS: list[Any] = [
    draft.ConnectionOpen(container_id="c", channel_max=7, peer_properties={"n": draft.UInt(5), "s": "t"}),
    draft.SessionAttach(name=b"session", opening=True),
    draft.LinkLink(name="link", handle=1, direction=draft.Direction.OUTGOING),
    draft.LinkTransfer(handle=1, payload=b"p" * 40, header=draft.Header(durable=True)),
    draft.SessionEnlist(xid=draft.Xid(format=1, global_id=b"g", branch_id=b"b")),
    draft.ConnectionClose(close_code=draft.CloseCode.NORMAL),
]
FRAMES = [draft.encode_frame(item, channel=index) for index, item in enumerate(ITEMS)]
EMPTY = draft.encode_frame(None, kind=draft.FrameType.CONTROL)
STREAM = b"AMQP\x01\x00\x00\x00" + FRAMES[0] + EMPTY + b"".join(FRAMES[1:])
NAMES = [None, "connection.open", None, "session.attach", "link.link", "link.transfer", "session.enlist"]
NAMES.append("connection.close")


def decode(data: bytes, step: int = 100_000, *, searching: bool = False) -> list[Record]:
    decoder = control_command.Decoder(draft, 0, "c2s", searching=searching)
    found: list[Record] = []
    for at in range(0, len(data), step):
        found += decoder.data(at, None, data[at : at + step])
    return found + decoder.end(len(data), None, True)


@pytest.mark.parametrize("step", [1, 5, 24, 100_000])
def test_any_chunking_gives_the_same_records(step: int) -> None:
    found = decode(STREAM, step)
    assert [record.name for record in found] == NAMES
    assert [record.kind for record in found] == [
        *("header", "control", "empty", "control", "command", "command", "command", "control"),
    ]
    assert [record.value for record in found if record.name] == ITEMS
    starts = itertools.accumulate([8, len(FRAMES[0]), len(EMPTY), *map(len, FRAMES[1:-1])], initial=0)
    assert [record.offset for record in found] == list(starts)


def test_objects_name_controls_and_commands() -> None:
    objects = [json.loads(json.dumps(as_object(record))) for record in decode(STREAM)]
    assert objects[1]["control"] == "connection.open"
    assert objects[1]["fields"] == {
        "container-id": "c",
        "channel-max": 7,
        "peer-properties": {
            "type": "map",
            "value": {"n": {"type": "uint32", "value": 5}, "s": {"type": "str8", "value": "t"}},
        },
    }
    assert objects[5]["command"] == "link.transfer"
    assert objects[5]["fields"]["payload"] == {"type": "vbin32", "value": "70" * 40}
    assert objects[6]["fields"]["xid"]["fields"] == {
        "format": 1,
        "global-id": {"type": "vbin8", "value": "67"},
        "branch-id": {"type": "vbin8", "value": "62"},
    }
    assert all(str(line(record)).isprintable() for record in decode(STREAM))


def test_captured_from_the_middle_the_rest_is_decoded() -> None:
    for cut in range(9, len(STREAM) - len(FRAMES[-1]), 7):
        found = decode(STREAM[cut:], searching=True)
        names = [record.name for record in found if record.kind not in ("error", "empty")]
        assert names
        assert names == [name for name in NAMES if name][-len(names) :]
        assert sum(record.kind == "error" for record in found) <= 1


def test_a_damaged_frame_is_an_error_and_the_next_one_is_read() -> None:
    data = bytearray(STREAM)
    start = 8 + len(FRAMES[0]) + len(EMPTY)
    data[start + 28 : start + 30] = b"\x77\x77"
    found = decode(bytes(data))
    assert [record.name for record in found] == [*NAMES[:3], None, *NAMES[4:]]
    assert found[3].kind == "error"
    assert str(start + 28) in str(found[3].reason)
    data[start + 4] = 9
    assert "type 9" in str(decode(bytes(data))[3].reason)


@pytest.mark.parametrize("flags", [0, 0x80])
def test_the_protocol_header_decides(flags: int) -> None:
    data = STREAM[:7] + bytes((flags,)) + STREAM[8:]
    talk = Talk().handshake().send(data).answer(b"AMQP\x01\x00\x00\x00" + FRAMES[0]).close()
    capture = CaptureReader(io.BytesIO(build.pcap(talk.packets)).read, remark=pytest.fail)
    found = list(capture.records())
    assert [record.name for record in found if record.direction == "c2s"] == NAMES
    assert [record.name for record in found if record.direction == "s2c"] == [None, "connection.open"]
    assert "AMQP 1.0 draft" in str(line(found[0]))


def test_the_preview_is_told_by_its_header_and_by_its_server() -> None:
    start = preview.ConnectionStart(
        version_major=99, version_minor=0, server_properties={}, mechanisms=b"PLAIN", locales=b"en_US"
    )
    publish = preview.encode_frame(preview.ExecutionFlush(), channel=1)
    talk = Talk().handshake().send(preview.PROTOCOL_HEADER)
    talk.answer(preview.encode_frame(start)).send(publish).close()
    found = list(CaptureReader(io.BytesIO(build.pcap(talk.packets)).read, remark=pytest.fail).records())
    assert [record.name for record in found] == [None, "connection.start", "execution.flush"]
    assert "AMQP 0-10 preview" in str(line(found[0]))
    dump = CaptureReader(io.BytesIO(preview.encode_frame(start)).read, remark=pytest.fail)
    (record,) = dump.records()
    assert (record.name, record.dialect) == ("connection.start", preview)


def test_a_trace_frame_is_no_heartbeat() -> None:
    decoder = class_method.Decoder(preview, 0, "c2s")
    found = decoder.data(0, None, b"\x07\x00\x01\x00\x00\x00\x02ab\xce\x08\x00\x00\x00\x00\x00\x00\xce")
    assert [(record.kind, record.payload_bytes) for record in found] == [("trace", 2), ("heartbeat", 0)]


def test_every_dialect_can_be_forced() -> None:
    assert sorted(dialects()) == ["amqp_0_10_preview", "amqp_0_9_1", "amqp_1_0", "amqp_1_0_draft"]
    data = STREAM[8:]
    reader = CaptureReader(io.BytesIO(data).read, remark=pytest.fail, dialect=dialects()["amqp_1_0_draft"])
    assert [record.name for record in reader.records()] == NAMES[1:]

"""Octets in, records out: formats told apart, streams told apart, what is not AMQP."""

from __future__ import annotations

import gzip
import io
from collections.abc import Collection
from typing import Any

import pytest

from amqpforge.capture.errors import CaptureError
from amqpforge.capture.reader import CaptureReader, Format
from amqpforge.capture.record import Header, Record
from amqpforge_protocol.amqp_1_0 import Begin, Close, Open, encode_frame
from tests.capture import build
from tests.capture.build import Talk, new

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
OPEN, CLOSE = encode_frame(Open(container_id="c")), encode_frame(Close())
BEGIN = encode_frame(new(Begin, next_outgoing_id=0, incoming_window=1, outgoing_window=1))
DUMP = AMQP_HEADER + OPEN + BEGIN + CLOSE
DUMP_PLACES = [
    (0, "c2s", 0, "header", None),
    (0, "c2s", 8, "amqp", "open"),
    (0, "c2s", 8 + len(OPEN), "amqp", "begin"),
    (0, "c2s", 8 + len(OPEN) + len(BEGIN), "amqp", "close"),
]

Places = list[tuple[int, str, int, str, "str | None"]]


def read(data: bytes, **options: Any) -> tuple[list[Record], list[str]]:
    stream = io.BytesIO(data)
    remarks: list[str] = []
    reader = CaptureReader(stream.read, remark=remarks.append, **options)
    return list(reader.records()), remarks


def places(records: Collection[Record]) -> Places:
    return [(one.stream, one.direction, one.offset, one.kind, one.name) for one in records]


def conversation() -> Talk:
    return Talk().handshake().send(AMQP_HEADER + OPEN).answer(AMQP_HEADER).send(BEGIN + CLOSE).close()


CONVERSATION_PLACES = [
    (0, "c2s", 0, "header", None),
    (0, "c2s", 8, "amqp", "open"),
    (0, "s2c", 0, "header", None),
    (0, "c2s", 8 + len(OPEN), "amqp", "begin"),
    (0, "c2s", 8 + len(OPEN) + len(BEGIN), "amqp", "close"),
]


# ---- formats ----


def test_captures_are_told_by_their_first_octets() -> None:
    packets = conversation().packets
    blocks = build.section() + build.interface() + b"".join(map(build.enhanced, packets))
    for capture in (build.pcap(packets), build.pcap(packets, order=">", nano=True), blocks):
        assert places(read(capture)[0]) == CONVERSATION_PLACES
        assert places(read(gzip.compress(capture))[0]) == CONVERSATION_PLACES


def test_packets_without_a_time_give_records_without_one() -> None:
    blocks = build.section() + build.interface() + b"".join(map(build.simple, conversation().packets))
    records, _ = read(blocks)
    assert places(records) == CONVERSATION_PLACES
    assert {record.time for record in records} == {None}


def xxd(data: bytes) -> str:
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        groups = " ".join(row[i : i + 2].hex() for i in range(0, len(row), 2))
        text = "".join(chr(octet) if 32 <= octet < 127 else "." for octet in row)
        lines.append(f"{at:08x}: {groups:<39}  {text}")
    return "\n".join(lines) + "\n"


def hexdump(data: bytes) -> str:
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        left, right = row[:8].hex(" "), row[8:].hex(" ")
        text = "".join(chr(octet) if 32 <= octet < 127 else "." for octet in row)
        lines.append(f"{at:08x}  {left:<23}  {right:<23}  |{text}|")
    return "\n".join([*lines, f"{len(data):08x}"]) + "\n"


TEXTS = {
    "digits": DUMP.hex(),
    "capital digits": DUMP.hex().upper() + "\n",
    "grouped": DUMP.hex(" ", 4),
    "colons": DUMP.hex(":"),
    "prefixed": ", ".join(f"0x{octet:02x}" for octet in DUMP),
    "lines": "\r\n".join(DUMP[at : at + 7].hex() for at in range(0, len(DUMP), 7)),
    "lines that split an octet": "\n".join(DUMP.hex()[at : at + 9] for at in range(0, 2 * len(DUMP), 9)),
    "commented": "# an open frame\n\n" + DUMP.hex(" ") + "  # beef\n",
    "xxd": xxd(DUMP),
    "hexdump": hexdump(DUMP),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hexadecimal_text_in_its_usual_layouts(text: str) -> None:
    for data in (text.encode(), gzip.compress(text.encode())):
        records, remarks = read(data)
        assert places(records) == DUMP_PLACES
        assert remarks == []
        assert {record.time for record in records} == {None}


def test_a_line_that_is_no_hexadecimal_text_is_an_error_with_its_number() -> None:
    with pytest.raises(CaptureError, match="line 3 "):
        read(b"00000008\n02000000\nzz\n", form="hex")
    with pytest.raises(CaptureError, match="half an octet"):
        read(b"0000000802000")


def test_what_was_read_before_an_error_is_given() -> None:
    stream = io.BytesIO(AMQP_HEADER.hex().encode() + b"\n!\n")
    records = CaptureReader(stream.read, remark=print, form="hex").records()
    assert next(records).kind == "header"
    with pytest.raises(CaptureError):
        next(records)


def test_dumps_of_octets_with_or_without_their_beginning() -> None:
    assert places(read(DUMP)[0]) == DUMP_PLACES
    assert places(read(OPEN)[0]) == [(0, "c2s", 0, "amqp", "open")]
    assert places(read(DUMP, direction="s2c")[0])[1] == (0, "s2c", 8, "amqp", "open")
    middle = b"\xee" * 9 + CLOSE
    assert places(read(middle, form="raw")[0])[1] == (0, "c2s", 9, "amqp", "close")


@pytest.mark.parametrize(
    "data", [b"#!/bin/sh\necho\n", b"\x7fELF" + bytes(60), b"hello world", b"\x00" * 50, b"PK\x03\x04"]
)
def test_what_is_no_capture_is_an_error(data: bytes) -> None:
    with pytest.raises(CaptureError, match="not a capture"):
        read(data)


def test_an_empty_input_is_an_error() -> None:
    for data in (b"", gzip.compress(b"")):
        with pytest.raises(CaptureError, match="empty"):
            read(data)


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_a_format_that_is_named_must_be_right(form: Format) -> None:
    with pytest.raises(CaptureError):
        read(DUMP, form=form)


def test_no_more_is_read_than_is_needed_to_give_a_frame() -> None:
    capture = build.pcap(conversation().packets[:4])
    pieces = iter([capture[:24], capture[24:]])

    def live(limit: int) -> bytes:
        del limit
        piece = next(pieces, None)
        assert piece is not None, "waits for more, although a frame is complete"
        return piece

    records = CaptureReader(live, remark=print).records()
    assert next(records).kind == "header"


# ---- streams ----


def test_streams_are_numbered_on_and_chosen() -> None:
    first, second = conversation(), Talk(client=("192.0.2.1", 50001)).handshake().send(AMQP_HEADER).close()
    capture = build.pcap([*first.packets, *second.packets])
    assert places(read(capture, streams={1})[0]) == [(1, "c2s", 0, "header", None)]
    assert {record.stream for record in read(capture, first_number=5)[0]} == {5, 6}
    reader = CaptureReader(io.BytesIO(capture).read, remark=print, first_number=5)
    list(reader.records())
    assert reader.next_number == 7
    dump = CaptureReader(io.BytesIO(DUMP).read, remark=print, first_number=7, streams={3})
    assert list(dump.records()) == []
    assert dump.next_number == 8


def test_a_conversation_without_its_beginning_is_decoded() -> None:
    packets = conversation().packets[5:]
    records, _ = read(build.pcap(packets))
    assert places(records) == [(0, "c2s", 0, "amqp", "begin"), (0, "c2s", len(BEGIN), "amqp", "close")]


def test_missing_packets_cost_no_more_than_their_frames() -> None:
    talk = Talk().handshake().send(AMQP_HEADER + OPEN).send(BEGIN).send(BEGIN).send(CLOSE).close()
    del talk.packets[4]
    records, _ = read(build.pcap(talk.packets))
    kinds = [(record.kind, record.name) for record in records]
    assert kinds == [
        ("header", None),
        ("amqp", "open"),
        ("error", None),
        ("amqp", "begin"),
        ("amqp", "close"),
    ]
    assert f"{len(BEGIN)} octets are missing" in str(records[2].reason)


def test_the_first_packet_of_a_direction_may_be_missing() -> None:
    talk = Talk().handshake().send(AMQP_HEADER + OPEN).send(BEGIN).close()
    del talk.packets[3]
    records, _ = read(build.pcap(talk.packets))
    assert [(record.kind, record.name) for record in records] == [("error", None), ("amqp", "begin")]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"AMQP\x01\x01\x00\x09", "AMQP 0-9"),
        (b"AMQP\x01\x01\x00\x0a", "AMQP 0-10"),
        (b"AMQP\x01\x01\x08\x00", "AMQP 0-8"),
        (b"AMQP\x00\x02\x00\x00", "AMQP 0.2.0.0"),
    ],
)
def test_another_protocol_is_named_once_and_not_decoded(header: bytes, name: str) -> None:
    talk = (
        Talk().handshake().send(header).answer(b"\x01\x00\x00\x00\x00\x00\x05....." * 9).send(b"\x01\x00\x00")
    )
    records, _ = read(build.pcap(talk.close().packets))
    assert places(records) == [(0, "c2s", 0, "header", None), (0, "c2s", 8, "error", None)]
    assert records[0].value == Header(*header[4:])
    assert name in str(records[1].reason)


@pytest.mark.parametrize(
    ("first", "guess"),
    [
        (b"\x16\x03\x01\x02\x00" + bytes(99), "TLS"),
        (b"GET /amqp HTTP/1.1\r\n\r\n", "HTTP"),
        (b"SSH-2.0-x\r\n", "SSH"),
        (b"\x01\x02", "does not begin with"),
    ],
)
def test_a_stream_that_is_not_amqp_is_reported_once(first: bytes, guess: str) -> None:
    talk = Talk().handshake().send(first).answer(b"whatever it says").send(b"and so on").close()
    records, _ = read(build.pcap(talk.packets))
    assert len(records) == 1
    assert records[0].kind == "error"
    assert guess in str(records[0].reason)


def test_a_server_that_answers_with_another_version_is_shown() -> None:
    talk = Talk().handshake().send(AMQP_HEADER).answer(b"AMQP\x00\x00\x09\x01").close()
    records, _ = read(build.pcap(talk.packets))
    assert [(record.kind, record.direction) for record in records] == [("header", "c2s"), ("header", "s2c")]


def test_a_header_in_pieces_is_put_together() -> None:
    talk = Talk().handshake()
    for octet in AMQP_HEADER + CLOSE:
        talk.send(bytes((octet,)))
    assert [record.kind for record in read(build.pcap(talk.close().packets))[0]] == ["header", "amqp"]


# ---- remarks ----


def test_what_was_skipped_is_remarked_on() -> None:
    fragment = build.ethernet(build.ipv4(build.CLIENT, build.SERVER, bytes(40), fragment=0x2000))
    capture = build.pcap([*conversation().packets, fragment, fragment])
    records, remarks = read(capture[:-3])
    assert places(records) == CONVERSATION_PLACES
    assert remarks == [
        "the file ends inside a packet record: the last 87 octets are left out",
        "skipped: 1 IP fragments of TCP segments",
    ]


def test_a_damaged_capture_gives_what_came_before() -> None:
    talk = Talk().handshake().send(AMQP_HEADER).send(OPEN[:10])
    capture = build.pcap(talk.packets) + b"\xff" * 16
    found: list[Record] = []
    reader = CaptureReader(io.BytesIO(capture).read, remark=print)
    with pytest.raises(CaptureError, match="claims"):
        found.extend(reader.records())
    found = []
    try:
        for record in CaptureReader(io.BytesIO(capture).read, remark=print).records():
            found.append(record)
    except CaptureError:
        pass
    assert [record.kind for record in found] == ["header", "error"]
    assert "ends inside a frame" in str(found[1].reason)

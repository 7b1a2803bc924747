"""Real AMQP 0-9-1 conversations of pika and py-amqp with RabbitMQ: every frame, against what tshark saw, and
octet for octet.
"""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from amqpforge.capture import class_method
from amqpforge.capture.dialects import dialects
from amqpforge.capture.objects import as_object
from amqpforge.capture.pcapng import read_pcapng
from amqpforge.capture.reader import CaptureReader
from amqpforge.capture.record import Record
from amqpforge.capture.source import Source
from amqpforge.capture.tcp import Data
from amqpforge.capture.text import line
from amqpforge_protocol import amqp_0_9_1
from tests.capture import build
from tests.capture.build import Talk
from tests.capture.test_captures import FOLDER, events, records

NAMES = sorted(path.name.removesuffix(".pcapng") for path in FOLDER.glob("p091-*.pcapng"))
FRAME_TYPES = {"method": 1, "content-header": 2, "body": 3, "heartbeat": 8}


#: Connections in which clients break the rules on purpose: an unknown method, AMQP 0-8, HTTP.
BROKEN = {"p091-pika-connection-errors": {2, 3, 4}}


def decoded(name: str) -> list[Record]:
    """The records of the connections of a capture that are not broken on purpose."""
    found = [
        record for record in records(FOLDER / f"{name}.pcapng") if record.stream not in BROKEN.get(name, ())
    ]
    assert [record.reason for record in found if record.reason is not None] == []
    return found


def octets(record: Record) -> bytes:
    """The frame of a record, encoded anew from what was decoded."""
    if record.kind == "header":
        return b"AMQP" + bytes(record.value)  # type: ignore[call-overload, no-any-return]
    payload: Any = record.octets if record.kind == "body" else record.value
    channel = record.channel or 0
    return amqp_0_9_1.encode_frame(payload, channel)


@pytest.mark.parametrize("name", NAMES)
def test_every_frame_is_decoded_and_the_counts_are_those_of_tshark(name: str) -> None:
    counts: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for record in decoded(name):
        what = "protocol-header" if record.kind == "header" else record.name or record.kind
        counts[record.stream, record.direction][what] += 1
    for stream in json.loads((FOLDER / "method-counts.json").read_text())[name]:
        if stream["stream"] in BROKEN.get(name, ()):
            continue
        for direction in ("c2s", "s2c"):
            seen = stream[direction]
            expected = Counter(seen["counts"]) + Counter(seen.get("not_reached", {}))
            assert counts.pop((stream["stream"], direction), Counter()) == expected
    assert not counts


@pytest.mark.parametrize("name", NAMES)
def test_every_frame_is_encoded_to_the_octets_it_came_in(name: str) -> None:
    streams: defaultdict[tuple[int, str], bytearray] = defaultdict(bytearray)
    for record in decoded(name):
        place = (record.stream, record.direction)
        assert record.offset == len(streams[place])
        streams[place] += octets(record)
    found = captured(name)
    assert {place: bytes(sent) for place, sent in streams.items()} == {
        place: data for place, data in found.items() if place[0] not in BROKEN.get(name, ())
    }


def test_what_clients_do_wrong_on_purpose_is_said() -> None:
    found = records(FOLDER / "p091-pika-connection-errors.pcapng")
    reasons = {record.stream: str(record.reason) for record in found if record.kind == "error"}
    assert set(reasons) == {2, 3, 4}
    assert "class 10 has no method 99" in reasons[2]
    assert "AMQP 0-8 is not decoded" in reasons[3]
    assert "HTTP" in reasons[4]


def captured(name: str) -> dict[tuple[int, str], bytes]:
    """The octets of each direction of a capture, put together by the TCP layer alone."""
    found: defaultdict[tuple[int, str], bytearray] = defaultdict(bytearray)
    for event in events(FOLDER / f"{name}.pcapng"):
        if isinstance(event, Data):
            found[event.half.stream.number, event.half.direction] += event.data
    return {place: bytes(data) for place, data in found.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_frame_is_one_printable_line_and_one_object(name: str) -> None:
    for record in decoded(name):
        text = str(line(record))
        assert text.isprintable()
        assert (record.name or record.kind) in text
        found = json.loads(json.dumps(as_object(record), allow_nan=False))
        assert found["kind"] == record.kind
        if record.kind == "header":
            assert found["performative"] is None
            continue
        assert found["method"] == record.name
        assert "performative" not in found
        if record.kind == "method":
            value: Any = record.value
            assert list(found["fields"]) == [info.name for info in type(value).FIELDS]
        if record.kind == "content-header":
            assert found["fields"]["class-id"] == 60


def test_headers_are_shown_with_their_types() -> None:
    publish, header = next(
        (before, after)
        for before, after in zip(decoded("p091-pika-headers"), decoded("p091-pika-headers")[1:], strict=False)
        if before.name == "basic.publish"
    )
    assert as_object(publish)["method"] == "basic.publish"
    properties = as_object(header)["fields"]["properties"]
    assert properties["type"] == "basic.properties"
    table = properties["fields"]["headers"]
    assert table["type"] == "table"
    assert all(set(held) == {"type", "value"} for held in table["value"].values())
    assert table["value"]


# ---- what is missing or damaged ----


def decode(pieces: Iterable[bytes | int], *, searching: bool = False) -> list[Record]:
    decoder = class_method.Decoder(amqp_0_9_1, 0, "s2c", searching=searching)
    found: list[Record] = []
    offset = 0
    for piece in pieces:
        if isinstance(piece, int):
            found += decoder.gap(offset, None, piece)
            offset += piece
        else:
            found += decoder.data(offset, None, piece)
            offset += len(piece)
    return found + decoder.end(offset, None, True)


def stream(name: str = "p091-pika-headers", number: int = 0, direction: str = "s2c") -> bytes:
    return captured(name)[number, direction]


@pytest.mark.parametrize("step", [1, 7, 8, 100, 100_000])
def test_any_chunking_gives_the_same_records(step: int) -> None:
    data = stream()
    whole = decode([data])
    assert decode(data[at : at + step] for at in range(0, len(data), step)) == whole
    assert {record.kind for record in whole} == {"method", "content-header", "body"}


def test_captured_from_the_middle_the_rest_is_decoded() -> None:
    data = stream()
    whole = decode([data])
    for cut in range(1, len(data) - 600, 97):
        found = decode([data[cut:]], searching=True)
        errors = [record for record in found if record.kind == "error"]
        rest = [record for record in found if record.kind != "error"]
        assert len(errors) <= 1
        assert rest
        contents = [(record.kind, record.name, record.octets) for record in rest]
        assert contents == [(record.kind, record.name, record.octets) for record in whole][-len(rest) :]


def test_a_gap_costs_the_frames_it_is_a_part_of() -> None:
    data = stream()
    whole = [(record.kind, record.name, record.octets) for record in decode([data])]
    for at in range(100, len(data) - 400, 211):
        found = decode([data[:at], 50, data[at + 50 :]])
        rest = iter(whole)
        kept = [(record.kind, record.name, record.octets) for record in found if record.kind != "error"]
        assert all(content in rest for content in kept), "something that is not in the whole"
        assert any(record.kind == "error" for record in found)
        assert len(whole) - len(kept) < 8


def test_a_damaged_frame_is_an_error_and_the_next_one_is_read() -> None:
    data = bytearray(stream())
    whole = decode([bytes(data)])
    second = whole[1]
    data[second.offset + 7 : second.offset + 11] = b"\x00\x0a\x77\x77"
    found = decode([bytes(data)])
    assert [record.kind for record in found] == ["method", "error", *(record.kind for record in whole[2:])]
    assert str(second.offset + 9) in str(found[1].reason)


def test_a_frame_of_an_unknown_type_starts_a_search() -> None:
    data = bytearray(stream())
    data[0] = 9
    found = decode([bytes(data)])
    assert found[0].kind == "error"
    assert "type 9" in str(found[0].reason)
    assert [record.name for record in found][1:3] == ["connection.tune", "connection.open-ok"]


# ---- which dialect it is ----


def test_a_dump_of_a_server_is_recognised_by_its_first_method() -> None:
    data = stream()
    reader = CaptureReader(io.BytesIO(data).read, remark=pytest.fail, direction="s2c")
    assert [record.name for record in reader.records()][:2] == ["connection.start", "connection.tune"]


def test_a_forced_dialect_decodes_what_nothing_announces(tmp_path: Path) -> None:
    path = FOLDER / "p091-pika-basic.pcapng"
    with path.open("rb") as file:
        packets = list(read_pcapng(Source(file.read), pytest.fail))
    late = [build.enhanced(packet.data, number) for number, packet in enumerate(packets) if number >= 12]
    capture = build.section() + build.interface() + b"".join(late)
    forced = CaptureReader(
        io.BytesIO(capture).read, remark=pytest.fail, dialect=dialects()["amqp_0_9_1"]
    ).records()
    names = [record.name for record in forced]
    assert "basic.publish" in names
    assert "channel.close-ok" in names


def test_a_server_whose_first_frame_is_damaged_is_not_taken_for_one_captured_late() -> None:
    start = bytearray(stream())
    size = int.from_bytes(start[3:7], "big")
    start[start.index(b"capabilitiesF") + 12] = 0
    talk = Talk().handshake().send(b"AMQP\x00\x00\x09\x01").answer(bytes(start[: size + 8])).close()
    reader = CaptureReader(io.BytesIO(build.pcap(talk.packets)).read, remark=pytest.fail)
    (_, error) = reader.records()
    assert (error.kind, error.offset, error.channel) == ("error", 0, 0)
    assert str(error.reason).startswith("connection.start.server-properties")

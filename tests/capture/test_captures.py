"""Real conversations: what other implementations sent, against what other tools saw in it."""

from __future__ import annotations

import hashlib
import io
import json
import socket
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import dpkt
import pytest

from amqpforge.capture.network import SegmentReader, endpoints
from amqpforge.capture.pcapng import read_pcapng
from amqpforge.capture.reader import CaptureReader
from amqpforge.capture.record import Record
from amqpforge.capture.source import Source
from amqpforge.capture.tcp import Assembler, Data, Event, Gap
from amqpforge.capture.text import line
from amqpforge.notation import as_sent
from tests.capture import build

FOLDER = Path(__file__).resolve().parents[1] / "data" / "captures"
ALL = sorted(path.name.removesuffix(".pcapng") for path in FOLDER.glob("*.pcapng"))
NAMES = [name for name in ALL if name.startswith("p10-")]


def events(path: Path) -> Iterator[Event]:
    """The events of a capture's streams; fails on remarks and on packets that were not understood."""
    segments, assembler = SegmentReader(), Assembler()
    with path.open("rb") as file:
        for time, link_type, data, _ in read_pcapng(Source(file.read), pytest.fail):
            segment = segments.read(link_type, data)
            if segment is not None:
                yield from assembler.feed(time, segment)
    assert not segments.skipped
    yield from assembler.finish()


def records(path: Path) -> list[Record]:
    with path.open("rb") as file:
        return list(CaptureReader(file.read, remark=pytest.fail).records())


def check_streams(folder: Path, name: str) -> None:
    """Compare the octets of every direction with the description of the streams beside a capture."""
    digests: defaultdict[tuple[int, str], Any] = defaultdict(hashlib.sha256)
    lengths: Counter[tuple[int, str]] = Counter()
    ports: dict[int, int] = {}
    for event in events(folder / f"{name}.pcapng"):
        half = event.half
        place = (half.stream.number, half.direction)
        ports[half.stream.number] = half.stream.server.port
        assert not isinstance(event, Gap)
        if isinstance(event, Data):
            assert event.offset == lengths[place]
            digests[place].update(event.data)
            lengths[place] += len(event.data)
    described = json.loads((folder / f"{name}.streams.json").read_text())["streams"]
    assert len(ports) == len(described)
    for stream in described:
        assert ports[stream["stream"]] == stream["server_port"]
        for direction in ("c2s", "s2c"):
            place = (stream["stream"], direction)
            assert (lengths[place], digests[place].hexdigest()) == (
                stream[direction]["bytes"],
                stream[direction]["sha256"],
            )


def test_there_are_captures() -> None:
    assert len(NAMES) >= 50
    assert len(ALL) - len(NAMES) == 13


@pytest.mark.parametrize("name", ALL)
def test_streams_are_put_together_as_others_did(name: str) -> None:
    check_streams(FOLDER, name)


@pytest.mark.parametrize("name", ALL)
def test_packets_and_segments_are_those_that_dpkt_reads(name: str) -> None:
    path = FOLDER / f"{name}.pcapng"
    reader = SegmentReader()
    with path.open("rb") as ours, path.open("rb") as theirs:
        pairs = zip(read_pcapng(Source(ours.read), pytest.fail), dpkt.pcapng.Reader(theirs), strict=True)
        for (time, link_type, data, _), (seconds, octets) in pairs:
            assert time is not None
            assert abs(time / 1_000_000_000 - float(seconds)) < 1e-5
            assert data == octets
            segment = reader.read(link_type, data)
            assert segment is not None
            packet: Any = dpkt.ethernet.Ethernet(octets).data
            found: Any = packet.data
            assert type(found).__name__ == "TCP"
            source, target = endpoints(segment.key)
            assert (source.port, target.port) == (found.sport, found.dport)
            assert (socket.inet_aton(source.address), socket.inet_aton(target.address)) == (
                packet.src,
                packet.dst,
            )
            assert (segment.sequence, segment.acknowledgment) == (found.seq, found.ack)
            assert (segment.flags, segment.payload) == (found.flags & 0x3F, found.data)
            assert segment.length == len(found.data)


def counted(found: list[Record]) -> dict[tuple[int, str], Counter[str]]:
    counts: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for record in found:
        name = "protocol-header" if record.kind == "header" else record.name or record.kind
        counts[record.stream, record.direction][name] += 1
    return counts


@pytest.mark.parametrize("name", NAMES)
def test_every_frame_is_decoded_and_the_counts_are_those_of_tshark(name: str) -> None:
    found = records(FOLDER / f"{name}.pcapng")
    assert [record.reason for record in found if record.reason is not None] == []
    counts = counted(found)
    for stream in json.loads((FOLDER / "performative-counts.json").read_text())[name]:
        for direction in ("c2s", "s2c"):
            expected = Counter(stream.get(direction, {}).get("counts", {}))
            expected += Counter(stream.get(direction, {}).get("not_reached", {}))
            assert counts.pop((stream["stream"], direction), Counter()) == expected
    assert not counts


@pytest.mark.parametrize("name", NAMES)
def test_records_follow_each_other_in_time_and_without_seams(name: str) -> None:
    found = records(FOLDER / f"{name}.pcapng")
    times = [record.time for record in found]
    assert None not in times
    assert times == sorted(time for time in times if time is not None)
    positions: dict[tuple[int, str], int] = {}
    for record in found:
        place = (record.stream, record.direction)
        if record.kind in ("header", "empty"):
            size = 8
        else:
            assert record.offset == positions.get(place, 0)
            size = 8 + len(record.octets)
        assert record.offset == positions.get(place, 0)
        positions[place] = record.offset + size


@pytest.mark.parametrize("name", NAMES)
def test_the_fields_shown_are_those_that_were_sent(name: str) -> None:
    """Leaving out what was null on the wire must lose nothing but defaults."""
    for record in records(FOLDER / f"{name}.pcapng"):
        if record.name is None:
            continue
        value: Any = record.value
        sent = {info.name for info, _ in as_sent(value, record.octets).fields}
        for info in type(value).FIELDS:
            held = getattr(value, info.attribute)
            if info.name not in sent:
                assert held == info.default
            else:
                assert held is not None
        text = str(line(record))
        assert text.isprintable()
        assert all(f"{name}=" in text for name in sent)


# ---- real captures with packets taken away ----


def flows(found: list[Record]) -> dict[tuple[int, str], list[tuple[Any, ...]]]:
    """What was decoded, per stream and direction, without the offsets."""
    result: defaultdict[tuple[int, str], list[tuple[Any, ...]]] = defaultdict(list)
    for record in found:
        if record.kind != "error":
            content = (record.kind, record.channel, record.name, record.octets, record.payload_bytes)
            result[record.stream, record.direction].append(content)
    return result


def without(path: Path, dropped: Container[int]) -> list[Record]:
    """The records of a capture some of whose packets, by number, are gone."""
    with path.open("rb") as file:
        packets = list(read_pcapng(Source(file.read), pytest.fail))
    kept = [
        build.enhanced(packet.data, number) for number, packet in enumerate(packets) if number not in dropped
    ]
    capture = io.BytesIO(build.section() + build.interface() + b"".join(kept))
    return list(CaptureReader(capture.read, remark=pytest.fail).records())


@pytest.mark.parametrize(
    "name", ["p10-rmq-rhea-simple-small", "p10-rhea-proton-multi", "p10-proton-rhea-plain-ok"]
)
@pytest.mark.parametrize("first", [3, 8, 15, 30])
def test_captured_from_the_middle_the_rest_is_decoded(name: str, first: int) -> None:
    path = FOLDER / f"{name}.pcapng"
    whole, found = flows(records(path)), without(path, range(first))
    assert sum(record.kind == "error" for record in found) <= 2
    for place, contents in flows(found).items():
        assert contents
        assert whole[place][-len(contents) :] == contents
    assert sum(map(len, flows(found).values())) >= 10


@pytest.mark.parametrize("name", ["p10-rmq-rhea-simple-small", "p10-proton-outcomes"])
def test_a_lost_packet_costs_the_frames_it_held_a_part_of(name: str) -> None:
    path = FOLDER / f"{name}.pcapng"
    whole = flows(records(path))
    for lost in range(3, 60):
        found = without(path, {lost})
        for place, contents in flows(found).items():
            kept = iter(whole[place])
            assert all(content in kept for content in contents), "something that is not in the whole"
        missing = sum(map(len, whole.values())) - sum(map(len, flows(found).values()))
        assert missing == 0 or any(record.kind == "error" for record in found)
        assert missing < 20


# ---- what only the shared material has ----


def test_the_bulk_capture(material: Path) -> None:
    folder = material / "traffic" / "bulk"
    name = "p10-bulk-100k-256"
    check_streams(folder, name)
    codes = {
        "open": 16,
        "begin": 17,
        "attach": 18,
        "flow": 19,
        "transfer": 20,
        "disposition": 21,
        "close": 24,
    }
    counts: Counter[str] = Counter()
    with (folder / f"{name}.pcapng").open("rb") as file:
        for record in CaptureReader(file.read, remark=pytest.fail).records():
            assert record.kind != "error"
            if record.name in codes:
                counts[str(codes[record.name])] += 1
    assert counts == json.loads((folder / f"{name}.tshark-counts.json").read_text())["performative_counts"]

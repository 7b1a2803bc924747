"""The rows of a capture against what others saw in it, and against `amqpforge decode`."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from amqpforge.capture.pcapng import read_pcapng
from amqpforge.capture.reader import CaptureReader
from amqpforge.capture.record import Header, Record
from amqpforge.capture.source import Source
from amqpforge.notation import as_sent
from amqpforge.spark.capture import plan
from amqpforge.spark.capture.rows import BATCH_ROWS
from amqpforge_protocol.amqp_1_0 import Transfer, encode_frame
from tests.capture import build
from tests.spark.capture.reading import (
    FOLDER,
    Row,
    from_client,
    options,
    pcapng,
    rows,
    rows_and_ends,
    saved,
    talk,
)

ALL = sorted(path.name.removesuffix(".pcapng") for path in FOLDER.glob("*.pcapng"))
#: Connections in which clients break the rules on purpose: an unknown method, AMQP 0-8, HTTP.
BROKEN = {"p091-pika-connection-errors": {2, 3, 4}}


def dialect(name: str) -> str:
    return "amqp_1_0" if name.startswith("p10-") else "amqp_0_9_1"


def counted(found: list[Row]) -> dict[tuple[int, str], Counter[str]]:
    counts: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for row in found:
        name = row["name"] if row["name"] and row["kind"] != "content-header" else row["kind"]
        name = "protocol-header" if name == "header" else name
        counts[row["stream"], row["direction"]][name] += 1
    return counts


def records(path: Path) -> list[Record]:
    with path.open("rb") as file:
        return list(CaptureReader(file.read, remark=pytest.fail).records())


@pytest.mark.parametrize("name", ALL)
def test_the_counts_are_those_of_tshark(name: str) -> None:
    found = rows(FOLDER / f"{name}.pcapng", dialect=dialect(name), sections="false")
    counts = counted([row for row in found if row["stream"] not in BROKEN.get(name, ())])
    oracle = "performative-counts.json" if name.startswith("p10-") else "method-counts.json"
    for stream in json.loads((FOLDER / oracle).read_text())[name]:
        if stream["stream"] in BROKEN.get(name, ()):
            continue
        for direction in ("c2s", "s2c"):
            seen = stream.get(direction, {})
            expected = Counter(seen.get("counts", {})) + Counter(seen.get("not_reached", {}))
            assert counts.pop((stream["stream"], direction), Counter()) == expected
    assert not counts


def test_the_counts_of_the_bulk_capture_are_those_of_tshark(material: Path) -> None:
    codes = {
        "open": 16,
        "begin": 17,
        "attach": 18,
        "flow": 19,
        "transfer": 20,
        "disposition": 21,
        "close": 24,
    }
    folder = material / "traffic" / "bulk"
    chosen = options(folder / "p10-bulk-100k-256.pcapng", sections="false", minPartitions="2")
    counts: Counter[str] = Counter()
    tasks = plan.tasks(list(chosen.paths), chosen)
    assert len(tasks) == 2
    for task in tasks:
        for batch in plan.batches(task[0], chosen):
            assert batch.num_rows < 1.1 * BATCH_ROWS
            assert batch.column("_corrupt").null_count == batch.num_rows
            counts.update(str(codes[name]) for name in batch.column("name").to_pylist() if name in codes)
    oracle = folder / "p10-bulk-100k-256.tshark-counts.json"
    assert counts == json.loads(oracle.read_text())["performative_counts"]


@pytest.mark.parametrize("name", ALL)
def test_each_row_is_a_record_of_decode(name: str) -> None:
    path = FOLDER / f"{name}.pcapng"
    found, expected = rows(path, dialect=dialect(name)), records(path)
    assert len(found) == len(expected)
    for row, record in zip(found, expected, strict=True):
        assert row["file"] == str(path)
        assert (row["stream"], row["direction"], row["offset"], row["kind"]) == (
            record.stream,
            record.direction,
            record.offset,
            record.kind,
        )
        assert row["channel"] == record.channel or record.kind == "error"
        assert record.time is not None
        assert row["time"].timestamp() == pytest.approx(record.time / 1e9, abs=2e-6)
        assert row["name"] == record.name or record.kind == "content-header"
        assert (row["_corrupt"] is not None) == (record.kind == "error")
        if isinstance(record.value, Header):
            assert tuple(row["protocol_header"].values()) == record.value
        elif record.kind in ("amqp", "sasl"):
            assert row["payload_size"] == record.payload_bytes
            assert row["size"] == len(record.octets) + 8
            value: Any = record.value
            struct = row[value.XML_NAME.replace("-", "_")]
            sent = {info.attribute for info, _ in as_sent(value, record.octets).fields}
            assert sent <= {field for field, held in struct.items() if held is not None}


def test_the_end_of_a_direction_is_a_row(tmp_path: Path) -> None:
    closed = talk(("c2s", b"AMQP\x00\x01\x00\x00"), ("s2c", b"AMQP\x00\x01\x00\x00")).close().packets
    found = [row for row in rows_and_ends(saved(tmp_path, closed)) if row["kind"] == "end"]
    assert [(row["direction"], row["name"], row["packet"], row["offset"], row["size"]) for row in found] == [
        ("c2s", "closed", 6, 8, None),
        ("s2c", "closed", 7, 8, None),
    ]
    assert (found[1]["source"], found[1]["source_port"]) == build.SERVER
    cut = [row for row in rows_and_ends(saved(tmp_path, closed[:5])) if row["kind"] == "end"]
    assert [row["name"] for row in cut] == ["cut", "cut"]


def test_a_row_tells_its_ends_and_its_packet(tmp_path: Path) -> None:
    empty = encode_frame(None)
    path = saved(
        tmp_path, talk(("c2s", b"AMQP\x00\x01\x00\x00" + empty), ("s2c", b"AMQP\x00\x01\x00\x00")).packets
    )
    header, frame, answer = rows(path)
    assert (header["source"], header["source_port"]) == build.CLIENT
    assert (header["destination"], header["destination_port"]) == build.SERVER
    assert (answer["source"], answer["source_port"]) == build.SERVER
    assert [row["packet"] for row in (header, frame, answer)] == [4, 4, 5]
    assert [row["offset"] for row in (header, frame, answer)] == [0, 8, 0]
    assert [row["dialect"] for row in (header, frame, answer)] == ["amqp_1_0"] * 3


def test_frames_of_another_dialect_have_the_common_columns_only() -> None:
    path = FOLDER / "p091-pika-basic.pcapng"
    found, own = rows(path), rows(path, dialect="amqp_0_9_1")
    shared = ("packet", "time", "stream", "direction", "offset", "dialect", "kind", "channel", "name")
    assert [[row[name] for name in shared] for row in found] == [
        [row[name] for name in shared] for row in own
    ]
    assert any(row["basic_publish"] for row in own)
    assert "basic_publish" not in found[0]
    assert all(row["open"] is None for row in found)


@pytest.mark.parametrize("name", ["p10-rmq-rhea-simple-small", "p091-pika-basic"])
def test_a_gzip_form_is_the_same(name: str, tmp_path: Path) -> None:
    plain = FOLDER / f"{name}.pcapng"
    packed = tmp_path / f"{name}.pcapng.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    expected = [{**row, "file": str(packed)} for row in rows(plain, dialect=dialect(name))]
    assert rows(packed, dialect=dialect(name)) == expected


def test_a_truncated_gzip_form_gives_what_is_there_and_says_so(tmp_path: Path) -> None:
    plain = FOLDER / "p10-rmq-rhea-simple-small.pcapng"
    packed = tmp_path / "cut.gz"
    octets = gzip.compress(plain.read_bytes())
    packed.write_bytes(octets[: len(octets) * 3 // 4])
    found = rows(packed)
    told = [row["_corrupt"]["error"] for row in found if row["kind"] == "error" and row["stream"] is None]
    assert any("gzip data ends before its end" in text for text in told)
    frames = [row for row in found if row["kind"] != "error"]
    whole = [{**row, "file": str(packed)} for row in rows(plain)]
    assert 10 < len(frames) < len(whole)
    assert [row for row in frames if row not in whole] == []


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_a_truncated_capture_gives_what_is_there_and_says_so(form: str, tmp_path: Path) -> None:
    frame = encode_frame(None, 0)
    packets = talk(("c2s", b"AMQP\x00\x01\x00\x00"), *from_client(*[frame * 3] * 20)).packets
    octets = pcapng(packets) if form == "pcapng" else build.pcap(packets)
    path = tmp_path / f"cut.{form}"
    path.write_bytes(octets[:-30])
    found = rows(path)
    assert sum(row["kind"] == "empty" for row in found) == 57
    last = found[-1]
    assert (last["kind"], last["stream"]) == ("error", None)
    assert "the file ends inside a" in last["_corrupt"]["error"]


def test_a_damaged_capture_gives_what_is_ahead_of_the_damage(tmp_path: Path) -> None:
    packets = talk(("c2s", b"AMQP\x00\x01\x00\x00"), ("c2s", encode_frame(None))).packets
    path = tmp_path / "damaged.pcapng"
    path.write_bytes(pcapng(packets) + b"\x06\x00\x00\x00\x07\x00\x00\x00" + bytes(24))
    found = rows(path)
    assert [row["kind"] for row in found] == ["header", "empty", "error"]
    assert "claims a length of 7 octets" in found[-1]["_corrupt"]["error"]


def test_a_connection_caught_from_the_middle(tmp_path: Path) -> None:
    whole = FOLDER / "p10-rmq-rhea-simple-small.pcapng"
    with whole.open("rb") as file:
        packets = [packet.data for packet in read_pcapng(Source(file.read), pytest.fail)]
    found = rows(saved(tmp_path, packets[15:]))
    assert sum(row["kind"] == "error" for row in found) <= 2
    kept = [(row["direction"], row["name"], row["transfer"], row["message"]) for row in found if row["name"]]
    expected = [(row["direction"], row["name"], row["transfer"], row["message"]) for row in rows(whole)]
    assert len(kept) > 10
    assert [one for one in kept if one not in expected] == []


def test_what_is_no_amqp_is_one_row(tmp_path: Path) -> None:
    found = rows(
        saved(tmp_path, talk(("c2s", b"GET / HTTP/1.1\r\n"), ("s2c", b"HTTP/1.1 200 OK\r\n")).packets)
    )
    assert [row["kind"] for row in found] == ["error"]
    assert "not AMQP (HTTP" in found[0]["_corrupt"]["error"]


@pytest.mark.parametrize("form", ["bin", "hex", "bin.gz"])
def test_a_stream_dump(form: str, tmp_path: Path) -> None:
    octets = b"AMQP\x00\x01\x00\x00" + b"".join(
        encode_frame(Transfer(handle=0, delivery_id=number, delivery_tag=b"t"), 0, b"\x00\x53\x77\xa1\x01x")  # type: ignore[arg-type]
        for number in range(50)
    )
    path = tmp_path / f"dump.{form}"
    made = {"bin": octets, "hex": octets.hex(" ").encode(), "bin.gz": gzip.compress(octets)}
    path.write_bytes(made[form])
    found = rows(path, direction="s2c")
    assert [row["name"] for row in found] == [None] + ["transfer"] * 50
    assert {row["direction"] for row in found} == {"s2c"}
    assert [row["message"]["body_value"]["string"] for row in found[1:]] == ["x"] * 50
    assert found[0]["time"] is None


@pytest.mark.parametrize("fields", ["none", "transfer", "flow, attach"])
def test_only_what_is_wanted_has_columns(fields: str) -> None:
    path = FOLDER / "p10-rmq-rhea-simple-small.pcapng"
    wanted = set() if fields == "none" else {name.strip() for name in fields.split(",")}
    full, few = rows(path, sections="false"), rows(path, sections="false", fields=fields)
    structs = {"open", "begin", "attach", "flow", "transfer", "disposition", "detach", "end", "close"}
    sasl = {name for name in full[0] if name.startswith("sasl_")}
    assert few == [{name: row[name] for name in row if name not in (structs | sasl) - wanted} for row in full]

"""A file in parts gives the rows that it gives as a whole."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from amqpforge.capture import source
from amqpforge.capture.pcapng import read_pcapng
from amqpforge.spark.capture import plan
from amqpforge_protocol.amqp_1_0 import Transfer, encode_frame
from tests.capture import build
from tests.spark.capture.reading import (
    FOLDER,
    Row,
    from_client,
    options,
    parts,
    pcapng,
    rows_and_ends,
    rows_of,
    saved,
    talk,
)

HEADER = b"AMQP\x00\x01\x00\x00"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are worth splitting, at every few packets."""
    monkeypatch.setattr(plan, "_LEAST_PART", 1)
    monkeypatch.setattr(source, "CHUNK", 700)


def in_parts(path: Path, size: int, **said: str) -> tuple[int, list[Row]]:
    """How many parts there are, and their rows; the later parts are read first."""
    chosen = options(path, **said)
    found = parts(path, maxPartitionBytes=str(size), **said)
    rows = [rows_of(part, chosen) for part in reversed(found)]
    return len(found), ordered([row for part in reversed(rows) for row in part])


def in_two(path: Path) -> list[Row]:
    """The rows of a file in two parts."""
    count, found = in_parts(path, path.stat().st_size // 2)
    assert count == 2
    return found


def whole(path: Path, **said: str) -> list[Row]:
    """The rows of a file as one task has them."""
    assert len(parts(path, **said)) == 1
    return ordered(rows_and_ends(path, **said))


def ordered(rows: list[Row]) -> list[Row]:
    """In a batch there are the frames of one dialect only, and the ends in another one."""
    ends = [row for row in rows if row["kind"] == "end"]
    return [row for row in rows if row["kind"] != "end"] + sorted(
        ends, key=lambda row: (row["packet"] or 0, row["stream"], row["direction"])
    )


NAMES = (
    "p10-rmq-rhea-simple-small",
    "p10-rhea-proton-multi",
    "p10-proton-outcomes",
    "p10-proton-rhea-plain-ok",
)


@pytest.mark.parametrize("sections", ["true", "false"])
@pytest.mark.parametrize("name", NAMES)
def test_parts_give_the_rows_of_the_whole(name: str, sections: str) -> None:
    path = FOLDER / f"{name}.pcapng"
    count, found = in_parts(path, 900, sections=sections)
    assert count > 5
    assert found == whole(path, sections=sections, minPartitions="1")


@pytest.mark.parametrize("name", [*NAMES, "p10-rhea-proton-multi.pcap"])
def test_of_two_parts_the_second_finds_where_it_begins(name: str, tmp_path: Path) -> None:
    path = FOLDER / f"{name}.pcapng"
    if name.endswith(".pcap"):
        path = tmp_path / name
        with (FOLDER / f"{name}ng").open("rb") as file:
            packets = [packet.data for packet in read_pcapng(source.Source(file.read), pytest.fail)]
        path.write_bytes(build.pcap(packets))
    found = parts(path, maxPartitionBytes=str(path.stat().st_size // 2))
    assert [part.state for part in found] == [None, None]  # Nobody waits for a pass over the file.
    first, second = (len(rows_of(part, options(path))) for part in found)
    assert first > second > 0
    assert in_two(path) == whole(path, minPartitions="1")


@pytest.mark.parametrize("percent", [2, 30, 50, 55, 57, 58, 59, 60, 61, 62, 63, 65, 70, 90, 99])
def test_damage_is_told_by_one_of_two_parts(percent: int, tmp_path: Path) -> None:
    octets = bytearray((FOLDER / "p10-rhea-proton-multi.pcapng").read_bytes())
    path = tmp_path / "damaged.pcapng"
    at = len(octets) * percent // 100 // 4 * 4
    octets[at : at + 64] = bytes(range(64))
    path.write_bytes(octets)
    assert in_two(path) == whole(path, minPartitions="1")


@pytest.mark.parametrize("percent", [10, 58, 62, 97])
def test_what_is_behind_a_large_packet_is_told_by_one_of_two_parts(percent: int, tmp_path: Path) -> None:
    """The packet, which is no segment, is where the second part would begin, and the file ends inside it or
    the next one.
    """
    with (FOLDER / "p10-rmq-rhea-simple-small.pcapng").open("rb") as file:
        packets = [packet.data for packet in read_pcapng(source.Source(file.read), pytest.fail)]
    octets = pcapng([*packets, bytes(50_000), packets[0]])
    path = tmp_path / "cut.pcapng"
    path.write_bytes(octets[: len(octets) * percent // 100])
    rows = in_two(path)
    assert rows == whole(path, minPartitions="1")
    assert any("ends inside a block" in str(row["_corrupt"]) for row in rows)


@pytest.mark.parametrize("name", ["p091-pika-basic", "p091-pika-big", "p091-pika-connection-errors"])
def test_parts_of_another_dialect(name: str) -> None:
    path = FOLDER / f"{name}.pcapng"
    count, found = in_parts(path, 1500, dialect="amqp_0_9_1")
    assert count > 3
    assert found == whole(path, dialect="amqp_0_9_1", minPartitions="1")


@pytest.mark.parametrize("first", [0, 9, 14])
@pytest.mark.parametrize("lost", [17, 25, 40])
def test_with_packets_missing(first: int, lost: int, tmp_path: Path) -> None:
    with (FOLDER / "p10-rhea-proton-multi.pcapng").open("rb") as file:
        packets = [packet.data for packet in read_pcapng(source.Source(file.read), pytest.fail)]
    path = saved(
        tmp_path, [data for number, data in enumerate(packets) if number >= first and number != lost]
    )
    count, found = in_parts(path, 900)
    assert count > 5
    assert found == whole(path, minPartitions="1")


def test_packets_out_of_order_across_a_mark(tmp_path: Path) -> None:
    frames = [encode_frame(None, number) for number in range(400)]
    packets = talk(("c2s", HEADER), *from_client(*frames)).packets
    for place in range(4, len(packets) - 8, 8):
        packets[place : place + 8] = reversed(packets[place : place + 8])
    path = saved(tmp_path, packets)
    count, found = in_parts(path, 2000)
    assert count > 10
    assert [row["channel"] for row in found[:-2]] == [None, *range(400)]
    assert found == whole(path, minPartitions="1")


def test_a_message_whose_transfers_lie_in_several_parts(tmp_path: Path) -> None:
    body = bytes(range(200))
    pieces = [b"\x00\x53\x75\xb0" + (40 * 200).to_bytes(4, "big") + body, *[body] * 39]
    sent = [HEADER]
    for number, piece in enumerate(pieces):
        first = {"delivery_id": 0, "delivery_tag": b"t"} if number == 0 else {}
        sent.append(encode_frame(Transfer(handle=1, more=number < 39, **first), 0, piece))  # type: ignore[arg-type]
    path = saved(tmp_path, talk(*from_client(*sent)).packets)
    count, found = in_parts(path, 1500)
    assert count > 4
    messages = [row["message"] for row in found if row["kind"] != "end"]
    assert messages[:-1] == [None] * 40
    assert messages[-1]["body"] == body * 40


def test_a_pcap_and_a_stream_dump_are_split_too(tmp_path: Path) -> None:
    frames = b"".join(encode_frame(None, number) for number in range(3000))
    dump = tmp_path / "dump.bin"
    dump.write_bytes(HEADER + frames * 10)
    count, found = in_parts(dump, 65536)
    assert count == 4
    assert found == whole(dump, minPartitions="1")
    pcap = tmp_path / "made.pcap"
    pcap.write_bytes(build.pcap(talk(("c2s", HEADER), *from_client(*[frames[:24]] * 200)).packets))
    count, found = in_parts(pcap, 2000)
    assert count > 8
    assert len(found) == 603
    assert found == whole(pcap, minPartitions="1")


def test_each_section_of_a_capture_has_its_own_interfaces(tmp_path: Path) -> None:
    """Two captures one behind the other, of different byte orders: a part of the second needs its section."""
    first = talk(("c2s", HEADER), *from_client(*[encode_frame(None)] * 50)).packets
    second = build.Talk(client=("192.0.2.9", 40001)).handshake().send(HEADER)
    for _ in range(50):
        second.send(encode_frame(None))
    big = (
        build.section(">")
        + build.interface(">")
        + build.interface(">", options=build.option(9, b"\x09", ">"))
    )
    big += b"".join(
        build.enhanced(data, 1000 + number, ">", number=number % 2)
        for number, data in enumerate(second.packets)
    )
    path = tmp_path / "two.pcapng"
    path.write_bytes(pcapng(first) + big)
    count, found = in_parts(path, 1500)
    assert count > 6
    assert len(found) == 106
    assert found == whole(path, minPartitions="1")


def test_many_connections_are_numbered_the_same(tmp_path: Path) -> None:
    packets: list[bytes] = []
    for number in range(60):
        one = build.Talk(client=("192.0.2.1", 50000 + number)).handshake()
        packets += one.send(HEADER + encode_frame(None)).answer(HEADER).close().packets
    path = saved(tmp_path, packets)
    count, found = in_parts(path, 2000)
    assert count > 10
    assert sorted({row["stream"] for row in found}) == list(range(60))
    assert found == whole(path, minPartitions="1")


def test_what_cannot_be_entered_in_the_middle_is_one_task(tmp_path: Path) -> None:
    path = tmp_path / "dump.hex"
    path.write_text((HEADER + encode_frame(None) * 1000).hex())
    assert len(parts(path, maxPartitionBytes="1000")) == 1


def test_a_folder_of_gzip_forms_is_a_task_for_each(tmp_path: Path) -> None:
    """None can be entered in the middle, but they are read side by side."""
    frames = [encode_frame(None, number) for number in range(300)]
    plain = saved(tmp_path, talk(("c2s", HEADER), *from_client(*frames)).packets)
    expected = [{**row, "file": None} for row in whole(plain, minPartitions="1")]
    folder = tmp_path / "packed"
    folder.mkdir()
    for name in "abcd":
        (folder / f"{name}.pcapng.gz").write_bytes(gzip.compress(plain.read_bytes()))
    chosen = options(folder, minPartitions="4")
    tasks = plan.tasks(sorted(map(str, folder.iterdir())), chosen)
    assert [len(task) for task in tasks] == [1] * 4
    for name, (part,) in zip("abcd", tasks, strict=True):
        assert part.packed
        assert part.path == str(folder / f"{name}.pcapng.gz")
        assert [{**row, "file": None} for row in ordered(rows_of(part, chosen))] == expected


def test_small_files_share_a_task() -> None:
    chosen = options(FOLDER, minPartitions="2", pathGlobFilter="*.pcapng")
    paths = sorted(str(path) for path in FOLDER.glob("*.pcapng"))
    tasks = plan.tasks(paths, chosen)
    assert 2 <= len(tasks) < len(paths)
    assert sorted({part.path for task in tasks for part in task}) == paths

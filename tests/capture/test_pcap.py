"""The classic capture format, and the source of octets under it."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator

import pytest

from amqpforge.capture.errors import CaptureError
from amqpforge.capture.packet import Packet
from amqpforge.capture.pcap import is_pcap, read_pcap
from amqpforge.capture.source import Source, follow, gunzip, is_gzip
from tests.capture import build

PACKETS = [b"first", b"", b"third packet" * 50]


def read(data: bytes, step: int = 1 << 20) -> tuple[list[Packet], list[str]]:
    """The packets of a capture that is given in pieces of `step` octets, and the remarks on it."""
    stream = io.BytesIO(data)
    remarks: list[str] = []
    source = Source(lambda limit: stream.read(min(step, limit)))
    return list(read_pcap(source, remarks.append)), remarks


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("nano", "unit"), [(False, 1000), (True, 1)])
def test_both_byte_orders_and_both_units_of_time(order: str, nano: bool, unit: int) -> None:
    packets, remarks = read(build.pcap(PACKETS, order=order, nano=nano))
    expected = [(n * 1_000_000_000 + n * unit, 1, data) for n, data in enumerate(PACKETS)]
    assert [packet[:3] for packet in packets] == expected
    assert remarks == []


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_a_packet_tells_where_its_record_begins(step: int) -> None:
    capture = build.pcap(PACKETS)
    starts = [packet.offset for packet in read(capture, step)[0]]
    ends = [*starts[1:], len(capture)]
    records = [capture[start:end] for start, end in zip(starts, ends, strict=True)]
    assert [record[16:] for record in records] == PACKETS
    assert starts[0] == 24


@pytest.mark.parametrize("step", [1, 7, 24, 100])
def test_any_chunking_gives_the_same_packets(step: int) -> None:
    capture = build.pcap(PACKETS)
    assert read(capture, step) == read(capture)


def test_a_capture_cut_anywhere_gives_the_whole_packets_before_the_cut_and_says_so() -> None:
    capture = build.pcap(PACKETS)
    whole = read(capture)[0]
    ends = [24]
    for data in PACKETS:
        ends.append(ends[-1] + 16 + len(data))
    for length in range(24, len(capture)):
        packets, remarks = read(capture[:length])
        complete = sum(end <= length for end in ends[1:])
        assert packets == whole[:complete]
        assert bool(remarks) == (length not in ends)
        assert all(str(length - ends[complete]) in remark for remark in remarks)


def test_the_upper_half_of_the_link_type_is_not_part_of_it() -> None:
    packets, _ = read(build.pcap(PACKETS, link_type=0xF400_0071))
    assert {packet.link_type for packet in packets} == {0x71}


def test_a_record_that_claims_too_much_is_refused_before_anything_is_read_for_it() -> None:
    capture = build.pcap([b"abc"])
    damaged = capture[:32] + b"\xff\xff\xff\x7f" + capture[36:]

    def endless() -> Iterator[bytes]:
        yield damaged
        raise AssertionError("read on for a record that cannot be")

    pieces = endless()
    with pytest.raises(CaptureError, match="2147483647 octets") as caught:
        list(read_pcap(Source(lambda _: next(pieces)), print))
    assert caught.value.offset == 24


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "file header"),
        (b"\xd4\xc3\xb2\xa1" + bytes(10), "file header"),
        (b"\xd4\xc3\xb2\xa0" + bytes(20), "file header"),
        (b"\xd4\xc3\xb2\xa1\x03\x00" + bytes(18), "version 3"),
    ],
)
def test_what_is_no_file_header(data: bytes, reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        read(data)


def test_the_magic_number_is_told_from_others() -> None:
    assert is_pcap(build.pcap([])[:4])
    assert is_pcap(build.pcap([], order=">", nano=True))
    assert not is_pcap(b"\xa1\xb2\xc3\xd5")
    assert not is_pcap(b"")


# ---- the source ----


def gunzipped(data: bytes, step: int = 1 << 20) -> tuple[bytes, list[str]]:
    stream = io.BytesIO(data)
    remarks: list[str] = []
    read = gunzip(lambda limit: stream.read(min(step, limit)), remarks.append)
    out = b""
    while piece := read(1000):
        assert len(piece) <= 1000
        out += piece
    assert read(1000) == b""
    return out, remarks


@pytest.mark.parametrize("step", [1, 10, 1 << 20])
def test_gzip_members_follow_each_other_with_or_without_padding(step: int) -> None:
    content = bytes(range(256)) * 40
    first, second = gzip.compress(content), gzip.compress(b"more")
    assert is_gzip(first)
    assert gunzipped(first, step) == (content, [])
    assert gunzipped(first + second, step) == (content + b"more", [])
    assert gunzipped(first + bytes(512) + second + bytes(3), step) == (content + b"more", [])


def test_gzip_that_ends_early_gives_what_is_there_and_a_remark() -> None:
    content = bytes(range(256)) * 40
    out, remarks = gunzipped(gzip.compress(content)[:-9])
    assert content.startswith(out)
    assert len(out) > 100
    assert "ends before" in remarks[0]


def test_gzip_followed_by_something_else_gives_a_remark() -> None:
    out, remarks = gunzipped(gzip.compress(b"content") + b"tail")
    assert out == b"content"
    assert "not gzip" in remarks[0]


def test_damaged_gzip_is_an_error() -> None:
    damaged = bytearray(gzip.compress(bytes(range(256)) * 40))
    damaged[40] ^= 0xFF
    with pytest.raises(CaptureError, match="gzip"):
        gunzipped(bytes(damaged))


def test_a_source_gives_what_it_showed() -> None:
    stream = io.BytesIO(b"0123456789")
    source = Source(lambda limit: stream.read(min(limit, 3)))
    assert source.peek(4) == b"0123"
    assert source.peek(2) == b"01"
    assert source.read(1) == b"0"
    assert source.start == 1
    assert source.read(100) == b"12345"
    assert source.read(2) == b"67"
    assert source.peek(9) == b"89"
    assert source.more(1, 5) is False
    assert (source.data, source.start) == (b"9", 9)


def test_following_tries_again_until_told_to_stop() -> None:
    pieces = iter([b"a", b"", b"", b"b", b""])
    waits: list[bool] = []

    def wait() -> bool:
        waits.append(True)
        return len(waits) < 3

    read = follow(lambda _: next(pieces), wait)
    assert [read(10), read(10), read(10)] == [b"a", b"b", b""]
    assert len(waits) == 3

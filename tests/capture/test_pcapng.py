"""The block-structured capture format."""

from __future__ import annotations

import io
import struct

import pytest

from amqpforge.capture import pcapng
from amqpforge.capture.errors import CaptureError
from amqpforge.capture.packet import Packet
from amqpforge.capture.pcapng import is_pcapng, read_pcapng
from amqpforge.capture.source import Source
from tests.capture.build import block, enhanced, interface, obsolete, option, section, simple

RESOLUTION, OFFSET = 9, 14


def read(data: bytes, step: int = 1 << 20) -> tuple[list[Packet], list[str]]:
    stream = io.BytesIO(data)
    remarks: list[str] = []
    source = Source(lambda limit: stream.read(min(step, limit)))
    return list(read_pcapng(source, remarks.append)), remarks


def told(packets: list[Packet]) -> list[tuple[int | None, int, bytes]]:
    """What packets hold, wherever they were."""
    return [packet[:3] for packet in packets]


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_a_packet_tells_where_its_block_begins(step: int) -> None:
    blocks = [enhanced(b"enhanced", 1), block(5, b"statistics"), simple(b"simple"), obsolete(b"old", 7)]
    capture = section() + interface() + b"".join(blocks)
    found = [
        capture[packet.offset :].startswith(blocks[number])
        for number, packet in zip((0, 2, 3), read(capture, step)[0], strict=True)
    ]
    assert found == [True] * 3


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders_and_all_kinds_of_packets(order: str) -> None:
    capture = section(order) + interface(order) + block(5, b"statistics", order)
    capture += enhanced(b"enhanced", 5_000_001, order) + simple(b"simple", order) + obsolete(b"old", 7, order)
    assert is_pcapng(capture[:12])
    packets, remarks = read(capture)
    assert told(packets) == [(5_000_001_000, 1, b"enhanced"), (None, 1, b"simple"), (7000, 1, b"old")]
    assert remarks == []


def test_a_second_section_may_have_another_byte_order_and_forgets_the_interfaces() -> None:
    first = section("<") + interface("<", link_type=113) + enhanced(b"a", 1)
    second = section(">") + interface(">", link_type=1) + enhanced(b"b", 2, ">")
    assert told(read(first + second)[0]) == [(1000, 113, b"a"), (2000, 1, b"b")]
    packets, remarks = read(first + section(">") + enhanced(b"b", 2, ">"))
    assert told(packets) == [(1000, 113, b"a")]
    assert "never described" in remarks[0]


@pytest.mark.parametrize(
    ("resolution", "ticks", "nanoseconds"),
    [
        (0, 3, 3_000_000_000),
        (3, 1500, 1_500_000_000),
        (6, 1_000_001, 1_000_001_000),
        (9, 1_795_239_726_027_029_928, 1_795_239_726_027_029_928),
        (12, 1_234_567, 1234),
        (0x80 | 10, 1536, 1_500_000_000),
        (0x80 | 30, 1 << 30, 1_000_000_000),
    ],
)
def test_resolutions_of_time(resolution: int, ticks: int, nanoseconds: int) -> None:
    described = interface(options=option(2, b"lo") + option(RESOLUTION, bytes((resolution,))))
    assert read(section() + described + enhanced(b"x", ticks))[0][0].time == nanoseconds


def test_the_offset_of_time_is_in_seconds_and_may_be_negative() -> None:
    described = interface(options=option(OFFSET, struct.pack("<q", -3)))
    assert read(section() + described + enhanced(b"x", 5_000_000))[0][0].time == 2_000_000_000


def test_each_packet_belongs_to_its_interface() -> None:
    capture = (
        section() + interface(link_type=1) + interface(link_type=276, options=option(RESOLUTION, b"\x09"))
    )
    capture += enhanced(b"a", 9, number=1) + enhanced(b"b", 9, number=0) + obsolete(b"c", 9, number=1)
    assert told(read(capture)[0]) == [(9, 276, b"a"), (9000, 1, b"b"), (9, 276, b"c")]


def test_a_simple_packet_ends_at_the_snapshot_length_or_the_original_one() -> None:
    cut = section() + interface(snapshot=5) + simple(b"12345", original=900)
    assert told(read(cut)[0]) == [(None, 1, b"12345")]
    padded = section() + interface(snapshot=100) + simple(b"123")
    assert told(read(padded)[0]) == [(None, 1, b"123")]
    unlimited = section() + interface() + simple(b"12345678", original=8)
    assert told(read(unlimited)[0]) == [(None, 1, b"12345678")]


def test_a_simple_packet_without_an_interface_is_left_out() -> None:
    packets, remarks = read(section() + simple(b"x"))
    assert packets == []
    assert remarks


def test_a_capture_cut_anywhere_gives_the_whole_packets_before_the_cut_and_says_so() -> None:
    blocks = [section(), interface(), enhanced(b"abc", 1), simple(b"defgh"), enhanced(b"i" * 30, 2)]
    capture = b"".join(blocks)
    ends = [sum(map(len, blocks[: n + 1])) for n in range(len(blocks))]
    whole = read(capture)[0]
    for length in range(12, len(capture)):
        packets, remarks = read(capture[:length])
        assert packets == whole[: sum(end <= length for end in ends[2:])]
        assert bool(remarks) == (length not in ends)


@pytest.mark.parametrize("step", [1, 5, 13, 64])
def test_any_chunking_gives_the_same_packets(step: int) -> None:
    capture = (
        section() + interface() + enhanced(b"abc", 1) + section(">") + interface(">") + simple(b"x" * 99, ">")
    )
    assert read(capture, step) == read(capture)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (section(major=2), "version 2"),
        (section()[:8] + b"nope" + section()[12:], "byte-order"),
        (section() + b"\x06\x00\x00\x00\x08\x00\x00\x00" + bytes(4), "length of 8"),
        (section() + b"\x05\x00\x00\x00\x0e\x00\x00\x00" + bytes(8), "length of 14"),
        (section() + b"\x06\x00\x00\x00\xf0\xff\xff\xff" + bytes(40), "length of 4294967280"),
        (section() + block(6, bytes(16)), "length of 28"),
        (section() + interface()[:-4] + b"\x10\x00\x00\x00", "differ"),
        (section() + interface() + block(6, struct.pack("<IIIII", 0, 0, 0, 5, 5) + bytes(4)), "too small"),
        (section() + interface(options=struct.pack("<HH", 9, 500)), "overruns"),
    ],
)
def test_a_broken_structure_is_refused_with_its_place(data: bytes, reason: str) -> None:
    with pytest.raises(CaptureError, match=reason) as caught:
        read(data)
    assert caught.value.offset in (0, len(section()), len(section() + interface()))


def test_packets_before_the_damage_are_given() -> None:
    stream = io.BytesIO(section() + interface() + enhanced(b"good", 1) + b"\xff" * 40)
    packets = read_pcapng(Source(stream.read), print)
    assert next(packets).data == b"good"
    with pytest.raises(CaptureError):
        next(packets)


def test_the_number_of_interfaces_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcapng, "MAX_INTERFACES", 3)
    assert told(read(section() + interface() * 3)[0]) == []
    with pytest.raises(CaptureError, match="3 interfaces"):
        read(section() + interface() * 4)


def test_the_section_header_is_told_from_others() -> None:
    assert not is_pcapng(b"\x0a\x0d\x0d\x0a" + bytes(8))
    assert not is_pcapng(section()[:11])

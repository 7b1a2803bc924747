"""From packets to TCP segments, over every link layer that is read."""

from __future__ import annotations

import struct

import pytest

from amqpforge.capture.network import ACK, Endpoint, Segment, SegmentReader, endpoints, reverse
from tests.capture.build import CLIENT, SERVER, ethernet, ipv4, ipv6, tcp

CLIENT_6, SERVER_6 = ("2001:db8::1", 50000), ("2001:db8::2", 5672)
PAYLOAD = b"AMQP\x00\x01\x00\x00"
V4 = ipv4(CLIENT, SERVER, tcp(CLIENT, SERVER, 10, 20, ACK, PAYLOAD))
V6 = ipv6(CLIENT_6, SERVER_6, tcp(CLIENT_6, SERVER_6, 10, 20, ACK, PAYLOAD))

LINKS = [
    pytest.param(1, ethernet(V4), False, id="ethernet"),
    pytest.param(1, ethernet(V6, ethertype=0x86DD), True, id="ethernet, ipv6"),
    pytest.param(1, ethernet(V4, tags=[0x8100]), False, id="ethernet, vlan"),
    pytest.param(1, ethernet(V6, ethertype=0x86DD, tags=[0x88A8, 0x8100]), True, id="ethernet, two tags"),
    pytest.param(1, ethernet(V4) + b"padding", False, id="ethernet, padded"),
    pytest.param(113, bytes(14) + b"\x08\x00" + V4, False, id="cooked"),
    pytest.param(113, bytes(14) + b"\x81\x00\x00\x07\x86\xdd" + V6, True, id="cooked, vlan"),
    pytest.param(276, b"\x08\x00" + bytes(18) + V4, False, id="cooked 2"),
    pytest.param(276, b"\x86\xdd" + bytes(18) + V6, True, id="cooked 2, ipv6"),
    pytest.param(276, b"\x81\x00" + bytes(18) + b"\x00\x07\x08\x00" + V4, False, id="cooked 2, vlan"),
    pytest.param(101, V4, False, id="raw"),
    pytest.param(101, V6, True, id="raw, ipv6"),
    pytest.param(12, V4, False, id="raw of some systems"),
    pytest.param(14, V6, True, id="raw of others"),
    pytest.param(228, V4, False, id="ipv4"),
    pytest.param(229, V6, True, id="ipv6"),
    pytest.param(0, struct.pack("<I", 2) + V4, False, id="null, little-endian"),
    pytest.param(0, struct.pack(">I", 2) + V4, False, id="null, big-endian"),
    pytest.param(0, struct.pack("<I", 30) + V6, True, id="null, ipv6 of one system"),
    pytest.param(108, struct.pack(">I", 24) + V6, True, id="loop, ipv6 of another"),
]


@pytest.mark.parametrize(("link_type", "data", "is_v6"), LINKS)
def test_every_link_layer_leads_to_the_same_segment(link_type: int, data: bytes, is_v6: bool) -> None:
    reader = SegmentReader()
    segment = reader.read(link_type, data)
    assert segment is not None
    assert segment[1:] == (10, 20, ACK, len(PAYLOAD), PAYLOAD)
    client, server = (CLIENT_6, SERVER_6) if is_v6 else (CLIENT, SERVER)
    assert endpoints(segment.key) == (Endpoint(*client), Endpoint(*server))
    assert endpoints(reverse(segment.key)) == (Endpoint(*server), Endpoint(*client))
    assert not reader.skipped


@pytest.mark.parametrize("length", [len(V4), len(V4) - 3, 40, 39, 33, 24, 21])
def test_the_usual_form_is_read_as_the_others_are(length: int) -> None:
    """Ethernet has a way of its own for nearly all packets; whatever the headers say, it is the same."""
    usual, other = SegmentReader(), SegmentReader()
    for place in range(min(length, 40)):
        for value in range(256):
            packet = V4[:place] + bytes((value,)) + V4[place + 1 : length]
            found = usual.read(1, ethernet(packet))
            assert found == other.read(113, bytes(14) + b"\x08\x00" + packet)
    assert usual.skipped == other.skipped


@pytest.mark.parametrize(("link_type", "data", "is_v6"), LINKS)
def test_a_packet_cut_anywhere_gives_less_payload_or_no_segment(
    link_type: int, data: bytes, is_v6: bool
) -> None:
    del is_v6
    whole = SegmentReader().read(link_type, data)
    assert whole is not None
    for length in range(len(data)):
        segment = SegmentReader().read(link_type, data[:length])
        if segment is not None:
            assert segment.length == whole.length
            assert whole.payload.startswith(segment.payload)
            assert segment[:4] == whole[:4]


def read(body: bytes) -> tuple[Segment | None, dict[str, int]]:
    reader = SegmentReader()
    return reader.read(101, body), dict(reader.skipped)


def test_extension_headers_of_ipv6_are_stepped_over() -> None:
    segment = tcp(CLIENT_6, SERVER_6, 1, 2, ACK, PAYLOAD)
    authentication = bytes((60, 4)) + bytes(22)  # 4 + 2 words
    options = bytes((6, 1)) + bytes(14)
    hop_by_hop = bytes((51, 0)) + bytes(6)
    found, skipped = read(ipv6(CLIENT_6, SERVER_6, hop_by_hop + authentication + options + segment, header=0))
    assert found is not None
    assert (found.payload, skipped) == (PAYLOAD, {})


def test_an_ipv6_packet_marked_as_its_only_fragment_is_read() -> None:
    segment = tcp(CLIENT_6, SERVER_6, 1, 2, ACK, PAYLOAD)
    found, _ = read(ipv6(CLIENT_6, SERVER_6, bytes((6, 0, 0, 0)) + bytes(4) + segment, header=44))
    assert found is not None
    assert found.payload == PAYLOAD


@pytest.mark.parametrize(
    "data",
    [
        ipv4(CLIENT, SERVER, tcp(CLIENT, SERVER, 1, 2, ACK, PAYLOAD), fragment=0x2000),
        ipv4(CLIENT, SERVER, PAYLOAD, fragment=185),
        ipv6(CLIENT_6, SERVER_6, bytes((6, 0, 0, 1)) + bytes(4) + PAYLOAD * 4, header=44),
        ipv6(CLIENT_6, SERVER_6, bytes((6, 0, 1, 8)) + bytes(4) + PAYLOAD * 4, header=44),
    ],
)
def test_fragments_are_counted_and_left_out(data: bytes) -> None:
    assert read(data) == (None, {"IP fragments of TCP segments": 1})


@pytest.mark.parametrize(
    "data",
    [
        ipv4(CLIENT, SERVER, bytes(20), protocol=17),
        ipv6(CLIENT_6, SERVER_6, bytes(20), header=17),
        ipv6(CLIENT_6, SERVER_6, bytes(20), header=59),
    ],
)
def test_other_protocols_are_nobodys_loss(data: bytes) -> None:
    assert read(data) == (None, {})


def test_another_ethertype_is_nobodys_loss() -> None:
    reader = SegmentReader()
    assert reader.read(1, ethernet(bytes(40), ethertype=0x0806)) is None
    assert not reader.skipped


def test_an_unknown_link_layer_is_counted() -> None:
    reader = SegmentReader()
    assert reader.read(127, V4) is None
    assert reader.read(127, V4) is None
    assert list(reader.skipped.values()) == [2]
    assert "link type 127" in next(iter(reader.skipped))


def test_a_total_length_of_zero_means_the_rest_of_the_packet() -> None:
    found, _ = read(ipv4(CLIENT, SERVER, tcp(CLIENT, SERVER, 1, 2, ACK, PAYLOAD), total=0))
    assert found is not None
    assert (found.length, found.payload) == (len(PAYLOAD), PAYLOAD)


def test_a_tcp_header_that_cannot_be_is_counted() -> None:
    segment = bytearray(tcp(CLIENT, SERVER, 1, 2, ACK))
    for words in (4, 15):
        segment[12] = words << 4
        assert read(ipv4(CLIENT, SERVER, bytes(segment))) == (None, {"damaged TCP headers": 1})

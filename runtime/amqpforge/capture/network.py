"""From a captured packet to its TCP segment: link layer, IPv4 or IPv6, TCP.

Only what stream reassembly needs is read; checksums are not verified, because a capture on the sending
machine sees packets before the network card fills them in.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_address
from typing import NamedTuple

__all__ = ["ACK", "FIN", "RST", "SYN", "Endpoint", "Segment", "SegmentReader", "endpoints", "reverse"]

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
"""TCP flags (RFC 9293 section 3.1)."""

_TCP = 6
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLAN_TAGS = frozenset({0x8100, 0x88A8, 0x9100})
_VLAN_TAG = 4
_IPV6_HEADER = 40
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
_SIZED_IN_OCTETS_8 = frozenset({_HOP_BY_HOP, _ROUTING, _DESTINATION, 135, 139, 140})  # mobility, HIP, Shim6

_ETHERNET = 1
_PLAIN_IPV4 = 0x45  # version 4, and a header of five words: no options
_USUAL_TCP = 34  # where TCP begins in an Ethernet frame with such a header
_FRAGMENTED = 0x3FFF  # more fragments to come, or an offset

# Ethernet type, the four of `_unpack_ipv4`, addresses and ports, the three of `_unpack_tcp`
_usual_headers = struct.Struct(">12xHBxHxxHxB2x12sIIH")
_unpack_ethertype = struct.Struct(">H").unpack_from
_unpack_ipv4 = struct.Struct(">BxHxxHxB").unpack_from  # version and length, total length, fragment, protocol
_unpack_ipv6 = struct.Struct(">4xHB").unpack_from  # payload length, next header
_unpack_tcp = struct.Struct(">4xIIH").unpack_from  # sequence, acknowledgment, data offset and flags


class Segment(NamedTuple):
    """One TCP segment.

    `key` is source address, destination address, source port, destination port, as they stand in the packet:
    it names one direction of a connection. `length` is the payload's length on the wire; `payload` is shorter
    if the capture cut it.
    """

    key: bytes
    sequence: int
    acknowledgment: int
    flags: int
    length: int
    payload: bytes


class Endpoint(NamedTuple):
    """An IP address in its usual text form, and a port."""

    address: str
    port: int


def reverse(key: bytes) -> bytes:
    """The key of the other direction."""
    half = (len(key) - 4) // 2
    return key[half : 2 * half] + key[:half] + key[-2:] + key[-4:-2]


def endpoints(key: bytes) -> tuple[Endpoint, Endpoint]:
    """Source and destination of a key."""
    half = (len(key) - 4) // 2
    source, destination = ip_address(key[:half]), ip_address(key[half : 2 * half])
    return (
        Endpoint(str(source), int.from_bytes(key[-4:-2], "big")),
        Endpoint(str(destination), int.from_bytes(key[-2:], "big")),
    )


class SegmentReader:
    """Finds the TCP segment in a packet, and counts in `skipped` why others had none."""

    __slots__ = ("skipped",)

    def __init__(self) -> None:
        self.skipped: Counter[str] = Counter()
        """Reason -> packets. Packets of other protocols than TCP are not counted: they are nobody's loss."""

    def read(self, link_type: int, data: bytes) -> Segment | None:
        """The TCP segment in `data`, or None."""
        strip = _LINKS.get(link_type)
        if strip is None:
            self.skipped[f"packets of link type {link_type}, which is not known here"] += 1
            return None
        try:
            if link_type == _ETHERNET and (segment := _usual(data)) is not None:
                return segment
            start, ethertype = strip(data)
            if ethertype == _IPV4:
                return self._ipv4(data, start)
            if ethertype == _IPV6:
                return self._ipv6(data, start)
        except (struct.error, IndexError):
            self.skipped["packets cut off inside their headers"] += 1
        return None

    def _ipv4(self, data: bytes, start: int) -> Segment | None:
        version_length, total, fragment, protocol = _unpack_ipv4(data, start)
        if protocol != _TCP or version_length >> 4 != 4:
            return None
        if fragment & _FRAGMENTED:
            self.skipped["IP fragments of TCP segments"] += 1
            return None
        # A total length of 0 is what segmentation offload leaves in packets captured on the sending machine.
        end = start + total if total else len(data)
        return self._tcp(data, data[start + 12 : start + 20], start + (version_length & 0x0F) * 4, end)

    def _ipv6(self, data: bytes, start: int) -> Segment | None:
        length, header = _unpack_ipv6(data, start)
        position = start + _IPV6_HEADER
        end = position + length if length else len(data)
        while header != _TCP:
            if header == _FRAGMENT:
                (fragment,) = _unpack_ethertype(data, position + 2)
                if fragment & 0xFFF9:
                    self.skipped["IP fragments of TCP segments"] += data[position] == _TCP
                    return None
                size = 8
            elif header in _SIZED_IN_OCTETS_8:
                size = (data[position + 1] + 1) * 8
            elif header == _AUTHENTICATION:
                size = (data[position + 1] + 2) * 4
            else:
                return None
            header = data[position]
            position += size
        return self._tcp(data, data[start + 8 : start + 40], position, end)

    def _tcp(self, data: bytes, addresses: bytes, start: int, end: int) -> Segment | None:
        sequence, acknowledgment, offset_flags = _unpack_tcp(data, start)
        header = (offset_flags >> 12) * 4
        if header < 20 or start + header > end:
            self.skipped["damaged TCP headers"] += 1
            return None
        return Segment(
            addresses + data[start : start + 4],
            sequence,
            acknowledgment,
            offset_flags & 0x3F,
            end - start - header,
            data[start + header : end],
        )


def _usual(data: bytes) -> Segment | None:
    """The segment in a packet of the form that nearly all have, which one look tells: TCP without a fault in
    IPv4 without options in Ethernet without tags; else None.
    """
    if len(data) < _usual_headers.size:
        return None
    ethertype, version_length, total, fragment, protocol, key, sequence, acknowledgment, offset_flags = (
        _usual_headers.unpack_from(data)
    )
    if ethertype != _IPV4 or version_length != _PLAIN_IPV4 or protocol != _TCP or fragment & _FRAGMENTED:
        return None
    start = _USUAL_TCP + (offset_flags >> 12) * 4
    end = _USUAL_TCP - 20 + total if total else len(data)
    if start < _USUAL_TCP + 20 or start > end:
        return None
    return Segment(key, sequence, acknowledgment, offset_flags & 0x3F, end - start, data[start:end])


_Strip = Callable[[bytes], tuple[int, int]]


def _tagged(data: bytes, position: int) -> tuple[int, int]:
    """Where the network header begins and which it is, given where the ethertype stands; VLAN tags are
    stepped over.
    """
    (ethertype,) = _unpack_ethertype(data, position)
    while ethertype in _VLAN_TAGS:
        position += _VLAN_TAG
        (ethertype,) = _unpack_ethertype(data, position)
    return position + 2, ethertype


def _ethernet(data: bytes) -> tuple[int, int]:
    return _tagged(data, 12)


def _cooked(data: bytes) -> tuple[int, int]:
    return _tagged(data, 14)


def _cooked_2(data: bytes) -> tuple[int, int]:
    start, ethertype = 20, _unpack_ethertype(data, 0)[0]
    if ethertype in _VLAN_TAGS:  # the tag's own two octets, then the ethertype it wraps
        return _tagged(data, start + 2)
    return start, ethertype


def _raw(data: bytes) -> tuple[int, int]:
    return 0, _IPV6 if data[0] >> 4 == 6 else _IPV4


def _null(data: bytes) -> tuple[int, int]:
    """The address family is in the byte order of the machine that captured, and its value for IPv6 is each
    system's own.
    """
    if len(data) < 5:
        raise IndexError
    return 4, _IPV6 if data[4] >> 4 == 6 else _IPV4


_LINKS: dict[int, _Strip] = {
    0: _null,
    1: _ethernet,
    12: _raw,
    14: _raw,
    101: _raw,
    108: _null,
    113: _cooked,
    228: _raw,
    229: _raw,
    276: _cooked_2,
}
"""Link type -> function from a packet to the start and the ethertype of its network header."""

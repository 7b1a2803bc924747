"""A capture ten times as large: what it costs to begin with then counts for a tenth."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.spark.bulk import Bulk
from benchmarks.stack import WrongResultError

TIMES = 10

_SECTION, _LITTLE_ENDIAN = b"\x0a\x0d\x0d\x0a", b"\x4d\x3c\x2b\x1a"
_ENHANCED_PACKET = 6
_PACKET = 28
"""Octets of a block in front of its packet."""
_IPV4, _TYPE = b"\x08\x00\x45", 12
"""What says that an Ethernet frame has an IPv4 header without options, and where."""
_PORTS = 34
"""Where such a frame has the ports."""
_FIRST_PORT = 20_000


def tenfold(bulk: Bulk, folder: Path) -> Bulk:
    """The same connection ten times, one after the other, each from another port of the client.

    Raises:
        WrongResultError: it is no little-endian pcapng file of TCP over IPv4 over Ethernet.
    """
    data = bulk.path.read_bytes()
    if not data.startswith(_SECTION) or not data.startswith(_LITTLE_ENDIAN, 8):
        raise WrongResultError(f"{bulk.path} is no little-endian pcapng file")
    packets = list(_packets(data))
    first, last = packets[0][0] - _PACKET, packets[-1][1]
    places = []
    for packet, _ in packets:
        if not data.startswith(_IPV4, packet + _TYPE):
            raise WrongResultError(f"{bulk.path}: a packet at {packet} is not IPv4 over Ethernet")
        ports = struct.unpack_from(">HH", data, packet + _PORTS)
        places.append(packet + _PORTS + 2 * (ports[0] == bulk.port) - first)
    blocks = bytearray(data[first:last])
    path = folder / f"ten-{bulk.path.name}"
    with path.open("wb") as file:
        file.write(data[:first])
        for number in range(TIMES):
            for place in places:
                struct.pack_into(">H", blocks, place, _FIRST_PORT + number)
            file.write(blocks)
    return replace(bulk, path=path, counts={code: TIMES * count for code, count in bulk.counts.items()})


def _packets(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the packets of a capture begin, and where their blocks end; those that follow one another."""
    position = 0
    is_among_packets = False
    while position < len(data):
        kind, total = struct.unpack_from("<II", data, position)
        if kind == _ENHANCED_PACKET:
            is_among_packets = True
            yield position + _PACKET, position + total
        elif is_among_packets:
            return
        position += total

"""Captures made to order: TCP segments in packets, packets in capture files."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from amqpforge.capture.network import ACK, FIN, RST, SYN, Segment, SegmentReader

ETHERNET = 1
CLIENT, SERVER = ("192.0.2.1", 50000), ("192.0.2.2", 5672)
Address = tuple[str, int]


def new(kind: Any, **fields: Any) -> Any:
    """A generated composite from plain numbers and octets, without the names its fields give them."""
    return kind(**fields)


def tcp(source: Address, target: Address, sequence: int, ack: int, flags: int, payload: bytes = b"") -> bytes:
    """A TCP segment with a 12-octet option (timestamps), as most have."""
    ports = struct.pack(">HH", source[1], target[1])
    numbers = struct.pack(">II", sequence & 0xFFFFFFFF, ack & 0xFFFFFFFF)
    return ports + numbers + struct.pack(">HHHH", (8 << 12) | flags, 65535, 0, 0) + bytes(12) + payload


def ipv4(
    source: Address,
    target: Address,
    body: bytes,
    *,
    fragment: int = 0,
    protocol: int = 6,
    total: int | None = None,
) -> bytes:
    length = 20 + len(body) if total is None else total
    head = struct.pack(">BBHHHBBH", 0x45, 0, length, 1, fragment, 64, protocol, 0)
    return head + ip_address(source[0]).packed + ip_address(target[0]).packed + body


def ipv6(source: Address, target: Address, body: bytes, *, header: int = 6) -> bytes:
    head = struct.pack(">IHBB", 6 << 28, len(body), header, 64)
    return head + ip_address(source[0]).packed + ip_address(target[0]).packed + body


def ethernet(body: bytes, *, ethertype: int = 0x0800, tags: Iterable[int] = ()) -> bytes:
    wrapped = b"".join(struct.pack(">HH", tag, 7) for tag in tags)
    return bytes(12) + wrapped + struct.pack(">H", ethertype) + body


def packet(
    source: Address, target: Address, sequence: int, ack: int, flags: int, payload: bytes = b""
) -> bytes:
    """An Ethernet frame."""
    return ethernet(ipv4(source, target, tcp(source, target, sequence, ack, flags, payload)))


@dataclass
class Talk:
    """The packets of one connection, made by its events; sequence numbers are kept per side."""

    client: Address = CLIENT
    server: Address = SERVER
    client_sequence: int = 1000
    server_sequence: int = 77000
    packets: list[bytes] = field(default_factory=list)

    def handshake(self) -> Talk:
        self._add(True, SYN)
        self._add(False, SYN | ACK)
        self._add(True, ACK)
        return self

    def send(self, payload: bytes) -> Talk:
        """From the client."""
        return self._add(True, ACK, payload)

    def answer(self, payload: bytes) -> Talk:
        """From the server."""
        return self._add(False, ACK, payload)

    def close(self) -> Talk:
        self._add(True, FIN | ACK)
        self._add(False, FIN | ACK)
        return self._add(True, ACK)

    def reset(self) -> Talk:
        return self._add(False, RST)

    def _add(self, from_client: bool, flags: int, payload: bytes = b"") -> Talk:
        own, other = self.client_sequence, self.server_sequence
        source, target = self.client, self.server
        if not from_client:
            own, other, source, target = other, own, target, source
        self.packets.append(packet(source, target, own, other if flags & ACK else 0, flags, payload))
        own = (own + len(payload) + bool(flags & SYN) + bool(flags & FIN)) & 0xFFFFFFFF
        if from_client:
            self.client_sequence = own
        else:
            self.server_sequence = own
        return self


def segments(packets: Iterable[bytes]) -> list[Segment]:
    reader = SegmentReader()
    found = [reader.read(ETHERNET, data) for data in packets]
    return [segment for segment in found if segment is not None]


def pcap(
    packets: Iterable[bytes],
    *,
    order: str = "<",
    nano: bool = False,
    link_type: int = ETHERNET,
    cut: int | None = None,
) -> bytes:
    """A classic capture; packet n has the time n seconds and n units, and `cut` octets captured at most."""
    out = [struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 65535, link_type)]
    for number, data in enumerate(packets):
        kept = data if cut is None else data[:cut]
        out.append(struct.pack(order + "IIII", number, number, len(kept), len(data)) + kept)
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    total = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + total + body + total


def section(order: str = "<", major: int = 1) -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, major, 0, -1), order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(
    order: str = "<", *, link_type: int = ETHERNET, snapshot: int = 0, options: bytes = b""
) -> bytes:
    end = option(0, b"", order) if options else b""
    return block(1, struct.pack(order + "HHI", link_type, 0, snapshot) + options + end, order)


def enhanced(
    data: bytes, ticks: int = 0, order: str = "<", *, number: int = 0, original: int | None = None
) -> bytes:
    length = len(data) if original is None else original
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), length)
    return block(
        6, head + data + bytes(-len(data) % 4) + option(1, b"a comment", order) + option(0, b"", order), order
    )


def simple(data: bytes, order: str = "<", *, original: int | None = None) -> bytes:
    return block(3, struct.pack(order + "I", len(data) if original is None else original) + data, order)


def obsolete(data: bytes, ticks: int = 0, order: str = "<", *, number: int = 0) -> bytes:
    head = struct.pack(order + "HHIIII", number, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(2, head + data, order)

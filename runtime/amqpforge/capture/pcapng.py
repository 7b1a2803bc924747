"""The block-structured capture format (pcapng): sections, interfaces, packets.

Every block is a type, a total length, a body and the total length again. A section header block sets the byte
order and forgets the interfaces; interface description blocks number the interfaces of the section from 0;
three kinds of blocks hold packets. All other blocks (names, statistics, secrets, comments) are passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from amqpforge.capture.errors import CaptureError
from amqpforge.capture.packet import MAX_PACKET, Packet
from amqpforge.capture.source import Remark, Source

__all__ = ["MAX_INTERFACES", "is_pcapng", "read_pcapng"]

MAX_INTERFACES = 65536
"""Interfaces one section may describe."""

_SECTION_HEADER = b"\x0a\x0d\x0d\x0a"  # reads the same in both byte orders
_SECTION_HEADER_TYPE = 0x0A0D0D0A
_INTERFACE, _OBSOLETE_PACKET, _SIMPLE_PACKET, _ENHANCED_PACKET = 1, 2, 3, 6
_BYTE_ORDERS = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_MAJOR_VERSION = 1
_FRAME = 12  # type and both total lengths
_OPTION_END, _OPTION_TIME_RESOLUTION, _OPTION_TIME_OFFSET = 0, 9, 14
_NANOSECONDS = 1_000_000_000
_SMALLEST_BODY = {_INTERFACE: 8, _OBSOLETE_PACKET: 20, _SIMPLE_PACKET: 4, _ENHANCED_PACKET: 20}


class _Interface(NamedTuple):
    """nanoseconds since the epoch = ticks * multiplier // divisor + offset."""

    link_type: int
    snapshot: int
    multiplier: int
    divisor: int
    offset: int


class _Section:
    """The byte order of a section, and its interfaces so far."""

    __slots__ = ("head", "interfaces", "order", "packet", "trailer")

    def __init__(self, order: str) -> None:
        self.order = order
        self.head = struct.Struct(order + "II").unpack_from
        self.packet = struct.Struct(
            order + "IIIII"
        ).unpack_from  # interface, time high and low, captured, original
        self.trailer = struct.Struct(order + "I").unpack_from
        self.interfaces: list[_Interface] = []


def is_pcapng(head: bytes) -> bool:
    """Whether these first octets (twelve are enough) open a file of this format."""
    return head.startswith(_SECTION_HEADER) and head[8:12] in _BYTE_ORDERS


def read_pcapng(source: Source, remark: Remark) -> Iterator[Packet]:
    """The packets of every section, in file order.

    A block that the end of the file cuts short is remarked on and left out; so is a packet that names an
    interface which was never described. Raises CaptureError where the block structure is broken: nothing
    after that can be trusted.
    """
    section: _Section | None = None
    data, position = source.data, 0
    strangers = 0
    while True:
        if len(data) - position < _FRAME:
            complete = source.more(position, _FRAME)
            data, position = source.data, 0
            if not complete:
                break
        if section is None or data.startswith(_SECTION_HEADER, position):
            section = _begin_section(data, position, source.start + position)
        kind, total = section.head(data, position)
        _check_length(kind, total, source.start + position)
        end = position + total
        if end > len(data):
            complete = source.more(position, total)
            data, position, end = source.data, 0, total
            if not complete:
                break
        if section.trailer(data, end - 4)[0] != total:
            raise CaptureError("the two lengths of a block differ", source.start + position)
        if kind in _SMALLEST_BODY:
            packet = _block(section, kind, data, position + 8, end - 4, source.start + position)
            if packet is not None:
                yield packet
            elif kind != _INTERFACE:
                strangers += 1
        elif kind == _SECTION_HEADER_TYPE:
            _check_version(section, data, position, source.start + position)
        position = end
    if strangers:
        remark(f"{strangers} packets name an interface that was never described: left out")
    if data:
        remark(f"the file ends inside a block: the last {len(data)} octets are left out")


def _begin_section(data: bytes, position: int, offset: int) -> _Section:
    order = _BYTE_ORDERS.get(data[position + 8 : position + 12])
    if order is None or not data.startswith(_SECTION_HEADER, position):
        raise CaptureError("no section header with a byte-order magic number", offset)
    return _Section(order)


def _check_length(kind: int, total: int, offset: int) -> None:
    if total % 4 or not _FRAME + _SMALLEST_BODY.get(kind, 0) <= total <= MAX_PACKET:
        raise CaptureError(f"a block of type {kind:#x} claims a length of {total} octets", offset)


def _check_version(section: _Section, data: bytes, position: int, offset: int) -> None:
    (major,) = struct.unpack_from(section.order + "H", data, position + 12)
    if major != _MAJOR_VERSION:
        raise CaptureError(f"pcapng version {major} is not known", offset)


def _block(section: _Section, kind: int, data: bytes, start: int, end: int, offset: int) -> Packet | None:
    """The packet in the block body `data[start:end]`; None for an interface description or an unknown
    interface.
    """
    if kind == _ENHANCED_PACKET:
        number, high, low, captured, _ = section.packet(data, start)
        start += 20
    elif kind == _SIMPLE_PACKET:
        return _simple_packet(section, data, start, end, offset)
    elif kind == _INTERFACE:
        if len(section.interfaces) >= MAX_INTERFACES:
            raise CaptureError(f"a section with more than {MAX_INTERFACES} interfaces", offset)
        section.interfaces.append(_describe_interface(section.order, data, start, end, offset))
        return None
    else:
        number, _, high, low, captured, _ = struct.unpack_from(section.order + "HHIIII", data, start)
        start += 20
    if captured > end - start:
        raise CaptureError(f"a packet of {captured} octets in a block that is too small for it", offset)
    if number >= len(section.interfaces):
        return None
    interface = section.interfaces[number]
    time = (high << 32 | low) * interface.multiplier // interface.divisor + interface.offset
    return Packet(time, interface.link_type, data[start : start + captured], offset)


def _simple_packet(section: _Section, data: bytes, start: int, end: int, offset: int) -> Packet | None:
    """A packet of interface 0 with no time; the snapshot length tells how much of the padded body is
    packet.
    """
    if not section.interfaces:
        return None
    interface = section.interfaces[0]
    (original,) = section.trailer(data, start)
    captured = min(original, end - start - 4, interface.snapshot or original)
    return Packet(None, interface.link_type, data[start + 4 : start + 4 + captured], offset)


def _describe_interface(order: str, data: bytes, start: int, end: int, offset: int) -> _Interface:
    link_type, snapshot = struct.unpack_from(order + "HxxI", data, start)
    multiplier, divisor, time_offset = 1000, 1, 0  # microseconds, unless an option says otherwise
    position = start + 8
    while position + 4 <= end:
        code, length = struct.unpack_from(order + "HH", data, position)
        position += 4
        if code == _OPTION_END:
            break
        if position + length > end:
            raise CaptureError("an option of an interface description overruns its block", offset)
        if code == _OPTION_TIME_RESOLUTION and length == 1:
            multiplier, divisor = _time_scale(data[position])
        elif code == _OPTION_TIME_OFFSET and length == 8:
            (seconds,) = struct.unpack_from(order + "q", data, position)
            time_offset = seconds * _NANOSECONDS
        position += length + -length % 4
    return _Interface(link_type, snapshot, multiplier, divisor, time_offset)


def _time_scale(resolution: int) -> tuple[int, int]:
    """Multiplier and divisor from ticks to nanoseconds: the top bit chooses powers of two or of ten."""
    exponent = resolution & 0x7F
    if resolution & 0x80:
        return _NANOSECONDS, 1 << exponent
    return (10 ** (9 - exponent), 1) if exponent <= 9 else (1, 10 ** (exponent - 9))

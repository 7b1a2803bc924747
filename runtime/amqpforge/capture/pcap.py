"""The classic capture format: a 24-octet file header, then records of a 16-octet header and the packet.

The magic number says the byte order and whether the second time field counts microseconds or nanoseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from amqpforge.capture.errors import CaptureError
from amqpforge.capture.packet import MAX_PACKET, Packet
from amqpforge.capture.source import Remark, Source

__all__ = ["is_pcap", "read_pcap"]

_FILE_HEADER = 24
_RECORD_HEADER = 16
_VERSION = 2
_LINK_TYPE_MASK = 0xFFFF  # the upper half of the field describes a trailing frame check sequence

# magic number as it stands in the file -> (byte order for struct, nanoseconds per unit of the second time
# field)
_MAGICS = {
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}


def is_pcap(head: bytes) -> bool:
    """Whether these first octets (four are enough) open a file of this format."""
    return head[:4] in _MAGICS


def read_pcap(source: Source, remark: Remark) -> Iterator[Packet]:
    """The packets of a classic capture, in file order.

    A record that the end of the file cuts short is remarked on and left out. Raises CaptureError for a file
    header that is not one, and for a record that claims more than MAX_PACKET octets (the file is damaged
    there).
    """
    if not source.more(0, _FILE_HEADER) or not is_pcap(source.data):
        raise CaptureError("not a pcap file header", source.start)
    order, unit = _MAGICS[source.data[:4]]
    major, network = struct.unpack_from(order + "4xH14xI", source.data, 0)
    if major != _VERSION:
        raise CaptureError(f"pcap version {major} is not known", source.start)
    link_type = network & _LINK_TYPE_MASK
    unpack_record = struct.Struct(order + "IIII").unpack_from
    data, position = source.data, _FILE_HEADER
    while True:
        if len(data) - position < _RECORD_HEADER:
            complete = source.more(position, _RECORD_HEADER)
            data, position = source.data, 0
            if not complete:
                break
        seconds, fraction, captured, _ = unpack_record(data, position)
        if captured > MAX_PACKET:
            raise CaptureError(f"a packet record claims {captured} octets", source.start + position)
        end = position + _RECORD_HEADER + captured
        if end > len(data):
            complete = source.more(position, end - position)
            data, position, end = source.data, 0, end - position
            if not complete:
                break
        time = seconds * 1_000_000_000 + fraction * unit
        yield Packet(time, link_type, data[position + _RECORD_HEADER : end], source.start + position)
        position = end
    if data:
        remark(f"the file ends inside a packet record: the last {len(data)} octets are left out")

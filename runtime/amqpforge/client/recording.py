"""A recording of connections as a packet capture, so that ``amqpforge decode`` and every dissector read it.

The packets are made up: raw IPv4 with TCP, from 127.0.0.1 to 127.0.0.1, in the classic capture format with
nanoseconds. What they carry is what went over the connection inside TLS, without what SASL frames carry.
"""

from __future__ import annotations

import struct
from io import BufferedWriter
from pathlib import Path
from typing import Final

from amqpforge.capture.network import ACK, FIN, SYN

from .tap import Direction

__all__ = ["Recording"]

_FILE_HEADER: Final = struct.pack(">IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, 101)  # 101: raw IP
_MOST: Final = 65_000  # octets of a packet
_PUSH: Final = 0x08
_FIRST_PORT: Final = 49_152
_PORTS: Final = 16_384
_ADDRESS: Final = bytes((127, 0, 0, 1))

_pack_record = struct.Struct(">IIII").pack
_pack_ip = struct.Struct(">BBHHHBBH4s4s").pack
_pack_tcp = struct.Struct(">HHIIBBHHH").pack


class Recording:
    """Writes one connection to a capture."""

    _connections = 0

    def __init__(self, file: BufferedWriter, server_port: int) -> None:
        """``file`` has its header, and belongs to the recording from now on."""
        self._file = file
        self._server = server_port
        self._client = _FIRST_PORT + Recording._connections % _PORTS
        Recording._connections += 1
        self._next = {"c2s": 0, "s2c": 0}
        self._is_begun = False

    @classmethod
    def append_to(cls, path: Path, server_port: int) -> Recording:
        """Record behind what the file holds; it is made if it is not there.

        Raises:
            OSError: the file cannot be written.
        """
        file = path.open("ab")
        if file.tell() == 0:
            file.write(_FILE_HEADER)
        return cls(file, server_port)

    def octets(self, direction: Direction, time_ns: int, octets: bytes) -> None:
        """Octets went in a direction, at a time in nanoseconds since 1970."""
        if not self._is_begun:
            self._is_begun = True
            self._packet("c2s", time_ns, SYN)
            self._packet("s2c", time_ns, SYN | ACK)
            self._packet("c2s", time_ns, ACK)
        self._last = time_ns
        for start in range(0, len(octets), _MOST):
            self._packet(direction, time_ns, _PUSH | ACK, octets[start : start + _MOST])
        self._file.flush()

    def close(self) -> None:
        """The connection is over."""
        if self._is_begun:
            self._packet("c2s", self._last, FIN | ACK)
            self._packet("s2c", self._last, FIN | ACK)
        self._file.close()

    def _packet(self, direction: Direction, time_ns: int, flags: int, payload: bytes = b"") -> None:
        ports = (self._client, self._server) if direction == "c2s" else (self._server, self._client)
        sequence = self._next[direction]
        acknowledged = self._next["s2c" if direction == "c2s" else "c2s"] if flags & ACK else 0
        taken = len(payload) + bool(flags & (SYN | FIN))
        self._next[direction] = (sequence + taken) & 0xFFFF_FFFF
        size = 40 + len(payload)
        packet = b"".join(
            (
                _pack_ip(0x45, 0, size, 0, 0, 64, 6, 0, _ADDRESS, _ADDRESS),
                _pack_tcp(*ports, sequence, acknowledged, 0x50, flags, 0xFFFF, 0, 0),
                payload,
            )
        )
        seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
        self._file.write(_pack_record(seconds, nanoseconds, size, size))
        self._file.write(packet)

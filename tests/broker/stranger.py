"""A client without manners: it sends what a test tells it to, and reads when it is told to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import amqpforge
from amqpforge_protocol.amqp_1_0 import FrameReader, ProtocolHeader, decode_frame, encode_frame
from tests.engine.frames import Attach, Begin, Close, Open

__all__ = ["HEADER", "Stranger", "stranger"]

HEADER = ProtocolHeader().encode()
_PATIENCE = 5.0
_MOST = 100_000

P = TypeVar("P")


class Stranger:
    """One connection, over a socket.

    Attributes:
        reader: what comes.
        writer: what goes.
        headers: protocol headers that have come.
        frames: performatives that have come and were not asked for yet.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.headers: list[bytes] = []
        self.frames: list[Any] = []
        self._cutter = FrameReader(1 << 24)

    def send(self, *frames: Any, channel: int = 0) -> None:
        """Send frames: octets as they are, performatives, or a transfer and its payload."""
        for frame in frames:
            if isinstance(frame, bytes):
                self.writer.write(frame)
            elif isinstance(frame, tuple):
                self.writer.write(encode_frame(frame[0], channel, frame[1]))
            else:
                self.writer.write(encode_frame(frame, channel))

    async def open(self, **fields: Any) -> None:
        """Open the connection, and a session on channel 0."""
        self.send(HEADER, Open(**{"container_id": "stranger", **fields}))
        self.send(Begin(next_outgoing_id=0, incoming_window=1 << 20, outgoing_window=1 << 20))
        await self.expect(Begin)

    async def attach(self, **fields: Any) -> Any:
        """Attach a link; returns the answer."""
        self.send(Attach(**{"name": "link", "handle": 0, **fields}))
        return await self.expect(Attach)

    async def expect(self, kind: type[P]) -> P:
        """The next performative of a kind; what came before it is dropped."""
        for _ in range(_MOST):
            while self.frames:
                frame = self.frames.pop(0)
                if isinstance(frame, kind):
                    return frame
            assert await self._read(), f"the connection ended without {kind}"
        raise AssertionError(f"no {kind} came")

    async def _read(self) -> bool:
        octets = await asyncio.wait_for(self.reader.read(1 << 16), _PATIENCE)
        for item in self._cutter.feed(octets):
            if item.startswith(b"AMQP"):
                self.headers.append(item)
            else:
                self.frames.append(decode_frame(item)[0].performative)
        return bool(octets)

    async def close_condition(self) -> str:
        """The condition that the broker closes the connection with."""
        close: Any = await self.expect(Close)
        assert close.error.description
        return str(close.error.condition)

    async def ended(self) -> bool:
        """Read until the transport ends; returns whether it does."""
        try:
            for _ in range(_MOST):
                if not await self._read():
                    return True
        except ConnectionError:
            return True
        return False


@asynccontextmanager
async def stranger(url: str, *, buffers: int | None = None) -> AsyncIterator[Stranger]:
    """Connect; ``buffers``: octets that the system keeps of either direction; None: as many as it likes."""
    where = amqpforge.parse_url(url)
    connected = socket.socket()
    if buffers is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers)
    connected.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connected, (where.host, where.port))
    reader, writer = await asyncio.open_connection(sock=connected)
    try:
        yield Stranger(reader, writer)
    finally:
        writer.transport.abort()

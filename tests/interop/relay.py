"""What stands between clients and a broker, passes on what they say, and records it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from amqpforge.client.recording import Recording
from amqpforge.client.tap import Tap

HOST = "127.0.0.1"


class Relay:
    """Listens on a port of its own; enter it in an event loop.

    Attributes:
        port: its port.
        is_deaf: whether what the server says is lost from now on, and not passed on.
    """

    def __init__(self, server_port: int, capture: Path) -> None:
        """Connections go on to ``server_port``, and are recorded behind what ``capture`` holds."""
        self.port = 0
        self.is_deaf = False
        self._server_port = server_port
        self._capture = capture
        self._listening: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()

    @property
    def url(self) -> str:
        """Where to connect to."""
        return f"amqp://{HOST}:{self.port}"

    def cut(self) -> None:
        """Cut all connections, at both ends; the next ones are passed on in both directions."""
        self.is_deaf = False
        for pair in list(self._pairs):
            pair.abort()

    async def __aenter__(self) -> Relay:
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._pair, HOST, self.port)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listening is not None:
            self._listening.close()
        self.cut()
        while self._pairs:
            await asyncio.gather(*(pair.ended for pair in self._pairs))

    def _pair(self) -> asyncio.Protocol:
        tap = Tap([Recording.append_to(self._capture, self._server_port)])
        pair = _Pair(self, tap)
        self._pairs.add(pair)
        pair.ended.add_done_callback(lambda _: self._pairs.discard(pair))
        pair.connecting = asyncio.get_running_loop().create_task(self._connect(pair))
        return pair.client

    async def _connect(self, pair: _Pair) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: pair.server, HOST, self._server_port)
        except OSError:
            pair.abort()


class _Pair:
    """A client's connection and the one that it is passed on to."""

    def __init__(self, relay: Relay, tap: Tap) -> None:
        self.relay = relay
        self.tap = tap
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.connecting: asyncio.Task[None] | None = None
        self.client = _End(self, is_client=True)
        self.server = _End(self, is_client=False)

    def pass_on(self, end: _End, data: bytes) -> None:
        """Octets came from an end."""
        if self.relay.is_deaf and not end.is_client:
            return
        (self.tap.sent if end.is_client else self.tap.received)(data)
        self.other(end).write(data)

    def other(self, end: _End) -> _End:
        return self.server if end is self.client else self.client

    def abort(self) -> None:
        for end in (self.client, self.server):
            end.abort()

    def lost(self, end: _End, was_cut: bool) -> None:
        """The transport of an end is gone."""
        other = self.other(end)
        if not other.is_lost:
            if was_cut:
                other.abort()
            else:
                other.close()
        elif not self.ended.done():
            self.tap.ended()
            self.ended.set_result(None)


class _End(asyncio.Protocol):
    """One of the two transports of a pair. What comes before the other one is there waits."""

    def __init__(self, pair: _Pair, *, is_client: bool) -> None:
        self.is_client = is_client
        self.is_lost = False
        self._pair = pair
        self._transport: asyncio.Transport | None = None
        self._early = bytearray()
        self._is_to_end = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self.is_lost:
            self._transport.abort()
            return
        self._transport.write(bytes(self._early))
        if self._is_to_end:
            self._transport.write_eof()

    def data_received(self, data: bytes) -> None:
        self._pair.pass_on(self, data)

    def eof_received(self) -> bool:
        self._pair.other(self).end()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._pair.lost(self, exc is not None)

    def pause_writing(self) -> None:
        """Too much waits to be written: the other end is not read."""
        other = self._pair.other(self)._transport
        if other is not None:
            other.pause_reading()

    def resume_writing(self) -> None:
        other = self._pair.other(self)._transport
        if other is not None and not other.is_closing():
            other.resume_reading()

    def write(self, data: bytes) -> None:
        if self._transport is None:
            self._early += data
        else:
            self._transport.write(data)

    def end(self) -> None:
        """Nothing more is to be written."""
        self._is_to_end = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()

    def close(self) -> None:
        if self._transport is None:
            self.connection_lost(None)
        else:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is None:
            self.connection_lost(ConnectionAbortedError())
        else:
            self._transport.abort()

"""A WebSocket server in front of a test node, on the library's part without I/O; tests can lead it astray."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from websockets.datastructures import Headers
from websockets.exceptions import InvalidState
from websockets.frames import Frame
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from amqpforge.testing import ScriptedNode

HOST = "127.0.0.1"
MOST = 1 << 16  # octets that are read at once
DATA = (0, 2)
CLOSE = 8


class Served:
    """A client's connection to the server.

    Attributes:
        protocol: the library's end.
        request: what the client asked for.
        frames: what it has sent since.
        ended: set when its transport ended.
    """

    def __init__(self, server: WebServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        subprotocols = [Subprotocol("amqp")]
        self.protocol = ServerProtocol(subprotocols=subprotocols, max_size=None)
        self.request = Request("", Headers())
        self.frames: list[Frame] = []
        self.ended = asyncio.Event()
        self._changed = asyncio.Event()
        self._server = server
        self._reader = reader
        self._writer = writer

    def say(self, octets: bytes = b"") -> None:
        """Write octets as they are, behind what the library has to say."""
        pieces = self.protocol.data_to_send()
        if not self._writer.is_closing():
            self._writer.write(b"".join(pieces) + octets)
            if b"" in pieces:
                self._writer.close()

    def send(self, octets: bytes) -> None:
        """Send a message, in one of the ways that the server is to show."""
        with suppress(InvalidState):  # The client has closed.
            self._server.send(self.protocol, octets)
        self.say()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Begin to close the WebSocket."""
        with suppress(InvalidState):
            self.protocol.send_close(code, reason)
        self.say()

    def cut(self) -> None:
        """Drop the transport."""
        self._writer.transport.abort()

    async def sent(self, opcode: int) -> Frame:
        """The first frame of a kind that the client has sent."""
        while True:
            for frame in self.frames:
                if frame.opcode == opcode:
                    return frame
            self._changed.clear()
            await self._changed.wait()

    async def serve(self) -> None:
        if await self._open():
            reader, writer = await asyncio.open_connection(HOST, self._server.node.port)
            back = asyncio.ensure_future(self._carry_back(reader))
            try:
                while await self._read():
                    for frame in self.protocol.events_received():
                        self._take(frame, writer)
                    self.say()
            finally:
                back.cancel()
                writer.close()
                await asyncio.wait([back])
        self.ended.set()

    async def _open(self) -> bool:
        """The handshake; tells whether there is a WebSocket now."""
        while not (events := self.protocol.events_received()):
            if not await self._read():
                return False
        assert isinstance(events[0], Request)
        self.request = events[0]
        self.protocol.send_response(self._server.answer(self.protocol, self.request))
        self.say()
        return self.protocol.state.name == "OPEN"

    async def _read(self) -> bool:
        with suppress(ConnectionError):
            octets = await self._reader.read(MOST)
            if octets:
                self.protocol.receive_data(octets)
                return True
        self.protocol.receive_eof()
        return False

    async def _carry_back(self, reader: asyncio.StreamReader) -> None:
        while octets := await reader.read(MOST):
            self.send(octets)
        self.close()

    def _take(self, frame: object, writer: asyncio.StreamWriter) -> None:
        assert isinstance(frame, Frame)
        if self._server.answers_close or frame.opcode != CLOSE:
            self.frames.append(frame)
        else:
            self.protocol.data_to_send()
        if frame.opcode in DATA:
            writer.write(frame.data)
        self._changed.set()


class WebServer:
    """A server for the time of an ``async with`` block, in front of a node.

    Attributes:
        node: what is behind it.
        connections: all that it accepted.
        answer: makes the answer to a request; for tests to replace.
        send: sends a message; for tests to replace.
        answers_close: whether it answers when a client closes the WebSocket.
    """

    def __init__(self, node: ScriptedNode, context: ssl.SSLContext | None = None) -> None:
        self.node = node
        self.connections: list[Served] = []
        self.answer: Callable[[ServerProtocol, Request], Response] = ServerProtocol.accept
        self.send: Callable[[ServerProtocol, bytes], None] = ServerProtocol.send_binary
        self.answers_close = True
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        scheme = "amqp+ws" if self._context is None else "amqp+wss"
        return f"{scheme}://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0, ssl=self._context)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for served in self.connections:
            served.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)
            for task in self._tasks:
                task.result()
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = Served(self, reader, writer)
        self.connections.append(served)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await served.serve()
        finally:
            writer.close()

"""A WebSocket between a transport and a driver that tests play: flow control, limits, garbage, the end."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("websockets")

from websockets.client import ClientProtocol
from websockets.http11 import Request
from websockets.server import ServerProtocol

from amqpforge.client.websocket import _WebSocket
from amqpforge.client.websocket_handshake import client_protocol
from amqpforge.errors import ConnectionClosed
from amqpforge.transport import Driver
from amqpforge.url import parse_url

from .loops import in_leaping_loop, in_loop
from .web_server import CLOSE


class Lower(asyncio.Transport):
    """The transport below, which writes nothing."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 80)})
        self.written = bytearray()
        self.did: list[object] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.did.append("pause")

    def resume_reading(self) -> None:
        self.did.append("resume")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.did.append(high)

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def is_closing(self) -> bool:
        return "close" in self.did

    def close(self) -> None:
        self.did.append("close")

    def abort(self) -> None:
        self.did.append("abort")


class Upper(asyncio.Protocol):
    """Where a driver would be."""

    def __init__(self) -> None:
        self.did: list[object] = []
        self.answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.did.append(data)
        self.transport.write(self.answer)

    def eof_received(self) -> None:
        self.did.append("end")
        self.transport.write(self.answer)

    def pause_writing(self) -> None:
        self.did.append("pause")

    def resume_writing(self) -> None:
        self.did.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.did.append(exc)


def opened(max_size: int = 1 << 20) -> tuple[_WebSocket, Lower, Upper, ServerProtocol]:
    """A WebSocket in a transport, with its server's end."""
    url = parse_url("amqp+ws://broker.example")
    upper, lower, server = Upper(), Lower(), ServerProtocol(subprotocols=[cast("Any", "amqp")])
    protocol: ClientProtocol = client_protocol(url, max_size)
    socket = _WebSocket(url, lambda: cast("Driver", upper), protocol)
    socket.connection_made(lower)
    server.receive_data(bytes(lower.written))
    request = server.events_received()[0]
    assert isinstance(request, Request)
    server.send_response(server.accept(request))
    server.send_binary(b"early")
    socket.data_received(b"".join(server.data_to_send()))
    assert upper.did == [b"early"]
    upper.did.clear()
    lower.written.clear()
    return socket, lower, upper, server


def received(server: ServerProtocol, lower: Lower) -> list[Any]:
    """The frames that the client has written, as the server reads them."""
    server.receive_data(bytes(lower.written))
    lower.written.clear()
    return list(server.events_received())


@in_loop
async def test_what_controls_the_flow_goes_through() -> None:
    socket, lower, upper, _ = opened()
    socket.set_write_buffer_limits(high=17)
    socket.pause_reading()
    socket.resume_reading()
    assert lower.did == [17, "pause", "resume"]
    socket.pause_writing()
    socket.resume_writing()
    assert upper.did == ["pause", "resume"]
    socket.write(b"x" * 10)
    assert socket.get_write_buffer_size() == len(lower.written) > 10
    assert socket.get_extra_info("peername") == ("192.0.2.1", 80)
    assert not socket.can_write_eof()


@in_loop
async def test_what_is_written_is_cut_and_masked() -> None:
    socket, lower, _, server = opened()
    socket.write(bytes(range(256)) * 300)
    assert bytes(range(256)) not in lower.written
    frames = received(server, lower)
    assert b"".join(frame.data for frame in frames) == bytes(range(256)) * 300
    assert [(frame.opcode, frame.fin, len(frame.data)) for frame in frames] == [
        (2, True, 32_768),
        (2, True, 32_768),
        (2, True, 11_264),
    ]


@in_loop
async def test_a_frame_as_large_as_the_limit_is_taken_and_a_larger_one_is_not() -> None:
    socket, lower, upper, server = opened(max_size=1000)
    server.send_binary(b"x" * 1000)
    socket.data_received(b"".join(server.data_to_send()))
    assert upper.did == [b"x" * 1000]
    server.send_binary(b"x" * 1001)
    socket.data_received(b"".join(server.data_to_send())[:100])
    assert lower.did == ["resume", "close"]
    socket.connection_lost(None)
    assert isinstance(upper.did[1], ConnectionClosed)


@in_loop
async def test_a_message_in_fragments_may_have_any_size() -> None:
    socket, _, upper, server = opened(max_size=1000)
    server.send_binary(b"x" * 800, fin=False)
    server.send_continuation(b"y" * 800, fin=True)
    socket.data_received(b"".join(server.data_to_send()))
    assert upper.did == [b"x" * 800 + b"y" * 800]


@in_loop
async def test_what_comes_behind_a_text_message_does_not_count() -> None:
    socket, _, upper, server = opened()
    server.send_binary(b"ahead")
    server.send_text(b"text")
    server.send_binary(b"behind")
    socket.data_received(b"".join(server.data_to_send()))
    assert upper.did == [b"ahead"]


@in_loop
async def test_a_server_that_pings_without_reading_is_left() -> None:
    socket, lower, upper, server = opened()
    pings = 0
    for _ in range(600):
        server.send_ping(b"x" * 125)
    octets = b"".join(server.data_to_send())
    socket.data_received(octets)
    assert len(received(server, lower)) == 600  # It reads.
    socket.pause_writing()
    while "close" not in lower.did and pings < 1000:
        server.send_ping(b"x" * 125)
        socket.data_received(b"".join(server.data_to_send()))
        pings += 1
    assert 65_536 <= len(lower.written) < 66_000
    socket.connection_lost(None)
    assert "does not read" in str(upper.did[-1])


@in_loop
async def test_pings_of_a_server_that_reads_again_are_forgotten() -> None:
    socket, lower, _, server = opened()
    for _ in range(3):
        socket.pause_writing()
        for _ in range(300):
            server.send_ping(b"x" * 125)
        socket.data_received(b"".join(server.data_to_send()))
        socket.resume_writing()
    assert not lower.is_closing()


@in_loop
async def test_closing_reads_on_to_the_answer_and_hands_nothing_over() -> None:
    socket, lower, upper, server = opened()
    socket.pause_reading()
    socket.close()
    socket.close()
    socket.write(b"too late")
    socket.pause_reading()
    assert socket.is_closing()
    assert lower.did == ["pause", "resume"]
    server.send_binary(b"crossed")
    assert [frame.opcode for frame in received(server, lower)] == [CLOSE]
    socket.data_received(b"".join(server.data_to_send()))
    assert not socket.eof_received()
    socket.connection_lost(None)
    assert upper.did == [None]


@in_leaping_loop
async def test_a_server_that_does_not_end_the_transport_is_not_waited_for_for_ever() -> None:
    for begin in (_WebSocket.close, lambda socket: socket.data_received(b"\x88\x02\x03\xe8")):
        socket, lower, _, _ = opened()
        begin(socket)
        assert "abort" not in lower.did
        await asyncio.sleep(6)
        assert "abort" in lower.did
        socket.connection_lost(None)


@in_loop
async def test_a_close_of_the_server_ends_the_input() -> None:
    socket, lower, upper, server = opened()
    upper.answer = b"too late"
    server.send_binary(b"last")
    server.send_close(1000)
    socket.data_received(b"".join(server.data_to_send()))
    assert upper.did == [b"last", "end"]
    socket.write(b"too late")
    assert [frame.opcode for frame in received(server, lower)] == [CLOSE]
    socket.connection_lost(None)
    assert upper.did == [b"last", "end", None]


@given(parts=st.lists(st.binary(max_size=40), max_size=6), is_open=st.booleans())
def test_garbage_ends_the_transport_or_waits_for_more(parts: list[bytes], is_open: bool) -> None:
    async def play() -> None:
        if is_open:
            socket, _, upper, _ = opened()
        else:
            upper, url = Upper(), parse_url("amqp+ws://broker.example")
            socket = _WebSocket(url, lambda: cast("Driver", upper), client_protocol(url, 1 << 20))
            socket.connection_made(Lower())
        for part in parts:
            socket.data_received(part)
        socket.eof_received()
        socket.connection_lost(None)
        if is_open:
            assert upper.did[-1] is None or isinstance(upper.did[-1], ConnectionClosed)
        else:
            assert isinstance(socket.opened.exception(), ConnectionClosed)

    asyncio.run(play())


@in_loop
async def test_the_end_of_the_transport_is_told_while_something_can_be_written() -> None:
    socket, lower, upper, server = opened()
    upper.answer = b"last words"
    assert not socket.eof_received()
    assert [frame.data for frame in received(server, lower)] == [b"last words"]
    error = ConnectionResetError()
    socket.connection_lost(error)
    assert upper.did == ["end", error]
    assert socket.get_extra_info("peername", "none") == "none"
    assert socket.is_closing()

"""AMQP in a WebSocket, against a server of the same library in front of a test node."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("websockets")

from websockets.frames import Close
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from amqpforge.client import Reconnect, connect
from amqpforge.client.websocket_handshake import client_protocol
from amqpforge.errors import (
    AmqpforgeError,
    ConnectionClosed,
    ConnectionLost,
    LocalError,
    NegotiationFailed,
    OperationTimedOut,
    ProtocolViolation,
)
from amqpforge.testing import ScriptedNode
from amqpforge.url import parse_url
from amqpforge_protocol.amqp_1_0 import Accepted, SaslInit
from amqpforge_protocol.amqp_1_0 import Close as AmqpClose
from tests.interop import certificates

from .loops import in_leaping_loop, in_loop
from .web_server import CLOSE, HOST, Served, WebServer

PONG = 10
LARGEST = (1 << 20) + 65_536
"""Octets of a WebSocket's frame, with the max_frame_size that is there by default."""
USERS = {"me": "pass word"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> certificates.Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


async def works(url: str, size: int = 100_000, **options: Any) -> None:
    """Messages go there and back."""
    async with (
        connect(url, **options) as connection,
        connection.sender("q") as sender,
        connection.receiver("q") as receiver,
    ):
        assert await sender.send(b"x" * size) == Accepted()
        assert (await receiver.receive()).message.body == b"x" * size


def close_of(served: Served) -> Close:
    """What the client said when it closed the WebSocket."""
    assert served.protocol.close_rcvd is not None
    return served.protocol.close_rcvd


# --- opening -----------------------------------------------------------------------------------------------


@in_loop
async def test_the_request_asks_for_amqp_at_the_path_of_the_url() -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        await works(f"{server.url}/brokers/one?key=a%20b")
        request = server.connections[0].request
        assert request.path == "/brokers/one?key=a%20b"
        assert request.headers["Sec-WebSocket-Protocol"] == "amqp"
        assert f"amqp+ws://{request.headers['Host']}" == server.url
        assert "Sec-WebSocket-Extensions" not in request.headers


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("amqp+ws://broker.example", "broker.example", "/"),
        ("amqp+wss://broker.example:80?a=b", "broker.example:80", "/?a=b"),
        ("amqp+ws://[fe80::1%25eth0]:81/x", "[fe80::1]:81", "/x"),
        ("amqp+wss://bücher.example/ä?ö", "xn--bcher-kva.example", "/%C3%A4?%C3%B6"),
    ],
)
def test_the_request_is_fit_for_http(url: str, host: str, path: str) -> None:
    request = client_protocol(parse_url(url), 1).connect()
    assert (request.headers["Host"], request.path) == (host, path)
    assert request.serialize().isascii()


def test_a_name_that_is_none_is_told() -> None:
    with pytest.raises(LocalError, match="no name of a host"):
        client_protocol(parse_url(f"amqp+ws://{'ä' * 80}"), 1)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@in_loop
async def test_the_user_of_the_url_is_shown_by_sasl_and_not_by_http(mechanism: str) -> None:
    async with ScriptedNode(users=USERS, mechanisms=[mechanism]) as node, WebServer(node) as server:
        async with connect(server.url.replace("://", "://me:pass%20word@")) as connection:
            assert connection.mechanism == mechanism
            assert node.connections[0].user == "me"
        assert "Authorization" not in server.connections[0].request.headers


@in_loop
async def test_passwords_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with ScriptedNode(users=USERS, mechanisms=["PLAIN"]) as node, WebServer(node) as server:
        server_log = logging.getLogger("websockets.server")
        server_log.disabled = True
        try:
            await works(server.url, username="me", password="pass word")
        finally:
            server_log.disabled = False
    assert "amqp+ws://" in caplog.text
    assert "pass" not in caplog.text
    assert "BINARY" not in caplog.text  # which is how the library shows a message, at least in part


@in_loop
async def test_a_password_is_sent_only_where_nobody_else_can_read_it(
    files: certificates.Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqpforge.transport.is_loopback", lambda transport: False)
    async with ScriptedNode(users=USERS, mechanisms=["PLAIN"]) as node:
        async with WebServer(node) as server:
            with pytest.raises(LocalError, match="allow_insecure_plain"):
                await connect(server.url, username="me", password="pass word")
            assert not node.received(SaslInit)
        async with WebServer(node, server_context(files)) as server:
            await works(server.url, ssl=client_context(files), username="me", password="pass word")


def server_context(files: certificates.Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.server, files.server_key)
    return context


def client_context(files: certificates.Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(files.authority))


@in_loop
async def test_a_server_of_tls_that_nobody_trusts_is_refused(files: certificates.Certificates) -> None:
    async with ScriptedNode() as node, WebServer(node, server_context(files)) as server:
        with pytest.raises(NegotiationFailed, match="CERTIFICATE_VERIFY_FAILED"):
            await connect(server.url)


@in_loop
async def test_tls_does_not_begin_inside_of_a_websocket() -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        with pytest.raises(LocalError, match="amqp\\+wss"):
            await connect(server.url, ssl=ssl.create_default_context())
        assert not server.connections


@in_loop
async def test_a_peer_without_sasl_is_asked_again_without_it() -> None:
    async with ScriptedNode(mechanisms=()) as node, WebServer(node) as server:
        node.security = type(node.security)()
        async with connect(server.url) as connection:
            assert connection.mechanism is None
        assert len(server.connections) == 2


@in_loop
async def test_without_the_library_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets.client", None)
    async with ScriptedNode() as node, WebServer(node) as server:
        with pytest.raises(LocalError, match=r'pip install "amqpforge\[websocket\]"'):
            await connect(server.url)
        assert not server.connections
        await works(node.url)


# --- what answers instead of a WebSocket -------------------------------------------------------------------


@asynccontextmanager
async def foreign(answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """A server that reads the request, and answers as a test says; gives its URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await answer(writer)
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        yield f"amqp+ws://{HOST}:{server.sockets[0].getsockname()[1]}/here"


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", NegotiationFailed, "401.*SASL"),
        (b"HTTP/1.1 403 \r\nContent-Length: 2\r\n\r\nno", NegotiationFailed, "HTTP 403$"),
        (b"HTTP/1.1 404 Not Found\r\n\r\nnothing", NegotiationFailed, "/here.*404 Not Found.*path"),
        (
            b"HTTP/1.1 302 Found\r\nLocation: wss://there/\r\nContent-Length: 0\r\n\r\n",
            NegotiationFailed,
            "302 Found: it is at wss://there/",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", NegotiationFailed, "no WebSocket.*200 OK"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", ConnectionLost, "503 Busy"),
        (b"HTTP/1.1 599 \x9b31m\r\nContent-Length: 0\r\n\r\n", NegotiationFailed, r"599 '\\(x9b|udc9b)31m'$"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", NegotiationFailed, "h2c"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n", NegotiationFailed, "Connection"),
        (
            b"HTTP/1.1 101 \r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
            NegotiationFailed,
            "Sec-WebSocket-Accept",
        ),
        (b"HTTP/1.1 nonsense\r\n\r\n", NegotiationFailed, "malformed"),
        (b"HTTP/1.1 404 Not", ConnectionLost, "instead of answering"),
        (b"", ConnectionLost, "instead of answering"),
        (b"AMQP\x00\x00\x09\x01", NegotiationFailed, "AMQP 0-9-1"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", NegotiationFailed, "SSH"),
        (b"x" * 20_000, NegotiationFailed, "78 78"),
    ],
)
@in_loop
async def test_what_is_no_websocket_is_named(answer: bytes, kind: type[AmqpforgeError], text: str) -> None:
    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async with foreign(say) as url:
        with pytest.raises(kind, match=text) as caught:
            await connect(url)
        assert type(caught.value) is kind


def with_header(name: str, value: str | None) -> Callable[[ServerProtocol, Request], Response]:
    """The answer of a server, with one header that is not as it has to be."""

    def answer(protocol: ServerProtocol, request: Request) -> Response:
        response = protocol.accept(request)
        if name in response.headers:
            del response.headers[name]
        if value is not None:
            response.headers[name] = value
        return response

    return answer


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("Sec-WebSocket-Protocol", None, "does not choose the subprotocol 'amqp'"),
        ("Sec-WebSocket-Protocol", "mqtt", "'amqp'.*mqtt"),
        ("Sec-WebSocket-Protocol", "amqp, mqtt", "'amqp'.*mqtt"),
        ("Sec-WebSocket-Extensions", "permessage-deflate", "extension"),
    ],
)
@in_loop
async def test_a_websocket_that_is_not_for_amqp_is_refused(name: str, value: str | None, text: str) -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        server.answer = with_header(name, value)
        with pytest.raises(NegotiationFailed, match=text):
            await connect(server.url)
        await server.connections[0].ended.wait()
        assert not [frame for frame in server.connections[0].frames if frame.opcode != CLOSE]


@in_loop
async def test_a_server_that_chooses_no_subprotocol_is_told() -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        server.answer = with_header("Sec-WebSocket-Protocol", None)
        with pytest.raises(NegotiationFailed):
            await connect(server.url)
        await server.connections[0].sent(CLOSE)
        assert close_of(server.connections[0]) == Close(1002, "this client speaks amqp")


@in_leaping_loop
async def test_a_server_that_never_answers_is_given_up_in_time() -> None:
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        left.set()
        writer.close()

    async with await asyncio.start_server(serve, HOST, 0) as server:
        url = f"amqp+ws://{HOST}:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(OperationTimedOut, match="connecting to amqp\\+ws"):
            await connect(url, timeout=5)
        await left.wait()


@in_loop
async def test_a_port_that_nobody_listens_on_is_an_error_with_the_url() -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        url = server.url
    with pytest.raises(ConnectionLost, match=r"cannot connect to amqp\+ws://127\.0\.0\.1"):
        await connect(url)


# --- what travels ------------------------------------------------------------------------------------------


def in_pieces(protocol: ServerProtocol, octets: bytes) -> None:
    for start in range(0, len(octets), 3):
        protocol.send_binary(octets[start : start + 3])


def in_fragments(protocol: ServerProtocol, octets: bytes) -> None:
    """With an empty one, and with a ping in between."""
    protocol.send_binary(b"", fin=False)
    for start in range(0, len(octets), 5):
        protocol.send_continuation(octets[start : start + 5], fin=False)
    protocol.send_ping(b"are you there")
    protocol.send_continuation(b"", fin=True)


@pytest.mark.parametrize("send", [in_pieces, in_fragments])
@in_loop
async def test_frames_may_be_cut_anywhere(send: Callable[[ServerProtocol, bytes], None]) -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        server.send = send
        await works(server.url, 1000)


@in_loop
async def test_messages_of_websockets_stay_small_whatever_is_sent() -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        await works(server.url, 1 << 20)
        sizes = [len(frame.data) for frame in server.connections[0].frames]
        assert max(sizes) <= 32_768
        assert sum(sizes) > 1 << 20


@in_loop
async def test_pings_are_answered() -> None:
    async with ScriptedNode() as node, WebServer(node) as server, connect(server.url):
        served = server.connections[0]
        served.protocol.send_ping(b"12345")
        served.say()
        assert (await served.sent(PONG)).data == b"12345"


@in_loop
async def test_octets_are_counted_as_amqp_has_them() -> None:
    async with ScriptedNode() as node, WebServer(node) as server, connect(server.url) as connection:
        await connection.round_trip()
        counters = connection.counters
        assert counters.octets_received == sum(len(seen.octets) for seen in node.frames if seen.is_sent)


# --- the end -----------------------------------------------------------------------------------------------


@in_loop
async def test_the_websocket_is_closed_behind_the_connection() -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        async with connect(server.url):
            served = server.connections[0]
        await served.ended.wait()
        assert len(node.received(AmqpClose)) == 1
        assert close_of(served).code == 1000
        assert not node.connections


@in_leaping_loop
async def test_a_server_that_never_closes_the_websocket_does_not_hang_it() -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        server.answers_close = False
        connection = await connect(server.url)
        served = server.connections[0]
        await connection.close()
        await served.ended.wait()


@pytest.mark.parametrize("code", [1000, 1001])
@in_loop
async def test_a_server_that_closes_the_websocket_ends_the_transport(code: int) -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        connection = await connect(server.url, reconnect=None)
        served = server.connections[0]
        served.close(code)
        with pytest.raises(ConnectionLost, match="without a close"):
            await connection.wait_closed()
        await served.ended.wait()
        assert close_of(served).code == code


@in_loop
async def test_the_error_of_a_server_that_closes_the_websocket_is_told() -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        connection = await connect(server.url, reconnect=None)
        sender = await connection.sender("q")
        server.connections[0].close(1011, "out of \N{SNOWMAN} order")
        with pytest.raises(ConnectionLost, match="code 1011 out of \N{SNOWMAN} order") as caught:
            await connection.wait_closed()
        assert caught.value.may_retry
        with pytest.raises(ConnectionLost, match="1011"):
            await sender.send("x")


@in_loop
async def test_a_transport_that_breaks_under_a_websocket_is_a_lost_connection() -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        connection = await connect(server.url, reconnect=None)
        server.connections[0].cut()
        with pytest.raises(ConnectionLost):
            await connection.wait_closed()


@in_loop
async def test_a_lost_websocket_comes_back() -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        async with connect(server.url, reconnect=Reconnect(first_delay=0.001)) as connection:
            sender = await connection.sender("q")
            for number in range(3):
                await sender.send(number)
                server.connections[-1].close(1012)
        # What was under way when it was lost goes out again.
        assert {message.body for message in node.messages("q")} == {0, 1, 2}
        assert len(server.connections) >= 3


def text(served: Served) -> None:
    served.protocol.send_text(b"hello")
    served.say()


def masked(served: Served) -> None:
    served.say(b"\x82\x85\x00\x00\x00\x00hello")


def unknown(served: Served) -> None:
    served.say(b"\x83\x00")


def begin_frame(size: int) -> bytes:
    """The header of a WebSocket's frame of so many octets."""
    return b"\x82\x7f" + size.to_bytes(8, "big")


def huge(served: Served) -> None:
    served.say(begin_frame(LARGEST + 1))


@pytest.mark.parametrize(
    ("misbehave", "code", "what"),
    [
        (text, 1003, "text message"),
        (masked, 1002, "masking"),
        (unknown, 1002, "opcode"),
        (huge, 1009, f"{LARGEST + 1} bytes"),
    ],
)
@in_loop
async def test_a_server_that_breaks_the_protocol_is_told_and_left(
    misbehave: Callable[[Served], None], code: int, what: str
) -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        connection = await connect(server.url, reconnect=None)
        served = server.connections[0]
        misbehave(served)
        with pytest.raises(ConnectionClosed, match=what) as caught:
            await connection.wait_closed()
        assert caught.value.condition == "amqp:connection:framing-error"
        assert isinstance(caught.value.__cause__, ProtocolViolation)
        await served.ended.wait()
        assert close_of(served).code == code


@in_loop
async def test_the_largest_frame_of_a_websocket_is_waited_for() -> None:
    async with ScriptedNode() as node, WebServer(node) as server:
        connection = await connect(server.url, reconnect=None)
        served = server.connections[0]
        served.protocol.send_ping(b"")
        served.say(begin_frame(LARGEST))
        await served.sent(PONG)
        served.cut()
        with pytest.raises(ConnectionLost):
            await connection.wait_closed()


@in_loop
async def test_what_came_ahead_of_a_fault_counts() -> None:
    async with ScriptedNode() as node, WebServer(node) as server:

        def answer(protocol: ServerProtocol, octets: bytes) -> None:
            protocol.send_binary(octets)
            if b"nothing more" in octets:
                protocol.send_text(b"hello")

        server.send = answer
        async with connect(server.url, reconnect=None) as connection:
            receiver = await connection.receiver("q")
            node.put("q", "nothing more")
            assert (await receiver.receive()).message.body == "nothing more"
            with pytest.raises(ConnectionClosed, match="text message"):
                await connection.wait_closed()

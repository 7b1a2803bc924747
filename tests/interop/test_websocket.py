"""Our clients and rhea as a WebSocket server, on Node's ``ws``: a stack that shares nothing with ours."""

from __future__ import annotations

import asyncio
import ssl
from asyncio import to_thread
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import ParamSpec

import pytest

pytest.importorskip("websockets")

from amqpforge import AuthenticationFailed, ConnectionClosed, blocking, connect
from amqpforge.url import Url, parse_url
from amqpforge_protocol.amqp_1_0 import Accepted
from tests.interop.certificates import Certificates
from tests.interop.conftest import StartServer
from tests.interop.handles import ForeignServer
from tests.interop.payload import digest, octets
from tests.interop.results import Message

pytestmark = pytest.mark.interop

P = ParamSpec("P")

MEBIBYTE = 1 << 20
PATIENCE = 30.0
"""Seconds after which a test has failed; none takes near as long."""


def in_loop(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """A test that is a coroutine, run in an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), PATIENCE))

    return run


@pytest.fixture
def rhea(start_server: StartServer) -> ForeignServer:
    """A server, not yet listening."""
    return start_server("rhea")


async def carries(server: ForeignServer, url: str, context: ssl.SSLContext | None = None) -> None:
    """Messages of all sizes go there and back."""
    sizes = [0, 1, 40_000, MEBIBYTE]
    async with connect(url, ssl=context, reconnect=None) as connection:
        async with connection.sender("there") as sender:
            for number, size in enumerate(sizes):
                assert await sender.send(octets(number, size)) == Accepted()
        taken = await to_thread(server.take, "there", len(sizes))
        assert [message.body.sha256 for message in taken] == [
            digest(number, size) for number, size in enumerate(sizes)
        ]
        await to_thread(server.put, "back", 3, Message(size=MEBIBYTE))
        async with connection.receiver("back", credit=2) as receiver:
            bodies = [(await receiver.receive()).message.body for _ in range(3)]
        assert bodies == [octets(number, MEBIBYTE) for number in range(3)]
        outcomes = await to_thread(server.told, "back", 3)
        assert [outcome.name for outcome in outcomes] == ["accepted"] * 3


@pytest.mark.parametrize("max_frame_size", [4096, 65_536, None])
@in_loop
async def test_messages_go_there_and_back(rhea: ForeignServer, max_frame_size: int | None) -> None:
    url = await to_thread(rhea.listen, scheme="amqp+ws", max_frame_size=max_frame_size)
    await carries(rhea, url)


@in_loop
async def test_messages_cross_each_other(rhea: ForeignServer) -> None:
    url = await to_thread(rhea.listen, scheme="amqp+ws")
    async with (
        connect(url, reconnect=None) as connection,
        connection.sender("q") as sender,
        connection.receiver("q", credit=20) as receiver,
    ):

        async def take() -> list[object]:
            return [(await receiver.receive()).message.body for _ in range(500)]

        taking = asyncio.ensure_future(take())
        assert await sender.send_many(range(500)) == [Accepted()] * 500
        assert await taking == list(range(500))


@in_loop
async def test_users_are_known_by_sasl(rhea: ForeignServer) -> None:
    url = await to_thread(rhea.listen, scheme="amqp+ws", users={"me": "pass word"})
    async with connect(url.replace("://", "://me:pass%20word@"), reconnect=None) as connection:
        assert connection.mechanism == "PLAIN"
    with pytest.raises(AuthenticationFailed):
        await connect(url, username="me", password="wrong", reconnect=None)


@in_loop
async def test_a_close_with_an_error_is_told(rhea: ForeignServer) -> None:
    url = await to_thread(rhea.listen, scheme="amqp+ws")
    connection = await connect(url, reconnect=None)
    wire = connection._wire
    assert wire is not None
    assert wire.driver is not None
    await to_thread(rhea.disconnect, "amqp:connection:forced", "we close early")
    with pytest.raises(ConnectionClosed, match="we close early") as caught:
        await connection.wait_closed()
    assert caught.value.condition == "amqp:connection:forced"
    await wire.driver.lost
    assert wire.driver.error is None


def test_the_blocking_client_does_it_too(rhea: ForeignServer) -> None:
    url = rhea.listen(scheme="amqp+ws")
    with blocking.connect(url, reconnect=None) as connection:
        with connection.sender("q") as sender:
            sender.send("hello")
        with connection.receiver("q") as receiver:
            assert receiver.receive().message.body == "hello"


@asynccontextmanager
async def tls_in_front(url: Url, files: Certificates) -> AsyncIterator[str]:
    """What ends TLS in front of a WebSocket server, as gateways do; gives the URL with TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.server, files.server_key)
    tasks: set[asyncio.Task[None] | None] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while octets := await reader.read(65_536):
            writer.write(octets)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        back_reader, back_writer = await asyncio.open_connection(url.host, url.port)
        await asyncio.gather(carry(reader, back_writer), carry(back_reader, writer), return_exceptions=True)

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as listening:
        yield f"amqp+wss://localhost:{listening.sockets[0].getsockname()[1]}"
        for task in tasks:
            if task is not None:
                await task


@in_loop
async def test_messages_go_there_and_back_through_tls(
    rhea: ForeignServer, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqpforge.transport.is_loopback", lambda transport: False)
    plain = await to_thread(rhea.listen, scheme="amqp+ws", users={"me": "secret"})
    context = ssl.create_default_context(cafile=str(certificates.authority))
    async with tls_in_front(parse_url(plain), certificates) as url:
        await carries(rhea, url.replace("://", "://me:secret@"), context)

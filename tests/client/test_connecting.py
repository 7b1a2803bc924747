"""Connections: how they open, what goes wrong, and how they close."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from amqpforge.client import Connection, Credentials, Reconnect, connect
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import (
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    LocalError,
    NegotiationFailed,
    OperationTimedOut,
)
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Begin,
    Close,
    Open,
    ProtocolHeader,
    SaslInit,
    SaslResponse,
    Symbol,
)

from .loops import in_loop

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def foreign_server(answer: Answer) -> AsyncIterator[str]:
    """A server that is no AMQP 1.0 node; gives the URL under which it is mistaken for one."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def says(octets: bytes) -> Answer:
    """A server that answers the first octets with these, and closes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.write(octets)
        writer.close()

    return answer


@in_loop
async def test_a_connection_opens_and_closes_with_its_block() -> None:
    async with ScriptedNode("broker") as node:
        async with connect(node.url, container_id="me", hostname="vhost:a") as connection:
            assert connection.is_connected
            assert connection.remote is not None
            assert connection.remote.container_id == "broker"
            assert connection.mechanism == "ANONYMOUS"
        opens = node.received(Open)
        assert [(open.container_id, open.hostname) for open in opens] == [("me", "vhost:a")]
        assert len(node.received(Close)) == 1
        assert not connection.is_open
        assert connection.error is None
        await connection.wait_closed()


@in_loop
async def test_a_connection_can_be_awaited_and_is_closed_by_hand() -> None:
    async with ScriptedNode() as node:
        connection = await connect(node.url)
        await connection.close()
        await connection.close()
        with pytest.raises(LocalError, match="closed"):
            await connection.sender("q")


@in_loop
async def test_what_was_asked_for_is_told_in_open() -> None:
    async with ScriptedNode() as node:
        async with connect(
            node.url,
            max_frame_size=4096,
            channel_max=7,
            handle_max=3,
            idle_time_out=8,
            properties={"product": "test"},
            desired_capabilities=["ANONYMOUS-RELAY"],
        ) as connection:
            await connection.sender("q")
        open = node.received(Open)[0]
        assert (open.max_frame_size, open.channel_max, open.idle_time_out) == (4096, 7, 4000)
        assert open.properties == {Symbol("product"): "test"}
        assert open.desired_capabilities == [Symbol("ANONYMOUS-RELAY")]
        assert node.received(Begin)[0].handle_max == 3


@in_loop
async def test_without_credentials_a_peer_without_sasl_is_spoken_to_without_it() -> None:
    async with ScriptedNode(mechanisms=()) as node:
        node.security = type(node.security)()
        async with connect(node.url) as connection:
            assert connection.mechanism is None
        assert node.accepted == 2


@in_loop
async def test_credentials_are_never_dropped_for_a_peer_without_sasl() -> None:
    async with ScriptedNode() as node:
        node.security = type(node.security)()
        with pytest.raises(NegotiationFailed):
            await connect(node.url, username="me", password="secret")
        assert node.accepted == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@in_loop
async def test_user_name_and_password_are_shown_by_sasl(mechanism: str) -> None:
    async with ScriptedNode(users={"me": "pass word"}, mechanisms=[mechanism]) as node:
        url = node.url.replace("amqp://", "amqp://me:pass%20word@")
        async with connect(url) as connection:
            assert connection.mechanism == mechanism
            assert node.connections[0].user == "me"
        async with connect(node.url, username="me", password="pass word"):
            assert node.connections[0].user == "me"
        with pytest.raises(AuthenticationFailed):
            await connect(node.url, credentials=Credentials(username="me", password="wrong"))


@in_loop
async def test_a_password_is_not_sent_where_others_can_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqpforge.transport.is_loopback", lambda transport: False)
    async with ScriptedNode(mechanisms=["PLAIN"]) as node:
        with pytest.raises(LocalError, match="allow_insecure_plain"):
            await connect(node.url, username="me", password="secret")
        assert not node.received(SaslInit)
        async with connect(node.url, username="me", password="secret", allow_insecure_plain=True):
            assert node.connections[0].user == "me"


@pytest.mark.parametrize(
    ("answer", "peer"),
    [
        (b"AMQP\x00\x00\x09\x01", "AMQP 0-9-1"),
        (b"AMQP\x01\x01\x00\x0a", "AMQP 0-10"),
        (b"AMQP\x00\x01\x01\x00", "AMQP 1.1.0"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
        (b"", "sends nothing"),
    ],
)
@in_loop
async def test_the_error_names_who_is_on_the_port_when_it_is_no_amqp_1_0_peer(
    answer: bytes, peer: str
) -> None:
    async with foreign_server(says(answer)) as url:
        with pytest.raises((NegotiationFailed, ConnectionLost), match=peer):
            await connect(url)


@in_loop
async def test_a_peer_that_never_answers_is_given_up_in_time() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with foreign_server(silent) as url:
        with pytest.raises(OperationTimedOut, match="connecting"):
            await connect(url, timeout=0.05)


@in_loop
async def test_a_port_that_nobody_listens_on_is_an_error_with_the_url() -> None:
    async with ScriptedNode() as node:
        url = node.url
    with pytest.raises(ConnectionLost, match=r"cannot connect to amqp://me@127\.0\.0\.1") as caught:
        await connect(url.replace("amqp://", "amqp://me:secret@"))
    assert isinstance(caught.value.__cause__, OSError)
    assert "secret" not in str(caught.value)


@in_loop
async def test_the_first_url_that_answers_will_do() -> None:
    async with ScriptedNode() as node:
        async with ScriptedNode() as other:
            gone = other.url
        async with connect([gone, node.url]) as connection:
            assert str(connection.url) == node.url


@in_loop
async def test_what_all_urls_said_is_told() -> None:
    async with ScriptedNode() as one, ScriptedNode() as two:
        urls = [one.url, two.url]
    with pytest.raises(ConnectionLost) as caught:
        await connect(urls)
    assert urls[1] in str(caught.value)
    assert urls[0] in caught.value.__notes__[0]


@in_loop
async def test_a_peer_that_refuses_the_connection_says_why() -> None:
    async with ScriptedNode() as node:
        node.script.on(Open).refuse("amqp:not-allowed", "not you")

        async def failing() -> None:
            connection = await connect(node.url)
            await connection.wait_closed()

        with pytest.raises(ConnectionClosed, match="not you") as caught:
            await failing()
        assert caught.value.condition == "amqp:not-allowed"


@in_loop
async def test_a_peer_that_never_answers_the_close_does_not_hang_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with ScriptedNode() as node:
        node.script.on(Close).drop()
        connection = await connect(node.url)
        with caplog.at_level(logging.WARNING, "amqpforge.connection"):
            await connection.close(timeout=0.05)
        assert "does not answer" in caplog.text
        await node.wait_for(lambda: not node.connections)


@in_loop
async def test_a_cancelled_connect_leaves_no_transport() -> None:
    async with ScriptedNode() as node:
        node.script.on(Open).drop()
        task = asyncio.ensure_future(_open(node.url))
        await node.wait_for(lambda: node.received(Open))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await node.wait_for(lambda: not node.connections)


async def _open(url: str) -> Connection:
    return await connect(url)


@in_loop
async def test_a_peer_with_a_small_frame_size_is_served() -> None:
    async with ScriptedNode(settings=ConnectionSettings(max_frame_size=512)) as node:
        async with connect(node.url) as connection, connection.sender("q") as sender:
            await sender.send(b"x" * 5000)
        assert [message.body for message in node.messages("q")] == [b"x" * 5000]


@in_loop
async def test_a_container_that_allows_few_handles_gets_more_sessions() -> None:
    settings = ConnectionSettings(session=SessionSettings(handle_max=1))
    async with ScriptedNode(settings=settings) as node, connect(node.url) as connection:
        senders = [await connection.sender(f"q{number}") for number in range(5)]
        for sender in senders:
            await sender.send("x")
        assert connection.counters.sessions == 3
        assert connection.counters.links == 5


@in_loop
async def test_the_round_trip_leaves_nothing_behind() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        assert await connection.round_trip() > 0
        assert connection.counters.sessions == 0


@in_loop
async def test_counters_tell_what_went_over_the_connection() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        async with connection.sender("q") as sender:
            await sender.send("x")
        counters = connection.counters
        assert counters.frames_sent == len([seen for seen in node.frames if _is_frame(seen, False)])
        assert counters.frames_received == len([seen for seen in node.frames if _is_frame(seen, True)])
        assert counters.octets_sent > 100
        assert counters.octets_received > 100
        assert counters.reconnects == 0


def _is_frame(seen: object, is_sent: bool) -> bool:
    performative = getattr(seen, "performative", None)
    is_sasl = type(performative).__name__.startswith("Sasl") or isinstance(performative, SaslResponse)
    return getattr(seen, "is_sent", None) is is_sent and not (
        isinstance(performative, ProtocolHeader) or is_sasl
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"timeout": 0},
        {"idle_time_out": -1},
        {"username": "me", "credentials": Credentials()},
    ],
)
def test_arguments_out_of_range_are_told_at_once(arguments: dict[str, object]) -> None:
    with pytest.raises(LocalError):
        connect("amqp://localhost", **arguments)  # type: ignore[arg-type]


def test_wrong_urls_are_told_at_once() -> None:
    with pytest.raises(LocalError):
        connect([])
    with pytest.raises(LocalError):
        connect("http://localhost")


@pytest.mark.parametrize("arguments", [{"first_delay": 0}, {"factor": 0.5}, {"max_delay": 0.01}])
def test_a_reconnect_out_of_range_is_told_at_once(arguments: dict[str, float]) -> None:
    with pytest.raises(LocalError):
        Reconnect(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("amqp://alice@127.0.0.1:1", {}),
        (["amqp://127.0.0.1:1", "amqp://alice@127.0.0.1:1"], {}),
        ("amqp://127.0.0.1:1", {"username": "alice"}),
        ("amqp://127.0.0.1:1", {"credentials": Credentials(username="alice")}),
    ],
)
def test_a_user_without_a_password_is_not_taken_for_anybody(url: Any, options: dict[str, Any]) -> None:
    with pytest.raises(LocalError, match="'alice' has no password"):
        connect(url, **options)


@pytest.mark.parametrize(
    "credentials",
    [
        Credentials(username="alice", external=True),
        Credentials(username="alice", token=lambda: "t"),
        Credentials(username="alice", mechanisms=("ANONYMOUS",)),
    ],
)
def test_a_mechanism_may_need_no_password(credentials: Credentials) -> None:
    connect("amqp://alice@127.0.0.1:1", credentials=credentials)

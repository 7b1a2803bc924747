"""Our client with RabbitMQ 3.10: connections, sessions and links.

Its AMQP 1.0 is a plugin on top of its AMQP 0-9-1, and knows no other way to refuse a link than to end the
session. What else is on the connection has to bear that: beside each refusal there is a bystander.
"""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import pytest

from amqpforge import (
    AuthenticationFailed,
    Connection,
    ConnectionClosed,
    ConnectionLost,
    Credentials,
    Message,
    NegotiationFailed,
    OperationTimedOut,
    Reconnect,
    SessionEnded,
)
from amqpforge_protocol.amqp_1_0 import Accepted
from tests.interop.payload import octets
from tests.interop.rabbitmq import IDLE_TIME_OUT, PASSWORD, USER
from tests.interop.scenarios import (
    RABBITMQ,
    Brokered,
    Played,
    answer,
    client_tls,
    differs,
    lacks,
    refuses,
    scenario,
    untried,
)

SILENCE = 0.3
"""Seconds that we wait for an answer which does not come."""
IMPATIENCE = 0.6
"""Seconds of silence that our client bears; it announces half of it, and RabbitMQ does not care."""

untried("no SASL layer", "our client asks for SASL first, and the peer has it", RABBITMQ)
untried("WebSocket", "this version has none for AMQP 1.0", RABBITMQ)


@asynccontextmanager
async def bystander(stage: Brokered, **options: Any) -> AsyncIterator[Connection]:
    """A connection with a sender and a receiver that work before and after whatever happens beside them."""
    address = await stage.declare("bystander")
    async with (
        stage.connect(reconnect=Reconnect(first_delay=0.02), **options) as connection,
        connection.sender(address) as sender,
        connection.receiver(address) as receiver,
    ):
        assert await sender.send("before") == Accepted()
        assert (await receiver.receive()).message.body == "before"
        await connection.round_trip()  # By then the broker has the acceptance.
        yield connection
        assert await sender.send("after") == Accepted()
        assert (await receiver.receive()).message.body == "after"


# --- connections --------------------------------------------------------------------------------------------


@scenario("ANONYMOUS", RABBITMQ)
async def anonymous(stage: Brokered) -> Played:
    async with stage.connect(stage.broker.url) as connection:
        assert connection.mechanism == "ANONYMOUS"
        assert connection.remote is not None
        properties = {str(key): value for key, value in (connection.remote.properties or {}).items()}
        assert properties["product"] == "RabbitMQ"
        assert properties["version"].startswith("3.10.")
    return None


@scenario("PLAIN", RABBITMQ)
async def plain(stage: Brokered) -> Played:
    async with stage.connect() as connection:
        assert connection.mechanism == "PLAIN"
    return None


@scenario("PLAIN with a wrong password", RABBITMQ)
async def wrong_password(stage: Brokered) -> Played:
    with pytest.raises(AuthenticationFailed, match="refused the credentials"):
        await stage.connect(stage.broker.url, username=USER, password="wrong")
    return None


@scenario("SCRAM-SHA-256", RABBITMQ)
async def scram(stage: Brokered) -> Played:
    shown = Credentials(username=USER, password=PASSWORD, mechanisms=("SCRAM-SHA-256",))
    with pytest.raises(AuthenticationFailed) as refused:
        await stage.connect(stage.broker.url, credentials=shown)
    return lacks(refused.value)


@scenario("EXTERNAL, by the client's certificate", RABBITMQ)
async def external(stage: Brokered) -> Played:
    context = client_tls(stage.broker.certificates, shows_certificate=True)
    external = Credentials(external=True)
    async with stage.connect(stage.broker.tls_url, ssl=context, credentials=external) as connection:
        assert connection.mechanism == "EXTERNAL"
        async with connection.sender(await stage.declare("external")) as sender:
            assert await sender.send("hello") == Accepted()
    return None


@scenario("TLS from the first octet", RABBITMQ)
async def tls(stage: Brokered) -> Played:
    context = client_tls(stage.broker.certificates)
    address = await stage.declare("tls")
    async with (
        stage.connect(stage.broker.tls_url, ssl=context, username=USER, password=PASSWORD) as connection,
        connection.sender(address) as sender,
        connection.receiver(address) as receiver,
    ):
        assert await sender.send(octets(0, 100_000)) == Accepted()
        assert (await receiver.receive()).message.body == octets(0, 100_000)
    with pytest.raises(NegotiationFailed, match="CERTIFICATE_VERIFY_FAILED"):
        await stage.connect(stage.broker.tls_url)
    return None


@scenario("TLS by protocol header", RABBITMQ)
async def tls_by_header(stage: Brokered) -> Played:
    with pytest.raises(NegotiationFailed) as refused:
        await stage.connect(ssl=client_tls(stage.broker.certificates))
    return refuses(refused.value)


@scenario("virtual host", RABBITMQ)
async def virtual_host(stage: Brokered) -> Played:
    async with (
        stage.connect(hostname="vhost:/") as connection,
        connection.sender(await stage.declare("virtual-host")) as sender,
    ):
        assert await sender.send("x") == Accepted()
    assert await stage.depth("virtual-host") == 1
    return None


@scenario("frames of 512 octets", RABBITMQ)
async def small_frames(stage: Brokered) -> Played:
    address = await stage.declare("frames")
    async with (
        stage.connect(max_frame_size=512) as connection,
        connection.sender(address) as sender,
        connection.receiver(address) as receiver,
    ):
        await sender.send(octets(1, 10_000))
        assert (await receiver.receive()).message.body == octets(1, 10_000)
        assert connection.counters.frames_received > 20
    return None


@scenario("heartbeats over idle", RABBITMQ)
async def heartbeats(stage: Brokered) -> Played:
    async with (
        stage.connect(idle_time_out=2.0) as connection,
        stage.connect(idle_time_out=IMPATIENCE) as impatient,
    ):
        assert connection.remote is not None
        assert connection.remote.idle_time_out == IDLE_TIME_OUT
        before = connection.counters
        with pytest.raises(ConnectionLost, match=r"silent|nothing"):
            await impatient.wait_closed()
        await asyncio.sleep(1.7 - IMPATIENCE)
        after = connection.counters
        assert connection.is_connected
        assert after.frames_sent - before.frames_sent >= 1
        assert after.frames_received - before.frames_received >= 1
        async with connection.sender(await stage.declare("idle")) as sender:
            assert await sender.send("still there") == Accepted()
    return differs("sends heartbeats, but none to a client that announces less than a second")


@scenario("the peer closes the connection", RABBITMQ)
async def closed(stage: Brokered) -> Played:
    with pytest.raises(ConnectionClosed) as over:
        async with stage.connect(hostname="vhost:of nobody") as connection:
            await connection.sender("/amq/queue/unreachable")
    assert over.value.condition == "amqp:unauthorized-access"
    return None


@scenario("back after a lost connection", RABBITMQ)
async def back(stage: Brokered) -> Played:
    async with bystander(stage, idle_time_out=IMPATIENCE) as connection:
        await asyncio.sleep(1.4 * IMPATIENCE)
        assert connection.counters.reconnects >= 1
    return None


# --- sessions and links -------------------------------------------------------------------------------------


@scenario("the peer ends the session", RABBITMQ)
async def ended(stage: Brokered) -> Played:
    address = await stage.declare("ended")
    forged = Message("x", user_id=b"somebody")
    async with stage.connect() as connection:
        async with connection.sender(address) as sender:
            with pytest.raises(SessionEnded, match="user_id property set to 'somebody'") as over:
                await sender.send(forged)
            assert over.value.condition == "amqp:precondition-failed"
        async with connection.sender(address) as sender:
            assert await sender.send("on another session") == Accepted()
    async with bystander(stage) as connection, connection.sender(address) as sender:
        await sender.send(forged, settled=True)
        assert await sender.send("on another session") == Accepted()
    assert await stage.depth("ended") == 2
    return None


@scenario("the peer refuses the link", RABBITMQ)
async def refused(stage: Brokered) -> Played:
    async with bystander(stage) as connection:
        answers: set[str] = set()
        for _ in range(6):  # More often than a session is begun anew that nobody is to blame for.
            with pytest.raises(SessionEnded) as receiving:
                await connection.receiver("/amq/queue/nobody")
            answers.add(answer(receiving.value))
        [told] = answers
        async with connection.sender("/amq/queue/nobody") as sender:
            assert await sender.send("lost") == Accepted()
    return differs(
        f"for an unknown queue to receive from {told}; one to send to is taken, "
        "and messages to it are accepted and lost"
    )


@scenario("the peer closes the link", RABBITMQ)
async def detached(stage: Brokered) -> Played:
    address = await stage.declare("deleted")
    async with stage.connect() as connection:
        receiver = await connection.receiver(address)
        await to_thread(delete, stage, "deleted")
        with pytest.raises(OperationTimedOut):
            await receiver.receive(timeout=SILENCE)
        await fallen_silent(connection, address)
    return differs("does not tell that the queue was deleted, and says nothing any more on this connection")


async def fallen_silent(connection: Connection, address: str) -> None:
    """The broker does not answer an attach any more, nor a close; neither hangs."""
    with pytest.raises(OperationTimedOut):
        await connection.sender(address, timeout=SILENCE)
    await connection.close(timeout=SILENCE)


def delete(stage: Brokered, queue: str) -> None:
    """Delete a queue, through AMQP 0-9-1."""
    pika: Any = import_module("pika")
    parts = urlsplit(stage.broker.url)
    credentials = pika.PlainCredentials(USER, PASSWORD)
    parameters = pika.ConnectionParameters(parts.hostname, parts.port, credentials=credentials)
    connection = pika.BlockingConnection(parameters)
    connection.channel().queue_delete(queue)
    connection.close()


@scenario("a link's name used again", RABBITMQ)
async def name_again(stage: Brokered) -> Played:
    address = await stage.declare("name-again")
    async with stage.connect() as connection:
        for number in range(3):
            async with connection.sender(address, name="a name") as sender:
                await sender.send(f"{number}")
            async with connection.receiver(address, name="a name") as receiver:
                assert (await receiver.receive()).message.body == f"{number}"
    return None


@scenario("one name, both directions", RABBITMQ)
async def one_name(stage: Brokered) -> Played:
    address = await stage.declare("one-name")
    async with (
        stage.connect() as connection,
        connection.sender(address, name="a name") as sender,
        connection.receiver(address, name="a name") as receiver,
    ):
        await sender.send("x")
        assert (await receiver.receive()).message.body == "x"
    return None


@scenario("1,000 links", RABBITMQ)
async def thousand_links(stage: Brokered) -> Played:
    address = await stage.declare("links")
    async with stage.connect() as connection:
        senders = await asyncio.gather(*(connection.sender(address) for _ in range(1000)))
        outcomes = await asyncio.gather(*(sender.send("x") for sender in senders))
        assert outcomes == [Accepted()] * 1000
        await asyncio.gather(*(sender.close() for sender in senders))
        assert connection.counters.links == 0
    assert await stage.depth("links") == 1000
    return None


@scenario("dynamic source", RABBITMQ)
async def dynamic_source(stage: Brokered) -> Played:
    async with bystander(stage) as connection:
        with pytest.raises(SessionEnded) as refused:
            await connection.receiver(None)
    return refuses(refused.value)


@scenario("dynamic target", RABBITMQ)
async def dynamic_target(stage: Brokered) -> Played:
    async with bystander(stage) as connection:
        with pytest.raises(SessionEnded) as refused:
            await connection.sender(None, dynamic=True)
    return refuses(refused.value)


@scenario("request and reply", RABBITMQ)
async def request(stage: Brokered) -> Played:
    questions, answers = await stage.declare("questions"), await stage.declare("answers")

    async def serve(connection: Connection) -> None:
        async with connection.receiver(questions) as receiver, connection.sender(answers) as sender:
            for _ in range(3):
                question = (await receiver.receive()).message
                assert question.reply_to == answers
                await sender.send(Message(question.body, correlation_id=question.message_id))

    async with bystander(stage) as connection:
        with pytest.raises(SessionEnded) as refused:
            await connection.requester(questions)
        async with connection.requester(questions, reply_to=answers) as requester:
            serving = asyncio.ensure_future(serve(connection))
            replies = await asyncio.gather(*(requester.request(f"{n}") for n in range(3)))
            assert [reply.body for reply in replies] == ["0", "1", "2"]
            await serving
    return differs(f"without a named queue for the replies {answer(refused.value)}; with one it works")


@scenario("null target address", RABBITMQ)
async def relay(stage: Brokered) -> Played:
    async with bystander(stage) as connection:
        with pytest.raises(SessionEnded) as refused:
            await connection.sender(None)
    return refuses(refused.value)


@scenario("copy instead of move", RABBITMQ)
async def copy(stage: Brokered) -> Played:
    address = await stage.declare("copied")
    async with stage.connect() as connection:
        async with connection.sender(address) as sender:
            await sender.send("x")
        async with connection.receiver(address, mode="copy") as receiver:
            assert (await receiver.receive()).message.body == "x"
    assert await stage.depth("copied") == 0
    return differs("its answer says copy, and the messages are moved")


@scenario("selector", RABBITMQ)
async def selector(stage: Brokered) -> Played:
    address = await stage.declare("selected")
    async with stage.connect() as connection:
        async with connection.sender(address) as sender:
            for colour in ("red", "green"):
                await sender.send(Message("x", application_properties={"colour": colour}))
        async with connection.receiver(address, selector="colour = 'red'") as receiver:
            assert [*receiver.filters] == ["apache.org:selector-filter:string"]
            messages = [(await receiver.receive()).message for _ in range(2)]
    assert [message.application_properties["colour"] for message in messages] == ["red", "green"]
    return differs("its answer repeats the filter, and all messages come")

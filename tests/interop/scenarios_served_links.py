"""Our client with Proton and rhea as servers: connections, sessions and links."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from importlib.util import find_spec

import pytest

from amqpforge import (
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    Credentials,
    LinkDetached,
    Message,
    NegotiationFailed,
    Reconnect,
    SessionEnded,
)
from amqpforge_protocol.amqp_1_0 import Accepted
from tests.interop.payload import digest, octets
from tests.interop.results import Message as Spec
from tests.interop.results import PeerError
from tests.interop.scenarios import (
    SERVERS,
    Played,
    Served,
    client_tls,
    differs,
    lacks,
    refuses,
    scenario,
    untried,
)
from tests.interop.stacks import need

USERS = {"ann": "secret"}
IDLE = 0.8
"""Seconds of silence after which our client gives up; the servers do after as long."""

untried("no SASL layer", "our client asks for SASL first, and the peer has it", *SERVERS)


# --- connections --------------------------------------------------------------------------------------------


@scenario("ANONYMOUS", *SERVERS)
async def anonymous(stage: Served) -> Played:
    async with stage.connect(container_id="ours") as connection:
        assert connection.mechanism == "ANONYMOUS"
        [opened] = await to_thread(stage.server.clients)
        assert (opened.container_id, opened.mechanism) == ("ours", "ANONYMOUS")
    assert await to_thread(stage.server.clients) == []
    return None


@scenario("PLAIN", *SERVERS)
async def plain(stage: Served) -> Played:
    try:
        url = await to_thread(stage.server.listen, users=USERS)
    except PeerError as error:
        return lacks(error)
    async with stage.connect(url, username="ann", password="secret") as connection:
        assert connection.mechanism == "PLAIN"
        assert [opened.user for opened in await to_thread(stage.server.clients)] == ["ann"]
    return None


@scenario("PLAIN with a wrong password", *SERVERS)
async def wrong_password(stage: Served) -> Played:
    try:
        url = await to_thread(stage.server.listen, users=USERS)
    except PeerError as error:
        return lacks(error)
    with pytest.raises(AuthenticationFailed, match="refused the credentials"):
        await stage.connect(url, username="ann", password="wrong")
    return None


@scenario("SCRAM-SHA-256", *SERVERS)
async def scram(stage: Served) -> Played:
    users = USERS if stage.kind == "rhea" else None
    url = await to_thread(stage.server.listen, users=users)
    shown = Credentials(username="ann", password="secret", mechanisms=("SCRAM-SHA-256",))
    with pytest.raises(AuthenticationFailed) as refused:
        await stage.connect(url, credentials=shown)
    return lacks(refused.value)


@scenario("EXTERNAL, by the client's certificate", *SERVERS)
async def external(stage: Served) -> Played:
    certificates = stage.certificates
    url = await to_thread(
        stage.server.listen, scheme="amqps", certificates=certificates, asks_certificate=True
    )
    context = client_tls(certificates, shows_certificate=True)
    async with stage.connect(url, ssl=context, credentials=Credentials(external=True)) as connection:
        assert connection.mechanism == "EXTERNAL"
        async with connection.sender("external") as sender:
            assert await sender.send("hello") == Accepted()
    with pytest.raises(ConnectionClosed):
        await stage.connect(url, ssl=client_tls(certificates), credentials=Credentials(external=True))
    return None


@scenario("TLS from the first octet", *SERVERS)
async def tls(stage: Served) -> Played:
    url = await to_thread(stage.server.listen, scheme="amqps", certificates=stage.certificates)
    async with (
        stage.connect(url, ssl=client_tls(stage.certificates)) as connection,
        connection.sender("tls") as sender,
    ):
        assert await sender.send(octets(0, 100_000)) == Accepted()
    [taken] = await to_thread(stage.server.take, "tls")
    assert taken.body.sha256 == digest(0, 100_000)
    with pytest.raises(NegotiationFailed, match="CERTIFICATE_VERIFY_FAILED"):
        await stage.connect(url)
    return None


@scenario("TLS by protocol header", *SERVERS)
async def tls_by_header(stage: Served) -> Played:
    with pytest.raises(NegotiationFailed) as refused:
        await stage.connect(ssl=client_tls(stage.certificates))
    return refuses(refused.value)


@scenario("WebSocket", *SERVERS)
async def websocket(stage: Served) -> Played:
    need(None if find_spec("websockets") else "websockets is not installed (pip install websockets)")
    try:
        url = await to_thread(stage.server.listen, scheme="amqp+ws")
    except PeerError as error:
        return lacks(error)
    async with stage.connect(url) as connection, connection.sender("websocket") as sender:
        assert await sender.send(octets(0, 100_000)) == Accepted()
    [taken] = await to_thread(stage.server.take, "websocket")
    assert taken.body.sha256 == digest(0, 100_000)
    return None


@scenario("virtual host", *SERVERS)
async def virtual_host(stage: Served) -> Played:
    async with stage.connect(hostname="a host") as _:
        assert [opened.hostname for opened in await to_thread(stage.server.clients)] == ["a host"]
    return None


@scenario("frames of 512 octets", *SERVERS)
async def small_frames(stage: Served) -> Played:
    url = await to_thread(stage.server.listen, max_frame_size=512)
    async with stage.connect(url, max_frame_size=512) as connection:
        async with connection.sender("frames") as sender, connection.receiver("frames") as receiver:
            await sender.send(octets(1, 10_000))
            delivery = await receiver.receive()
            assert delivery.message.body == octets(1, 10_000)
        assert connection.counters.frames_sent > 20
        assert connection.counters.frames_received > 20
    return None


@scenario("heartbeats over idle", *SERVERS)
async def heartbeats(stage: Served) -> Played:
    url = await to_thread(stage.server.listen, idle_time_out=round(1000 * IDLE))
    async with stage.connect(url, idle_time_out=IDLE) as connection:
        assert connection.remote is not None
        assert connection.remote.idle_time_out is not None
        before = connection.counters
        await asyncio.sleep(1.5 * IDLE)
        after = connection.counters
        assert connection.is_connected
        assert after.frames_sent - before.frames_sent >= 2
        assert after.frames_received - before.frames_received >= 2
        async with connection.sender("idle") as sender:
            assert await sender.send("still there") == Accepted()
    return None


@scenario("the peer closes the connection", *SERVERS)
async def closed(stage: Served) -> Played:
    async with (
        stage.connect() as connection,
        connection.receiver("closed") as receiver,
        connection.sender("closed") as sender,
    ):
        receiving = asyncio.ensure_future(receiver.receive())
        await to_thread(stage.server.disconnect, "amqp:connection:forced", "closing time")
        with pytest.raises(ConnectionClosed, match="closing time") as over:
            await receiving
        assert over.value.condition == "amqp:connection:forced"
        with pytest.raises(ConnectionClosed, match="closing time"):
            await sender.send("too late")
    return None


@scenario("back after a lost connection", *SERVERS)
async def back(stage: Served) -> Played:
    async with (
        stage.connect(reconnect=Reconnect(first_delay=0.02)) as connection,
        connection.receiver("back") as receiver,
        connection.sender("back") as sender,
    ):
        await sender.send("before")
        assert (await receiver.receive()).message.body == "before"
        await to_thread(stage.server.settle, "back")
        await to_thread(stage.server.disconnect, "amqp:connection:forced", "closing time")
        assert await sender.send("after") == Accepted()
        assert (await receiver.receive()).message.body == "after"
        assert connection.counters.reconnects == 1
    return None


# --- sessions and links -------------------------------------------------------------------------------------


@scenario("the peer ends the session", *SERVERS)
async def ended(stage: Served) -> Played:
    async with stage.connect() as connection:
        async with connection.receiver("ended") as receiver:
            receiving = asyncio.ensure_future(receiver.receive())
            await to_thread(stage.server.end, "ended", "amqp:resource-limit-exceeded", "enough")
            with pytest.raises(SessionEnded, match="enough") as over:
                await receiving
            assert over.value.condition == "amqp:resource-limit-exceeded"
        async with connection.sender("ended") as sender:
            assert await sender.send("on another session") == Accepted()
    async with (
        stage.connect(reconnect=Reconnect()) as connection,
        connection.receiver("again") as receiver,
        connection.sender("another") as sender,
    ):
        for _ in range(3):
            await to_thread(stage.server.end, "again", "amqp:resource-limit-exceeded", "enough")
            assert await sender.send("here") == Accepted()
            await to_thread(stage.server.put, "again")
            assert (await receiver.receive()).message.message_id == "m-0"
        assert receiver.counters.reattached == 3
        assert sender.counters.reattached == 2  # The second time each got a session of its own.
        assert connection.counters.reconnects == 0
    return None


@scenario("the peer refuses the link", *SERVERS)
async def refused(stage: Served) -> Played:
    await to_thread(stage.server.refuse, "locked", "amqp:unauthorized-access", "no key")
    async with stage.connect() as connection:
        for opening in (connection.sender("locked"), connection.receiver("locked")):
            with pytest.raises(LinkDetached, match="no key") as error:
                await opening
            assert error.value.condition == "amqp:unauthorized-access"
        async with connection.sender("unlocked") as sender:
            assert await sender.send("here") == Accepted()
    return None


@scenario("the peer closes the link", *SERVERS)
async def detached(stage: Served) -> Played:
    async with (
        stage.connect() as connection,
        connection.receiver("detached") as receiver,
        connection.sender("untouched") as sender,
    ):
        receiving = asyncio.ensure_future(receiver.receive())
        await to_thread(stage.server.detach, "detached", "amqp:resource-deleted", "gone")
        with pytest.raises(LinkDetached, match="gone") as error:
            await receiving
        assert error.value.condition == "amqp:resource-deleted"
        assert await sender.send("here") == Accepted()
    return None


@scenario("a link's name used again", *SERVERS)
async def name_again(stage: Served) -> Played:
    async with stage.connect() as connection:
        for number in range(3):
            async with connection.sender("again-by-name", name="a name") as sender:
                await sender.send(f"{number}")
            async with connection.receiver("again-by-name", name="a name") as receiver:
                assert (await receiver.receive()).message.body == f"{number}"
    return None


@scenario("one name, both directions", *SERVERS)
async def one_name(stage: Served) -> Played:
    async with stage.connect() as connection:
        sender = await connection.sender("one-name", name="a name")
        try:
            receiver = await connection.receiver("one-name", name="a name")
        except ConnectionLost:
            return differs("cuts the connection at the second attach: names are unique in a session for it")
        await sender.send("x")
        assert (await receiver.receive()).message.body == "x"
    return None


@scenario("1,000 links", *SERVERS)
async def thousand_links(stage: Served) -> Played:
    async with stage.connect() as connection:
        senders = await asyncio.gather(*(connection.sender("links") for _ in range(1000)))
        outcomes = await asyncio.gather(*(sender.send("x") for sender in senders))
        assert outcomes == [Accepted()] * 1000
        await asyncio.gather(*(sender.close() for sender in senders))
        assert connection.counters.links == 0
    assert await to_thread(stage.server.depth, "links") == 1000
    return None


@scenario("dynamic source", *SERVERS)
async def dynamic_source(stage: Served) -> Played:
    async with (
        stage.connect() as connection,
        connection.receiver(None) as receiver,
        connection.receiver(None) as other,
    ):
        assert isinstance(receiver.address, str)
        assert receiver.address != other.address
        async with connection.sender(receiver.address) as sender:
            await sender.send("to a node of its own")
        assert (await receiver.receive()).message.body == "to a node of its own"
    return None


@scenario("dynamic target", *SERVERS)
async def dynamic_target(stage: Served) -> Played:
    async with stage.connect() as connection, connection.sender(None, dynamic=True) as sender:
        assert isinstance(sender.address, str)
        await sender.send("x")
        [taken] = await to_thread(stage.server.take, sender.address)
        assert taken.body.text == "x"
    return None


@scenario("request and reply", *SERVERS)
async def request(stage: Served) -> Played:
    await to_thread(stage.server.echo, "echo")
    async with stage.connect() as connection, connection.requester("echo") as requester:
        replies = await asyncio.gather(*(requester.request(f"{n}") for n in range(10)))
        assert [reply.body for reply in replies] == [f"{n}" for n in range(10)]
    return None


@scenario("null target address", *SERVERS)
async def relay(stage: Served) -> Played:
    async with stage.connect() as connection, connection.sender(None) as sender:
        for address in ("relayed", "relayed too"):
            await sender.send(Message("x", to=address))
            assert len(await to_thread(stage.server.take, address)) == 1
    return None


@scenario("copy instead of move", *SERVERS)
async def copy(stage: Served) -> Played:
    await to_thread(stage.server.put, "copied", 3)
    async with stage.connect() as connection:
        for _ in range(2):
            async with connection.receiver("copied", mode="copy") as receiver:
                seen = [(await receiver.receive()).message.message_id for _ in range(3)]
            assert seen == ["m-0", "m-1", "m-2"]
    assert await to_thread(stage.server.depth, "copied") == 3
    return None


@scenario("selector", *SERVERS)
async def selector(stage: Served) -> Played:
    for colour in ("red", "green"):
        message = Spec(application_properties={"colour": colour})
        await to_thread(stage.server.put, "selected", 1, message)
    async with (
        stage.connect() as connection,
        connection.receiver("selected", selector="colour = 'red'", check_filters=False) as receiver,
    ):
        assert receiver.filters == {}
        messages = [(await receiver.receive()).message for _ in range(2)]
    assert [message.application_properties["colour"] for message in messages] == ["red", "green"]
    return differs("its answer is without the filter, and all messages come")

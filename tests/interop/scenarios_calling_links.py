"""Our node with clients made of Proton and rhea: connections, sessions and links."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from amqpforge import Message, connect
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.sasl import UserStore
from amqpforge.testing import NodeConnection, ScriptedNode
from amqpforge_protocol.amqp_1_0 import Accepted, Error, Open, Symbol
from tests.interop.certificates import CLIENT_NAME
from tests.interop.payload import digest, octets
from tests.interop.results import Answer, Opened, PeerError
from tests.interop.results import Message as Spec
from tests.interop.scenarios import (
    CLIENTS,
    Calling,
    Played,
    lacks,
    scenario,
    server_tls,
    untried,
)

USERS = {"ann": "secret", CLIENT_NAME: "secret"}
IDLE = 0.8
"""Seconds of silence after which our node gives up; the clients do after as long."""
SELECTOR = "apache.org:selector-filter:string"

untried("TLS by protocol header", "the client cannot ask for it", *CLIENTS)
untried("WebSocket", "our node has none", *CLIENTS)
untried("back after a lost connection", "the client of these tests does not come back", *CLIENTS)
untried("a link's name used again", "the client of these tests gives each link a name of its own", *CLIENTS)
untried("one name, both directions", "the client of these tests gives each link a name of its own", *CLIENTS)
untried("dynamic target", "the client of these tests asks for dynamic sources alone", *CLIENTS)


# --- connections --------------------------------------------------------------------------------------------


@scenario("no SASL layer", *CLIENTS)
async def no_sasl(stage: Calling) -> Played:
    async with ScriptedNode() as node:
        await to_thread(stage.client.connect, node.url, mechanism=None)
        assert [connection.user for connection in node.connections] == [None]
        await to_thread(stage.client.close)
    return None


@scenario("ANONYMOUS", *CLIENTS)
async def anonymous(stage: Calling) -> Played:
    async with ScriptedNode("our node") as node:
        opened: Opened = await to_thread(stage.client.connect, node.url, container_id="theirs")
        assert (opened.container_id, opened.mechanism) == ("our node", "ANONYMOUS")
        assert [(each.user, each.peer) for each in node.connections] == [("anonymous", "theirs")]
        await to_thread(stage.client.close)
    return None


@scenario("PLAIN", *CLIENTS)
async def plain(stage: Calling) -> Played:
    async with ScriptedNode(users=USERS) as node:
        await to_thread(stage.client.connect, node.url, mechanism="PLAIN", user="ann", password="secret")
        assert [connection.user for connection in node.connections] == ["ann"]
        await to_thread(stage.client.close)
    return None


@scenario("PLAIN with a wrong password", *CLIENTS)
async def wrong_password(stage: Calling) -> Played:
    async with ScriptedNode(users=USERS) as node:
        with pytest.raises(PeerError) as refused:
            await to_thread(stage.client.connect, node.url, mechanism="PLAIN", user="ann", password="wrong")
        assert (refused.value.where, refused.value.condition) == ("transport", "amqp:unauthorized-access")
        assert node.received(Open) == []
    return None


@scenario("SCRAM-SHA-256", *CLIENTS)
async def scram(stage: Calling) -> Played:
    # rhea chooses by itself from what it has been given, and has no such mechanism to be told of.
    wanted = "SCRAM-SHA-256" if stage.kind == "proton" else "PLAIN"
    async with ScriptedNode(users=USERS, mechanisms=("SCRAM-SHA-256",)) as node:
        with pytest.raises(PeerError) as refused:
            await to_thread(stage.client.connect, node.url, mechanism=wanted, user="ann", password="secret")
        assert node.received(Open) == []
    return lacks(refused.value)


@scenario("EXTERNAL, by the client's certificate", *CLIENTS)
async def external(stage: Calling) -> Played:
    users = UserStore(USERS, mechanisms=("EXTERNAL",))
    context = server_tls(stage.certificates, asks_certificate=True)
    async with ScriptedNode(ssl=context, authenticator=users) as node:
        await to_thread(
            stage.client.connect,
            secured(node),
            mechanism="EXTERNAL",
            certificates=stage.certificates,
            shows_certificate=True,
        )
        assert [connection.user for connection in node.connections] == [CLIENT_NAME]
        await to_thread(stage.client.close)
        with pytest.raises(PeerError, match="certificate"):
            await to_thread(
                stage.client.connect,
                secured(node),
                mechanism="EXTERNAL",
                certificates=stage.certificates,
            )
    return None


def secured(node: ScriptedNode) -> str:
    """The URL of a node by the name that is in its certificate."""
    return f"amqps://localhost:{node.port}"


@scenario("TLS from the first octet", *CLIENTS)
async def tls(stage: Calling) -> Played:
    async with ScriptedNode(ssl=server_tls(stage.certificates)) as node:
        await to_thread(stage.client.connect, secured(node), certificates=stage.certificates)
        await to_thread(stage.client.send, "q", 1, Spec(size=100_000))
        assert [message.body for message in node.messages("q")] == [octets(0, 100_000)]
        await to_thread(stage.client.close)
    return None


@scenario("virtual host", *CLIENTS)
async def virtual_host(stage: Calling) -> Played:
    async with ScriptedNode() as node:
        await to_thread(stage.client.connect, node.url, hostname="a host")
        assert [open.hostname for open in node.received(Open)] == ["a host"]
        await to_thread(stage.client.close)
    return None


@scenario("frames of 512 octets", *CLIENTS)
async def small_frames(stage: Calling) -> Played:
    async with ScriptedNode(settings=ConnectionSettings(max_frame_size=512)) as node:
        await to_thread(stage.client.connect, node.url, max_frame_size=512)
        await to_thread(stage.client.send, "q", 1, Spec(size=10_000))
        [received] = (await to_thread(stage.client.receive, "q")).messages
        assert received.body.sha256 == digest(0, 10_000)
        assert {len(seen.octets) <= 512 for seen in node.frames} == {True}
        await to_thread(stage.client.close)
    return None


@scenario("heartbeats over idle", *CLIENTS)
async def heartbeats(stage: Calling) -> Played:
    async with ScriptedNode(settings=ConnectionSettings(idle_time_out=IDLE)) as node:
        await to_thread(stage.client.connect, node.url, idle_time_out=round(1000 * IDLE))
        idle = await to_thread(stage.client.idle, 1.5 * IDLE)
        assert idle.is_open
        assert idle.octets_in >= 16
        assert idle.octets_out >= 16
        await to_thread(stage.client.send, "q")
        await to_thread(stage.client.close)
    return None


@asynccontextmanager
async def fault(
    stage: Calling, node: ScriptedNode, where: str, condition: str, description: str
) -> AsyncIterator[NodeConnection]:
    """The client receives, with its link attached; what the block does has to end that with this error."""
    receiving = asyncio.ensure_future(to_thread(stage.client.receive, "q"))
    [connection] = node.connections
    await node.wait_for(lambda: [link for link in connection.links if link.is_attached])
    yield connection
    with pytest.raises(PeerError) as raised:
        await receiving
    error = raised.value
    assert (error.where, error.condition, error.description) == (where, condition, description)


@scenario("the peer closes the connection", *CLIENTS)
async def closed(stage: Calling) -> Played:
    async with ScriptedNode() as node:
        await to_thread(stage.client.connect, node.url)
        said = ("amqp:connection:forced", "closing time")
        async with fault(stage, node, "connection", *said) as connection:
            connection.close(Error(condition=Symbol(said[0]), description=said[1]))
        await node.wait_for(lambda: not node.connections)
    return None


# --- sessions and links -------------------------------------------------------------------------------------


@scenario("the peer ends the session", *CLIENTS)
async def ended(stage: Calling) -> Played:
    async with stage.node() as node:
        said = ("amqp:resource-limit-exceeded", "enough")
        async with fault(stage, node, "session", *said) as connection:
            [session] = connection.engine.sessions
            connection.end(session, Error(condition=Symbol(said[0]), description=said[1]), is_sent=True)
        await to_thread(stage.client.send, "q")
        assert len(node.queue("q")) == 1
    return None


@scenario("the peer refuses the link", *CLIENTS)
async def refused(stage: Calling) -> Played:
    async with stage.node(makes_queues=False, queues=["known"]) as node:
        for attempt in (lambda: stage.client.send("unknown"), lambda: stage.client.receive("unknown")):
            with pytest.raises(PeerError) as error:
                await to_thread(attempt)
            assert (error.value.where, error.value.condition) == ("link", "amqp:not-found")
            assert error.value.description == "there is no node 'unknown' here"
        await to_thread(stage.client.send, "known")
        assert len(node.queue("known")) == 1
    return None


@scenario("the peer closes the link", *CLIENTS)
async def detached(stage: Calling) -> Played:
    async with stage.node() as node:
        said = ("amqp:resource-deleted", "gone")
        async with fault(stage, node, "link", *said) as connection:
            [link] = connection.links
            error = Error(condition=Symbol(said[0]), description=said[1])
            connection.detach(link.name, error, closed=True)
        await to_thread(stage.client.send, "q")
    return None


@scenario("1,000 links", *CLIENTS)
async def thousand_links(stage: Calling) -> Played:
    async with stage.node() as node:
        links = await to_thread(stage.client.links, "links", 1000)
        assert (links.opened, links.accepted, links.closed, links.error) == (1000, 1000, 1000, None)
        assert len(node.queue("links")) == 1000
        assert not node.container.links
    return None


@scenario("dynamic source", *CLIENTS)
async def dynamic_source(stage: Calling) -> Played:
    async with stage.node() as node:
        dynamic = await to_thread(stage.client.dynamic, 3)
        assert [each.properties["message_id"] for each in dynamic.messages] == ["m-0", "m-1", "m-2"]
        assert dynamic.address.startswith("foreign-client/")
        assert dynamic.address not in node.queues
    return None


@scenario("request and reply", *CLIENTS)
async def request(stage: Calling) -> Played:
    async with stage.node() as node, connect(node.url) as connection:

        async def serve() -> None:
            async with connection.receiver("questions") as receiver, connection.sender(None) as sender:
                for _ in range(3):
                    question = (await receiver.receive()).message
                    answer = Message(question.body, to=question.reply_to, correlation_id=question.message_id)
                    assert await sender.send(answer) == Accepted()

        serving = asyncio.ensure_future(serve())
        replies = await to_thread(stage.client.request, "questions", 3)
        assert [each.properties["correlation_id"] for each in replies.messages] == ["m-0", "m-1", "m-2"]
        await serving

        responding = asyncio.ensure_future(to_thread(stage.client.respond, "services", 3))
        async with connection.requester("services") as requester:
            answers = await asyncio.gather(*(requester.request(f"{n}") for n in range(3)))
            assert [answer.body for answer in answers] == ["0", "1", "2"]
        assert len(await responding) == 3
        await connection.close()
        await node.wait_for(lambda: len(node.connections) == 1)
    return None


@scenario("null target address", *CLIENTS)
async def relay(stage: Calling) -> Played:
    async with stage.node() as node:
        await to_thread(stage.client.send, None, 2, Spec(properties={"to": "elsewhere"}))
        assert len(node.queue("elsewhere")) == 2
    return None


@scenario("copy instead of move", *CLIENTS)
async def copy(stage: Calling) -> Played:
    async with stage.node() as node:
        for number in range(3):
            node.put("copied", Message("x", message_id=f"{number}"))
        for _ in range(2):
            receipt = await to_thread(stage.client.receive, "copied", 3, copy=True)
            assert [each.properties["message_id"] for each in receipt.messages] == ["0", "1", "2"]
        assert node.queue("copied").depth == 3
    return None


@scenario("selector", *CLIENTS)
async def selector(stage: Calling) -> Played:
    def admits(message: Message, expression: object) -> bool:
        assert expression == "colour = 'red'"
        return message.application_properties.get("colour") == "red"

    async with stage.node(filters={SELECTOR: admits}) as node:
        for colour in ("green", "red", "blue", "red"):
            node.put("selected", Message("x", application_properties={"colour": colour}))
        receipt = await to_thread(
            stage.client.receive, "selected", 2, answer=Answer("accepted"), selector="colour = 'red'"
        )
        assert receipt.attached.filters == ["selector"]
        assert [each.application_properties for each in receipt.messages] == [{"colour": "red"}] * 2
        assert node.queue("selected").depth == 2
    return None

"""Clients made of ours, Proton and rhea with our broker: connections."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from amqpforge.broker.access import Permissions
from amqpforge.broker.broker import Broker
from amqpforge.broker.config import Grace, ListenerConfig, Start, TlsFiles, VirtualHostConfig
from amqpforge.broker.limits import BrokerLimits
from tests.interop.caller import Caller, configured
from tests.interop.certificates import CLIENT_NAME
from tests.interop.payload import digest
from tests.interop.results import Message as Spec
from tests.interop.results import PeerError
from tests.interop.scenarios import CALLERS, FOREIGN, Played, lacks, scenario, untried

USERS = {"ann": "secret", CLIENT_NAME: "secret"}
LOGIN: dict[str, Any] = {"mechanism": "PLAIN", "user": "ann", "password": "secret"}
IDLE = 0.8
"""Seconds of silence after which our broker gives up; the clients do after as long."""

untried("TLS by protocol header", "the client cannot ask for it", *FOREIGN)
untried("WebSocket", "our broker has none", *CALLERS)


@scenario("no SASL layer", *CALLERS)
async def no_sasl(stage: Caller) -> Played:
    async with stage.ground(mechanism=None) as ground:
        assert [head.actor and head.actor.user for head in ground.heads] == ["anonymous"]
    async with stage.ground(passwords=USERS, connects=False) as ground:
        with pytest.raises(PeerError) as refused:
            await to_thread(stage.client.connect, ground.relay.url, mechanism=None)
        assert refused.value.where == "transport"
        await ground.until(lambda: not ground.heads)
    return None


@scenario("ANONYMOUS", *CALLERS)
async def anonymous(stage: Caller) -> Played:
    async with stage.ground(connects=False) as ground:
        opened = await to_thread(stage.client.connect, ground.relay.url, container_id="theirs")
        assert opened.mechanism == "ANONYMOUS"
        assert opened.offered_capabilities == ["ANONYMOUS-RELAY"]
        assert opened.properties["product"] == "amqpforge"
        [head] = ground.heads
        assert (head.peer, head.actor and head.actor.user) == ("theirs", "anonymous")
        await to_thread(stage.client.close)
    return None


@scenario("PLAIN", *CALLERS)
async def plain(stage: Caller) -> Played:
    async with stage.ground(passwords=USERS, **LOGIN) as ground:
        assert [head.actor and head.actor.user for head in ground.heads] == ["ann"]
    return None


@scenario("PLAIN with a wrong password", *CALLERS)
async def wrong_password(stage: Caller) -> Played:
    async with stage.ground(passwords=USERS, connects=False) as ground:
        for user in ("ann", "nobody"):
            with pytest.raises(PeerError) as refused:
                await to_thread(
                    stage.client.connect, ground.relay.url, mechanism="PLAIN", user=user, password="wrong"
                )
            assert refused.value.where == "transport"
            await ground.until(lambda: not ground.heads)
    return None


@scenario("SCRAM-SHA-256", *CALLERS)
async def scram(stage: Caller) -> Played:
    # rhea chooses by itself from what it has been given, and has no such mechanism to be told of.
    wanted = "PLAIN" if stage.kind == "rhea" else "SCRAM-SHA-256"
    config = configured(mechanisms=("SCRAM-SHA-256",))
    async with stage.ground(config, passwords=USERS, connects=False) as ground:
        connect = partial(stage.client.connect, ground.relay.url, mechanism=wanted, user="ann")
        try:
            opened = await to_thread(connect, password="secret")
        except PeerError as refused:
            await ground.until(lambda: not ground.heads)
            return lacks(refused)
        assert opened.mechanism == "SCRAM-SHA-256"
        assert [head.actor and head.actor.user for head in ground.heads] == ["ann"]
        await to_thread(stage.client.close)
        with pytest.raises(PeerError, match="refused the credentials"):
            await to_thread(connect, password="wrong")
    return None


def secured(stage: Caller, start: Start = Start.AT_ONCE, *, asks: bool = False) -> tuple[ListenerConfig, ...]:
    """A listener with TLS that may ask for certificates of clients."""
    files = stage.certificates
    tls = TlsFiles(
        certificate=files.server,
        key=files.server_key,
        client_ca=files.authority if asks else None,
        client_required=asks,
        start=start,
    )
    return (ListenerConfig(port=0, tls=tls),)


@scenario("EXTERNAL, by the client's certificate", *CALLERS)
async def external(stage: Caller) -> Played:
    config = configured(listeners=secured(stage, asks=True))
    async with Broker(config, passwords=USERS) as broker:
        url = f"amqps://localhost:{broker.ports[0].number}"
        connect = partial(stage.client.connect, url, mechanism="EXTERNAL", certificates=stage.certificates)
        await to_thread(connect, shows_certificate=True)
        service = broker._amqp_1_0
        assert service is not None
        assert [head.actor and head.actor.user for head in service.heads] == [CLIENT_NAME]
        await to_thread(stage.client.close)
        with pytest.raises(PeerError):
            await to_thread(connect)
    return None


@scenario("TLS from the first octet", *CALLERS)
async def tls(stage: Caller) -> Played:
    return await over_tls(stage, "amqps", Start.AT_ONCE)


@scenario("TLS by protocol header", "our client")
async def tls_by_header(stage: Caller) -> Played:
    return await over_tls(stage, "amqp", Start.REQUIRED)


async def over_tls(stage: Caller, scheme: str, start: Start) -> Played:
    async with Broker(configured(listeners=secured(stage, start))) as broker:
        broker.hosts["/"].declare_queue("q")
        url = f"{scheme}://localhost:{broker.ports[0].number}"
        await to_thread(stage.client.connect, url, certificates=stage.certificates)
        await to_thread(stage.client.send, "q", 1, Spec(size=100_000))
        [received] = (await to_thread(stage.client.receive, "q")).messages
        assert received.body.sha256 == digest(0, 100_000)
        await to_thread(stage.client.close)
    return None


@scenario("virtual host", *CALLERS)
async def virtual_host(stage: Caller) -> Played:
    async with stage.ground(hostname="vhost:other") as ground:
        ground.broker.hosts["other"].declare_queue("there")
        await to_thread(stage.client.send, "there")
        assert ground.broker.hosts["other"].queue("there").ready == 1
        ground.broker.hosts["other"].delete_queue("there")
    async with stage.ground(connects=False) as ground:

        def lets_in_nobody() -> None:
            """The close may come with the open, or behind it."""
            stage.client.connect(ground.relay.url, hostname="vhost:none")
            stage.client.send("anywhere")

        with pytest.raises(PeerError) as refused:
            await to_thread(lets_in_nobody)
        assert (refused.value.where, refused.value.condition) == ("connection", "amqp:not-found")
        assert refused.value.description == "there is no virtual host 'none' here"
    return None


@scenario("user without permission", *CALLERS)
async def no_permission(stage: Caller) -> Played:
    rights = {"ann": Permissions.of(write="in"), CLIENT_NAME: Permissions.of(read="out")}
    config = configured(virtual_hosts={"/": VirtualHostConfig(permissions=rights)})
    async with stage.ground(config, passwords=USERS, **LOGIN) as ground:
        for name in ("in", "out"):
            ground.host.declare_queue(name)
        await to_thread(stage.client.send, "in")
        await ground.holds("in", 1)
        attempts: list[Callable[[], object]] = [
            partial(stage.client.receive, "in"),
            partial(stage.client.send, "out"),
            partial(stage.client.receive, "out"),
            partial(stage.client.dynamic),
        ]
        for attempt in attempts:
            with pytest.raises(PeerError) as error:
                await to_thread(attempt)
            assert (error.value.where, error.value.condition) == ("link", "amqp:unauthorized-access")
    return None


@scenario("frames of 512 octets", *CALLERS)
async def small_frames(stage: Caller) -> Played:
    config = configured(limits=BrokerLimits(frame_size=512))
    async with stage.ground(config, max_frame_size=512) as ground:
        queue = ground.queue("small")
        await to_thread(stage.client.send, queue, 1, Spec(size=10_000))
        [received] = (await to_thread(stage.client.receive, queue)).messages
        assert received.body.sha256 == digest(0, 10_000)
    return None


@scenario("heartbeats over idle", *CALLERS)
async def heartbeats(stage: Caller) -> Played:
    config = configured(grace=Grace(idle=IDLE))
    async with stage.ground(config, idle_time_out=round(1000 * IDLE)) as ground:
        queue = ground.queue("idle")
        idle = await to_thread(stage.client.idle, 1.5 * IDLE)
        assert idle.is_open
        assert idle.octets_in >= 16
        assert idle.octets_out >= 16
        await to_thread(stage.client.send, queue)
    return None


@scenario("100 connections", *CALLERS)
async def many_connections(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("many")
        done = await to_thread(stage.client.connections, ground.relay.url, queue, 100)
        assert (done.opened, done.accepted, done.closed) == (100, 100, 100)
        await ground.holds(queue, 100)
    return None


@scenario("the broker stops, and is back", *CALLERS)
async def back(stage: Caller) -> Played:
    config = configured(store=stage.new_store())
    kept = Spec(header={"durable": True})
    async with stage.ground(config, connects=False) as ground:
        await to_thread(stage.client.connect, ground.relay.url)
        queue = ground.queue("kept", durable=True)
        await to_thread(stage.client.send, queue, 3, kept)
        await to_thread(stage.client.send, queue, 1, Spec(message_id="not durable"))
        await ground.holds(queue, 4)
        await ground.broker.stop("closing time")
        with pytest.raises(PeerError) as over:
            await to_thread(stage.client.receive, queue, 0)
        error = over.value
        assert (error.where, error.condition) == ("connection", "amqp:connection:forced")
        assert error.description == "closing time"
    async with stage.ground(config) as ground:
        receipt = await to_thread(stage.client.receive, queue, 3)
        assert [each.properties["message_id"] for each in receipt.messages] == ["m-0", "m-1", "m-2"]
        await ground.holds(queue, 0)
    return None

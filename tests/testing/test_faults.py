"""Connections to the test node, and to a broker, that are cut at any octet; and links that are resumed after
that.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import pytest

from amqpforge.engine.container import Container
from amqpforge.engine.delivery import IncomingDelivery
from amqpforge.engine.link import Link
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.errors import LocalError
from amqpforge.message import Message
from amqpforge.testing import ScriptedBroker, ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    LinkState,
    Open,
    ReceiverSettleMode,
    Source,
    Target,
    TerminusExpiryPolicy,
    Transfer,
)

from .peer import Peer, asynchronous

NEVER = TerminusExpiryPolicy.NEVER
BODIES = ["a", "b" * 300, "c"]


def a_sender() -> Sender:
    """A link whose termini stay, and whose receiver settles second: nothing is lost, or comes twice."""
    return Sender(
        "out",
        source=Source(expiry_policy=NEVER),
        target=Target(address="q", expiry_policy=NEVER),
        rcv_settle_mode=ReceiverSettleMode.SECOND,
    )


def a_receiver() -> Receiver:
    """The same the other way round."""
    return Receiver(
        "in",
        source=Source(address="q", expiry_policy=NEVER),
        target=Target(expiry_policy=NEVER),
        rcv_settle_mode=ReceiverSettleMode.SECOND,
        prefetch=10,
    )


Server: TypeAlias = ScriptedNode | ScriptedBroker


class Exchange:
    """A client that goes on after each cut, with the same link."""

    def __init__(self, node: Server, link: Link) -> None:
        self.node = node
        self.link = link
        self.container = Container("client")
        self.got: dict[bytes, Any] = {}

    async def run(self) -> int:
        """Connect until all is done; returns how often it had to."""
        for attempt in range(1, 4):
            peer = Peer(self.node, container=self.container)
            await peer.connect()
            peer.engine.open()
            peer.session.begin()
            peer.session.attach(self.link)
            self.begin(attempt)
            peer.pump()
            await peer.until(lambda: peer.is_lost or self.is_done(peer))  # noqa: B023
            if not peer.is_lost:
                await peer.close()
            if self.is_done(peer):
                return attempt
        raise AssertionError("it is not done after three connections")

    def begin(self, attempt: int) -> None:
        """The link is being attached."""
        link = self.link
        if attempt == 1 and isinstance(link, Sender):
            for body in BODIES:
                link.send(Message(body).encode())

    def is_done(self, peer: Peer) -> bool:
        """Whether all messages are over, and nothing is left unsettled."""
        link = self.link
        if isinstance(link, Sender):
            return not link.queue and not link.unsettled
        arrived = peer.inbox.pop("in", [])
        for delivery in arrived:
            self.take(delivery)
        if arrived:
            asyncio.get_running_loop().call_soon(peer.pump)
        assert isinstance(link, Receiver)
        return len(self.got) == len(BODIES) and not link.unsettled

    def take(self, delivery: IncomingDelivery) -> None:
        """A message has come, for the first time or again."""
        body = Message.from_octets(delivery.payload).body
        assert self.got.setdefault(delivery.tag, body) == body
        if delivery.state is None:
            delivery.update(Accepted())


async def measure(make: type[Server], link: Link, *, is_written: bool) -> int:
    """How many octets an exchange takes that is not cut."""
    async with make() as node:
        fill(node, link)
        sizes: list[int] = []
        node.script.on(object).do(lambda seen: sizes.append(octets(seen.connection.wire)))
        node.script.before(object).do(lambda seen: sizes.append(octets(seen.connection.wire)))

        def octets(wire: Any) -> int:
            return int(wire.octets_written if is_written else wire.octets_read)

        assert await Exchange(node, link).run() == 1
        return max(sizes)


def fill(node: Server, link: Link) -> None:
    if isinstance(node, ScriptedBroker):
        node.declare_queue("q")
    if isinstance(link, Receiver):
        for body in BODIES:
            node.put("q", body)


def check(node: Server, exchange: Exchange) -> None:
    """Every message is where it belongs, once."""
    if isinstance(exchange.link, Sender):
        assert [message.body for message in node.messages("q")] == BODIES
        return
    assert list(exchange.got.values()) == BODIES
    assert not node.messages("q")
    if isinstance(node, ScriptedBroker):
        assert node.queue("q").counters.accepted == len(BODIES)
    else:
        assert [stored.outcome for stored in node.queue("q").retired] == [Accepted()] * len(BODIES)


@pytest.mark.parametrize("is_written", [False, True], ids=["read", "written"])
@pytest.mark.parametrize("make", [a_sender, a_receiver])
@pytest.mark.parametrize("server", [ScriptedNode, ScriptedBroker])
def test_after_a_cut_at_any_octet_every_message_is_there_once(
    server: type[Server], make: Any, is_written: bool
) -> None:
    @asynchronous
    async def sweep() -> None:
        total = await measure(server, make(), is_written=is_written)
        cuts = 0
        for place in range(total):
            async with server() as node:
                node.script.cut(**{"after_written" if is_written else "after_read": place})
                exchange = Exchange(node, make())
                fill(node, exchange.link)
                cuts += await exchange.run() - 1
                check(node, exchange)
                assert node.accepted <= 2
        assert cuts > total * 0.8  # Behind the last message a cut makes no difference.

    sweep()


@asynchronous
async def test_a_cut_lets_pass_what_it_says() -> None:
    for place in (0, 1, 8, 9, 40):
        async with ScriptedNode() as node:
            node.script.cut(after_written=place)
            peer = await Peer(node).connect()
            peer.engine.open()
            peer.pump()
            await peer.until(lambda: peer.is_lost)  # noqa: B023
            assert len(peer.octets) == place
            second = await Peer(node).open()  # It was for one connection.
            assert second.engine.remote is not None
            await second.drop()


@asynchronous
async def test_what_was_read_up_to_the_cut_is_dealt_with_and_not_answered() -> None:
    async with ScriptedNode() as node:
        node.script.cut(after_read=8, times=2)
        for number in (1, 2):
            peer = await Peer(node).connect()
            peer.engine.open()
            peer.pump()
            await peer.until(lambda: peer.is_lost)  # noqa: B023
            assert not peer.octets
            assert node.accepted == number
        assert not node.received(Open)
        third = await Peer(node).open()
        await third.drop()


@asynchronous
async def test_a_cut_at_a_frame_keeps_the_frame_from_getting_anywhere() -> None:
    async with ScriptedNode() as node:
        node.script.on(Transfer, skip=1, times=1).cut()
        exchange = Exchange(node, a_sender())
        assert await exchange.run() == 2
        check(node, exchange)
        assert node.accepted == 2


@asynchronous
async def test_an_outcome_that_is_lost_is_told_again_after_the_link_is_resumed() -> None:
    async with ScriptedNode() as node, Peer(node) as first:
        link = await first.attach(a_sender())
        gate = node.script.before(object).hold()
        delivery = link.send(Message("m").encode())
        first.pump()
        await node.wait_for(lambda: gate.held)
        node.connections[0].cut()
        await first.until(lambda: first.is_lost)
        gate.open()
        assert link.state is LinkState.SUSPENDED
        assert not delivery.settled
        second = await Peer(node, container=first.container).open()
        await second.attach(link)
        await second.until(lambda: delivery.settled)
        assert delivery.remote_state == Accepted()
        assert len(node.queue("q")) == 1
        await second.drop()


def test_a_cut_has_one_place() -> None:
    node = ScriptedNode()
    for places in ({}, {"after_read": 1, "after_written": 1}, {"after_read": -1}):
        with pytest.raises(LocalError, match="one place"):
            node.script.cut(**places)

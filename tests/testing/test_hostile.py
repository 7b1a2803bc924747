"""Clients that send what they should not: node and broker stand, and are not taken for the culprit."""

from __future__ import annotations

import asyncio
import random
from typing import TypeAlias

import pytest

from amqpforge.engine.sender import Sender
from amqpforge.message import Message
from amqpforge.testing import ScriptedBroker, ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpValue,
    Coordinator,
    Declare,
    Rejected,
    Source,
    TransactionalState,
)

from .peer import Peer, asynchronous

Server: TypeAlias = ScriptedNode | ScriptedBroker


def fill(node: Server) -> None:
    if isinstance(node, ScriptedBroker):
        node.declare_queue("q")
    node.put("q", "m")


async def record(make: type[Server]) -> bytes:
    """What a client sends in an exchange with links both ways and a transaction."""
    async with make() as node, Peer(node) as peer:
        fill(node)
        sender, receiver = await peer.sender(), await peer.receiver(credit=1)
        outcomes = [Accepted.SYMBOL, Rejected.SYMBOL]
        controller = Sender("control", source=Source(outcomes=outcomes), target=Coordinator())
        await peer.attach(controller)
        (declared,) = await peer.send(controller, Message(AmqpValue(Declare())))
        (delivery,) = await peer.receive(receiver)
        await peer.settle(delivery, TransactionalState(txn_id=declared.txn_id, outcome=Accepted()))
        await peer.send(sender, "sent")
        await peer.close()
        return b"".join(seen.octets for seen in node.frames if not seen.is_sent)


async def send(node: Server, octets: bytes) -> None:
    """Connect, send octets, and wait until the node has hung up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    writer.write(octets)
    writer.write_eof()
    try:
        while await reader.read(65_536):
            pass
    except ConnectionError:
        pass
    writer.close()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)


@pytest.mark.parametrize("make", [ScriptedNode, ScriptedBroker])
def test_damaged_octets_do_not_make_it_fail(make: type[Server]) -> None:
    @asynchronous
    async def check() -> None:
        octets = await record(make)
        dice = random.Random(1)
        async with make() as node:
            fill(node)
            for place in range(len(octets)):
                damaged = bytearray(octets)
                damaged[place] ^= dice.randrange(1, 256)
                await send(node, bytes(damaged))
            assert node.accepted == len(octets)
            await node.wait_for(lambda: not node.connections)
            await send(node, octets)
            assert node.messages("q")[-1].body == "sent"

    check()


@pytest.mark.parametrize("make", [ScriptedNode, ScriptedBroker])
def test_frames_in_any_order_do_not_make_it_fail(make: type[Server]) -> None:
    @asynchronous
    async def check() -> None:
        octets = await record(make)
        frames = []
        position = 8
        while position < len(octets):
            size = int.from_bytes(octets[position : position + 4], "big")
            frames.append(octets[position : position + size])
            position += size
        dice = random.Random(2)
        async with make() as node:
            fill(node)
            for _ in range(200):
                chosen = dice.choices(frames[1:], k=len(frames))
                await send(node, octets[:8] + frames[0] + b"".join(chosen))
            await node.wait_for(lambda: not node.connections)

    check()

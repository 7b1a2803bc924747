"""Clients that send what they should not: the node stands, and is not taken for the culprit."""

from __future__ import annotations

import asyncio
import random

from amqpforge.engine.sender import Sender
from amqpforge.message import Message
from amqpforge.testing import ScriptedNode
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


async def record() -> bytes:
    """What a client sends in an exchange with links both ways and a transaction."""
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
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


async def send(node: ScriptedNode, octets: bytes) -> None:
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


@asynchronous
async def test_damaged_octets_do_not_make_the_node_fail() -> None:
    octets = await record()
    dice = random.Random(1)
    async with ScriptedNode() as node:
        for place in range(len(octets)):
            damaged = bytearray(octets)
            damaged[place] ^= dice.randrange(1, 256)
            await send(node, bytes(damaged))
        assert node.accepted == len(octets)
        await node.wait_for(lambda: not node.connections)
        await send(node, octets)
        assert node.messages("q")[-1].body == "sent"


@asynchronous
async def test_frames_in_any_order_do_not_make_the_node_fail() -> None:
    octets = await record()
    frames = []
    position = 8
    while position < len(octets):
        size = int.from_bytes(octets[position : position + 4], "big")
        frames.append(octets[position : position + size])
        position += size
    dice = random.Random(2)
    async with ScriptedNode() as node:
        for _ in range(200):
            chosen = dice.choices(frames[1:], k=len(frames))
            await send(node, octets[:8] + frames[0] + b"".join(chosen))
        await node.wait_for(lambda: not node.connections)

"""A delivery of more frames than a session's window holds goes whole to either peer, and comes from it."""

from __future__ import annotations

from asyncio import run, timeout, to_thread
from typing import Final

import pytest

from amqpforge import connect
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.testing import ScriptedNode
from tests.interop.handles import ForeignClient, ForeignServer
from tests.interop.payload import digest, octets

pytestmark = pytest.mark.interop

FRAME: Final = 512
SIZE: Final = 5 * 2048 * FRAME
"""rhea's window is 2,048 frames, and it opens it by itself only when a delivery is whole."""
PATIENCE: Final = 30.0


def test_a_long_delivery_of_our_client(foreign_server: ForeignServer) -> None:
    async def play() -> None:
        url = await to_thread(foreign_server.listen, max_frame_size=FRAME)
        async with timeout(PATIENCE), connect(url, max_frame_size=FRAME) as connection:
            async with connection.sender("long") as sender:
                await sender.send(octets(1, SIZE))
            assert connection.counters.frames_sent > 5 * 2048
            async with connection.receiver("long") as receiver:
                assert (await receiver.receive()).message.body == octets(1, SIZE)

    run(play())


def test_a_long_delivery_of_our_node(foreign_client: ForeignClient) -> None:
    async def play() -> None:
        settings = ConnectionSettings(max_frame_size=FRAME)
        async with timeout(PATIENCE), ScriptedNode(settings=settings) as node:
            node.put("long", octets(1, SIZE))
            await to_thread(foreign_client.connect, node.url, max_frame_size=FRAME)
            [received] = (await to_thread(foreign_client.receive, "long", seconds=PATIENCE)).messages
            assert received.body.sha256 == digest(1, SIZE)
            await to_thread(foreign_client.close)

    run(play())

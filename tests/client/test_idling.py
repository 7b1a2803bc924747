"""Silence both ways, in simulated time."""

from __future__ import annotations

import asyncio

import pytest

from amqpforge.client import connect
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import ConnectionLost
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import Close, Open, Transfer

from .loops import in_leaping_loop


def empty_frames(node: ScriptedNode) -> int:
    return len(
        [seen for seen in node.frames if not seen.is_sent and len(seen.octets) == 8 and seen.channel == 0]
    )


@pytest.mark.spec("T-IDLE-006", "T-IDLE-011")
@in_leaping_loop
async def test_an_idle_hour_is_survived_with_empty_frames_at_half_the_peers_time_out() -> None:
    settings = ConnectionSettings(idle_time_out=60)
    async with ScriptedNode(settings=settings) as node, connect(node.url, idle_time_out=None) as connection:
        start = connection._loop.time()
        await asyncio.sleep(3600)
        assert connection.is_connected
        announced = node.sent(Open)[0].idle_time_out
        assert announced == 30_000
        assert 239 <= empty_frames(node) <= 241
        assert connection._loop.time() - start < 3601
        assert node.accepted == 1


@in_leaping_loop
async def test_traffic_takes_the_place_of_empty_frames_and_does_not_hold_them_up() -> None:
    settings = ConnectionSettings(idle_time_out=20)
    async with ScriptedNode(settings=settings) as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        for _ in range(100):
            await sender.send("x", settled=True)
            await asyncio.sleep(2)
        assert empty_frames(node) == 0
        await asyncio.sleep(20)
        assert empty_frames(node) >= 3
        assert connection.is_connected


@in_leaping_loop
async def test_input_without_output_of_ours_does_not_keep_us_silent() -> None:
    settings = ConnectionSettings(idle_time_out=20)
    async with ScriptedNode(settings=settings) as node, connect(node.url) as connection:
        receiver = await connection.receiver("q", credit=1000, auto_accept=False)
        for number in range(60):
            node.put("q", number)
            await asyncio.sleep(1)
        assert receiver.counters.messages == 60
        assert len(node.sent(Transfer)) == 60
        assert empty_frames(node) >= 11


@pytest.mark.spec("T-IDLE-001", "T-IDLE-003")
@in_leaping_loop
async def test_a_peer_that_falls_silent_is_given_up() -> None:
    async with ScriptedNode() as node:
        node.settings = ConnectionSettings()
        connection = await connect(node.url, idle_time_out=10, reconnect=None)
        node.script.before(object).drop()
        start = connection._loop.time()
        with pytest.raises(ConnectionLost, match="10"):
            await connection.wait_closed()
        assert 9.9 < connection._loop.time() - start < 11
        assert node.received(Close)[0].error is not None
        await connection.close()

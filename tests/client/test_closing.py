"""Closing ends in time, whatever the peer does."""

from __future__ import annotations

import asyncio
import logging

import pytest

from amqpforge.client import connect
from amqpforge.errors import ConnectionClosed, ConnectionLost, SessionEnded
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import Begin, Close, Detach, Disposition, Error, Symbol, Transfer

from .loops import in_leaping_loop, in_loop


@in_loop
async def test_a_link_is_closed_at_both_ends() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        async with connection.sender("q"), connection.receiver("q"):
            assert connection.counters.links == 2
        assert [detach.closed for detach in node.received(Detach)] == [True, True]
        assert connection.counters.links == 0
        assert not node.container.links


@in_loop
async def test_a_peer_that_answers_a_closing_detach_with_a_plain_one_does_not_hang_the_close() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.script.before(Detach).replace(lambda seen: Detach(handle=seen.performative.handle))
        sender = await connection.sender("q", name="mine")
        await sender.close(timeout=5)
        assert not sender.is_open
        async with connection.sender("other") as other:
            await other.send("x")
            node.script.clear()


@in_loop
async def test_a_peer_that_never_answers_a_closing_detach_does_not_hang_the_close(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        rule = node.script.on(Detach).drop()
        sender = await connection.sender("q")
        with caplog.at_level(logging.WARNING, "amqpforge.link"):
            await sender.close(timeout=0.02)
        assert "does not answer" in caplog.text
        assert connection.counters.links == 0
        rule.cancel()
        async with connection.sender("q") as other:
            await other.send("x")


@in_loop
async def test_the_peer_may_close_first_and_the_reason_reaches_everybody() -> None:
    async with ScriptedNode() as node:
        connection = await connect(node.url, reconnect=None)
        sender = await connection.sender("q")
        receiver = await connection.receiver("q")
        node.script.before(Disposition).drop()
        waiting = [
            asyncio.ensure_future(sender.send("x")),
            asyncio.ensure_future(receiver.receive()),
            asyncio.ensure_future(sender.flush()),
            asyncio.ensure_future(connection.wait_closed()),
        ]
        await node.wait_for(lambda: node.received(Transfer))
        node.connections[0].close(
            Error(condition=Symbol("amqp:connection:forced"), description="maintenance")
        )
        for task in waiting[:1] + waiting[2:]:
            with pytest.raises(ConnectionClosed, match="maintenance") as caught:
                await task
            assert caught.value.condition == "amqp:connection:forced"
        await asyncio.wait(waiting)
        assert isinstance(connection.error, ConnectionClosed)
        with pytest.raises(ConnectionClosed, match="maintenance"):
            await connection.sender("q")
        await connection.close()
        await node.wait_for(lambda: len(node.received(Close)) == 1)


@in_loop
async def test_without_reconnecting_a_cut_is_the_end() -> None:
    async with ScriptedNode() as node:
        connection = await connect(node.url, reconnect=None)
        sender = await connection.sender("q")
        node.connections[0].cut()
        with pytest.raises(ConnectionLost, match="without a close"):
            await connection.wait_closed()
        with pytest.raises(ConnectionLost):
            await sender.send("x")
        assert not sender.is_open


@in_loop
async def test_both_ends_may_close_at_once() -> None:
    async with ScriptedNode() as node:
        connection = await connect(node.url)
        node.connections[0].close()
        await connection.close(timeout=5)
        assert connection.error is None


@in_loop
async def test_closing_while_somebody_waits_ends_the_waiting() -> None:
    async with ScriptedNode() as node:
        connection = await connect(node.url)
        node.script.before(Disposition).drop()
        sender, receiver = await connection.sender("q"), await connection.receiver("other")
        waiting = [
            asyncio.ensure_future(sender.send("x")),
            asyncio.ensure_future(receiver.receive()),
            asyncio.ensure_future(_loop_over(receiver)),
        ]
        await node.wait_for(lambda: node.received(Transfer))
        await connection.close()
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in done[:1]] == [ConnectionClosed]
        assert isinstance(done[1], Exception)
        assert done[2] is None


async def _loop_over(receiver: object) -> None:
    async for _ in receiver:  # type: ignore[attr-defined]
        pass


@pytest.mark.spec("T-CONN-016")
@in_leaping_loop
async def test_a_close_that_is_never_answered_takes_as_long_as_it_may_and_no_longer() -> None:
    async with ScriptedNode() as node:
        node.script.on(Close).drop()
        connection = await connect(node.url, timeout=30)
        start = connection._loop.time()
        await connection.close(timeout=7)
        assert 6.9 < connection._loop.time() - start < 8.5


@in_loop
async def test_an_exception_leaves_the_block_at_once() -> None:
    async with ScriptedNode() as node:
        node.script.before(Disposition).drop()

        async def failing() -> None:
            async with connect(node.url) as connection, connection.sender("q") as sender:
                sender.post("x").add_done_callback(lambda future: future.exception())
                raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            await failing()


@in_loop
async def test_a_session_that_is_ended_as_it_begins() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.script.on(Begin, times=1).refuse("amqp:not-allowed")
        with pytest.raises(SessionEnded) as caught:
            await connection.sender("q")
        assert caught.value.error is not None
        assert caught.value.error.condition == "amqp:not-allowed"
        assert await (await connection.sender("q")).send("on another one") is not None

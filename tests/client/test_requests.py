"""Requests and their answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amqpforge.client import Connection, Message, Sender, connect
from amqpforge.errors import (
    ConnectionLost,
    LinkDetached,
    LocalError,
    NotAccepted,
    OperationTimedOut,
)
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import Rejected, ULong

from .loops import in_loop


async def serve(connection: Connection, count: int, *, reverse: bool = False) -> None:
    """Answer so many requests with their bodies in capitals."""
    async with connection.receiver("service") as receiver, connection.sender(None) as sender:
        requests = []
        for number in range(count):
            requests.append((await receiver.receive()).message)
            if reverse and number < count - 1:
                continue
            while requests:
                await answer(sender, requests.pop())


async def answer(sender: Sender, request: Message) -> None:
    identifier = request.correlation_id or request.message_id
    body = str(request.body).upper()
    await sender.send(Message(body, to=request.reply_to, correlation_id=identifier))


@in_loop
async def test_a_request_gets_its_answer() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        serving = asyncio.ensure_future(serve(connection, 2))
        async with connection.requester("service") as client:
            assert (await client.request("one")).body == "ONE"
            assert (await client.request(Message("two", message_id=ULong(7)))).body == "TWO"
            assert client.reply_address
        await serving


@in_loop
async def test_answers_find_their_requests_in_whatever_order_they_come() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        serving = asyncio.ensure_future(serve(connection, 20, reverse=True))
        async with connection.requester("service") as client:
            answers = await asyncio.gather(*(client.request(f"r{number}") for number in range(20)))
        assert [answer.body for answer in answers] == [f"R{number}" for number in range(20)]
        await serving


@in_loop
async def test_the_answers_can_come_to_a_node_that_is_named() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        serving = asyncio.ensure_future(serve(connection, 1))
        async with connection.requester("service", reply_to="answers") as client:
            assert client.reply_address == "answers"
            request = Message("x", correlation_id="mine", message_id="other")
            assert (await client.request(request)).correlation_id == "mine"
        assert request.reply_to is None
        await serving


@in_loop
async def test_an_answer_that_does_not_come_in_time_is_an_error_and_a_late_one_is_dropped() -> None:
    async with (
        ScriptedNode() as node,
        connect(node.url) as connection,
        connection.requester("service") as client,
    ):
        with pytest.raises(OperationTimedOut, match="answer"):
            await client.request(Message("x", message_id="late"), timeout=0.02)
        node.put(str(client.reply_address), Message("?", correlation_id="late"))
        node.put(str(client.reply_address), Message("?"))
        await node.wait_for(lambda: len(node.queue(str(client.reply_address)).retired) == 2)
        serving = asyncio.ensure_future(serve(connection, 2))
        assert (await client.request("in time")).body == "IN TIME"
        await serving


@in_loop
async def test_a_request_that_is_not_accepted_is_an_error() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.queue("service").answer = Rejected()
        async with connection.requester("service") as client:
            with pytest.raises(NotAccepted):
                await client.request("x")


@in_loop
async def test_identifiers_are_unique_among_requests_under_way() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        client = await connection.requester("service")
        first = asyncio.ensure_future(client.request(Message("x", message_id="a")))
        await asyncio.sleep(0)
        with pytest.raises(LocalError, match="identifier"):
            await client.request(Message("y", message_id="a"))
        await client.close()
        with pytest.raises(ConnectionLost, match="closed"):
            await first


@in_loop
async def test_a_cancelled_request_is_forgotten() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        client = await connection.requester("service")
        request = asyncio.ensure_future(client.request(Message("x", message_id="a")))
        await node.wait_for(lambda: node.messages("service"))
        request.cancel()
        await asyncio.wait([request])
        serving = asyncio.ensure_future(serve(connection, 2))
        again: Any = await client.request(Message("x", message_id="a"))
        assert again.body == "X"
        await serving


@in_loop
async def test_a_request_under_way_fails_when_its_reply_address_is_lost() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        client = await connection.requester("service")
        address = client.reply_address
        request = asyncio.ensure_future(client.request("x"))
        await node.wait_for(lambda: node.messages("service"))
        node.connections[0].cut()
        with pytest.raises(ConnectionLost, match="address"):
            await request
        node.queue("service").clear()
        serving = asyncio.ensure_future(serve(connection, 1))
        assert (await client.request("again")).body == "AGAIN"
        assert client.reply_address != address
        await serving


@in_loop
async def test_a_service_that_is_not_there_leaves_no_reply_address_behind() -> None:
    async with ScriptedNode(makes_queues=False) as node, connect(node.url) as connection:
        with pytest.raises(LinkDetached):
            await connection.requester("service")
        assert connection.counters.links == 0

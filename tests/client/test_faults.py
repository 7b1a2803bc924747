"""The connection is cut after every octet of an exchange, in both directions: nothing is lost, and nothing
comes twice where the settle modes promise that.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from amqpforge.client import Connection, Reconnect, connect
from amqpforge.errors import ConnectionLost
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import ReceiverSettleMode, TerminusExpiryPolicy

from .loops import in_loop

SOON = Reconnect(first_delay=0.0005, max_delay=0.002)
COUNT = 3
AT_LEAST_ONCE: dict[str, Any] = {}
EXACTLY_ONCE: dict[str, Any] = {
    "expiry_policy": TerminusExpiryPolicy.NEVER,
    "rcv_settle_mode": ReceiverSettleMode.SECOND,
}


async def exchange(connection: Connection, options: dict[str, Any]) -> list[Any]:
    """Send some messages, and take them again until all have come; returns what came."""
    async with (
        connection.sender("q", **options) as sender,
        connection.receiver("q", credit=2, **options) as receiver,
    ):
        sending = asyncio.gather(*(sender.send(number) for number in range(COUNT)))
        got: list[Any] = []
        async for delivery in receiver:
            got.append(delivery.message.body)
            if len(set(got)) == COUNT:
                break
        await sending
        await settled(connection, receiver)
    return got


async def settled(connection: Connection, receiver: Any) -> None:
    """Wait until the last delivery is accepted, and settled at both ends if it is to be."""
    for _ in range(200):
        with suppress(ConnectionLost):
            await connection.round_trip()
        if not receiver.counters.unsettled:
            return


async def sizes() -> tuple[int, int]:
    """How many octets go each way."""
    async with ScriptedNode() as node, connect(node.url, container_id="me") as connection:
        await exchange(connection, EXACTLY_ONCE)
        wire = node.connections[0].wire
        return wire.octets_read, wire.octets_written


async def cut_at(offset: int, *, is_read: bool, options: dict[str, Any]) -> None:
    async with ScriptedNode() as node:
        async with connect(node.url, container_id="me", reconnect=SOON) as connection:
            place = {"after_read": offset} if is_read else {"after_written": offset}
            node.script.cut(**place)
            got = await exchange(connection, options)
        if options is EXACTLY_ONCE:
            assert sorted(got) == list(range(COUNT)), f"cut at {place}"
            assert not node.messages("q"), f"cut at {place}"
            assert len(node.queue("q").retired) == COUNT, f"cut at {place}"
        else:
            assert set(got) == set(range(COUNT)), f"cut at {place}"


def run(step: int, is_read: bool, options: dict[str, Any]) -> None:
    first, written = asyncio.run(sizes())
    total = first if is_read else written

    async def cuts() -> None:
        # The opening is over when the cut is made: a connection that cannot be made is another matter.
        for offset in range(300, total, step):
            await asyncio.wait_for(cut_at(offset, is_read=is_read, options=options), 20)

    asyncio.run(cuts())


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("options", [AT_LEAST_ONCE, EXACTLY_ONCE])
def test_a_cut_after_some_octets_loses_nothing(is_read: bool, options: dict[str, Any]) -> None:
    run(23, is_read, options)


@pytest.mark.slow
@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("options", [AT_LEAST_ONCE, EXACTLY_ONCE])
def test_a_cut_after_any_octet_loses_nothing(is_read: bool, options: dict[str, Any]) -> None:
    run(1, is_read, options)


@in_loop
async def test_cuts_one_after_the_other_lose_nothing_either() -> None:
    async with ScriptedNode() as node:
        async with connect(node.url, container_id="me", reconnect=SOON) as connection:
            for offset in range(400, 1400, 97):
                node.script.cut(after_read=offset)
                node.script.cut(after_written=offset)
            got = await exchange(connection, EXACTLY_ONCE)
        assert sorted(got) == list(range(COUNT))

"""Clients made of ours, Proton and rhea with our broker: deliveries."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from amqpforge import ConnectionLost, Message, Reconnect, connect
from amqpforge.broker.limits import BrokerLimits
from amqpforge_protocol.amqp_1_0 import Accepted, ReceiverSettleMode, TerminusExpiryPolicy
from tests.interop.caller import Caller, configured
from tests.interop.payload import digest
from tests.interop.results import Answer, PeerError
from tests.interop.results import Message as Spec
from tests.interop.scenarios import CALLERS, FOREIGN, OURS, Played, scenario, untried
from tests.interop.scenarios_broker_links import ids
from tests.interop.scenarios_samples import ANSWERS, BIG, MODE_NAMES, settled

IDS = ["m-0", "m-1", "m-2", "m-3"]
STREAM = 32 << 20
PIECE = 1 << 18
FAILED = Answer("modified", None, True)

untried(
    "unsettled deliveries resumed", "the client does not tell what is unsettled when it comes back", *FOREIGN
)

# --- settlement and outcomes --------------------------------------------------------------------------------


async def settle_mode(row: str, stage: Caller) -> Played:
    mode, receiver_mode = MODE_NAMES[row]
    expected = settled(row)
    async with stage.ground() as ground:
        queue = ground.queue("modes")
        sent = await to_thread(stage.client.send, queue, 4, mode=mode, receiver_mode=receiver_mode)
        assert (sent.attached.snd_settle_mode, sent.attached.rcv_settle_mode) == (mode, receiver_mode)
        assert [each.name for each in sent.outcomes] == [None if each else "accepted" for each in expected]
        if stage.kind != "ours":  # Which does not tell.
            assert [each.settled for each in sent.outcomes] == [
                each or receiver_mode == "first" for each in expected
            ]
        receipt = await to_thread(stage.client.receive, queue, 4, mode=mode, receiver_mode=receiver_mode)
        assert ids(receipt.messages) == IDS
        assert [message.settled for message in receipt.messages] == [mode == "settled"] * 4
        assert receipt.resettled == (4 if receiver_mode == "second" and mode != "settled" else 0)
        await ground.holds(queue, 0)
    return None


for mode_row in MODE_NAMES:
    scenario(mode_row, *CALLERS)(partial(settle_mode, mode_row))


async def outcome(row: str, stage: Caller) -> Played:
    async with stage.ground() as ground:
        dead = ground.queue("dead")
        queue = ground.queue("answered", dead_letter_exchange="", dead_letter_key=dead)
        await ground.put_series(queue, 2)
        await to_thread(stage.client.receive, queue, answer=ANSWERS[row])
        dropped = row in ("accepted", "rejected, with an error")
        died = ["m-0"] if row == "rejected, with an error" else []
        await ground.holds(dead, len(died))
        assert await ground.ids(dead) == died
        left = await ground.messages(queue)
        assert [message.message_id for message in left] == (["m-1"] if dropped else ["m-0", "m-1"])
        assert (left[0].delivery_count or 0) == (row == "modified")
        assert dict(left[0].annotations or {}) == ({"x-opt-why": "tired"} if row == "modified" else {})
        if not dropped:
            [again] = (await to_thread(stage.client.receive, queue)).messages
            assert again.header.get("delivery_count", 0) == (row == "modified")
            assert again.message_annotations == ({"x-opt-why": "tired"} if row == "modified" else {})
    return None


for outcome_row in ANSWERS:
    scenario(outcome_row, *CALLERS)(partial(outcome, outcome_row))


@scenario("delivery limit and dead letters", *CALLERS)
async def delivery_limit(stage: Caller) -> Played:
    async with stage.ground() as ground:
        dead = ground.queue("dead")
        queue = ground.queue("limited", delivery_limit=3, dead_letter_exchange="", dead_letter_key=dead)
        await ground.put_series(queue, 1)
        for failures in range(3):
            [message] = (await to_thread(stage.client.receive, queue, answer=FAILED)).messages
            assert message.header.get("delivery_count", 0) == failures
        await ground.holds(queue, 0)
        await ground.holds(dead, 1)
        assert ids((await to_thread(stage.client.receive, dead)).messages) == ["m-0"]
    return None


@scenario("cut off with unsettled deliveries", *CALLERS)
async def cut_off(stage: Caller) -> Played:
    async with stage.ground(connects=False) as ground:
        queue = ground.queue("cut")
        await ground.put_series(queue, 3)
        client = stage.client
        await to_thread(client.connect, ground.relay.url)
        receipt = await to_thread(client.receive, queue, 2, answer=Answer("none"), leave="stay")
        assert ids(receipt.messages) == ["m-0", "m-1"]
        assert ground.host.queue(queue).unacknowledged == 2
        await to_thread(client.cut)
        await ground.until(lambda: not ground.heads)
        assert await ground.ids(queue) == ["m-0", "m-1", "m-2"]
        await to_thread(client.connect, ground.relay.url)
        receipt = await to_thread(client.receive, queue, 3)
        assert ids(receipt.messages) == ["m-0", "m-1", "m-2"]
        acquired = [each.header.get("first_acquirer", False) for each in receipt.messages]
        assert acquired[:2] == [False, False]
        await to_thread(client.close)
    return None


@scenario("unsettled deliveries resumed", OURS)
async def resumed(stage: Caller) -> Played:
    lasting: dict[str, Any] = {
        "expiry_policy": TerminusExpiryPolicy.NEVER,
        "rcv_settle_mode": ReceiverSettleMode.SECOND,
    }
    async with (
        stage.ground(connects=False) as ground,
        connect(ground.relay.url, reconnect=Reconnect(first_delay=0.01, factor=1.0)) as connection,
    ):
        queue = ground.queue("resumed")
        async with connection.sender(queue, **lasting) as sender:
            for number in range(10):
                ground.relay.is_deaf = number % 3 == 0
                sending = asyncio.ensure_future(sender.send(Message("x", message_id=f"m-{number}")))
                if ground.relay.is_deaf:  # The broker has the message, and the client will not hear of that.
                    await ground.until(lambda: ground.depth(queue) > number)  # noqa: B023
                    ground.relay.cut()
                assert await sending == Accepted()
        assert await ground.ids(queue) == [f"m-{number}" for number in range(10)]
        async with connection.receiver(queue, credit=3, auto_accept=False, **lasting) as receiver:
            for number in range(10):
                delivery = await receiver.receive()
                assert delivery.message.message_id == f"m-{number}"
                if number % 3 == 0:
                    ground.relay.cut()
                    await receiver.wait_attached()
                delivery.accept()
            while receiver.counters.unsettled:
                with suppress(ConnectionLost):  # It was cut just now.
                    await connection.round_trip()
        await ground.holds(queue, 0)
        assert connection.counters.reconnects >= 4
    return None


@scenario("a message for no queue", *CALLERS)
async def unroutable(stage: Caller) -> Played:
    async with stage.ground() as ground:
        exchange = ground.exchange("nobody", "direct")
        sent = await to_thread(stage.client.send, f"/exchanges/{exchange}/key")
        assert [each.name for each in sent.outcomes] == ["released"]
    return None


@scenario("a queue that is full", *CALLERS)
async def full(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("full", max_length=2)
        sent = await to_thread(stage.client.send, queue, 3)
        assert [each.name for each in sent.outcomes] == ["accepted", "accepted", "rejected"]
        error = sent.outcomes[2].error
        assert error is not None
        assert error.condition == "amqp:resource-limit-exceeded"
        await to_thread(stage.client.receive, queue)
        assert [each.name for each in (await to_thread(stage.client.send, queue)).outcomes] == ["accepted"]
    return None


# --- sizes and flow -----------------------------------------------------------------------------------------


@scenario("10 MiB both ways", *CALLERS)
async def big(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("big", durable=True)
        message = Spec(size=BIG, header={"durable": True})
        await to_thread(stage.client.send, queue, 1, message)
        [received] = (await to_thread(stage.client.receive, queue)).messages
        assert (received.body.size, received.body.sha256) == (BIG, digest(0, BIG))
    return None


@scenario("32 MiB, piece by piece", *CALLERS)
async def streamed(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("streamed")
        sent = await to_thread(stage.client.stream, queue, STREAM, PIECE)
        assert sent.name == "accepted"
        read = await to_thread(stage.client.read_stream, queue)
        assert (read.message.body.size, read.message.body.sha256) == (STREAM, digest(0, STREAM))
        assert read.parts > 8
        await ground.holds(queue, 0)
    return None


@scenario("a message that is too large", *CALLERS)
async def too_large(stage: Caller) -> Played:
    async with stage.ground(configured(limits=BrokerLimits(message_size=100_000))) as ground:
        queue = ground.queue("small")
        sent = await to_thread(stage.client.send, queue)
        assert sent.attached.max_message_size == 100_000
        with pytest.raises(PeerError) as error:
            await to_thread(stage.client.send, queue, 1, Spec(size=200_000))
        if stage.kind == "ours":
            assert error.value.where == "unsupported"  # It looks before it sends.
        else:
            found = (error.value.where, error.value.condition)
            assert found == ("link", "amqp:link:message-size-exceeded")
        await to_thread(stage.client.send, queue)
        await ground.holds(queue, 2)
    return None


@scenario("300 messages, credit 7", *CALLERS)
async def window(stage: Caller) -> Played:
    async with stage.ground(configured(limits=BrokerLimits(credit_per_link=7))) as ground:
        queue = ground.queue("window")
        await to_thread(stage.client.send, queue, 300)
        receipt = await to_thread(stage.client.receive, queue, 300, credit=7)
        assert ids(receipt.messages) == [f"m-{number}" for number in range(300)]
        await ground.holds(queue, 0)
    return None


@scenario("drain", *CALLERS)
async def drain(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("drained")
        await ground.put_series(queue, 3)
        receipt = await to_thread(stage.client.drain, queue, 10)
        assert ids(receipt.messages) == ["m-0", "m-1", "m-2"]
        assert receipt.credit == 0
        assert (await to_thread(stage.client.drain, queue, 10)).messages == []
    return None


@scenario("priorities", *CALLERS)
async def priorities(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("urgent", priority_levels=10)
        for priority in (1, 9, 4, 9, 1):
            await to_thread(stage.client.send, queue, 1, Spec(header={"priority": priority}))
        receipt = await to_thread(stage.client.receive, queue, 5)
        assert [each.header.get("priority", 4) for each in receipt.messages] == [9, 9, 4, 1, 1]
    return None


@scenario("time to live", *CALLERS)
async def time_to_live(stage: Caller) -> Played:
    async with stage.ground() as ground:
        dead = ground.queue("dead")
        queue = ground.queue("short", dead_letter_exchange="", dead_letter_key=dead)
        await to_thread(stage.client.send, queue, 1, Spec(message_id="long", header={"ttl": 60_000}))
        await to_thread(stage.client.send, queue, 1, Spec(message_id="short", header={"ttl": 1}))
        await ground.holds(dead, 1)
        receipt = await to_thread(stage.client.receive, queue)
        assert ids(receipt.messages) == ["long"]
        ttl = receipt.messages[0].header["ttl"]
        assert isinstance(ttl, int)
        assert 0 < ttl <= 60_000
        assert ids((await to_thread(stage.client.receive, dead)).messages) == ["short"]
    return None


# --- transactions -------------------------------------------------------------------------------------------


async def transaction(row: str, stage: Caller) -> Played:
    is_committed = row == "transaction committed"
    async with stage.ground() as ground:
        queue = ground.queue("work")
        await ground.put(queue, *(Message("x", message_id=f"old-{number}") for number in range(3)))
        done = await to_thread(stage.client.transaction, queue, sends=1, accepts=2, commit=is_committed)
        assert [each and each.name for each in (*done.sent, done.discharge)] == ["accepted", "accepted"]
        assert ids(done.messages) == ["old-0", "old-1"]
        left = ["old-2", "m-0"] if is_committed else ["old-0", "old-1", "old-2"]
        await ground.until(lambda: ground.host.queue(queue).ready == len(left))
        assert await ground.ids(queue) == left
    return None


for transaction_row in ("transaction committed", "transaction rolled back"):
    scenario(transaction_row, *CALLERS)(partial(transaction, transaction_row))


@scenario("transaction cut off", *CALLERS)
async def transaction_cut_off(stage: Caller) -> Played:
    async with stage.ground(connects=False) as ground:
        queue = ground.queue("work")
        await ground.put(queue, *(Message("x", message_id=f"old-{number}") for number in range(3)))
        await to_thread(stage.client.connect, ground.relay.url)
        done = await to_thread(stage.client.transaction, queue, sends=1, accepts=2, commit=None)
        assert done.discharge is None
        assert ids(done.messages) == ["old-0", "old-1"]
        await to_thread(stage.client.cut)
        await ground.until(lambda: not ground.heads)
        assert await ground.ids(queue) == ["old-0", "old-1", "old-2"]
    return None

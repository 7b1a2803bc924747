"""A broker under a script: it is the real one, and each fault reaches the client that it is meant for."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import amqpforge
from amqpforge import blocking
from amqpforge.broker.config import BrokerConfig, ListenerConfig
from amqpforge.broker.errors import BrokerError, InvalidArgument, LimitExceeded, NotFound
from amqpforge.client import Reconnect
from amqpforge.errors import ConnectionClosed, ConnectionLost, LinkDetached, LocalError, OperationTimedOut
from amqpforge.testing import ScriptedBroker, ThreadedBroker
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Begin,
    Disposition,
    End,
    Error,
    Flow,
    Open,
    ProtocolHeader,
    ReceiverSettleMode,
    Rejected,
    Role,
    SaslOutcome,
    Symbol,
    TerminusExpiryPolicy,
    Transfer,
)

from .peer import asynchronous

SOON = Reconnect(first_delay=0.0005, max_delay=0.002)
EXACTLY_ONCE: dict[str, Any] = {
    "expiry_policy": TerminusExpiryPolicy.NEVER,
    "rcv_settle_mode": ReceiverSettleMode.SECOND,
}
FULL = Error(condition=Symbol("shop:closed"), description="come back tomorrow")


def on_disk(path: Path) -> BrokerConfig:
    return BrokerConfig(listeners=(ListenerConfig(port=0),), store=f"sqlite:{path}")


# ---- the broker itself ----


@asynchronous
async def test_it_routes_stores_and_hands_out_as_the_broker_does() -> None:
    async with ScriptedBroker() as broker:
        broker.declare_queue("fruit", max_length=2)
        broker.declare_exchange("market", "topic")
        broker.bind("market", "fruit", "fruit.*")
        async with amqpforge.connect(broker.url) as connection:
            async with connection.sender("/exchanges/market/fruit.apple") as sender:
                assert await sender.send("one") == Accepted()
                assert await sender.send("two") == Accepted()
                refused = await sender.send("three", check=False)
                assert isinstance(refused, Rejected)
            queue = broker.queue("fruit")
            assert [message.body for message in queue.messages()] == ["one", "two"]
            async with connection.receiver("fruit", credit=1, auto_accept=False) as receiver:
                delivery = await receiver.receive()
                assert (len(queue), queue.depth, queue.consumers) == (2, 1, 1)
                delivery.modify(delivery_failed=True, annotations={"x-why": "bruised"})
                await broker.wait_for(lambda: queue.counters.redelivered)
        first = queue.messages()[0]
        assert (first.body, first.delivery_count, first.annotations["x-why"]) == ("one", 1, "bruised")
        assert queue.clear() == 2
        assert broker.queues == ["fruit"]


@asynchronous
async def test_what_is_put_is_delivered_and_may_be_refused() -> None:
    async with ScriptedBroker() as broker:
        queue = broker.declare_queue("q", max_length=1)
        async with amqpforge.connect(broker.url) as connection, connection.receiver("q") as receiver:
            broker.put("q", amqpforge.Message("m", subject="s"))
            delivery = await receiver.receive()
            assert (delivery.message.body, delivery.message.subject) == ("m", "s")
            with pytest.raises(LimitExceeded):
                queue.put("one too many")
            delivery.accept()
            await broker.wait_for(lambda: queue.counters.accepted == 1)


@asynchronous
async def test_what_cannot_be_is_told() -> None:
    broker = ScriptedBroker()
    for look in (lambda: broker.url, lambda: broker.port, lambda: broker.queue("q")):
        with pytest.raises(LocalError, match="does not run"):
            look()
    with pytest.raises(LocalError, match="does not run"):
        await broker.restart()
    async with broker:
        with pytest.raises(NotFound, match="no queue 'q'"):
            broker.put("q", "m")
        with pytest.raises(InvalidArgument, match=r"QueueSettings has no 'length'; it has .*max_length"):
            broker.declare_queue("q", length=3)
        with pytest.raises(InvalidArgument, match="max_length of a queue is 1"):
            broker.declare_queue("q", max_length=0)
        with pytest.raises(NotFound, match="no virtual host 'other'"):
            broker.declare_queue("q", vhost="other")
        queue = broker.declare_queue("q", overflow="drop-oldest", max_length=1)
        with pytest.raises(BrokerError, match="there already"):
            broker.declare_queue("q")
        queue.put("first")
        queue.put("second")
        assert [message.body for message in queue.messages()] == ["second"]
        assert broker.declare_queue().name.startswith("amq.gen-")
        with pytest.raises(LocalError, match="entered already"):
            await broker.__aenter__()


@asynchronous
async def test_waiting_sees_what_time_alone_has_brought() -> None:
    async with ScriptedBroker() as broker:
        queue = broker.declare_queue("q", message_ttl=0.02)
        queue.put("short-lived")
        await broker.wait_for(lambda: queue.counters.expired == 1)
        with pytest.raises(OperationTimedOut):
            await broker.wait_for(lambda: len(queue), timeout=0)


@asynchronous
async def test_users_have_to_log_in() -> None:
    async with ScriptedBroker(passwords={"alice": "wonderland"}) as broker:
        broker.declare_queue("q")
        url = broker.url.replace("//", "//alice:wonderland@")
        async with amqpforge.connect(url) as connection, connection.sender("q") as sender:
            await sender.send("m")
            assert broker.connections[0].user == "alice"
            assert broker.sent(SaslOutcome)
        with pytest.raises(amqpforge.AuthenticationFailed):
            await amqpforge.connect(broker.url.replace("//", "//alice:looking-glass@"))
        await broker.wait_for(lambda: not broker.connections)


# ---- its life ----


def test_a_blocking_test_has_it_in_a_thread() -> None:
    with ScriptedBroker.threaded() as broker:
        broker.declare_queue("q")
        gate = broker.script.before(Disposition).hold()
        with blocking.connect(broker.url, timeout=10) as connection:
            with connection.sender("q") as sender, pytest.raises(OperationTimedOut):
                sender.send("m", timeout=0.01)
            broker.wait_for(lambda: gate.held)
            assert [message.body for message in broker.messages("q")] == ["m"]
            gate.open()
        broker.wait_for(lambda: not broker.connections)


def test_reset_leaves_nothing_of_a_test_to_the_next_one() -> None:
    with ThreadedBroker() as broker:
        url = broker.url
        broker.declare_queue("q").put("m")
        rule = broker.script.on(Open).close(FULL)
        with (
            pytest.raises(ConnectionClosed),
            blocking.connect(url, timeout=10, reconnect=None) as connection,
        ):
            connection.receiver("q")
        assert rule.acted == 1
        broker.reset()
        assert (broker.url, broker.queues, broker.accepted, list(broker.frames)) == (url, [], 0, [])
        broker.declare_queue("q")
        with blocking.connect(url, timeout=10) as connection, connection.sender("q") as sender:
            assert sender.send("m") == Accepted()
        assert len(broker.messages("q")) == 1


def test_reset_tells_what_the_script_has_raised() -> None:
    with ThreadedBroker() as broker:
        broker.script.on(ProtocolHeader).do(lambda _: 1 // 0)
        with pytest.raises(amqpforge.AmqpforgeError):
            blocking.connect(broker.url, timeout=10, reconnect=None).__enter__()
        with pytest.raises(ZeroDivisionError):
            broker.reset()
        broker.declare_queue("q")


def test_a_durable_store_is_not_reset_but_survives_a_restart(tmp_path: Path) -> None:
    with ThreadedBroker(on_disk(tmp_path / "store")) as broker:
        url = broker.url
        broker.declare_queue("kept", durable=True)
        broker.declare_queue("lost")
        with (
            blocking.connect(url, timeout=10, reconnect=SOON) as connection,
            connection.sender("kept") as sender,
        ):
            sender.send(amqpforge.Message("durable", durable=True))
            sender.send("not durable")
            broker.restart()
            assert (broker.url, broker.queues) == (url, ["kept"])
            sender.send(amqpforge.Message("after", durable=True))
        assert [message.body for message in broker.messages("kept")] == ["durable", "after"]
        with pytest.raises(LocalError, match="keeps what is durable"):
            broker.reset()


# ---- faults ----


@asynchronous
async def test_links_sessions_and_connections_are_refused() -> None:
    async with ScriptedBroker() as broker:
        broker.declare_queue("q")
        broker.script.on(Attach, times=1).refuse("amqp:unauthorized-access", "not today")
        async with amqpforge.connect(broker.url) as connection:
            with pytest.raises(LinkDetached) as refused:
                await connection.sender("q")
            assert refused.value.condition == "amqp:unauthorized-access"
            async with connection.sender("q") as sender:  # The next one is the broker's business again.
                await sender.send("m")
            assert len(broker.connections[0].head.links) == 0
        broker.script.on(Begin, times=1).refuse(FULL)
        gate = broker.script.before(End).hold()
        async with amqpforge.connect(broker.url, reconnect=None) as connection:
            opening = asyncio.ensure_future(_attached(connection))
            await broker.wait_for(lambda: gate.held and len(broker.received(Attach)) == 3)
            gate.open()
            with pytest.raises(amqpforge.SessionEnded) as ended:
                await opening
            assert ended.value.condition == "shop:closed"
        broker.script.on(Open).refuse(FULL)
        with pytest.raises(ConnectionClosed) as closed:
            await amqpforge.connect(broker.url)
        assert closed.value.condition == "shop:closed"


async def _attached(connection: amqpforge.Connection) -> object:
    return await connection.sender("q")


@asynchronous
async def test_a_message_is_rejected_with_a_condition_and_gets_nowhere() -> None:
    async with ScriptedBroker() as broker:
        broker.declare_queue("q")
        broker.script.on(Transfer, skip=1, times=1).refuse(FULL)
        async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
            outcomes = await asyncio.gather(
                *(sender.send(body, check=False) for body in ("a", b"b" * 200_000, "c"))
            )
        assert outcomes == [Accepted(), Rejected(error=FULL), Accepted()]
        assert [message.body for message in broker.messages("q")] == ["a", "c"]


@asynchronous
async def test_a_message_in_a_transaction_is_rejected_as_part_of_it() -> None:
    async with ScriptedBroker() as broker:
        broker.declare_queue("q")
        async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
            broker.script.on(Transfer, times=1, handle=sender_handle(broker)).refuse(FULL)
            async with connection.transaction() as transaction:
                first = await sender.send("rejected", transaction=transaction, check=False)
                second = await sender.send("kept", transaction=transaction)
                assert (first, second) == (Rejected(error=FULL), Accepted())
                assert not broker.messages("q")
        assert [message.body for message in broker.messages("q")] == ["kept"]


def sender_handle(broker: ScriptedBroker) -> Any:
    """The handle of the only link that sends to a queue."""
    (attach,) = [one for one in broker.received(Attach) if one.role is Role.SENDER]
    return attach.handle


@asynchronous
async def test_credit_is_starved_and_given_in_the_end() -> None:
    async with ScriptedBroker() as broker:
        broker.declare_queue("q")
        gate = broker.script.before(Flow).hold()
        async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
            with pytest.raises(OperationTimedOut):
                await sender.send("m", timeout=0.01)
            assert not broker.received(Transfer)
            sending = asyncio.create_task(sender.send("n"))
            await broker.wait_for(lambda: gate.held)
            gate.open()
            assert await sending == Accepted()
        broker.script.clear()
        broker.script.before(Flow).replace(lambda seen: replace(seen.performative, link_credit=1))
        async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
            assert await sender.send("the only one") == Accepted()
            with pytest.raises(OperationTimedOut):
                await sender.send("another", timeout=0.01)


@asynchronous
async def test_an_answer_is_delayed_and_others_are_not() -> None:
    async with ScriptedBroker() as broker:
        broker.declare_queue("q")
        loop = asyncio.get_running_loop()
        async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
            broker.script.before(Disposition).delay(0.05)
            start = loop.time()
            sending = asyncio.create_task(sender.send("m"))
            await broker.wait_for(lambda: broker.sent(Disposition))
            assert not sending.done()
            await connection.round_trip()
            assert await sending == Accepted()
            assert loop.time() - start >= 0.05
    with pytest.raises(LocalError, match="0 seconds or more"):
        broker.script.on(Open).delay(-1)


@asynchronous
async def test_delayed_frames_of_a_client_stay_in_order() -> None:
    async with ScriptedBroker() as broker:
        broker.declare_queue("q")
        broker.script.on(Transfer).delay(0.001)
        async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
            await asyncio.gather(*(sender.send(number) for number in range(20)))
        assert [message.body for message in broker.messages("q")] == list(range(20))


@asynchronous
async def test_a_frame_is_dropped() -> None:
    async with ScriptedBroker() as broker:
        broker.declare_queue("q")
        broker.script.before(Disposition, times=1).drop()
        async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
            with pytest.raises(OperationTimedOut):
                await sender.send("m", timeout=0.01)
            assert await sender.send("n") == Accepted()
        assert [message.body for message in broker.messages("q")] == ["m", "n"]


@asynchronous
async def test_the_connection_goes_at_a_frame() -> None:
    async with ScriptedBroker() as broker:
        broker.declare_queue("q")
        broker.script.on(Transfer, skip=2, times=1).cut()
        broker.script.on(Transfer, skip=5, times=1).close("amqp:connection:forced", "so it goes")
        async with amqpforge.connect(broker.url, reconnect=SOON) as connection:
            async with connection.sender("q") as sender:
                for number in range(6):
                    await sender.send(number)
            assert connection.counters.reconnects == 2
        bodies = [message.body for message in broker.messages("q")]
        assert sorted(set(bodies)) == list(range(6))
        async with amqpforge.connect(broker.url, reconnect=None) as connection:
            broker.script.on(Attach, times=1).cut()
            with pytest.raises(ConnectionLost):
                await connection.sender("q")


@asynchronous
async def test_what_a_cut_off_consumer_held_comes_to_another_one() -> None:
    async with ScriptedBroker() as broker:
        queue = broker.declare_queue("q")
        for number in range(3):
            queue.put(number)
        async with amqpforge.connect(broker.url, reconnect=None) as connection:
            receiver = await connection.receiver("q", credit=3, auto_accept=False)
            for _ in range(3):
                await receiver.receive()
            assert (queue.depth, len(queue)) == (0, 3)
            broker.connections[0].cut()
            await broker.wait_for(lambda: queue.depth == 3)
        async with amqpforge.connect(broker.url) as connection, connection.receiver("q") as receiver:
            for number in range(3):
                delivery = await receiver.receive()
                assert delivery.message.body == number
                delivery.accept()
        await broker.wait_for(lambda: not len(queue))


async def meet_an_error_in_the_script() -> None:
    async with ScriptedBroker() as broker:
        broker.script.before(Open).do(lambda _: 1 // 0)
        with contextlib.suppress(amqpforge.AmqpforgeError):
            await amqpforge.connect(broker.url, reconnect=None)


@asynchronous
async def test_what_a_function_of_the_test_raises_comes_out_where_the_broker_is_left() -> None:
    with pytest.raises(ZeroDivisionError):
        await meet_an_error_in_the_script()


# ---- durability ----


@pytest.mark.parametrize("is_read", [True, False])
def test_after_cuts_and_a_restart_each_accepted_durable_message_is_there_once(
    tmp_path: Path, is_read: bool
) -> None:
    @asynchronous
    async def run() -> None:
        async with ScriptedBroker(on_disk(tmp_path / "store")) as broker:
            broker.declare_queue("q", durable=True)
            accepted: list[int] = []
            for number, place in enumerate(range(310, 760, 9)):
                async with amqpforge.connect(broker.url, reconnect=SOON) as connection:
                    broker.script.cut(**{"after_read" if is_read else "after_written": place})
                    async with connection.sender("q", **EXACTLY_ONCE) as sender:
                        for part in range(2):
                            message = amqpforge.Message(2 * number + part, durable=True)
                            assert await sender.send(message) == Accepted()
                            accepted.append(2 * number + part)
                broker.script.clear()
            await broker.restart()
            bodies = [message.body for message in broker.messages("q")]
            assert bodies == accepted
            assert broker.accepted > 60  # Most of the cuts were met.

    run()

"""What the general architecture asks of a client: layers that can be exchanged, and what a fault leaves."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import amqpforge
from amqpforge import blocking
from amqpforge.engine import events
from amqpforge.engine.connection import Connection
from amqpforge.engine.container import Container
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.testing import ScriptedBroker, ThreadedBroker
from amqpforge.url import parse_url
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    LinkState,
    Open,
    ReceiverSettleMode,
    SessionState,
    Source,
    Target,
    Transfer,
    encode_message,
)
from amqpforge_protocol.amqp_1_0 import ConnectionState as State

from .loops import in_leaping_loop, in_loop

PERFORMATIVES = (Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close)
FIRST, SECOND = ReceiverSettleMode.FIRST, ReceiverSettleMode.SECOND
SOON = amqpforge.Reconnect(first_delay=0.001)


# --- layers ---


@pytest.mark.spec("A-CLIENT-001")
def test_who_sends_and_receives_meets_no_frame() -> None:
    """A program with nothing but the package's public names; and none of these is a frame."""
    public = {id(getattr(amqpforge, name)) for name in amqpforge.__all__}
    assert not [kind for kind in PERFORMATIVES if id(kind) in public]
    with ScriptedBroker.threaded() as broker:
        broker.declare_queue("q")
        with blocking.connect(broker.url) as connection:
            with connection.sender("q") as sender:
                outcome = sender.send(amqpforge.Message("tea", subject="order"))
            with connection.receiver("q") as receiver:
                message = receiver.receive(timeout=5).message
        assert broker.received(Transfer)
    assert repr(outcome) == "Accepted()"
    assert (message.body, message.subject) == ("tea", "order")


def by_engine(url: str) -> None:
    """One message, by the methods of the protocol, over a socket that blocks."""
    where = parse_url(url)
    engine = Connection(ConnectionSettings(), Container("ours"))
    link = Sender("link", source=Source(), target=Target(address="q"))
    with socket.create_connection((where.host, where.port), timeout=10) as wire:

        def until(predicate: Callable[[], bool]) -> None:
            while not predicate():
                wire.sendall(engine.data_to_send(0.0))
                engine.receive(wire.recv(65_536), 0.0)
                for event in engine.events():
                    assert not isinstance(event, events.Closed) or event.error is None

        engine.open()
        session = engine.session()
        session.begin()
        session.attach(link)
        until(lambda: link.flow_state.link_credit > 0)
        delivery = link.send(encode_message(amqpforge.Message("tea").sections))
        until(lambda: delivery.settled)
        assert isinstance(delivery.remote_state, Accepted)
        link.close()
        until(lambda: link.state is LinkState.CLOSED)
        session.end()
        until(lambda: session.state is SessionState.UNMAPPED)
        engine.close()
        until(lambda: engine.state is State.END)


def by_threads(url: str) -> None:
    """The same by the client for threads."""
    with blocking.connect(url) as connection, connection.sender("q") as sender:
        sender.send("tea")


def by_tasks(url: str) -> None:
    """The same by the client for asyncio."""

    async def send() -> None:
        async with amqpforge.connect(url) as connection, connection.sender("q") as sender:
            await sender.send("tea")

    asyncio.run(asyncio.wait_for(send(), 10))


def until_left(broker: ThreadedBroker) -> None:
    broker.wait_for(lambda: not broker.connections)


def methods(broker: ThreadedBroker) -> list[str]:
    """What a client has sent, by name."""
    sent = [seen.performative for seen in broker.frames if not seen.is_sent]
    return [type(one).__name__ for one in sent if isinstance(one, PERFORMATIVES)]


@pytest.mark.spec("A-CLIENT-005", "A-CLIENT-007")
def test_all_layers_and_both_kinds_of_io_write_the_same() -> None:
    traffic: dict[str, list[str]] = {}
    bodies: dict[str, list[Any]] = {}
    for work in (by_engine, by_threads, by_tasks):
        with ScriptedBroker.threaded() as broker:
            broker.declare_queue("q")
            work(broker.url)
            until_left(broker)
            traffic[work.__name__] = methods(broker)
            bodies[work.__name__] = [message.body for message in broker.messages("q")]
    assert traffic["by_engine"] == ["Open", "Begin", "Attach", "Transfer", "Detach", "End", "Close"]
    assert traffic["by_threads"] == traffic["by_tasks"]
    # The client ends no session ahead of the connection that ends it.
    assert [name for name in traffic["by_engine"] if name != "End"] == traffic["by_tasks"]
    assert set(map(tuple, bodies.values())) == {("tea",)}


@in_loop
@pytest.mark.spec("A-NEGOT-006")
async def test_both_directions_may_be_full_at_once() -> None:
    """Frames of the greatest size that was agreed, as many as there is credit for, each way."""
    count, body = 30, b"x" * 400_000
    async with ScriptedBroker(keep_frames=0) as broker, amqpforge.connect(broker.url) as connection:
        coming, going = broker.declare_queue("coming"), broker.declare_queue("going")
        for _ in range(count):
            coming.put(amqpforge.Message(body))

        async def take() -> int:
            async with connection.receiver("coming", credit=count) as receiver:
                return sum([len((await receiver.receive(timeout=8)).message.body) for _ in range(count)])

        async def give() -> None:
            async with connection.sender("going") as sender:
                await sender.send_many([body] * count)

        taken, _ = await asyncio.gather(take(), give())
        assert taken == count * len(body)
        assert len(going) == count


# --- transient faults ---


@in_loop
@pytest.mark.spec("A-FAILOVER-001")
async def test_without_failover_everything_goes_with_the_connection() -> None:
    async with ScriptedBroker() as broker:
        broker.declare_queue("q")
        connection = await amqpforge.connect(broker.url, reconnect=None)
        sender = await connection.sender("q")
        private = await connection.receiver(None)
        address = private.address
        await sender.send("before")
        broker.connections[0].cut()
        with pytest.raises(amqpforge.ConnectionLost):
            await private.receive(timeout=5)
        for work in (sender.send("after"), connection.sender("q")):
            with pytest.raises(amqpforge.ConnectionLost):
                await work
        await broker.wait_for(lambda: not broker.connections)
        assert broker.accepted == 1
        assert [message.body for message in broker.messages("q")] == ["before"]
        async with amqpforge.connect(broker.url) as other:
            with pytest.raises(amqpforge.LinkDetached):
                await other.receiver(address)
        await connection.close()


@in_loop
@pytest.mark.spec("A-FAILOVER-006")
async def test_the_application_notices_nothing_of_five_faults() -> None:
    """Three links out and one in, opened once by the application, of which no call fails. What it has
    accepted as a line is cut does not come back.
    """
    async with ScriptedBroker() as broker:
        for number in range(3):
            broker.declare_queue(f"q{number}")
        async with amqpforge.connect(broker.url, reconnect=SOON) as connection:
            kept: Any = {"expiry_timeout": 60, "rcv_settle_mode": SECOND}
            senders = [await connection.sender(f"q{number}", **kept) for number in range(3)]
            receiver = await connection.receiver("q0", **kept)
            for fault in range(5):
                for number, sender in enumerate(senders):
                    assert isinstance(await sender.send(f"{fault}/{number}"), Accepted)
                delivery = await receiver.receive(timeout=5)
                assert delivery.message.body == f"{fault}/0"
                delivery.accept()
                broker.connections[-1].cut()
            await senders[0].send("last")
            assert (await receiver.receive(timeout=5)).message.body == "last"
        assert broker.accepted == 6
        for number in (1, 2):
            found = [message.body for message in broker.messages(f"q{number}")]
            assert found == [f"{fault}/{number}" for fault in range(5)]


@pytest.mark.parametrize(
    ("seconds", "mode", "most"),
    [pytest.param(60, SECOND, 1, marks=pytest.mark.spec("A-FAILOVER-007")), (60, FIRST, 2), (0, SECOND, 2)],
)
@in_loop
async def test_both_ends_find_out_what_a_fault_has_swallowed(
    seconds: int, mode: ReceiverSettleMode, most: int
) -> None:
    """Cuts in the middle of a run, before a transfer and before an outcome. Maps of what is unsettled tell
    which was which, so that nothing is missing and nothing is there twice. A peer that forgets what it has
    settled, or the link, gets the message twice whose outcome was cut off.
    """
    count = 300
    async with ScriptedBroker() as broker:
        broker.declare_queue("q")
        broker.script.on(Transfer, skip=50, times=1).cut()
        broker.script.before(Disposition, skip=3, times=1).cut()
        async with (
            amqpforge.connect(broker.url, reconnect=SOON) as connection,
            connection.sender("q", expiry_timeout=seconds, rcv_settle_mode=mode) as sender,
        ):
            await sender.send_many([str(number) for number in range(count)], window=40)
        assert broker.accepted == 3
        found = Counter(message.body for message in broker.messages("q"))
    assert found.keys() == {str(number) for number in range(count)}
    assert max(found.values()) == most


@in_leaping_loop
@pytest.mark.spec("A-FAILOVER-003")
async def test_what_a_connection_had_is_kept_for_a_minute() -> None:
    """A consumer that holds a message, and a queue that is its own."""
    async with ScriptedBroker() as broker:
        broker.declare_queue("q").put("held")
        lost = await amqpforge.connect(broker.url, reconnect=None)
        consumer = await lost.receiver("q", auto_accept=False, expiry_timeout=60)
        private = await lost.receiver(None, expiry_timeout=60)
        name = str(private.address).removeprefix("/queues/")
        assert (await consumer.receive(timeout=5)).message.body == "held"
        broker.connections[0].cut()
        await broker.wait_for(lambda: not broker.connections)
        async with amqpforge.connect(broker.url) as other, other.receiver("q") as receiver:
            with pytest.raises(amqpforge.OperationTimedOut):
                await receiver.receive(timeout=50)
            queues = broker.broker.hosts["/"].queues
            assert name in queues
            assert (await receiver.receive(timeout=20)).message.body == "held"
            await broker.wait_for(lambda: name not in queues)
        await lost.close()

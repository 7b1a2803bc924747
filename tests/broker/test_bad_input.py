"""Clients that do wrong, on purpose or not: each is told what, and nobody else suffers from it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import amqpforge
from amqpforge import AuthenticationFailed, ConnectionClosed, LinkDetached, Message, NotAccepted
from amqpforge.broker.access import Permissions
from amqpforge.broker.config import Grace
from amqpforge.broker.settings import QueueSettings
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpConnectionError,
    AmqpError,
    LinkError,
    Rejected,
    Role,
    SessionError,
    Source,
    Target,
    encode_frame,
)
from tests.client.loops import LeapingLoop, in_loop
from tests.engine.frames import Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer

from .scene import scene
from .stranger import stranger

WINDOWS = {"next_incoming_id": 0, "incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 100}
PASSWORDS = {"ann": "a secret", "bob": "another"}
DURABLE = Message("and away", durable=True).encode()
LARGE = 1 << 21
MESSAGE = Message(bytes(30_000)).encode()
ANN: dict[str, Any] = {"username": "ann", "password": PASSWORDS["ann"]}
BOB: dict[str, Any] = {"username": "bob", "password": PASSWORDS["bob"]}


def condition_of(error: LinkDetached | ConnectionClosed) -> object:
    return None if error.error is None else error.error.condition


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to be")


# --- who may do what ---------------------------------------------------------------------------------------


@in_loop
async def test_a_user_without_permission_is_told_so(tmp_path: Path) -> None:
    everything = Permissions.of(configure=".*", write=".*", read=".*")
    permissions = {"ann": everything, "bob": Permissions.of(read="shown", write="box")}
    queues = {"shown": QueueSettings(), "box": QueueSettings()}
    async with (
        scene(
            tmp_path, passwords=PASSWORDS, login=ANN, queues=queues, host={"permissions": permissions}
        ) as on,
        amqpforge.connect(on.url, reconnect=None, **BOB) as bob,
    ):
        for opening in (
            bob.sender("kept"),
            bob.receiver("kept"),
            bob.receiver("kept", mode="copy"),
            bob.sender("/exchanges/amq.topic/kept"),
            bob.receiver("/exchanges/amq.topic/kept"),
            bob.receiver(None),
        ):
            with pytest.raises(LinkDetached) as caught:
                await opening
            assert condition_of(caught.value) == AmqpError.UNAUTHORIZED_ACCESS
        await on.works()
        relay = await bob.sender(None)
        with pytest.raises(NotAccepted) as refused:
            await relay.send(Message("for kept", to="/queues/kept"))
        assert isinstance(refused.value.outcome, Rejected)
        assert refused.value.outcome.error is not None
        assert refused.value.outcome.error.condition == AmqpError.UNAUTHORIZED_ACCESS
        assert await relay.send(Message("for box", to="/queues/box")) == Accepted()
        await bob.receiver("shown")


class InlineExecutor(Executor):
    """Computes at once: time that leaps does not wait for threads."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*args, **kwargs))
        return future


class InlineLoop(LeapingLoop):
    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        return super().run_in_executor(InlineExecutor(), func, *args)


def test_a_wrong_password_a_hundred_times_slows_down_who_tries_and_nobody_else(tmp_path: Path) -> None:
    """Time leaps. The brake is for the address, so a second one is needed for others."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with scene(tmp_path, passwords=PASSWORDS, login=ANN, store="memory") as on:
            began = loop.time()
            for number in range(100):
                with pytest.raises(AuthenticationFailed):
                    await amqpforge.connect(
                        on.url, reconnect=None, username="ann", password=f"guess {number}", timeout=60
                    )
            # From the sixth on they wait: 1, 2, 4, and then 5 seconds.
            assert loop.time() - began >= 1 + 2 + 4 + 92 * 5
            began = loop.time()
            await on.works()
            other = socket.create_connection(
                ("127.0.0.1", on.broker.ports[0].number), source_address=("127.0.0.2", 0)
            )
            reader, writer = await asyncio.open_connection(sock=other)
            writer.write(b"AMQP\x03\x01\x00\x00")
            assert await reader.readexactly(8) == b"AMQP\x03\x01\x00\x00"
            writer.close()
            assert loop.time() == began
            async with amqpforge.connect(on.url, reconnect=None, timeout=60, **BOB):
                assert loop.time() - began <= 6

    with asyncio.Runner(loop_factory=InlineLoop) as runner:
        runner.run(run())


# --- octets that are wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "octets",
    [
        b"AMQP\x00\x00\x09\x01",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        bytes.fromhex("160301020001") * 50,
    ],
    ids=["AMQP 0-9-1", "HTTP", "TLS"],
)
@in_loop
async def test_a_header_of_another_protocol_is_answered_with_ours(tmp_path: Path, octets: bytes) -> None:
    async with scene(tmp_path) as on, stranger(on.url) as peer:
        peer.send(octets)
        answer = await peer.reader.readexactly(8)
        assert answer.startswith(b"AMQP")
        assert answer[5:] == b"\x01\x00\x00"
        peer.writer.write_eof()
        assert await peer.reader.read() == b""
        await on.works()


@in_loop
async def test_half_a_frame_holds_up_nobody_and_not_for_ever(tmp_path: Path) -> None:
    async with scene(tmp_path, grace=Grace(idle=1.0)) as on, AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(stranger(on.url)) for _ in range(5)]
        for peer in peers:
            await peer.open()
            frame = encode_frame(
                Attach(name="link", handle=0, role=Role.SENDER, target=Target(address="kept")), 0
            )
            peer.send(frame[: len(frame) // 2])
        await on.works()
        for peer in peers:
            assert await peer.close_condition() == AmqpError.RESOURCE_LIMIT_EXCEEDED
            assert await peer.ended()


@pytest.mark.parametrize(
    ("frames", "condition"),
    [
        ([Open(container_id="again")], AmqpError.NOT_ALLOWED),
        ([End(), End()], AmqpError.ILLEGAL_STATE),
        ([b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x99\x45"], AmqpError.DECODE_ERROR),
        ([b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x12\x45"], AmqpError.DECODE_ERROR),
    ],
    ids=["open again", "end again", "unknown", "empty attach"],
)
@pytest.mark.spec("A-ERR-002", "A-ERR-005")
@in_loop
async def test_a_fault_of_structure_closes_the_connection_which_both_sides_do(
    tmp_path: Path, frames: list[Any], condition: str
) -> None:
    async with scene(tmp_path) as on, stranger(on.url) as peer:
        await peer.open()
        peer.send(*frames)
        assert await peer.close_condition() == condition
        await on.works()
        assert on.broker.usage.connections.used == 2  # It waits for the close of the other side.
        peer.send(Close())
        assert await peer.ended()
        await until(lambda: on.broker.usage.connections.used == 1)


@pytest.mark.parametrize(
    "octets",
    [
        b"\x00\x00\x00\x04\x02\x00\x00\x00",
        b"\x7f\x00\x00\x00\x02\x00\x00\x00",
        b"\x00\x00\x00\x08\x01\x00\x00\x00",
    ],
    ids=["too short", "too long", "overlapping"],
)
@in_loop
async def test_what_is_no_frame_closes_the_connection(tmp_path: Path, octets: bytes) -> None:
    async with scene(tmp_path) as on, stranger(on.url) as peer:
        await peer.open()
        peer.send(octets)
        assert await peer.close_condition() == AmqpConnectionError.FRAMING_ERROR
        peer.writer.write_eof()
        assert await peer.ended()
        await until(lambda: on.broker.usage.connections.used == 1)


@pytest.mark.parametrize(
    ("frame", "condition"),
    [
        (Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), AmqpError.ILLEGAL_STATE),
        (Transfer(handle=9), SessionError.UNATTACHED_HANDLE),
        (Detach(handle=9), SessionError.UNATTACHED_HANDLE),
        (Flow(handle=9, **WINDOWS), SessionError.UNATTACHED_HANDLE),
        (Disposition(role=Role.SENDER, first=0, last=0xFFFF_FFFF), AmqpError.INVALID_FIELD),
    ],
    ids=["begin", "transfer", "detach", "flow", "disposition"],
)
@in_loop
async def test_a_fault_in_a_session_ends_that_and_not_the_connection(
    tmp_path: Path, frame: Any, condition: str
) -> None:
    async with scene(tmp_path) as on, stranger(on.url) as peer:
        await peer.open()
        peer.send(frame)
        end: Any = await peer.expect(End)
        assert end.error.condition == condition
        peer.send(Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100), channel=1)
        await peer.expect(Begin)


@pytest.mark.spec("A-ERR-004")
@in_loop
async def test_the_reason_is_read_also_with_a_megabyte_under_way(tmp_path: Path) -> None:
    async with scene(tmp_path, queues={"q": QueueSettings()}) as on, stranger(on.url) as peer:
        await peer.open()
        await peer.attach(
            role=Role.SENDER, source=Source(), target=Target(address="q"), initial_delivery_count=0
        )
        await peer.expect(Flow)
        sent = [(Transfer(handle=0, delivery_id=id, delivery_tag=b"%d" % id), MESSAGE) for id in range(40)]
        peer.send(*sent[:20], Open(container_id="again"), *sent[20:])
        assert len(MESSAGE) * len(sent) > 1 << 20
        assert await peer.close_condition() == AmqpError.NOT_ALLOWED
        peer.send(Close())
        assert await peer.ended()
        assert on.broker.hosts["/"].queue("q").ready == 20


@pytest.mark.parametrize("ending", ["abort", "detach", "end", "close", "fault"])
@in_loop
async def test_who_leaves_without_waiting_for_an_answer_takes_none_from_others(
    tmp_path: Path, ending: str
) -> None:
    """His messages and those of others share a turn of the broker, and a commit."""
    queues = {"q": QueueSettings(durable=True)}
    frames = {
        "abort": (),
        "detach": (Detach(handle=0, closed=True),),
        "end": (End(),),
        "close": (Close(),),
        "fault": (Open(container_id="again"),),
    }
    async with scene(tmp_path, queues=queues) as on:
        sender = await on.connection.sender("q")
        for _ in range(20):
            async with stranger(on.url) as peer:
                await peer.open()
                await peer.attach(
                    role=Role.SENDER, source=Source(), target=Target(address="q"), initial_delivery_count=0
                )
                before = sender.post(Message("honest", durable=True))
                transfers = [
                    (Transfer(handle=0, delivery_id=id, delivery_tag=b"%d" % id), DURABLE) for id in range(5)
                ]
                peer.send(*transfers, *frames[ending])
                after = sender.post(Message("honest", durable=True))
                if ending == "abort":
                    await until(lambda: on.broker.usage.connections.used == 2)
                    peer.writer.transport.abort()
                assert [await before, await after] == [Accepted()] * 2
        assert on.broker.hosts["/"].queue("q").ready >= 40


# --- too much of something ---------------------------------------------------------------------------------


@in_loop
async def test_a_message_that_is_too_large_closes_its_link(tmp_path: Path) -> None:
    async with scene(tmp_path, limits={"message_size": 50_000}) as on, stranger(on.url) as peer:
        await peer.open()
        attached = await peer.attach(
            role=Role.SENDER, source=Source(), target=Target(address="kept"), initial_delivery_count=0
        )
        assert attached.max_message_size == 50_000
        await peer.expect(Flow)
        for place in range(10):
            peer.send((Transfer(handle=0, delivery_id=0, delivery_tag=b"x", more=place < 9), bytes(10_000)))
        detach: Any = await peer.expect(Detach)
        assert detach.closed
        assert detach.error.condition == LinkError.MESSAGE_SIZE_EXCEEDED
        await on.works()
        with pytest.raises(amqpforge.LocalError, match="50000"):
            await (await on.connection.sender("kept")).send(bytes(60_000))


@in_loop
async def test_who_sends_beyond_his_credit_loses_his_link(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, limits={"credit_per_link": 10}, queues={"q": QueueSettings()}) as on,
        stranger(on.url) as peer,
    ):
        await peer.open()
        await peer.attach(
            role=Role.SENDER, source=Source(), target=Target(address="q"), initial_delivery_count=0
        )
        assert (await peer.expect(Flow)).link_credit == 10
        peer.send(
            *((Transfer(handle=0, delivery_id=id, delivery_tag=b"%d" % id), DURABLE) for id in range(100))
        )
        detach = await peer.expect(Detach)
        assert detach.error.condition == LinkError.TRANSFER_LIMIT_EXCEEDED
        assert on.broker.hosts["/"].queue("q").ready <= 10


@in_loop
async def test_more_connections_than_there_may_be_are_turned_away(tmp_path: Path) -> None:
    limits = {"connections": 5, "connections_per_user": 3}
    async with (
        scene(tmp_path, limits=limits, passwords=PASSWORDS, login=ANN) as on,
        AsyncExitStack() as stack,
    ):
        for _ in range(2):
            await stack.enter_async_context(amqpforge.connect(on.url, reconnect=None, **ANN))
        with pytest.raises(ConnectionClosed) as caught:
            async with amqpforge.connect(on.url, reconnect=None, **ANN) as connection:
                await connection.wait_closed()
        assert condition_of(caught.value) == AmqpError.RESOURCE_LIMIT_EXCEEDED
        await stack.enter_async_context(amqpforge.connect(on.url, reconnect=None, **BOB))
        last = await amqpforge.connect(on.url, reconnect=None, **BOB)
        with pytest.raises(amqpforge.AmqpforgeError):
            await amqpforge.connect(on.url, reconnect=None, **BOB)
        await on.works()
        await last.close()
        await until(lambda: on.broker.usage.connections.used == 4)
        await stack.enter_async_context(amqpforge.connect(on.url, reconnect=None, **BOB))


@in_loop
async def test_more_sessions_than_there_may_be_close_the_connection(tmp_path: Path) -> None:
    async with scene(tmp_path, limits={"sessions_per_connection": 4}) as on, stranger(on.url) as peer:
        await peer.open()
        for channel in (1, 2, 3):
            peer.send(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=channel)
            await peer.expect(Begin)
        peer.send(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=4)
        assert await peer.close_condition() in (AmqpConnectionError.FRAMING_ERROR, AmqpError.NOT_ALLOWED)


@in_loop
async def test_more_links_than_there_may_be_are_refused(tmp_path: Path) -> None:
    limits = {"links_per_connection": 10, "consumers_per_queue": 3}
    async with (
        scene(tmp_path, limits=limits, queues={"q": QueueSettings()}) as on,
        amqpforge.connect(on.url, reconnect=None) as connection,
    ):
        for _ in range(3):
            await connection.receiver("q")
        with pytest.raises(LinkDetached) as caught:
            await connection.receiver("q")
        assert condition_of(caught.value) == AmqpError.RESOURCE_LIMIT_EXCEEDED
        for _ in range(7):
            await connection.sender("q")
        with pytest.raises((LinkDetached, amqpforge.SessionEnded, amqpforge.LocalError)):
            await connection.sender("q")


@in_loop
async def test_who_does_not_detach_what_is_refused_loses_his_session(tmp_path: Path) -> None:
    async with scene(tmp_path, limits={"links_per_connection": 3}) as on, stranger(on.url) as peer:
        await peer.open()
        fields: dict[str, Any] = {"role": Role.RECEIVER, "source": Source(address="none"), "target": Target()}
        for channel in range(3):
            if channel:
                peer.send(Begin(next_outgoing_id=0, incoming_window=9, outgoing_window=9), channel=channel)
            count = 3 if channel < 2 else 1
            for handle in range(count):
                peer.send(Attach(name=f"{channel} {handle}", handle=handle, **fields), channel=channel)
            if channel < 2:
                for _ in range(count):
                    assert (await peer.expect(Detach)).closed
        ended = await peer.expect(End)
        assert ended.error.condition == AmqpError.RESOURCE_LIMIT_EXCEEDED
        peer.send(Detach(handle=0, closed=True), Attach(name="new", handle=0, **fields))
        assert (await peer.expect(Detach)).error.condition == AmqpError.NOT_FOUND
        await on.works()


@in_loop
async def test_more_queues_than_there_may_be_are_refused(tmp_path: Path) -> None:
    limits = {"queues": 7, "dynamic_nodes_per_connection": 3}
    async with scene(tmp_path, limits=limits) as on, AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(amqpforge.connect(on.url, reconnect=None)) for _ in range(2)
        ]
        for count, connection in zip((3, 2), connections, strict=True):
            for _ in range(count):
                await connection.receiver(None)
            with pytest.raises(LinkDetached) as caught:
                await connection.receiver(None)
            assert condition_of(caught.value) == AmqpError.RESOURCE_LIMIT_EXCEEDED
        await on.works()
        await connections[0].close()
        await until(lambda: on.broker.usage.queues.used == 4)
        await connections[1].receiver(None)


@pytest.mark.parametrize(
    "selector",
    [
        "(" * 100_000,
        "NOT " * 100_000 + "TRUE",
        "a = 1 OR " * 100_000 + "b = 2",
        "a LIKE '" + "%a" * 100_000 + "'",
        "a IN ('" + "', '".join(map(str, range(100_000))) + "')",
        "1" * 100_000 + " = a",
    ],
    ids=["parentheses", "not", "or", "like", "in", "number"],
)
@in_loop
async def test_a_selector_that_is_too_much_is_refused(tmp_path: Path, selector: str) -> None:
    async with (
        scene(tmp_path, limits={"frame_size": LARGE}) as on,
        amqpforge.connect(on.url, reconnect=None, max_frame_size=LARGE) as connection,
    ):
        with pytest.raises(LinkDetached) as caught:
            await connection.receiver("live", selector=selector)
        assert condition_of(caught.value) == AmqpError.INVALID_FIELD
        await on.works()


@in_loop
async def test_a_selector_that_tries_many_ways_comes_to_an_end(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, queues={"q": QueueSettings()}) as on,
        amqpforge.connect(on.url, reconnect=None) as connection,
    ):
        receiver = await connection.receiver("q", selector="a LIKE '" + "%a" * 50 + "%b'")
        sender = await connection.sender("q")
        await sender.send(Message("no", application_properties={"a": "a" * 50_000}))
        await sender.send(Message("yes", application_properties={"a": "a" * 50_000 + "b"}))
        assert (await receiver.receive(timeout=5)).message.body == "yes"


@in_loop
async def test_names_and_addresses_of_64_kib_are_an_answer_and_no_more(tmp_path: Path) -> None:
    long = "x" * 65_536
    async with scene(tmp_path, limits={"frame_size": LARGE}) as on:
        on.broker.hosts["/"].declare_queue("q")
        async with amqpforge.connect(on.url, reconnect=None, max_frame_size=LARGE) as connection:
            for opening in (
                connection.sender(long),
                connection.receiver(f"/queues/{long}"),
                connection.sender(f"/exchanges/amq.topic/{long}"),
            ):
                with pytest.raises(LinkDetached) as caught:
                    await opening
                assert condition_of(caught.value) == AmqpError.INVALID_FIELD
            relay = await connection.sender(None)
            with pytest.raises(NotAccepted):
                await relay.send(Message("nowhere", to=long))
            async with connection.sender("q", name=long) as sender:
                await sender.send("from a link with a long name")
        assert on.broker.hosts["/"].queue("q").ready == 1
        with pytest.raises(ConnectionClosed) as closed:
            await amqpforge.connect(on.url, reconnect=None, hostname="vhost:" + long[:300])
        assert condition_of(closed.value) == AmqpError.NOT_FOUND

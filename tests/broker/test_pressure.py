"""A broker whose disk or memory is full, or whose clients do not read: others are served, nothing is lost."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import amqpforge
from amqpforge import Connection, Message
from amqpforge.broker.settings import QueueSettings
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    ReceiverSettleMode,
    Rejected,
    Role,
    SenderSettleMode,
    Source,
    Target,
    TerminusExpiryPolicy,
    encode_frame,
)
from tests.client.loops import in_loop
from tests.engine.frames import Begin, Detach, Disposition, End, Flow, Transfer

from .child import Child, children
from .scene import Scene, scene
from .stranger import stranger

MEBIBYTE = 1 << 20
PATIENCE = 5.0
SETTLES_LAST = ReceiverSettleMode.SECOND
NEVER = TerminusExpiryPolicy.NEVER


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to be")


# --- clients that do not read ------------------------------------------------------------------------------


@in_loop
async def test_a_client_that_never_reads_keeps_little_and_holds_up_nobody(tmp_path: Path) -> None:
    size, count = 64 * 1024, 600
    async with scene(tmp_path, queues={"q": QueueSettings()}) as on, stranger(on.url) as peer:
        queue = on.broker.hosts["/"].queue("q")
        sender = await on.connection.sender("q")
        await sender.send_many([Message(b"%d " % number + bytes(size)) for number in range(count)])
        await peer.open()
        await peer.attach(role=Role.RECEIVER, source=Source(address="q"), target=Target())
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.send(
            Flow(
                handle=0,
                delivery_count=0,
                link_credit=count,
                next_incoming_id=0,
                incoming_window=1 << 30,
                next_outgoing_id=0,
                outgoing_window=100,
            )
        )
        await until(lambda: queue.unacknowledged > 0)
        await on.works()
        held = queue.unacknowledged
        assert held * size < 16 * MEBIBYTE < count * size
        receiver = await on.connection.receiver("q")
        numbers = []
        while queue.ready:
            numbers.append(int((await receiver.receive(timeout=PATIENCE)).message.body.split()[0]))
        assert numbers == sorted(numbers)
        peer.writer.transport.abort()
        while len(numbers) < count:
            numbers.append(int((await receiver.receive(timeout=PATIENCE)).message.body.split()[0]))
        assert sorted(numbers) == list(range(count))


@in_loop
async def test_a_client_that_asks_and_never_reads_is_listened_to_no_longer(tmp_path: Path) -> None:
    """Each of its frames asks for an answer."""
    asking = encode_frame(
        Flow(next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=1, echo=True), 0
    )
    async with scene(tmp_path) as on, stranger(on.url, buffers=1 << 16) as peer:
        await peer.open()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for guest in on.broker.admission._inside:  # Little has to be sent if the system keeps little.
            end = guest.transport.get_extra_info("socket")
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        most, sent = 16 * MEBIBYTE, 0
        while sent < most:
            peer.send(asking * 2000)
            sent += len(asking) * 5000
            try:
                await asyncio.wait_for(peer.writer.drain(), 0.3)
            except TimeoutError:
                break
        assert sent < most
        await on.works()


# --- memory ------------------------------------------------------------------------------------------------


@in_loop
async def test_memory_that_is_full_stops_credit_until_something_is_consumed(tmp_path: Path) -> None:
    size, count, credit = 10_000, 1000, 20
    limits = {"memory": MEBIBYTE, "credit_per_link": credit}
    async with scene(tmp_path, limits=limits, queues={"q": QueueSettings()}) as on:
        bodies = on.broker.core.bodies
        async with amqpforge.connect(on.url, reconnect=None) as connection:
            sender = await connection.sender("q")
            outcomes = [sender.post(Message(b"%d " % number + bytes(size))) for number in range(count)]
            await until(lambda: bodies.is_pressed and not sender.credit)
            stopped = sum(outcome.done() for outcome in outcomes)
            assert MEBIBYTE <= bodies.used <= MEBIBYTE + 2 * credit * size
            assert stopped <= bodies.used // size + 1 < count
            receiver = await on.connection.receiver("q")
            for number in range(count):
                delivery = await receiver.receive(timeout=PATIENCE)
                assert int(delivery.message.body.split()[0]) == number
                assert bodies.used <= MEBIBYTE + 2 * credit * size
            assert await asyncio.wait_for(asyncio.gather(*outcomes), PATIENCE) == [Accepted()] * count
        assert not bodies.is_pressed


@in_loop
async def test_who_goes_on_with_old_credit_is_rejected_before_memory_runs_out(tmp_path: Path) -> None:
    size, count = 10_000, 1000
    payload = Message(bytes(size)).encode()
    limits = {"memory": MEBIBYTE, "credit_per_link": count}
    async with scene(tmp_path, limits=limits, queues={"q": QueueSettings()}) as on:
        queue, bodies = on.broker.hosts["/"].queue("q"), on.broker.core.bodies
        async with stranger(on.url) as peer:
            await peer.open()
            await peer.attach(
                role=Role.SENDER, source=Source(), target=Target(address="q"), initial_delivery_count=0
            )
            assert (await peer.expect(Flow)).link_credit == count
            for id in range(count):
                peer.send((Transfer(handle=0, delivery_id=id, delivery_tag=b"%d" % id), payload))
            outcomes: dict[int, Any] = {}
            while len(outcomes) < count:
                told = await peer.expect(Disposition)
                outcomes.update(dict.fromkeys(range(told.first, (told.last or told.first) + 1), told.state))
                assert bodies.used <= 2 * MEBIBYTE
        rejected = [state for state in outcomes.values() if isinstance(state, Rejected)]
        assert queue.ready == count - len(rejected) > MEBIBYTE // len(payload)
        for state in rejected:
            assert state.error is not None
            assert state.error.condition == AmqpError.RESOURCE_LIMIT_EXCEEDED
        receiver = await on.connection.receiver("q")
        for _ in range(queue.ready):
            await receiver.receive(timeout=PATIENCE)


def unfinished(on: Scene) -> int:
    """Octets that have come of messages of which not all is in."""
    service = on.broker._amqp_1_0
    assert service is not None
    octets = sum(head.engine.unfinished.octets for head in service.heads)
    assert octets <= on.broker.core.bodies.used <= octets + 100  # of whoever does nothing wrong
    return octets


def half(handle: int, octets: int) -> tuple[Any, bytes]:
    """The beginning of a message that never ends."""
    tag = b"half %d" % handle
    return Transfer(handle=handle, delivery_id=handle, delivery_tag=tag, more=True), bytes(octets)


async def attach_many(peer: Any, count: int, **fields: Any) -> None:
    """Have links to the queue ``q`` that send, with credit."""
    for handle in range(count):
        target = Target(address="q", **fields)
        await peer.attach(
            name=f"link {handle}",
            handle=handle,
            role=Role.SENDER,
            source=Source(),
            target=target,
            initial_delivery_count=0,
        )
        await peer.expect(Flow)


@in_loop
async def test_messages_that_never_end_take_only_so_much_of_a_connection(tmp_path: Path) -> None:
    limits = {"memory": MEBIBYTE, "message_size": 100_000}
    async with scene(tmp_path, limits=limits, queues={"q": QueueSettings()}) as on:
        most = MEBIBYTE // 4
        async with stranger(on.url) as peer:
            await peer.open()
            await attach_many(peer, 30)
            for handle in range(30):
                peer.send(half(handle, 60_000))
                if handle >= most // 60_000:
                    detach = await peer.expect(Detach)
                    assert (detach.handle, detach.closed) == (handle, True)
                    assert detach.error.condition == AmqpError.RESOURCE_LIMIT_EXCEEDED
                assert unfinished(on) <= most
            await until(lambda: unfinished(on) == 4 * 60_000)
            peer.send((Transfer(handle=0, aborted=True), b""), Detach(handle=1, closed=True))
            await peer.expect(Detach)
            await until(lambda: unfinished(on) == 2 * 60_000)
            peer.send(End())
            await peer.expect(End)
            assert not unfinished(on)
        await on.works()


@in_loop
async def test_messages_that_never_end_are_bounded_over_all_connections(tmp_path: Path) -> None:
    size = 60_000
    limits = {"memory": 4 * size, "message_size": 8 * size}
    async with (
        scene(tmp_path, limits=limits, queues={"q": QueueSettings()}) as on,
        stranger(on.url) as first,
        stranger(on.url) as second,
    ):
        for peer in (first, second):
            await peer.open(container_id="first" if peer is first else "second")
            await attach_many(peer, 1)
        for _ in range(4):
            first.send(half(0, size))
        await until(lambda: unfinished(on) == 4 * size)
        assert on.broker.is_pressed
        for _ in range(5):
            second.send(half(0, size))
        detach = await second.expect(Detach)
        assert detach.error.condition == AmqpError.RESOURCE_LIMIT_EXCEEDED
        assert unfinished(on) == 4 * size
        first.writer.transport.abort()
        await until(lambda: not unfinished(on))
        await on.works()


@in_loop
async def test_half_a_message_does_not_outlive_its_session(tmp_path: Path) -> None:
    limits = {"memory": MEBIBYTE}
    async with (
        scene(tmp_path, limits=limits, queues={"q": QueueSettings()}) as on,
        stranger(on.url) as peer,
    ):
        await peer.open()
        await attach_many(peer, 1, expiry_policy=NEVER)
        peer.send(half(0, 50_000), End())
        await peer.expect(End)
        assert not unfinished(on)
        peer.send(Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100))
        answer = await peer.attach(
            name="link 0",
            role=Role.SENDER,
            source=Source(),
            target=Target(address="q", expiry_policy=NEVER),
            unsettled={b"half 0": None},
            initial_delivery_count=0,
        )
        assert not answer.unsettled
        peer.send((Transfer(handle=0, delivery_id=0, delivery_tag=b"half 0"), Message(b"whole").encode()))
        assert (await peer.expect(Disposition)).state == Accepted()


# --- disk --------------------------------------------------------------------------------------------------


class Disk:
    """A disk that can be full.

    Attributes:
        store: the file of a store on it.
    """

    store: Path

    def fill(self, child: Child) -> None:
        """Leave no room for what the broker wants to write."""
        raise NotImplementedError

    def free(self, child: Child) -> None:
        """Give it room again."""
        raise NotImplementedError


class SmallDisk(Disk):
    """A file system in memory, which a file fills."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "broker.db"
        self._ballast = folder / "ballast"

    def fill(self, child: Child) -> None:
        file = os.open(self._ballast, os.O_WRONLY | os.O_CREAT)
        with suppress(OSError):
            while True:
                os.write(file, bytes(4096))
        os.close(file)

    def free(self, child: Child) -> None:
        self._ballast.unlink()


class SmallFiles(Disk):
    """Files of the broker must not grow beyond a size."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "broker.db"

    def fill(self, child: Child) -> None:
        log = self.store.with_name("broker.db-wal").stat().st_size
        _, most = resource.prlimit(child.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(child.process.pid, resource.RLIMIT_FSIZE, (log, most))

    def free(self, child: Child) -> None:
        _, most = resource.prlimit(child.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(child.process.pid, resource.RLIMIT_FSIZE, (most, most))


@pytest.fixture(params=["disk", "files"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "files":
        if not hasattr(resource, "prlimit"):
            pytest.skip("this system sets no limits of other processes")
        yield SmallFiles(tmp_path)
        return
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "amqpforge-test", str(tmp_path)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        yield SmallDisk(tmp_path)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


QUEUES: dict[str, dict[str, Any]] = {
    "kept": {"durable": True},
    "live": {},
    "work": {"durable": True, "dead_letter_exchange": "", "dead_letter_key": "dead"},
    "other": {"durable": True},
    "dead": {"durable": True},
}
SETUP: dict[str, Any] = {
    "queues": QUEUES,
    "bindings": [["amq.fanout", "", "work"], ["amq.fanout", "", "other"]],
}


async def found(connection: Connection, queue: str) -> list[int]:
    """The bodies of the messages in a queue."""
    async with connection.receiver(
        queue, mode="copy", credit=5000, snd_settle_mode=SenderSettleMode.SETTLED
    ) as receiver:
        return [number_of(await receiver.receive()) for _ in range(await receiver.drain())]


def number_of(delivery: amqpforge.Delivery) -> int:
    return int(bytes(delivery.message.body).split()[0])


async def publish_until_full(sender: amqpforge.Sender) -> tuple[list[int], Rejected]:
    """Publish durable messages until three on end are rejected; returns those that were accepted."""
    accepted: list[int] = []
    last: list[Rejected] = []
    for number in range(5000):
        outcome = await sender.send(Message(b"%d " % number + bytes(3000), durable=True), check=False)
        if isinstance(outcome, Accepted):
            accepted.append(number)
            last.clear()
        else:
            assert isinstance(outcome, Rejected)
            last.append(outcome)
            if len(last) == 3:
                return accepted, last[0]
    raise AssertionError("the disk is never full")


async def use_a_full_disk(connection: Connection, disk: Disk, child: Child) -> tuple[list[int], int]:
    """Publish and consume while a disk is full; returns what is to be in kept, and how many are dead."""
    kept = await connection.sender("kept")
    await kept.send(Message(b"-1", durable=True))
    fanout = await connection.sender("/exchanges/amq.fanout")
    for number in range(4):
        await fanout.send(Message(b"%d" % number, durable=True))
    disk.fill(child)
    accepted, rejected = await publish_until_full(kept)
    assert rejected.error is not None
    assert rejected.error.condition == AmqpError.INTERNAL_ERROR
    assert "room on the disk" in (rejected.error.description or "")

    live = await connection.sender("live")
    receiver = await connection.receiver("live")
    for number in range(20):
        assert await live.send(Message(b"%d" % number)) == Accepted()
        assert number_of(await receiver.receive(timeout=PATIENCE)) == number

    async with connection.receiver("kept", credit=1) as taking:
        assert number_of(await taking.receive(timeout=PATIENCE)) == -1
        first = number_of(await taking.receive(timeout=PATIENCE))
        assert first == accepted.pop(0)
    async with connection.receiver("work", auto_accept=False) as rejecting:
        for number in range(4):
            delivery = await rejecting.receive(timeout=PATIENCE)
            assert number_of(delivery) == number
            delivery.reject("amqp:not-allowed")
    async with connection.receiver("other") as taking:
        for number in range(4):
            assert number_of(await taking.receive(timeout=PATIENCE)) == number

    disk.free(child)
    outcome = await kept.send(Message(b"5000", durable=True), check=False)
    assert outcome == Accepted()
    async with connection.receiver("dead", mode="copy") as looking:
        for number in range(4):
            assert number_of(await looking.receive(timeout=PATIENCE)) == number
    return [*accepted, 5000], 4


def test_a_full_disk_rejects_what_is_durable_until_there_is_room(disk: Disk) -> None:
    async def run() -> tuple[list[int], int]:
        async with amqpforge.connect(url, reconnect=None) as connection:
            return await use_a_full_disk(connection, disk, child)

    async def look() -> dict[str, list[int]]:
        async with amqpforge.connect(url, reconnect=None) as connection:
            return {queue: await found(connection, queue) for queue in QUEUES}

    with children() as started:
        child = Child(disk.store, **SETUP)
        started.append(child)
        assert child.url is not None
        url = child.url
        expected, count = asyncio.run(run())
        assert child.ask("lengths")["dead"] == count
        child.end()
        child = Child(disk.store, **SETUP)
        started.append(child)
        assert child.url is not None
        url = child.url
        there = asyncio.run(look())
    assert there == {"kept": expected, "live": [], "work": [], "other": [], "dead": list(range(count))}

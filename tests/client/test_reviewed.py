"""What does not hang, leak or get lost when things go wrong at an awkward moment."""

from __future__ import annotations

import asyncio
import gc
import warnings
from pathlib import Path
from typing import Any

import pytest

from amqpforge import transport
from amqpforge.client import Message, Reconnect, connect
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import (
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    LinkDetached,
    LocalError,
    NegotiationFailed,
    OperationTimedOut,
)
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Attach,
    Close,
    Detach,
    Discharge,
    Disposition,
    Error,
    LinkError,
    Open,
    ProtocolHeader,
    SaslInit,
    Transfer,
    decode_message,
)

from .loops import in_leaping_loop, in_loop

SOON = Reconnect(first_delay=0.001)


def complaints() -> list[str]:
    """What the loop is told of errors that nobody has looked at."""
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
    return told


async def cancelled(task: asyncio.Future[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@in_loop
async def test_closing_sees_the_transport_off_if_the_peer_has_closed_first() -> None:
    async with ScriptedNode() as node:
        connection = await connect(node.url, reconnect=None)
        assert connection._wire is not None
        driver = connection._wire.driver
        assert driver is not None
        node.connections[0].close()
        with pytest.raises(ConnectionClosed):
            await connection.wait_closed()
        assert not driver.lost.done()
        await connection.close()
        assert driver.lost.done()


@in_loop
async def test_closing_sees_off_what_was_about_to_connect_again() -> None:
    async with ScriptedNode() as node:
        connection = await connect(node.url, reconnect=SOON)
        gate = node.script.on(Open).hold()
        node.connections[0].cut()
        await node.wait_for(lambda: gate.held)
        returning = connection._returning
        assert returning is not None
        await connection.close()
        assert returning.done()
        gate.open()


@in_loop
async def test_a_transport_whose_peer_does_not_read_is_dropped_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "_PATIENCE", 0.05)
    async with ScriptedNode() as node:
        connection = await connect(node.url, reconnect=None)
        sender = await connection.sender("q")
        assert connection._wire is not None
        driver = connection._wire.driver
        assert driver is not None
        node.connections[0].stop_reading()
        posted = [sender.post(bytes(1 << 20)) for _ in range(40)]
        while not driver._is_blocked:
            await asyncio.sleep(0)
        node.connections[0].send(Close())
        with pytest.raises(ConnectionClosed):
            await connection.wait_closed()
        assert not driver.lost.done()
        await driver.lost
        assert all(future.exception() for future in posted)


@pytest.mark.parametrize("kind", [ProtocolHeader, SaslInit])
@in_loop
async def test_a_server_that_drops_the_transport_early_is_tried_again(kind: type) -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        sender = await connection.sender("q")
        node.script.on(kind, times=3).cut()
        node.connections[0].cut()
        await sender.send("x")
        assert node.accepted == 5


@pytest.mark.parametrize("kind", [ProtocolHeader, SaslInit])
@in_loop
async def test_the_same_at_first_says_what_may_be_wrong(kind: type) -> None:
    async with ScriptedNode() as node:
        node.script.on(kind).cut()
        with pytest.raises(NegotiationFailed if kind is ProtocolHeader else AuthenticationFailed):
            await connect(node.url, reconnect=SOON)


@in_loop
async def test_a_recording_does_not_stay_open_when_nobody_is_there(tmp_path: Path) -> None:
    async with ScriptedNode() as node:
        url = node.url
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(ConnectionLost):
            await connect(url, reconnect=None, record=tmp_path / "session.pcap")
        gc.collect()
    assert not [warning for warning in seen if "session.pcap" in str(warning.message)]


@in_loop
async def test_a_recording_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "session.pcap"
    async with ScriptedNode() as node:
        with pytest.raises(LocalError, match="cannot record"):
            await connect(node.url, record=file)
        file.parent.mkdir()
        connection = await connect(node.url, record=file, reconnect=SOON)
        file.unlink()
        file.parent.rmdir()
        node.connections[0].cut()
        with pytest.raises(LocalError, match="cannot record"):
            await connection.wait_closed()
        await connection.close()


@in_loop
async def test_a_fault_while_connecting_again_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(url: object) -> None:
        raise ZeroDivisionError

    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        receiving = asyncio.ensure_future((await connection.receiver("q")).receive(timeout=None))
        monkeypatch.setattr(connection, "_establish", fail)
        node.connections[0].cut()
        with pytest.raises(LocalError, match="cannot be made again") as caught:
            await receiving
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
@in_loop
async def test_a_host_that_can_be_none_is_an_error_of_ours(host: str) -> None:
    with pytest.raises(LocalError, match="no name of a host"):
        await connect(f"amqp://{host}", reconnect=None)


@in_loop
async def test_a_receive_that_is_cancelled_as_a_message_comes_is_cancelled() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        receiver = await connection.receiver("q")
        receiving = asyncio.ensure_future(receiver.receive())
        while not receiver._waiters:
            await asyncio.sleep(0)
        receiving.cancel()
        receiver._wake_waiters(1)  # As the message of the same turn of the loop does.
        with pytest.raises(asyncio.CancelledError):
            await receiving
        node.put("q", "next")
        assert (await receiver.receive()).message.body == "next"


@in_loop
async def test_a_close_that_is_cancelled_ends_the_waiting_of_others() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        gate = node.script.on(Transfer).hold()
        sending = asyncio.ensure_future(sender.send("x", timeout=None))
        await node.wait_for(lambda: gate.held)
        closing = asyncio.ensure_future(sender.close())
        await asyncio.sleep(0)
        await cancelled(closing)
        with pytest.raises(LinkDetached):
            await sending
        assert connection.counters.links == 0
        gate.open()


@in_loop
async def test_a_link_closed_while_there_is_no_connection_has_no_error() -> None:
    async with ScriptedNode() as node:
        connection = await connect(node.url, reconnect=Reconnect(first_delay=20))
        sender, receiver = await connection.sender("q"), await connection.receiver("q")

        async def loop() -> None:
            async for _ in receiver:
                pass

        looping = asyncio.ensure_future(loop())
        node.connections[0].cut()
        while connection.is_connected:
            await asyncio.sleep(0)
        await connection.close()
        await looping
        assert sender.error is None
        assert receiver.error is None


@in_leaping_loop
async def test_a_link_that_is_detached_whenever_it_is_idle_goes_on_for_ever() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q", name="mine")
        for number in range(12):
            await sender.send(number)
            await asyncio.sleep(600)
            node.connections[0].detach("mine", Error(condition=LinkError.DETACH_FORCED))
            while sender.counters.reattached == number:
                await asyncio.sleep(0.01)
        assert sender.counters.reattached == 12


@in_loop
async def test_links_go_to_other_sessions_if_there_turns_out_to_be_no_room() -> None:
    settings = ConnectionSettings(session=SessionSettings(handle_max=2))
    async with ScriptedNode(settings=settings) as node, connect(node.url, reconnect=SOON) as connection:
        senders = await asyncio.gather(*(connection.sender(f"q{number}") for number in range(8)))
        assert [await sender.send("x", check=False) for sender in senders]
        assert connection.counters.sessions == 3
        node.connections[0].cut()
        for sender in senders:
            await sender.send("y")
        assert connection.counters.links == 8


@in_loop
async def test_draining_what_is_not_attached_stops_nothing() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        receiver = await connection.receiver("q")
        node.connections[0].cut()
        while connection.is_connected:
            await asyncio.sleep(0)
        with pytest.raises(ConnectionLost):
            await receiver.drain()
        node.put("q", "x")
        assert (await receiver.receive()).message.body == "x"


@in_loop
async def test_an_answer_that_cannot_be_decoded_does_not_stop_the_others() -> None:
    async with (
        ScriptedNode() as node,
        connect(node.url) as connection,
        connection.requester("rpc") as client,
        connection.receiver("rpc") as service,
        connection.sender(None) as sender,
    ):
        asking = asyncio.ensure_future(client.request("x"))
        request = (await service.receive()).message
        assert isinstance(request.reply_to, str)
        node.put(request.reply_to, Message.from_octets(bytes.fromhex("005373c0ff")))
        await sender.send(Message("y", to=request.reply_to, correlation_id=request.message_id))
        assert (await asking).body == "y"


@in_loop
async def test_a_request_that_fails_with_its_connection_leaves_no_error_unseen() -> None:
    async with ScriptedNode() as node:
        told = complaints()
        connection = await connect(node.url, reconnect=None)
        client = await connection.requester("rpc")
        gate = node.script.on(Transfer).hold()
        asking = asyncio.ensure_future(client.request("x"))
        await node.wait_for(lambda: gate.held)
        node.connections[0].cut()
        with pytest.raises(ConnectionLost):
            await asking
        await client.close()
        await connection.close()
        gc.collect()
        assert not told


@in_loop
async def test_a_coordinator_that_nobody_waits_for_any_more_leaves_no_error_unseen() -> None:
    async with ScriptedNode() as node:
        told = complaints()
        connection = await connect(node.url, reconnect=None)
        gate = node.script.on(Attach).hold()
        beginning = asyncio.ensure_future(connection.transaction().__aenter__())
        await node.wait_for(lambda: gate.held)
        await cancelled(beginning)
        node.connections[0].cut()
        with pytest.raises(ConnectionLost):
            await connection.wait_closed()
        await connection.close()
        del connection, beginning
        gc.collect()
        assert not told


@pytest.mark.parametrize("is_cancelled", [True, False])
@in_loop
async def test_a_transaction_that_is_declared_too_late_is_rolled_back(is_cancelled: bool) -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        gate = node.script.before(Disposition).hold()
        transaction = connection.transaction(timeout=None if is_cancelled else 0.05)
        beginning = asyncio.ensure_future(transaction.__aenter__())
        await node.wait_for(lambda: gate.held)
        if is_cancelled:
            await cancelled(beginning)
        else:
            with pytest.raises(OperationTimedOut):
                await beginning
        gate.open()
        await node.wait_for(lambda: len(node.received(Transfer)) == 2)
        transfers = [seen for seen in node.frames if type(seen.performative) is Transfer]
        command = decode_message(transfers[-1].payload).body.value  # type: ignore[union-attr]
        assert isinstance(command, Discharge)
        assert command.fail


@in_loop
async def test_a_detach_that_answers_a_cancelled_close_does_no_harm() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        gate = node.script.before(Detach).hold()
        sender = await connection.sender("q")
        closing = asyncio.ensure_future(sender.close())
        await node.wait_for(lambda: gate.held)
        await cancelled(closing)
        gate.open()
        async with connection.sender("q") as other:
            await other.send("x")
        assert connection.is_open

"""Our client with RabbitMQ 3.10: deliveries and messages."""

from __future__ import annotations

from functools import partial

import pytest

from amqpforge import (
    ConnectionLost,
    LocalError,
    Message,
    OperationTimedOut,
    SessionEnded,
)
from amqpforge_protocol.amqp_1_0 import Accepted
from tests.interop.payload import octets
from tests.interop.scenarios import RABBITMQ, Brokered, Played, answer, differs, lacks, refuses, scenario
from tests.interop.scenarios_rabbitmq_links import SILENCE, bystander, fallen_silent
from tests.interop.scenarios_samples import BIG, BODIES, FIELDS, MODES, settled

# --- deliveries ---------------------------------------------------------------------------------------------


async def settle_mode(row: str, stage: Brokered) -> Played:
    modes = MODES[row]
    address = await stage.declare("modes")
    async with bystander(stage) as connection:
        if row in ("sender unsettled, receiver second", "sender mixed, receiver second"):
            with pytest.raises(SessionEnded) as refused:
                await connection.sender(address, **modes)
            with pytest.raises(SessionEnded) as again:
                await connection.receiver(address, **modes)
            assert answer(again.value) == answer(refused.value)
            return refuses(refused.value)
        async with connection.sender(address, **modes) as sender:
            outcomes = [await sender.send(f"{n}", settled=each) for n, each in enumerate(settled(row))]
        assert outcomes == [None if each else Accepted() for each in settled(row)]
        async with connection.receiver(address, **modes) as receiver:
            bodies = [(await receiver.receive()).message.body for _ in range(4)]
        assert bodies == ["0", "1", "2", "3"]
    assert await stage.depth("modes") == 0
    return None


for mode_row in MODES:
    scenario(mode_row, RABBITMQ)(partial(settle_mode, mode_row))


@scenario("accepted", RABBITMQ)
async def accepted(stage: Brokered) -> Played:
    address = await stage.declare("accepted")
    async with stage.connect() as connection:
        async with connection.sender(address) as sender:
            assert await sender.send("x") == Accepted()
        async with connection.receiver(address, auto_accept=False) as receiver:
            (await receiver.receive()).accept()
    assert await stage.depth("accepted") == 0
    return None


@scenario("rejected, with an error", RABBITMQ)
async def rejected(stage: Brokered) -> Played:
    dead = await stage.declare("dead")
    letters = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
    address = await stage.declare("rejected", **letters)
    async with stage.connect() as connection:
        async with connection.sender(address) as sender:
            await sender.send("x")
        async with connection.receiver(address, auto_accept=False) as receiver:
            (await receiver.receive()).reject("amqp:not-allowed", "not today")
        async with connection.receiver(dead) as receiver:
            assert (await receiver.receive()).message.body == "x"
    full = await stage.declare("full", x_max_length=1, x_overflow="reject-publish")
    async with stage.connect() as connection:
        sender = await connection.sender(full)
        assert await sender.send("x") == Accepted()
        with pytest.raises(OperationTimedOut):
            await sender.send("one too many", timeout=SILENCE)
        await fallen_silent(connection, full)
    return differs(
        "takes a rejection, and drops its error; does not tell that a full queue rejects a message, and says "
        "nothing any more on this connection"
    )


@scenario("released", RABBITMQ)
async def released(stage: Brokered) -> Played:
    address = await stage.declare("released")
    async with stage.connect() as connection:
        async with connection.sender(address) as sender:
            await sender.send("x")
        async with connection.receiver(address, auto_accept=False) as receiver:
            first = await receiver.receive()
            assert first.message.first_acquirer
            first.release()
            again = await receiver.receive()
            assert (again.message.body, again.message.first_acquirer) == ("x", False)
            again.release()
    assert await stage.depth("released") == 1
    return None


@scenario("modified", RABBITMQ)
async def modified(stage: Brokered) -> Played:
    address = await stage.declare("modified")
    async with bystander(stage) as connection:
        async with connection.sender(address) as sender:
            await sender.send("x")
        async with connection.receiver(address, auto_accept=False) as receiver:
            delivery = await receiver.receive()
            with pytest.raises(LocalError, match="does not take the outcome modified"):
                delivery.modify(delivery_failed=True)
            delivery.release()
    assert await stage.depth("modified") == 1
    return lacks(
        "its source says that it takes accepted, rejected and released, so our client sends no other"
    )


@scenario("10 MiB both ways", RABBITMQ)
async def big(stage: Brokered) -> Played:
    address = await stage.declare("big")
    async with (
        stage.connect() as connection,
        connection.sender(address) as sender,
        connection.receiver(address) as receiver,
    ):
        assert await sender.send(octets(3, BIG)) == Accepted()
        assert (await receiver.receive()).message.body == octets(3, BIG)
    return None


@scenario("300 messages, credit 7", RABBITMQ)
async def window(stage: Brokered) -> Played:
    address = await stage.declare("window")
    async with stage.connect() as connection:
        async with connection.sender(address) as sender:
            outcomes = await sender.send_many((f"{n}" for n in range(300)), window=90)
        assert outcomes == [Accepted()] * 300
        async with connection.receiver(address, credit=7) as receiver:
            for number in range(300):
                # The broker goes too far now and then, when credit crosses messages; we bear as much again.
                assert receiver.counters.credit + receiver.counters.unsettled <= 14
                assert (await receiver.receive()).message.body == f"{number}"
    assert await stage.depth("window") == 0
    return None


@scenario("drain", RABBITMQ)
async def drain(stage: Brokered) -> Played:
    classic = await stage.declare("drained")
    async with bystander(stage) as connection:
        receiver = await connection.receiver(classic)
        with pytest.raises(ConnectionLost) as lost:
            await receiver.drain()
        assert isinstance(lost.value.__cause__, SessionEnded)
        assert lost.value.__cause__.condition == "amqp:internal-error"
    quorum = await stage.declare("drained-quorum", x_queue_type="quorum")
    async with stage.connect() as connection:
        async with connection.sender(quorum) as sender:
            await sender.send_many(["0", "1", "2"])
        async with connection.receiver(quorum, credit=10) as receiver:
            assert await receiver.drain() == 3
            assert receiver.counters.credit == 0
            assert [(await receiver.receive()).message.body for _ in range(3)] == ["0", "1", "2"]
    return differs("drains a quorum queue; for a classic queue it ends the session: amqp:internal-error")


async def transaction(stage: Brokered) -> Played:
    async with bystander(stage) as connection:
        with pytest.raises(SessionEnded) as refused:
            await connection.transaction().__aenter__()
    return refuses(refused.value)


scenario("transaction committed", RABBITMQ)(transaction)
scenario("transaction rolled back", RABBITMQ)(transaction)

# --- messages -----------------------------------------------------------------------------------------------


async def body(row: str, stage: Brokered) -> Played:
    message = Message(BODIES[row])
    address = await stage.declare("bodies")
    async with (
        stage.connect() as connection,
        connection.sender(address) as sender,
        connection.receiver(address) as receiver,
    ):
        await sender.send(message)
        received = (await receiver.receive()).message
    if row in ("body: several data sections", "body: several sequences"):
        assert isinstance(message.sections.body, list)
        assert received.sections.body == message.sections.body[::-1]
        return differs("the sections come back in reverse order")
    assert received.sections.body == message.sections.body
    return None


async def fields(row: str, stage: Brokered) -> Played:
    address = await stage.declare("fields")
    async with (
        stage.connect() as connection,
        connection.sender(address) as sender,
        connection.receiver(address) as receiver,
    ):
        await sender.send(FIELDS[row])
        received = (await receiver.receive()).message
    match row:
        case "header":
            assert (received.durable, received.priority, received.ttl) == (True, 7, 60.0)
        case "properties":
            assert received.sections.properties == FIELDS[row].sections.properties
        case "application properties":
            assert received.application_properties == FIELDS[row].application_properties
        case "message annotations":
            assert received.annotations == FIELDS[row].annotations
        case _:
            assert received.footer == FIELDS[row].footer
    assert received.body == b"body"
    return None


async def fatal(row: str, stage: Brokered) -> Played:
    address = await stage.declare("fatal")
    message = Message(BODIES[row]) if row in BODIES else FIELDS[row]
    async with stage.connect() as connection:
        sender = await connection.sender(address)
        if row == "delivery annotations":
            with pytest.raises(ConnectionLost):
                await sender.send(message)
        else:
            with pytest.raises(OperationTimedOut):
                await sender.send(message, timeout=SILENCE)
            await fallen_silent(connection, address)
    assert await stage.depth("fatal") == 0
    if row == "delivery annotations":
        return differs("says nothing, and cuts the connection after some seconds")
    return differs("says nothing any more on this connection")


FATAL = ("body: list", "delivery annotations")

for each_row in FATAL:
    scenario(each_row, RABBITMQ)(partial(fatal, each_row))
for body_row in BODIES.keys() - FATAL:
    scenario(body_row, RABBITMQ)(partial(body, body_row))
for fields_row in FIELDS.keys() - FATAL:
    scenario(fields_row, RABBITMQ)(partial(fields, fields_row))

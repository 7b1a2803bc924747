"""Our client with Proton and rhea as servers: deliveries and messages."""

from __future__ import annotations

from asyncio import to_thread
from functools import partial

import pytest

from amqpforge import Delivery, LinkDetached, Message, NotAccepted
from amqpforge_protocol.amqp_1_0 import Accepted
from tests.interop.payload import digest, octets
from tests.interop.scenarios import SERVERS, Played, Served, differs, refuses, scenario
from tests.interop.scenarios_samples import (
    ANSWERS,
    BIG,
    BODIES,
    FIELDS,
    LAST_ALONE,
    LAST_SECTION,
    MODES,
    OUTCOMES,
    SHOWN_PROPERTIES,
    is_shown,
    plain,
    settled,
    told,
)

# --- deliveries ---------------------------------------------------------------------------------------------


async def settle_mode(row: str, stage: Served) -> Played:
    server = stage.server
    async with stage.connect() as connection:
        async with connection.sender(row, **MODES[row]) as sender:
            outcomes = [await sender.send("x", settled=each) for each in settled(row)]
        assert outcomes == [None if each else Accepted() for each in settled(row)]
        taken = await to_thread(server.take, row, 4)
        assert [message.settled for message in taken] == settled(row)
        await to_thread(server.settle, row)

        await to_thread(server.put, row, 4)
        async with connection.receiver(row, **MODES[row]) as receiver:
            deliveries = [await receiver.receive() for _ in range(4)]
            assert [each.message.message_id for each in deliveries] == ["m-0", "m-1", "m-2", "m-3"]
            await to_thread(server.settle, row)
            await connection.round_trip()  # What the server has told by now is in.
            assert receiver.counters.unsettled == 0
        told_outcomes = await to_thread(server.told, row, 0)
        assert [each.name for each in told_outcomes] == ["accepted"] * (0 if all(settled(row)) else 4)
        assert await to_thread(server.depth, row) == 0
    return None


for mode_row in MODES:
    scenario(mode_row, *SERVERS)(partial(settle_mode, mode_row))


def decide(row: str, delivery: Delivery) -> None:
    """Give a delivery the outcome of a row."""
    match row:
        case "accepted":
            delivery.accept()
        case "released":
            delivery.release()
        case "modified":
            delivery.modify(delivery_failed=True, annotations={"x-opt-why": "tired"})
        case _:
            delivery.reject("amqp:not-allowed", "not today")


async def outcome(row: str, stage: Served) -> Played:
    server = stage.server
    await to_thread(server.answer, row, ANSWERS[row])
    async with stage.connect() as connection:
        async with connection.sender(row) as sender:
            assert plain(await sender.send("x", check=False)) == OUTCOMES[row]
            if row != "accepted":
                with pytest.raises(NotAccepted) as refused:
                    await sender.send("x")
                assert plain(refused.value.outcome) == OUTCOMES[row]
        assert await to_thread(server.depth, row) == (row == "accepted")
        back = f"{row}-back"
        await to_thread(server.put, back)
        async with connection.receiver(back, auto_accept=False, credit=0) as receiver:
            decide(row, await receiver.receive())
            assert await to_thread(server.told, back, 1) == [told(ANSWERS[row])]
            if row in ("released", "modified"):
                again = await receiver.receive()
                assert (again.message.delivery_count or 0) == (row == "modified")
                again.accept()
    await to_thread(server.settle, back)
    assert await to_thread(server.depth, back) == 0
    return None


for outcome_row in OUTCOMES:
    scenario(outcome_row, *SERVERS)(partial(outcome, outcome_row))


@scenario("10 MiB both ways", *SERVERS)
async def big(stage: Served) -> Played:
    async with stage.connect() as connection:
        async with connection.sender("big") as sender:
            await sender.send(octets(3, BIG))
        [taken] = await to_thread(stage.server.take, "big")
        assert (taken.body.size, taken.body.sha256) == (BIG, digest(3, BIG))
        async with connection.sender("big") as sender, sender.stream(size=BIG) as stream:
            for start in range(0, BIG, BIG // 20):
                await stream.write(octets(start + 5, BIG // 20))
        async with connection.receiver("big") as receiver:
            assert (await receiver.receive()).message.body == octets(5, BIG)
    return None


@scenario("300 messages, credit 7", *SERVERS)
async def window(stage: Served) -> Played:
    async with stage.connect() as connection:
        async with connection.sender("window") as sender:
            outcomes = await sender.send_many(
                (Message("x", message_id=f"{n}") for n in range(300)), window=90
            )
        assert outcomes == [Accepted()] * 300
        async with connection.receiver("window", credit=7) as receiver:
            for number in range(300):
                assert receiver.counters.credit + receiver.counters.unsettled <= 7
                assert (await receiver.receive()).message.message_id == f"{number}"
    await to_thread(stage.server.settle, "window")
    assert await to_thread(stage.server.depth, "window") == 0
    return None


@scenario("drain", *SERVERS)
async def drain(stage: Served) -> Played:
    await to_thread(stage.server.put, "drained", 3)
    async with stage.connect() as connection, connection.receiver("drained", credit=10) as receiver:
        assert await receiver.drain() == 3
        assert receiver.counters.credit == 0
        await to_thread(stage.server.put, "drained")
        await connection.round_trip()
        assert receiver.counters.waiting == 3
        receiver.resume()
        received = [(await receiver.receive()).message.message_id for _ in range(4)]
        assert received == ["m-0", "m-1", "m-2", "m-0"]
        assert await receiver.drain() == 0
    return None


async def transaction(row: str, stage: Served) -> Played:
    server = stage.server
    left = ["m-2", "new"] if row == "transaction committed" else ["m-0", "m-1", "m-2"]
    await to_thread(server.put, row, 3)
    async with stage.connect() as connection:
        async with (
            connection.sender(row) as sender,
            connection.receiver(row, auto_accept=False, credit=0) as receiver,
        ):
            deliveries = [await receiver.receive() for _ in range(2)]
            try:
                async with connection.transaction() as work:
                    await sender.send(Message("x", message_id="new"), transaction=work)
                    for delivery in deliveries:
                        delivery.accept(transaction=work)
                    assert await to_thread(server.depth, row) == 1
                    if row == "transaction rolled back":
                        await work.rollback()
            except LinkDetached as error:
                return refuses(error)
        await to_thread(server.settle, row)
        messages = await to_thread(server.take, row, len(left))
        assert [message.properties["message_id"] for message in messages] == left
        assert await to_thread(server.depth, row) == 0
    return None


for transaction_row in ("transaction committed", "transaction rolled back"):
    scenario(transaction_row, *SERVERS)(partial(transaction, transaction_row))

# --- messages -----------------------------------------------------------------------------------------------


async def body(row: str, stage: Served) -> Played:
    message = Message(BODIES[row])
    echo, back = f"{row}: echo", f"{row}: back"
    await to_thread(stage.server.echo, echo)  # It decodes the message, and encodes it anew.
    async with (
        stage.connect() as connection,
        connection.sender(None) as sender,
        connection.receiver(row, credit=0) as receiver,
        connection.receiver(back) as echoes,
    ):
        await sender.send(Message(BODIES[row], to=row))
        [taken] = await to_thread(stage.server.take, row)
        await sender.send(Message(BODIES[row], to=row))
        passed_on = (await receiver.receive()).message
        await sender.send(Message(BODIES[row], to=echo, reply_to=back))
        echoed = (await echoes.receive()).message
    assert passed_on.sections.body == message.sections.body
    if stage.kind == "proton" and row in LAST_SECTION:
        assert (taken.body.kind, taken.body.text, taken.body.value) == LAST_SECTION[row]
        assert isinstance(message.sections.body, list)
        assert echoed.sections.body == message.sections.body[-1:]
        return differs(LAST_ALONE)
    assert is_shown(row, taken.body)
    assert echoed.body == message.body
    return None


for body_row in BODIES:
    scenario(body_row, *SERVERS)(partial(body, body_row))


async def fields(row: str, stage: Served) -> Played:
    message = FIELDS[row]
    async with (
        stage.connect() as connection,
        connection.sender(row) as sender,
        connection.receiver(row, credit=0) as receiver,
    ):
        await sender.send(message)
        [taken] = await to_thread(stage.server.take, row)
        assert taken.body.text == "body"
        match row:
            case "header":
                assert (taken.header["durable"], taken.header["priority"]) == (True, 7)
                assert taken.header["ttl"] == 60_000
            case "properties":
                assert SHOWN_PROPERTIES.items() <= taken.properties.items()
            case "application properties":
                assert taken.application_properties.keys() == message.application_properties.keys()
                assert taken.application_properties["binary"] == "00ff"
            case "message annotations":
                assert taken.message_annotations == {"x-opt-list": [1, 2], "x-opt-text": "x"}
        await sender.send(message)
        received = (await receiver.receive()).message
    assert received == message
    return None


for fields_row in FIELDS:
    scenario(fields_row, *SERVERS)(partial(fields, fields_row))

"""A bare message on its way: through brokers and applications, octet for octet."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

import amqpforge
from amqpforge.testing import ScriptedBroker
from amqpforge_protocol.amqp_1_0 import Message, Transfer, decode_message, encode_message

from .loops import in_loop

# Encodings that nothing of ours would choose: list32, str32 and an int of four octets.
ODD = (
    bytes.fromhex("005373 d000000011 00000004 404040 b100000005")
    + b"hello"
    + bytes.fromhex("005377 7100000001")
)
BODY_ALONE = bytes.fromhex("005377 a103") + b"abc"
HOPS = 3


def handed_out(broker: ScriptedBroker) -> list[bytes]:
    """The messages that a broker has sent, each in one transfer, as they were on the wire."""
    return [
        seen.payload for seen in broker.frames if seen.is_sent and isinstance(seen.performative, Transfer)
    ]


@in_loop
@pytest.mark.spec("M-FORMAT-007")
async def test_a_digest_of_the_bare_message_holds_over_hops_that_change_what_is_around_it() -> None:
    """Each hop hands a message back as failed once, and sends it on with another ttl and annotation."""
    async with ScriptedBroker() as broker, amqpforge.connect(broker.url) as connection:
        for hop in range(HOPS + 1):
            broker.declare_queue(f"q{hop}")
        async with connection.sender("q0") as sender:
            await sender.send(amqpforge.Message.from_octets(ODD))
        for hop in range(HOPS):
            async with (
                connection.receiver(f"q{hop}", auto_accept=False) as receiver,
                connection.sender(f"q{hop + 1}") as sender,
            ):
                first = await receiver.receive(timeout=5)
                first.modify(delivery_failed=True)
                again = await receiver.receive(timeout=5)
                message = again.message
                assert message.delivery_count == hop + 1
                message.ttl = 60_000 - hop
                message.annotations[f"x-opt-hop-{hop}"] = hop
                await sender.send(message)
                again.accept()
        async with connection.receiver(f"q{HOPS}") as receiver:
            last = (await receiver.receive(timeout=5)).message
        octets = handed_out(broker)[-1]
    for hop in range(HOPS):
        assert last.annotations[f"x-opt-hop-{hop}"] == hop
    assert last.ttl is not None
    assert last.ttl <= 60_000 - HOPS + 1
    assert hashlib.sha256(octets[-len(ODD) :]).digest() == hashlib.sha256(ODD).digest()


@in_loop
@pytest.mark.spec("M-FORMAT-005")
async def test_a_broker_adds_no_section_to_the_bare_message() -> None:
    async with ScriptedBroker() as broker, amqpforge.connect(broker.url) as connection:
        broker.declare_queue("q")
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            await sender.send(amqpforge.Message.from_octets(BODY_ALONE))
            await receiver.receive(timeout=5)
        (octets,) = handed_out(broker)
    assert octets.endswith(BODY_ALONE)
    # Ahead of it there is a header at most: a section has a descriptor, and this one is the header's.
    assert octets[: -len(BODY_ALONE)][:3] in (b"", bytes.fromhex("005370"))
    sections = decode_message(octets)
    assert encode_message(Message(header=sections.header, body=sections.body)) == octets


@in_loop
@pytest.mark.spec("M-FORMAT-011")
async def test_a_message_goes_and_comes_with_the_message_format_0() -> None:
    large = b"x" * 200_000  # Several transfers, the first of which has the format.
    async with ScriptedBroker() as broker, amqpforge.connect(broker.url) as connection:
        broker.declare_queue("q")
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            for body in ("small", large):
                await sender.send(body)
                assert (await receiver.receive(timeout=5)).message.body == body
        for seen in (broker.received(Transfer), broker.sent(Transfer)):
            firsts = [one for one in seen if one.delivery_tag is not None]
            assert len(seen) > len(firsts) == 2
            assert [first.message_format for first in firsts] == [0, 0]


@in_loop
@pytest.mark.spec("M-PROPS-003")
async def test_ids_that_are_made_for_requests_are_never_the_same() -> None:
    """Of several requesters, on connections of their own."""
    count, producers = 50, 3
    async with ScriptedBroker() as broker, amqpforge.connect(broker.url) as service:
        broker.declare_queue("service")
        seen: list[object] = []

        async def serve() -> None:
            async with service.receiver("service") as requests, service.sender(None) as replies:
                async for delivery in requests:
                    request = delivery.message
                    seen.append(request.message_id)
                    reply = amqpforge.Message("", to=request.reply_to, correlation_id=request.message_id)
                    await replies.send(reply)
                    delivery.accept()

        async def ask() -> None:
            async with (
                amqpforge.connect(broker.url) as connection,
                connection.requester("service") as requester,
            ):
                await asyncio.gather(*(requester.request("", timeout=5) for _ in range(count)))

        serving = asyncio.create_task(serve())
        await asyncio.gather(*(ask() for _ in range(producers)))
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    assert None not in seen
    assert len(set(seen)) == len(seen) == count * producers

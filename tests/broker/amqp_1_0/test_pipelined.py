"""Clients that wait for no answer once they are logged in: all that they have to say comes in one piece."""

from __future__ import annotations

import asyncio

import amqpforge
from amqpforge.broker.broker import Broker
from amqpforge.broker.settings import QueueSettings
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Attach,
    Begin,
    Close,
    Flow,
    FrameReader,
    Handle,
    Open,
    ProtocolHeader,
    ProtocolId,
    Role,
    SaslInit,
    SaslOutcome,
    SequenceNo,
    Source,
    Symbol,
    Target,
    Transfer,
    TransferNumber,
    decode_frame,
    encode_frame,
)

SECONDS = 20.0
FIRST = TransferNumber(SequenceNo(0))
LINK = Handle(0)


LOGIN = ProtocolHeader(ProtocolId.SASL).encode() + encode_frame(
    SaslInit(mechanism=Symbol("ANONYMOUS"), initial_response=b"me")
)


def said_at_once(attach: Attach, *frames: Flow | Transfer | Close, payload: bytes = b"") -> bytes:
    """All octets of a client with one link; the payload goes with a transfer."""
    parts = [
        ProtocolHeader(ProtocolId.AMQP).encode(),
        encode_frame(Open(container_id="hasty")),
        encode_frame(Begin(next_outgoing_id=FIRST, incoming_window=100, outgoing_window=100)),
        encode_frame(attach),
    ]
    parts += [encode_frame(frame, 0, payload if isinstance(frame, Transfer) else b"") for frame in frames]
    return b"".join(parts)


async def answer_to(broker: Broker, octets: bytes, last: type) -> list[tuple[object, bytes]]:
    """What the broker says up to a frame of one kind, with the payloads; fails if that does not come."""
    host, port = broker.url.removeprefix("amqp://").split(":")
    frames: list[tuple[object, bytes]] = []
    items = FrameReader(65536)
    async with asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection(host, int(port))
        for part, end in ((LOGIN, SaslOutcome), (octets, last)):
            writer.write(part)
            while not frames or not isinstance(frames[-1][0], end):
                chunk = await reader.read(65536)
                assert chunk, f"the broker closes after {frames}"
                for item in items.feed(chunk):
                    if not item.startswith(b"AMQP"):
                        frame, _ = decode_frame(item)
                        frames.append((frame.performative, bytes(frame.payload)))
        writer.close()
        await writer.wait_closed()
    return frames


def test_a_consumer_that_gives_credit_before_the_attach_is_answered_gets_what_there_is() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            broker.hosts["/"].declare_queue("q", QueueSettings())
            async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
                await sender.send(Message(b"hello"))
            attach = Attach(
                name="l", handle=LINK, role=Role.RECEIVER, source=Source(address="q"), target=Target()
            )
            credit = Flow(
                next_incoming_id=FIRST,
                incoming_window=100,
                next_outgoing_id=FIRST,
                outgoing_window=100,
                handle=LINK,
                link_credit=1,
            )
            frames = await answer_to(broker, said_at_once(attach, credit), Transfer)
            assert Message.from_octets(frames[-1][1]).body == b"hello"

    asyncio.run(scenario())


def test_an_attach_that_comes_with_the_open_is_answered() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            broker.hosts["/"].declare_queue("q", QueueSettings())
            attach = Attach(
                name="l",
                handle=LINK,
                role=Role.SENDER,
                source=Source(),
                target=Target(address="q"),
                initial_delivery_count=SequenceNo(0),
            )
            frames = await answer_to(broker, said_at_once(attach), Flow)
            kinds = [type(frame) for frame, _ in frames]
            assert kinds[-4:] == [Open, Begin, Attach, Flow]

    asyncio.run(scenario())

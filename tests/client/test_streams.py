"""Messages that are never held whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amqpforge.client import Message, MessageAborted, StreamedDelivery, connect
from amqpforge.client.data import DataReader
from amqpforge.errors import (
    ConnectionLost,
    LinkDetached,
    LocalError,
    NotAccepted,
    OperationTimedOut,
)
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpSequence,
    Begin,
    Data,
    DecodeError,
    Disposition,
    Released,
    Transfer,
)

from .loops import in_loop

PIECE = bytes(range(256)) * 256


async def streamed(receiver: Any) -> StreamedDelivery:
    delivery = await receiver.receive()
    assert isinstance(delivery, StreamedDelivery)
    return delivery


@in_loop
async def test_a_message_is_written_piece_by_piece() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        async with sender.stream(Message(subject="film", durable=True)) as stream:
            for _ in range(20):
                await stream.write(PIECE)
        assert stream.outcome == Accepted()
        (message,) = node.messages("q")
        assert message.body == PIECE * 20
        assert (message.subject, message.durable) == ("film", True)
        assert message.sections.body == [Data(PIECE)] * 20
        assert sender.counters.messages == 1
        assert sender.counters.octets > len(PIECE) * 20


@in_loop
async def test_data_whose_size_is_told_is_one_section() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        async with sender.stream(size=len(PIECE) * 3) as stream:
            for _ in range(3):
                await stream.write(PIECE)
        async with sender.stream(size=0):
            pass
        async with sender.stream():
            pass
        assert [message.sections.body for message in node.messages("q")] == [
            [Data(PIECE * 3)],
            [Data(b"")],
            [Data(b"")],
        ]


@in_loop
async def test_data_of_another_size_than_was_told_is_an_error_and_the_message_is_aborted() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        with pytest.raises(LocalError, match="2 of them are missing"):
            async with sender.stream(size=5) as stream:
                await stream.write(b"abc")
        with pytest.raises(LocalError, match="more are written"):
            async with sender.stream(size=5) as stream:
                await stream.write(b"abcdef")
        with pytest.raises(LocalError, match="section"):
            async with sender.stream(size=1 << 32):
                pass
        await sender.send("whole")
        assert [message.body for message in node.messages("q")] == ["whole"]


@in_loop
async def test_an_exception_inside_the_block_aborts_the_message() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")

        async def failing() -> None:
            async with sender.stream() as stream:
                await stream.write(PIECE)
                await node.wait_for(lambda: node.received(Transfer))
                raise ValueError("no more")

        with pytest.raises(ValueError, match="no more"):
            await failing()
        await sender.send("next")
        assert [message.body for message in node.messages("q")] == ["next"]
        assert True in [transfer.aborted for transfer in node.received(Transfer)]
        assert sender.counters.unsettled == 0


@in_loop
async def test_a_write_waits_while_the_peer_gives_no_credit() -> None:
    async with ScriptedNode(credit=0) as node, connect(node.url) as connection:
        sender = await connection.sender("q")

        async def failing() -> None:
            async with sender.stream(timeout=0.05) as stream:
                for _ in range(1000):
                    await stream.write(PIECE)

        with pytest.raises(OperationTimedOut, match="writing"):
            await failing()
        assert sender.counters.octets < 1_000_000
        assert not node.received(Transfer)


@in_loop
async def test_the_outcome_of_a_stream_is_an_error_if_it_is_not_accepted() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.queue("q").answer = Released()
        sender = await connection.sender("q")
        with pytest.raises(NotAccepted):
            async with sender.stream() as stream:
                await stream.write(b"x")


@in_loop
async def test_a_stream_that_is_sent_settled_ends_when_it_is_out() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        async with sender.stream(settled=True) as stream:
            for _ in range(30):
                await stream.write(PIECE)
        assert stream.outcome is None
        await node.wait_for(lambda: [message.body for message in node.messages("q")] == [PIECE * 30])
        assert sender.counters.unsettled == 0


@in_loop
async def test_writing_ends_when_the_link_is_closed() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.script.on(Transfer, skip=3).detach("amqp:link:message-size-exceeded", "too much", closed=True)
        sender = await connection.sender("q")

        async def failing() -> None:
            async with sender.stream() as stream:
                for _ in range(1000):
                    await stream.write(PIECE)

        with pytest.raises(LinkDetached, match="too much"):
            await failing()
        with pytest.raises(LocalError, match="inside of its block"):
            await sender_stream_outside(connection)


async def sender_stream_outside(connection: Any) -> None:
    await (await connection.sender("q")).stream().write(b"x")


@in_loop
async def test_a_message_is_read_while_it_comes_in() -> None:
    async with ScriptedNode() as node, connect(node.url, max_frame_size=4096) as connection:
        gate = node.script.before(Transfer, skip=2).hold()
        node.put("q", Message(PIECE, subject="film", application_properties={"n": 1}))
        async with connection.receiver("q", stream=True, credit=1) as receiver:
            delivery = await streamed(receiver)
            head = await delivery.head()
            assert (head.subject, head.application_properties, head.body) == ("film", {"n": 1}, b"")
            pieces = delivery.data()
            read = len(await anext(pieces))
            assert 0 < read < len(PIECE)
            gate.open()
            assert read + sum([len(piece) async for piece in pieces]) == len(PIECE)
            delivery.accept()
        await node.wait_for(lambda: [one.outcome for one in node.queue("q").retired] == [Accepted()])


@in_loop
async def test_what_is_not_read_holds_the_sender_back_and_nobody_else() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("big", b"x" * 20_000_000)
        node.put("q", "small")
        async with (
            connection.receiver("big", stream=True, credit=1, max_message_size=None) as stalled,
            connection.receiver("q") as receiver,
        ):
            delivery = await streamed(stalled)
            await connection.round_trip()
            held = delivery._delivery
            assert sum(map(len, held.parts)) <= 5_000_000
            assert (await receiver.receive()).message.body == "small"
            assert sum([len(piece) async for piece in delivery.data()]) == 20_000_000
            delivery.accept()
        assert len(node.received(Begin)) >= 2


@in_loop
async def test_the_octets_of_a_message_can_be_read_as_they_are() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        message = Message(["no", "data"])
        node.put("q", message)
        async with connection.receiver("q", stream=True) as receiver:
            delivery = await streamed(receiver)
            octets = b"".join([piece async for piece in delivery.octets()])
            assert Message.from_octets(octets) == message


@in_loop
async def test_a_body_that_is_no_data_says_how_to_read_it() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("q", "text")
        async with connection.receiver("q", stream=True) as receiver:
            delivery = await streamed(receiver)
            await delivery.head()
            with pytest.raises(LocalError, match="octets"):
                await anext(delivery.data())


@in_loop
async def test_a_message_that_the_sender_breaks_off_is_an_error() -> None:
    async with ScriptedNode() as node, connect(node.url, max_frame_size=512) as connection:
        node.script.before(Transfer, skip=1, times=1).replace(
            lambda seen: Transfer(handle=seen.performative.handle, aborted=True)
        )
        node.script.before(Transfer, skip=2).drop()
        node.put("q", b"x" * 5000)
        receiver = await connection.receiver("q", stream=True)
        delivery = await streamed(receiver)
        with pytest.raises(MessageAborted):
            async for _ in delivery.data():
                pass


@in_loop
async def test_a_piece_that_does_not_come_in_time_is_an_error() -> None:
    async with ScriptedNode() as node, connect(node.url, max_frame_size=512) as connection:
        node.script.before(Transfer, skip=1).drop()
        node.put("q", b"x" * 5000)
        receiver = await connection.receiver("q", stream=True)
        delivery = await streamed(receiver)
        pieces = delivery.data(timeout=0.02)
        await anext(pieces)
        with pytest.raises(OperationTimedOut, match="piece"):
            await anext(pieces)


@in_loop
async def test_what_is_left_of_a_message_with_an_outcome_is_dropped() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("q", b"x" * 20_000_000)
        node.put("q", b"next")
        async with connection.receiver("q", stream=True, credit=1, max_message_size=None) as receiver:
            delivery = await streamed(receiver)
            await delivery.head()
            delivery.reject()
            with pytest.raises(LocalError, match="dropped"):
                async for _ in delivery.octets():
                    pass
            following = await streamed(receiver)
            assert b"".join([piece async for piece in following.data()]) == b"next"


@in_loop
async def test_messages_that_nobody_took_are_released_on_close() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("q", b"x")
        receiver = await connection.receiver("q", stream=True)
        await node.wait_for(lambda: node.sent(Transfer))
        await connection.round_trip()
        await receiver.close()
        assert [one.state for one in node.received(Disposition)] == [Released()]


@in_loop
async def test_reading_ends_with_the_reason_when_the_link_does() -> None:
    async with ScriptedNode() as node, connect(node.url, max_frame_size=512) as connection:
        node.script.before(Transfer, skip=1).drop()
        node.put("q", b"x" * 5000)
        receiver = await connection.receiver("q", stream=True)
        delivery = await streamed(receiver)
        await delivery.head()
        reading = asyncio.ensure_future(_read(delivery))
        await asyncio.sleep(0)
        node.connections[0].close()
        with pytest.raises(ConnectionLost):
            await reading


async def _read(delivery: StreamedDelivery) -> None:
    async for _ in delivery.data():
        pass


# --- the sections of a message that comes in pieces --------------------------------------------------------

WHOLE = Message(
    b"abc",
    durable=True,
    subject="s",
    annotations={"x-opt-a": 1},
    application_properties={"k": "v"},
    footer={"x-opt-f": 2},
).encode()


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_sections_are_found_however_the_message_is_cut(step: int) -> None:
    reader = DataReader()
    data = b""
    for start in range(0, len(WHOLE), step):
        reader.feed(WHOLE[start : start + step])
        data += reader.take()
    reader.end()
    assert data == b"abc"
    assert (reader.head.subject, dict(reader.head.annotations)) == ("s", {"x-opt-a": 1})


@pytest.mark.parametrize(
    "octets",
    [
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75\xa0\x03abc",
        b"\x00\xa3\x10amqp:data:binary\xa0\x03abc",
        b"\x00\x53\x75\xb0\x00\x00\x00\x03abc",
    ],
)
def test_other_forms_of_a_data_section_are_understood(octets: bytes) -> None:
    for step in (1, len(octets)):
        reader = DataReader()
        for start in range(0, len(octets), step):
            reader.feed(octets[start : start + step])
        assert reader.take() == b"abc"
        assert reader.is_head_whole


@pytest.mark.parametrize(
    "octets", [b"\x01", b"\x00\x99\x00", b"\x00\x53\x73\x01", b"\x00\x53\x70\xff", b"\x00\x53\x73\x00"]
)
def test_octets_that_are_no_sections_are_an_error(octets: bytes) -> None:
    reader = DataReader()
    with pytest.raises(DecodeError):
        reader.feed(octets)


def test_a_message_that_ends_inside_a_section_is_an_error() -> None:
    reader = DataReader()
    reader.feed(b"\x00\x53\x75\xa0\x05abc")
    with pytest.raises(DecodeError, match="inside"):
        reader.end()


def test_sections_in_front_of_the_body_are_bounded() -> None:
    reader = DataReader()
    with pytest.raises(DecodeError, match="more than"):
        reader.feed(b"\x00\x53\x72\xd1\x7f\xff\xff\xff")


def test_a_sequence_is_no_data() -> None:
    reader = DataReader()
    reader.feed(AmqpSequence([1]).encode())
    assert reader.is_head_whole
    with pytest.raises(LocalError):
        reader.take()
    reader.end()

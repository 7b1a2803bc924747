"""Receiving: credit and windows, outcomes, and what becomes of messages that nobody takes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amqpforge.client import Delivery, Message, Receiver, connect
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import LinkDetached, LocalError, OperationTimedOut
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Described,
    Detach,
    Disposition,
    Error,
    Flow,
    Modified,
    ReceiverSettleMode,
    Rejected,
    Released,
    SenderSettleMode,
    Source,
    StdDistMode,
    Symbol,
    Transfer,
    UInt,
)

from .loops import in_leaping_loop, in_loop

SELECTOR = "apache.org:selector-filter:string"


def fill(node: ScriptedNode, count: int, address: str = "q") -> None:
    for number in range(count):
        node.put(address, number)


def outcomes(node: ScriptedNode, address: str = "q") -> list[Any]:
    return [stored.outcome for stored in node.queue(address).retired]


async def take(receiver: Receiver, count: int) -> list[Any]:
    taken = []
    if count:
        async for delivery in receiver:
            taken.append(delivery.message.body)
            if len(taken) == count:
                break
    return taken


@in_loop
async def test_messages_come_in_order_and_are_accepted_once_the_loop_is_through_with_them() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 3)
        async with connection.receiver("q") as receiver:
            seen = []
            async for delivery in receiver:
                seen.append((delivery.message.body, delivery.settled))
                if len(seen) == 3:
                    await node.wait_for(lambda: outcomes(node) == [Accepted()] * 2)
                    break
        assert seen == [(0, False), (1, False), (2, False)]
        await node.wait_for(lambda: outcomes(node) == [Accepted()] * 3)


@in_loop
async def test_a_message_whose_handling_fails_is_not_accepted() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 2)

        async def failing() -> None:
            async with connection.receiver("q") as receiver:
                async for delivery in receiver:
                    raise ValueError(f"broken: {delivery.message.body}")

        with pytest.raises(ValueError, match="broken"):
            await failing()
        await node.wait_for(lambda: node.queue("q").depth == 2)
        assert outcomes(node) == []


@in_loop
async def test_receive_gives_one_message_and_accepts_it() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 1)
        async with connection.receiver("q") as receiver:
            delivery = await receiver.receive()
            assert delivery.message.body == 0
            assert delivery.receiver is receiver
            assert delivery.settled
            assert delivery.outcome == Accepted()
            with pytest.raises(OperationTimedOut, match="receiving"):
                await receiver.receive(timeout=0.01)
        assert outcomes(node) == [Accepted()]


@pytest.mark.spec("M-OUTCOME-006", "M-OUTCOME-008", "M-OUTCOME-015", "M-OUTCOME-020")
@pytest.mark.parametrize(
    ("decide", "outcome"),
    [
        (Delivery.accept, Accepted()),
        (Delivery.reject, Rejected()),
        (
            lambda delivery: delivery.reject("my:error", "no", info={"line": 3}),
            Rejected(error=Error(condition=Symbol("my:error"), description="no", info={Symbol("line"): 3})),
        ),
        (
            lambda delivery: delivery.reject(description="no"),
            Rejected(error=Error(condition=Symbol("amqp:not-allowed"), description="no")),
        ),
        (Delivery.release, Released()),
        (
            lambda delivery: delivery.modify(
                delivery_failed=True, undeliverable_here=True, annotations={"x-opt-why": "busy"}
            ),
            Modified(
                delivery_failed=True,
                undeliverable_here=True,
                message_annotations={Symbol("x-opt-why"): "busy"},
            ),
        ),
    ],
)
@in_loop
async def test_each_outcome_reaches_the_sender_settled(decide: Any, outcome: Any) -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 1)
        async with connection.receiver("q", auto_accept=False, credit=1) as receiver:
            delivery = await receiver.receive()
            assert (delivery.settled, delivery.outcome) == (False, None)
            decide(delivery)
            assert (delivery.settled, delivery.outcome) == (True, outcome)
            await node.wait_for(lambda: node.received(Disposition))
            told = node.received(Disposition)[0]
            assert (told.state, told.settled) == (outcome, True)


@pytest.mark.spec("M-OUTCOME-001")
@in_loop
async def test_an_outcome_is_given_once() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 1)
        receiver = await connection.receiver("q", auto_accept=False)
        delivery = await receiver.receive()
        delivery.reject()
        delivery.reject()
        with pytest.raises(LocalError, match="Rejected"):
            delivery.accept()


@in_loop
async def test_an_outcome_of_the_loop_body_is_left_alone() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 2)
        async with connection.receiver("q") as receiver:
            count = 0
            async for delivery in receiver:
                count += 1
                delivery.reject()
                if count == 2:
                    break
        assert outcomes(node) == [Rejected(), Rejected()]


@in_loop
async def test_neighbours_with_one_outcome_are_told_in_one_frame() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 20)
        async with connection.receiver("q", credit=100, auto_accept=False) as receiver:
            deliveries = [await receiver.receive() for _ in range(20)]
            for delivery in deliveries:
                delivery.accept()
            await node.wait_for(lambda: len(outcomes(node)) == 20)
        ranges = [(one.first, one.last) for one in node.received(Disposition)]
        assert ranges == [(0, 19)]


@in_loop
async def test_unsettled_and_outstanding_credit_together_never_exceed_the_window() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 50)
        credits: list[int] = []
        receiver = await connection.receiver("q", credit=10, auto_accept=False)
        link = receiver._end
        node.script.before(Transfer).do(
            lambda seen: credits.append(len(link.unsettled) + link.flow_state.link_credit)
        )
        held = []
        for number in range(50):
            held.append(await receiver.receive())
            counters = receiver.counters
            assert counters.unsettled + counters.credit <= 10
            if len(held) == 10 or number == 49:
                with pytest.raises(OperationTimedOut):
                    await receiver.receive(timeout=0.005)
                for delivery in held:
                    delivery.accept()
                held.clear()
        assert max(credits) <= 10
        assert receiver.counters.messages == 50


@in_loop
async def test_a_message_in_many_transfers_costs_one_credit_and_comes_once() -> None:
    async with ScriptedNode() as node, connect(node.url, max_frame_size=512) as connection:
        node.put("q", b"a" * 5000)
        node.put("q", b"b" * 5000)
        receiver = await connection.receiver("q", credit=2, auto_accept=False)
        first, second = await receiver.receive(), await receiver.receive()
        assert (first.message.body, second.message.body) == (b"a" * 5000, b"b" * 5000)
        assert receiver.counters.credit == 0
        assert len([flow for flow in node.received(Flow) if flow.link_credit]) == 1
        assert len(node.sent(Transfer)) > 18


@in_loop
async def test_without_a_window_each_receive_asks_for_one_message() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 5)
        async with connection.receiver("q", credit=0) as receiver:
            await connection.round_trip()
            assert receiver.counters.credit == 0
            assert receiver.counters.messages == 0
            assert (await receiver.receive()).message.body == 0
            both = await asyncio.gather(receiver.receive(), receiver.receive())
            assert sorted(delivery.message.body for delivery in both) == [1, 2]
            assert await take(receiver, 2) == [3, 4]
            assert receiver.counters.messages == 5


@in_leaping_loop
async def test_a_receive_that_waits_no_longer_takes_its_credit_back() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        receiver = await connection.receiver("q", credit=0)
        with pytest.raises(OperationTimedOut):
            await receiver.receive(timeout=5)
        assert receiver.counters.credit == 0
        await node.wait_for(lambda: [flow.link_credit for flow in node.received(Flow)][-2:] == [1, 0])
        fill(node, 1)
        await connection.round_trip()
        assert receiver.counters.messages == 0
        other = await connection.receiver("q", credit=0)
        assert (await other.receive()).message.body == 0


@in_loop
async def test_who_still_waits_keeps_the_credit() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        receiver = await connection.receiver("q", credit=0)
        waiting = [asyncio.ensure_future(receiver.receive()) for _ in range(3)]
        await node.wait_for(lambda: node.received(Flow)[-1:] and node.received(Flow)[-1].link_credit == 3)
        waiting[1].cancel()
        await node.wait_for(lambda: node.received(Flow)[-1].link_credit == 2)
        fill(node, 3)
        got = await asyncio.gather(waiting[0], waiting[2])
        assert [delivery.message.body for delivery in got] == [0, 1]
        await connection.round_trip()
        assert (receiver.counters.messages, receiver.counters.credit) == (2, 0)


@in_loop
async def test_a_cancelled_receive_loses_nothing() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        receiver = await connection.receiver("q")
        waiting = [asyncio.ensure_future(receiver.receive()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        fill(node, 2)
        await node.wait_for(lambda: len(node.sent(Transfer)) == 2)
        got = await asyncio.gather(*waiting[1:])
        assert [delivery.message.body for delivery in got] == [0, 1]


@in_loop
async def test_a_receive_cancelled_when_its_message_is_there_leaves_it_to_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        receiver = await connection.receiver("q")
        first = asyncio.ensure_future(receiver.receive())
        second = asyncio.ensure_future(receiver.receive())
        await asyncio.sleep(0)
        arrive = Receiver._on_deliveries

        def arrive_and_cancel(receiver: Receiver, deliveries: list[Any]) -> None:
            arrive(receiver, deliveries)
            first.cancel()

        monkeypatch.setattr(Receiver, "_on_deliveries", arrive_and_cancel)
        fill(node, 1)
        assert (await second).message.body == 0
        assert first.cancelled()


@in_loop
async def test_many_tasks_share_a_receiver() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 100)
        async with connection.receiver("q", credit=7) as receiver:
            parts = await asyncio.gather(*(take(receiver, 10) for _ in range(10)))
        assert sorted(body for part in parts for body in part) == list(range(100))
        await node.wait_for(lambda: outcomes(node) == [Accepted()] * 100)


@in_loop
async def test_on_close_messages_that_nobody_took_are_released() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 10)
        receiver = await connection.receiver("q", credit=10)
        assert await take(receiver, 3) == [0, 1, 2]
        await node.wait_for(lambda: len(node.sent(Transfer)) == 10)
        await connection.round_trip()
        rule = node.script.on(Disposition).do(lambda seen: told.append(seen.performative))
        told: list[Any] = []
        await receiver.close()
        rule.cancel()
        assert [type(one.state) for one in told] == [Accepted, Released]
        assert told[1].last - told[1].first == 6
        assert [message.body for message in node.messages("q")][-7:] == list(range(3, 10))


@in_loop
async def test_closing_the_connection_releases_them_too() -> None:
    async with ScriptedNode() as node:
        fill(node, 10)
        async with connect(node.url) as connection:
            receiver = await connection.receiver("q", credit=10)
            await receiver.receive()
            await node.wait_for(lambda: len(node.sent(Transfer)) == 10)
            await connection.round_trip()
        assert [one.state for one in node.received(Disposition)] == [Accepted(), Released()]
        assert node.received(Disposition)[1].last == 9


@in_loop
async def test_what_came_settled_needs_no_outcome_and_makes_room_when_it_is_taken() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 20)
        async with connection.receiver(
            "q", credit=4, snd_settle_mode=SenderSettleMode.SETTLED, auto_accept=False
        ) as receiver:
            for number in range(20):
                delivery = await receiver.receive()
                assert delivery.message.body == number
                assert delivery.settled
                delivery.accept()
        assert not node.received(Disposition)


@pytest.mark.spec("M-TERM-009")
@in_loop
async def test_browsing_leaves_the_messages_where_they_are() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 3)
        async with connection.receiver("q", mode="copy") as receiver:
            assert await take(receiver, 3) == [0, 1, 2]
        assert len(node.messages("q")) == 3
        source = node.received(Attach)[0].source
        assert isinstance(source, Source)
        assert source.distribution_mode == StdDistMode.COPY
        with pytest.raises(LocalError, match="move or copy"):
            connection.receiver("q", mode="peek")


@in_loop
async def test_a_selector_is_a_filter_that_the_peer_applies() -> None:
    async with ScriptedNode(
        filters={SELECTOR: lambda message, value: message.subject == value.split("'")[1]}
    ) as node:
        for subject in ("red", "green", "red"):
            node.put("q", Message(subject, subject=subject))
        async with connect(node.url) as connection:
            async with connection.receiver("q", selector="subject = 'red'") as receiver:
                assert await take(receiver, 2) == ["red", "red"]
                assert receiver.filters == {Symbol(SELECTOR): Described(Symbol(SELECTOR), "subject = 'red'")}
            assert [message.body for message in node.messages("q")] == ["green"]


@pytest.mark.spec("M-FILTER-004")
@in_loop
async def test_a_receiver_detaches_where_the_peer_leaves_its_filter_out() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("q", Message("unfiltered"))
        with pytest.raises(LinkDetached, match="does not apply the filter"):
            await connection.receiver("q", selector="subject = 'red'")
        await node.wait_for(lambda: node.received(Detach))
        assert node.received(Detach)[0].closed
        assert [message.body for message in node.messages("q")] == ["unfiltered"]


@in_loop
async def test_a_filter_that_the_peer_leaves_out_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        asked = {"my:filter": Described(Symbol("my:filter:list"), [1])}
        async with connection.receiver("q", filter=asked, check_filters=False) as receiver:
            assert receiver.filters == {}
        assert "does not apply the filter my:filter" in caplog.text
        source = node.received(Attach)[0].source
        assert isinstance(source, Source)
        assert source.filter == asked


@in_loop
async def test_a_whole_source_can_be_given() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        source = Source(address="q", default_outcome=Released())
        async with connection.receiver(source) as receiver:
            assert receiver.address == "q"
        with pytest.raises(LocalError, match="whole"):
            connection.receiver(source, mode="copy")


@pytest.mark.spec("M-TERM-003")
@in_loop
async def test_without_an_address_the_peer_makes_a_node() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        async with connection.receiver(None) as receiver:
            address = str(receiver.address)
            node.put(address, "for you")
            assert await take(receiver, 1) == ["for you"]
        source = node.received(Attach)[0].source
        assert isinstance(source, Source)
        assert (source.address, source.dynamic) == (None, True)


@in_loop
async def test_draining_uses_up_the_credit_until_the_receiver_resumes() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 3)
        async with connection.receiver("q", credit=10) as receiver:
            assert await receiver.drain() == 3
            assert receiver.counters.credit == 0
            node.put("q", "later")
            assert await take(receiver, 3) == [0, 1, 2]
            with pytest.raises(OperationTimedOut):
                await receiver.receive(timeout=0.01)
            receiver.resume()
            assert await take(receiver, 1) == ["later"]


@in_loop
async def test_a_peer_that_never_answers_a_drain_does_not_hang_it() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        receiver = await connection.receiver("q", credit=10)
        node.script.on(Flow, drain=True).drop()
        with pytest.raises(OperationTimedOut, match="draining"):
            await receiver.drain(timeout=0.02)
        receiver.resume()
        fill(node, 1)
        assert await take(receiver, 1) == [0]


@in_loop
async def test_in_settle_mode_second_a_delivery_is_settled_after_the_sender_has() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 1)
        gate = node.script.before(Disposition).hold()
        async with connection.receiver(
            "q", rcv_settle_mode=ReceiverSettleMode.SECOND, auto_accept=False
        ) as receiver:
            delivery = await receiver.receive()
            delivery.accept()
            await node.wait_for(lambda: gate.held)
            assert not delivery.settled
            assert delivery.outcome == Accepted()
            gate.open()
            await connection.round_trip()
            assert delivery.settled
            assert receiver.counters.unsettled == 0
        assert [one.settled for one in node.received(Disposition)] == [False]


@in_loop
async def test_symbols_stay_symbols_and_unsigned_stays_unsigned_on_the_round_trip() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        body = {"symbol": Symbol("s"), "text": "s", "uint": UInt(7), "number": 7}
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            await sender.send(Message(body, application_properties={"n": UInt(3)}))
            message = (await receiver.receive()).message
        assert isinstance(message.body, dict)
        for key, value in body.items():
            assert type(message.body[key]) is type(value)
            assert message.body[key] == value
        assert type(message.application_properties["n"]) is UInt


@in_loop
async def test_a_message_larger_than_is_wanted_closes_the_link() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("q", b"x" * 2000)
        node.script.on(Attach).replace(_without_limit)
        receiver = await connection.receiver("q", max_message_size=1000)
        with pytest.raises(LinkDetached, match="max-message-size") as caught:
            await receiver.receive()
        assert caught.value.condition == "amqp:link:message-size-exceeded"


def _without_limit(seen: Any) -> Attach:
    attach: Attach = seen.performative
    attach.max_message_size = None
    return attach


@in_loop
async def test_a_loop_that_is_left_again_and_again_does_not_use_the_window_up() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        fill(node, 20)
        async with connection.receiver("q", credit=2) as receiver:
            for number in range(20):
                assert await take(receiver, 1) == [number]
        await node.wait_for(lambda: outcomes(node) == [Accepted()] * 20)


@in_loop
async def test_a_link_that_the_peer_closes_ends_waiting_with_the_reason() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.script.on(Flow, times=1).detach("amqp:resource-deleted", "gone", closed=True)
        receiver = await connection.receiver("q")
        with pytest.raises(LinkDetached, match="gone"):
            async for _ in receiver:
                pass
        with pytest.raises(LinkDetached, match="gone"):
            await receiver.receive()


@in_loop
async def test_closing_a_receiver_ends_the_loops_over_it() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        receiver = await connection.receiver("q")
        looping = asyncio.ensure_future(take(receiver, 1))
        await asyncio.sleep(0)
        await receiver.close()
        assert await looping == []
        with pytest.raises((LocalError, LinkDetached), match="closed"):
            await receiver.receive()


@in_loop
async def test_a_frame_size_of_512_octets_is_enough_to_receive() -> None:
    settings = ConnectionSettings(max_frame_size=512)
    async with ScriptedNode(settings=settings) as node, connect(node.url, max_frame_size=512) as connection:
        node.put("q", list(range(1000)))
        async with connection.receiver("q") as receiver:
            assert await take(receiver, 1) == [list(range(1000))]


@pytest.mark.parametrize("credit", [-1, 1 << 31])
@in_loop
async def test_a_credit_out_of_range_is_told_at_once(credit: int) -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        with pytest.raises(LocalError, match="credit"):
            connection.receiver("q", credit=credit)

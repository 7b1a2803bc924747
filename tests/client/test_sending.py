"""Sending: outcomes, credit, windows, and what becomes of messages that nobody waits for any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from amqpforge.client import Message, Outcome, connect
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import (
    AmqpforgeError,
    LinkDetached,
    LocalError,
    NotAccepted,
    OperationTimedOut,
)
from amqpforge.testing import Gate, ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    DeleteOnClose,
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
    Symbol,
    Target,
    Transfer,
)

from .loops import in_loop


def bodies(node: ScriptedNode, address: str = "q") -> list[Any]:
    return [message.body for message in node.messages(address)]


@in_loop
async def test_send_returns_the_outcome() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        async with connection.sender("q") as sender:
            assert await sender.send(Message("hello", subject="greeting")) == Accepted()
            assert await sender.send({"a": 1}) == Accepted()
        assert bodies(node) == ["hello", {"a": 1}]
        assert node.messages("q")[0].subject == "greeting"


@pytest.mark.parametrize(
    "outcome",
    [
        Rejected(error=Error(condition=Symbol("my:error"), description="no")),
        Released(),
        Modified(delivery_failed=True),
    ],
)
@in_loop
async def test_a_message_that_is_not_accepted_is_an_error_or_by_choice_a_result(outcome: Outcome) -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.queue("q").answer = outcome  # type: ignore[assignment]
        async with connection.sender("q") as sender:
            with pytest.raises(NotAccepted) as caught:
                await sender.send("x")
            assert caught.value.outcome == outcome
            assert ("nobody takes it" in str(caught.value)) is isinstance(outcome, Released)
            assert await sender.send("x", check=False) == outcome
            counters = sender.counters
            assert counters.accepted == 0
            assert counters.rejected + counters.released + counters.modified == 2


@in_loop
async def test_a_message_that_is_sent_settled_has_no_outcome() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        async with connection.sender("q", snd_settle_mode=SenderSettleMode.SETTLED) as sender:
            assert await sender.send("one") is None
        async with connection.sender("q") as sender:
            assert await sender.send("two", settled=True) is None
        await node.wait_for(lambda: bodies(node) == ["one", "two"])
        assert [transfer.settled for transfer in node.received(Transfer)] == [True, True]


@in_loop
async def test_a_settled_message_too_waits_for_credit() -> None:
    async with ScriptedNode(credit=0) as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        sending = asyncio.ensure_future(sender.send("x", settled=True))
        await connection.round_trip()
        assert not sending.done()
        assert sender.counters.queued == 1
        _receiver_at(node).flow(1)
        node.connections[0].wake()
        assert await sending is None


def _receiver_at(node: ScriptedNode) -> Any:
    """The node's end of the only link."""
    (link,) = node.container.links.values()
    return link


@in_loop
async def test_a_message_without_credit_is_taken_back_when_the_time_is_up() -> None:
    async with ScriptedNode(credit=0) as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        with pytest.raises(OperationTimedOut, match="sending"):
            await sender.send("late", timeout=0.02)
        assert sender.counters.queued == 0
        _receiver_at(node).flow(5)
        node.connections[0].wake()
        await sender.send("in time")
        assert bodies(node) == ["in time"]


@in_loop
async def test_a_cancelled_send_that_has_not_begun_is_withdrawn() -> None:
    async with ScriptedNode(credit=0) as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        tasks = [asyncio.ensure_future(sender.send(number)) for number in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait(tasks[1:2])
        _receiver_at(node).flow(5)
        node.connections[0].wake()
        await asyncio.gather(tasks[0], tasks[2])
        assert bodies(node) == [0, 2]


@in_loop
async def test_a_cancelled_send_that_is_under_way_goes_on_and_its_outcome_is_dropped() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        gate = node.script.before(Disposition).hold()
        sender = await connection.sender("q")
        sending = asyncio.ensure_future(sender.send("one"))
        await node.wait_for(lambda: gate.held)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        gate.open()
        assert await sender.send("two") == Accepted()
        assert bodies(node) == ["one", "two"]
        assert sender.counters.unsettled == 0


@in_loop
async def test_an_outcome_that_does_not_come_in_time_is_an_error_and_the_link_goes_on() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        rule = node.script.before(Disposition).drop()
        sender = await connection.sender("q")
        with pytest.raises(OperationTimedOut):
            await sender.send("one", timeout=0.02)
        rule.cancel()
        await sender.send("two")


@in_loop
async def test_send_many_keeps_at_most_a_window_under_way_and_tells_outcomes_in_order() -> None:
    async with ScriptedNode(credit=1000) as node, connect(node.url) as connection:
        node.queue("q").answer = lambda message: Accepted() if message.body % 7 else Released()
        gate = node.script.before(Disposition).hold()
        sender = await connection.sender("q")
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                await node.wait_for(lambda: gate.held)
                most = max(most, sender.counters.unsettled)
                gate.let()

        watching = asyncio.ensure_future(watch())
        outcomes = [outcome async for outcome in sender.send_many(range(100), window=10)]
        watching.cancel()
        assert most == 10
        assert outcomes == [Accepted() if number % 7 else Released() for number in range(100)]


@in_loop
async def test_send_many_awaited_gives_all_outcomes_or_the_first_that_is_not_accepted() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        assert await sender.send_many(["a", "b"]) == [Accepted(), Accepted()]
        assert await sender.send_many([]) == []
        node.queue("q").answer = lambda message: Rejected() if message.body == "bad" else Accepted()
        with pytest.raises(NotAccepted):
            await sender.send_many(["c", "bad", "d"])
        assert bodies(node) == ["a", "b", "c", "d"]
        assert await sender.send_many(["bad", "e"], check=False) == [Rejected(), Accepted()]


@in_loop
async def test_send_many_yields_outcomes_while_a_slow_source_is_waited_for() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        more: asyncio.Queue[str] = asyncio.Queue()

        async def source() -> AsyncIterator[str]:
            while (body := await more.get()) != "end":
                yield body

        outcomes = aiter(sender.send_many(source(), window=3))
        for body in ("one", "two"):
            more.put_nowait(body)
            assert await anext(outcomes) == Accepted()
            assert bodies(node)[-1] == body
        more.put_nowait("end")
        with pytest.raises(StopAsyncIteration):
            await anext(outcomes)


@in_loop
async def test_what_a_source_raises_ends_send_many_and_withdraws_what_has_not_begun() -> None:
    async with ScriptedNode(credit=2) as node, connect(node.url) as connection:
        gate = node.script.before(Disposition).hold()
        sender = await connection.sender("q")

        def source() -> Any:
            yield from range(5)
            raise ValueError("the source is broken")

        with pytest.raises(ValueError, match="broken"):
            await sender.send_many(source(), window=10)
        assert sender.counters.queued == 0
        gate.open()
        await node.wait_for(lambda: bodies(node) == [0, 1])


@in_loop
async def test_send_many_without_progress_ends_when_the_time_is_up() -> None:
    async with ScriptedNode(credit=3) as node, connect(node.url) as connection:
        node.script.before(Flow, skip=1).drop()
        sender = await connection.sender("q")
        outcomes = []

        async def failing() -> None:
            async for outcome in sender.send_many(range(10), window=5, timeout=0.05):
                outcomes.append(outcome)

        with pytest.raises(OperationTimedOut):
            await failing()
        assert outcomes == [Accepted()] * 3


@in_loop
async def test_settled_messages_by_the_thousand_do_not_outrun_a_peer_that_stops_reading() -> None:
    settings = ConnectionSettings(session=SessionSettings(incoming_window=1 << 20))
    async with ScriptedNode(credit=100_000, settings=settings) as node, connect(node.url) as connection:
        node.script.on(Transfer, times=1).stop_reading()
        sender = await connection.sender("q")
        messages = (b"x" * 1000 for _ in range(50_000))
        sending = asyncio.ensure_future(_all(sender.send_many(messages, settled=True)))
        await connection_is_blocked(connection)
        assert not sending.done()
        assert sender.counters.messages < 50_000
        sending.cancel()
        await asyncio.wait([sending])
        wire = node.connections[0].wire
        wire.is_stopped = False
        wire.set_reading(True)


async def _all(batch: Any) -> list[Any]:
    return list(await batch)


async def connection_is_blocked(connection: Any) -> None:
    """Wait until the socket takes nothing more."""
    for _ in range(100_000):
        if connection._wire.driver._is_blocked:
            return
        await asyncio.sleep(0)
    raise AssertionError("the socket takes everything")


def test_a_window_has_room_for_a_message() -> None:
    @in_loop
    async def run() -> None:
        async with ScriptedNode() as node, connect(node.url) as connection:
            sender = await connection.sender("q")
            with pytest.raises(LocalError, match="window"):
                sender.send_many([], window=0)

    run()


@in_loop
async def test_post_does_not_wait_and_the_block_does_not_end_before_the_outcomes() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        async with connection.sender("q") as sender:
            outcomes = [sender.post(number) for number in range(250)]
            assert not any(outcome.done() for outcome in outcomes)
        assert [outcome.result() for outcome in outcomes] == [Accepted()] * 250
        assert bodies(node) == list(range(250))


@in_loop
async def test_leaving_the_connection_waits_for_what_was_posted_too() -> None:
    async with ScriptedNode() as node:
        async with connect(node.url) as connection:
            outcome = (await connection.sender("q")).post("x")
        assert outcome.result() == Accepted()


@in_loop
async def test_flush_waits_until_all_outcomes_are_known() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        gate = node.script.before(Disposition).hold()
        sender = await connection.sender("q")
        await sender.flush()
        sender.post("x")
        with pytest.raises(OperationTimedOut, match="1 messages"):
            await sender.flush(timeout=0.02)
        flushing = asyncio.ensure_future(sender.flush())
        await node.wait_for(lambda: gate.held)
        gate.open()
        await flushing
        assert sender.counters.accepted == 1


@in_loop
async def test_a_sender_is_shared_by_many_tasks() -> None:
    async with ScriptedNode(credit=7) as node, connect(node.url) as connection:
        async with connection.sender("q") as sender, asyncio.TaskGroup() as group:
            for number in range(200):
                group.create_task(sender.send(number))
        assert sorted(bodies(node)) == list(range(200))


@in_loop
async def test_a_message_of_many_transfers_costs_one_credit() -> None:
    settings = ConnectionSettings(max_frame_size=512)
    async with ScriptedNode(credit=2, settings=settings) as node, connect(node.url) as connection:
        node.script.before(Flow, skip=1).drop()
        sender = await connection.sender("q")
        await sender.send(b"a" * 3000)
        assert sender.credit == 1
        await sender.send(b"b" * 3000)
        assert sender.credit == 0
        assert len(node.received(Transfer)) > 12


@in_loop
async def test_a_message_larger_than_the_receiver_takes_is_refused_here() -> None:
    async with ScriptedNode(max_message_size=100) as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        assert sender.max_message_size == 100
        with pytest.raises(LocalError, match="max-message-size of 100"):
            await sender.send(b"x" * 200)
        await sender.send("fits")


@in_loop
async def test_a_refused_link_says_why_and_leaves_the_others_alone() -> None:
    async with ScriptedNode(queues=["q"], makes_queues=False) as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        with pytest.raises(LinkDetached, match="no node 'other'") as caught:
            await connection.sender("other")
        assert caught.value.condition == "amqp:not-found"
        await sender.send("x")
        assert connection.counters.links == 1


@in_loop
async def test_an_attach_that_is_never_answered_is_given_up_in_time() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.script.on(Attach, times=1).drop()
        with pytest.raises(OperationTimedOut, match="attaching"):
            await connection.sender("q", timeout=0.02)
        async with connection.sender("q") as sender:
            await sender.send("x")


@in_loop
async def test_an_attach_that_is_answered_too_late_is_closed() -> None:
    async with ScriptedNode(credit=0) as node, connect(node.url) as connection:
        gate: Gate = node.script.before(Attach, times=1).hold()
        with pytest.raises(OperationTimedOut):
            await connection.sender("q", timeout=0.02)
        gate.open()
        await node.wait_for(lambda: [one.closed for one in node.received(Detach)] == [True])
        assert not node.container.links


@in_loop
async def test_a_link_that_the_peer_closes_fails_what_is_under_way_and_what_follows() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.script.on(Transfer).detach("amqp:resource-deleted", "gone", closed=True)
        node.script.before(Disposition).drop()
        sender = await connection.sender("q")
        posted = sender.post("one")
        with pytest.raises(LinkDetached, match="gone"):
            await sender.send("two")
        with pytest.raises(LinkDetached, match="gone"):
            posted.result()
        with pytest.raises(LinkDetached, match="gone"):
            await sender.send("three")
        assert not sender.is_open
        assert isinstance(sender.error, LinkDetached)
        assert connection.is_connected


@in_loop
async def test_a_closed_sender_sends_nothing() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        await sender.close()
        await sender.close()
        with pytest.raises(AmqpforgeError, match="closed"):
            await sender.send("x")
        assert sender.error is None


@in_loop
async def test_a_sender_without_an_address_sends_where_each_message_says() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        async with connection.sender(None) as sender:
            assert sender.address is None
            await sender.send(Message("a", to="one"))
            await sender.send(Message("b", to="two"))
        assert (bodies(node, "one"), bodies(node, "two")) == (["a"], ["b"])


@pytest.mark.spec("M-TERM-015")
@in_loop
async def test_a_dynamic_node_gets_its_address_from_the_peer() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        async with connection.sender(None, dynamic=True) as sender:
            address = str(sender.address)
            await sender.send("x")
            assert bodies(node, address) == ["x"]
        asked = node.received(Attach)[0].target
        assert isinstance(asked, Target)
        assert (asked.address, asked.dynamic) == (None, True)
        assert DeleteOnClose() in [
            value
            for attach in node.sent(Attach)
            if isinstance(attach.target, Target)
            for value in (attach.target.dynamic_node_properties or {}).values()
        ]
        with pytest.raises(LocalError, match="dynamic"):
            connection.sender("q", dynamic=True)


@in_loop
async def test_in_settle_mode_second_the_sender_settles_after_the_outcome() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        async with connection.sender("q", rcv_settle_mode=ReceiverSettleMode.SECOND) as sender:
            assert await sender.send("x") == Accepted()
            await node.wait_for(lambda: [one.settled for one in node.received(Disposition)] == [True])
            assert sender.counters.unsettled == 0
        assert [one.settled for one in node.sent(Disposition)] == [False]


@pytest.mark.spec("M-TERM-010")
@in_loop
async def test_a_receiver_that_settles_without_an_outcome_leaves_the_default_one() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.script.before(Disposition).replace(_without_state)
        async with connection.sender("q") as sender:
            with pytest.raises(NotAccepted, match="None"):
                await sender.send("x")
        async with connection.sender("q", source=Source(default_outcome=Released())) as sender:
            assert await sender.send("x", check=False) == Released()


def _without_state(seen: Any) -> Disposition:
    disposition: Disposition = seen.performative
    disposition.state = None
    return disposition


@in_loop
async def test_what_the_peer_tells_of_a_link_can_be_seen() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.script.before(Attach).replace(_with_properties)
        async with connection.sender(
            "q", name="named", capabilities=["queue"], properties={"my:key": 5}
        ) as sender:
            assert sender.name == "named"
            assert sender.address == "q"
            assert sender.remote_properties == {Symbol("their:key"): "x"}
            assert sender.remote_capabilities == (Symbol("topic"),)
            assert "named" in repr(sender)
            assert sender.connection is connection
        attach = node.received(Attach)[0]
        assert attach.properties == {Symbol("my:key"): 5}
        assert attach.desired_capabilities == [Symbol("queue")]


def _with_properties(seen: Any) -> Attach:
    attach: Attach = seen.performative
    attach.properties = {Symbol("their:key"): "x"}
    attach.offered_capabilities = [Symbol("topic")]
    return attach

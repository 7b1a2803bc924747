"""What applications see when a connection is lost: it comes back, and so do its links and messages."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest

from amqpforge.client import Connection, Message, Receiver, Reconnect, connect
from amqpforge.errors import (
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    LinkDetached,
    NotAccepted,
    OperationTimedOut,
    SessionEnded,
)
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    Flow,
    Open,
    ReceiverSettleMode,
    SaslInit,
    Source,
    Target,
    TerminusExpiryPolicy,
    Transfer,
)

from .loops import in_leaping_loop, in_loop

SOON = Reconnect(first_delay=0.001)
NEVER = TerminusExpiryPolicy.NEVER


def bodies(node: ScriptedNode, address: str = "q") -> list[Any]:
    return [message.body for message in node.messages(address)]


async def take(receiver: Receiver, count: int) -> list[Any]:
    return [(await receiver.receive()).message.body for _ in range(count)]


@in_loop
async def test_after_a_cut_senders_and_receivers_go_on() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        sender, receiver = await connection.sender("q"), await connection.receiver("q")
        for number in range(5):
            await sender.send(number)
            assert await take(receiver, 1) == [number]
            await connection.round_trip()
            node.connections[0].cut()
        await sender.send("last")
        assert connection.counters.reconnects == 5
        assert sender.counters.reattached == 5
        assert receiver.counters.reattached == 5
        assert connection.counters.links == 2


@in_loop
async def test_a_receive_that_waits_goes_on_waiting() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        receiver = await connection.receiver("q")
        waiting = asyncio.ensure_future(receiver.receive())
        await asyncio.sleep(0)
        node.connections[0].cut()
        await node.wait_for(lambda: node.accepted == 2)
        node.put("q", "late")
        assert (await waiting).message.body == "late"


@in_loop
async def test_a_send_without_an_outcome_is_sent_again() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        node.script.before(Disposition, times=1).cut()
        sender = await connection.sender("q")
        assert await sender.send("once or twice") == Accepted()
        assert bodies(node) == ["once or twice"] * 2


@in_loop
async def test_a_settled_message_is_not_sent_twice_but_one_that_waits_is_sent_once() -> None:
    async with ScriptedNode(credit=1) as node, connect(node.url, reconnect=SOON) as connection:
        node.script.before(Flow, skip=1, times=1).drop()
        sender = await connection.sender("q")
        await sender.send("out", settled=True)
        waiting = asyncio.ensure_future(sender.send("waits", settled=True))
        await node.wait_for(lambda: bodies(node) == ["out"])
        node.connections[0].cut()
        assert await waiting is None
        await node.wait_for(lambda: bodies(node) == ["out", "waits"])


@in_loop
async def test_messages_sent_while_there_is_no_connection_go_out_once_there_is_one() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        sender = await connection.sender("q")
        gate = node.script.on(Open).hold()
        node.connections[0].cut()
        await node.wait_for(lambda: gate.held)
        assert not connection.is_connected
        outcomes = [sender.post(number) for number in range(3)]
        gate.open()
        assert await asyncio.gather(*outcomes) == [Accepted()] * 3
        assert bodies(node) == [0, 1, 2]


@in_loop
async def test_a_send_that_finds_no_connection_in_time_is_taken_back() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        sender = await connection.sender("q")
        gate = node.script.on(Open).hold()
        node.connections[0].cut()
        await node.wait_for(lambda: gate.held)
        with pytest.raises(OperationTimedOut):
            await sender.send("too late", timeout=0.01)
        gate.open()
        await sender.send("in time")
        assert bodies(node) == ["in time"]


@in_loop
async def test_an_attach_that_waits_is_sent_again() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        node.script.on(Attach, times=1).cut()
        sender = await connection.sender("q")
        assert await sender.send("x") == Accepted()
        assert sender.counters.reattached == 0


@in_loop
async def test_messages_that_nobody_took_come_again_and_only_once() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        for number in range(10):
            node.put("q", number)
        receiver = await connection.receiver("q", credit=10)
        assert await take(receiver, 2) == [0, 1]
        await node.wait_for(lambda: len(node.sent(Transfer)) == 10)
        await connection.round_trip()
        node.connections[0].cut()
        await node.wait_for(lambda: node.accepted == 2)
        assert await take(receiver, 8) == list(range(2, 10))
        with pytest.raises(OperationTimedOut):
            await receiver.receive(timeout=0.01)


@in_loop
async def test_an_outcome_for_a_delivery_of_the_old_connection_counts_for_nobody() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        node.put("q", "x")
        receiver = await connection.receiver("q", credit=1, auto_accept=False)
        old = await receiver.receive()
        node.connections[0].cut()
        new = await receiver.receive()
        assert new.message.body == "x"
        old.reject()
        assert old.settled
        assert not new.settled
        assert not node.received(Disposition)
        new.accept()
        await node.wait_for(lambda: not node.messages("q"))


@in_loop
async def test_a_link_whose_terminus_outlives_it_is_resumed_and_nothing_is_sent_twice() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        node.script.before(Disposition, times=1).cut()
        second = ReceiverSettleMode.SECOND
        sender = await connection.sender("q", expiry_policy=NEVER, rcv_settle_mode=second)
        assert await sender.send("exactly once") == Accepted()
        assert bodies(node) == ["exactly once"]
        assert [attach.unsettled is None for attach in node.received(Attach)] == [True, False]
        target = node.received(Attach)[0].target
        assert isinstance(target, Target)
        assert target.expiry_policy == NEVER


@in_loop
async def test_a_delivery_that_is_resumed_can_still_be_given_its_outcome() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        node.put("q", "x")
        receiver = await connection.receiver("q", credit=1, auto_accept=False, expiry_timeout=60)
        delivery = await receiver.receive()
        node.connections[0].cut()
        await node.wait_for(lambda: len(node.received(Attach)) == 2)
        await receiver.wait_attached()
        await connection.round_trip()
        assert delivery.is_resumed
        delivery.accept()
        await node.wait_for(lambda: [one.outcome for one in node.queue("q").retired] == [Accepted()])
        source = node.received(Attach)[0].source
        assert isinstance(source, Source)
        assert source.timeout == 60


@in_loop
async def test_an_outcome_given_while_there_is_no_connection_is_told_on_the_next_one() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        node.put("q", "x")
        receiver = await connection.receiver("q", credit=1, auto_accept=False, expiry_policy=NEVER)
        delivery = await receiver.receive()
        gate = node.script.on(Open).hold()
        node.connections[0].cut()
        await node.wait_for(lambda: gate.held)
        delivery.accept()
        gate.open()
        await node.wait_for(lambda: [one.outcome for one in node.queue("q").retired] == [Accepted()])


@in_loop
async def test_a_peer_that_does_not_know_how_to_resume_gets_a_new_link() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        node.script.on(Attach, when=lambda seen: seen.performative.unsettled is not None).end(
            "amqp:not-implemented", "no recovery"
        )
        sender = await connection.sender("q", expiry_policy=NEVER)
        await sender.send("one")
        node.connections[0].cut()
        assert await sender.send("two") == Accepted()
        node.connections[0].cut()
        assert await sender.send("three") == Accepted()
        assert bodies(node) == ["one", "two", "three"]
        resumes = [attach for attach in node.received(Attach) if attach.unsettled is not None]
        assert len(resumes) == 1


# --- cuts at every frame -----------------------------------------------------------------------------------


async def work(connection: Connection, count: int, options: dict[str, Any]) -> list[Any]:
    """Send so many messages, and receive as many different ones."""
    got: list[Any] = []
    async with AsyncExitStack() as stack:
        sender = await stack.enter_async_context(connection.sender("q", **options))
        receiver = await stack.enter_async_context(connection.receiver("q", credit=3, **options))
        sending = asyncio.ensure_future(_send(sender, count))
        while len(set(got)) < count:
            got += await take(receiver, 1)
        await sending
    return got


async def _send(sender: Any, count: int) -> None:
    for number in range(count):
        await sender.send(number)


async def frames_of_work(options: dict[str, Any]) -> int:
    async with ScriptedNode() as node:
        async with connect(node.url, reconnect=SOON) as connection:
            await work(connection, 3, options)
        return len([seen for seen in node.frames if seen.performative is not None])


@pytest.mark.parametrize("is_sent", [False, True])
def test_after_a_cut_at_any_frame_receivers_really_receive_again(is_sent: bool) -> None:
    @in_loop
    async def run() -> None:
        total = await frames_of_work({})
        for index in range(8, total):
            async with ScriptedNode() as node:
                script = node.script
                rule = script.before if is_sent else script.on
                rule(object, skip=index // 2, times=1, when=_is_no_close).cut()
                async with connect(node.url, reconnect=SOON) as connection:
                    got = await work(connection, 3, {})
                assert set(got) == {0, 1, 2}, index
                assert max(Counter(got).values()) <= 3

    run()


def _is_no_close(seen: Any) -> bool:
    return not isinstance(seen.performative, Close) and type(seen.performative).__name__ in {
        "Begin",
        "Attach",
        "Flow",
        "Transfer",
        "Disposition",
    }


@pytest.mark.parametrize("is_sent", [False, True])
def test_with_links_that_are_resumed_no_message_is_lost_or_doubled_by_a_cut(is_sent: bool) -> None:
    @in_loop
    async def run() -> None:
        options: dict[str, Any] = {
            "expiry_policy": NEVER,
            "rcv_settle_mode": ReceiverSettleMode.SECOND,
        }
        for index in range(24):
            async with ScriptedNode() as node:
                rule = node.script.before if is_sent else node.script.on
                rule(object, skip=index, times=1, when=_is_of_a_delivery).cut()
                async with connect(node.url, reconnect=SOON) as connection:
                    async with connection.sender("q", **options) as sender:
                        await asyncio.gather(*(sender.send(number) for number in range(5)))
                    assert sorted(bodies(node)) == list(range(5)), index

    run()


def _is_of_a_delivery(seen: Any) -> bool:
    return isinstance(seen.performative, Transfer | Disposition)


@in_loop
async def test_a_cut_in_the_middle_of_a_large_message_does_not_harm_it() -> None:
    for options in ({}, {"expiry_policy": NEVER}):
        async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
            node.script.cut(after_read=300_000)
            async with connection.sender("q", **options) as sender:  # type: ignore[arg-type]
                await sender.send(b"x" * 1_000_000)
            assert bodies(node) == [b"x" * 1_000_000]
            assert node.accepted == 2


@in_loop
async def test_a_stream_that_is_cut_is_lost_with_its_connection() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        node.script.cut(after_read=300_000)
        sender = await connection.sender("q")

        async def failing() -> None:
            async with sender.stream() as stream:
                for _ in range(100):
                    await stream.write(b"x" * 10_000)

        with pytest.raises(ConnectionLost):
            await failing()
        await sender.send("next")
        assert bodies(node) == ["next"]


@in_loop
async def test_a_streamed_message_that_is_cut_comes_again() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        node.put("q", b"x" * 1_000_000)
        receiver = await connection.receiver("q", stream=True, credit=1)
        node.script.cut(after_written=300_000)
        first: Any = await receiver.receive()
        with pytest.raises(ConnectionLost, match="does not come"):
            async for _ in first.data():
                pass
        second: Any = await receiver.receive()
        assert sum([len(piece) async for piece in second.data()]) == 1_000_000


# --- how it comes back -------------------------------------------------------------------------------------


@in_leaping_loop
async def test_pauses_grow_up_to_the_longest_one_and_are_partly_random() -> None:
    numbers = iter([0.0, 1.0] * 20)
    policy = Reconnect(first_delay=1, factor=2, max_delay=10, attempts=7, random=lambda: next(numbers))
    assert list(policy._delays()) == [0.5, 2.0, 2.0, 8.0, 5.0, 10.0, 5.0]


@in_leaping_loop
async def test_a_connection_that_does_not_come_back_is_given_up_when_the_time_is_up() -> None:
    async with ScriptedNode() as node:
        connection = await connect(node.url, reconnect=Reconnect(give_up_after=60))
        sender = await connection.sender("q")
        start = connection._loop.time()
    sending = asyncio.ensure_future(sender.send("x", timeout=None))
    with pytest.raises(ConnectionLost, match="does not come back") as caught:
        await connection.wait_closed()
    assert 20 < connection._loop.time() - start <= 61
    assert isinstance(caught.value.__cause__, ConnectionLost)
    with pytest.raises(ConnectionLost, match="does not come back"):
        await sending


@in_leaping_loop
async def test_a_connection_is_given_up_after_so_many_attempts() -> None:
    async with ScriptedNode() as node:
        connection = await connect(node.url, reconnect=Reconnect(attempts=3))
    with pytest.raises(ConnectionLost, match="does not come back"):
        await connection.wait_closed()


@in_loop
async def test_another_url_takes_over() -> None:
    async with ScriptedNode("two") as two:
        async with ScriptedNode("one") as one:
            connection = await connect([one.url, two.url], reconnect=SOON)
            sender = await connection.sender("q")
            await sender.send("a")
            assert str(connection.url) == one.url
        await sender.send("b")
        assert str(connection.url) == two.url
        assert bodies(two) == ["b"]
        await connection.close()


@in_loop
async def test_a_peer_that_refuses_us_for_good_is_not_asked_again() -> None:
    async with ScriptedNode(users={"me": "right"}, mechanisms=["PLAIN"]) as node:
        connection = await connect(node.url, username="me", password="right", reconnect=SOON)
        node.security.authenticator.remove("me")  # type: ignore[union-attr]
        node.connections[0].cut()
        with pytest.raises(AuthenticationFailed):
            await connection.wait_closed()
        assert len(node.received(SaslInit)) == 2


@in_loop
async def test_a_close_by_the_peer_is_a_loss_like_any_other() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        sender = await connection.sender("q")
        node.connections[0].close()
        await node.wait_for(lambda: node.accepted == 2)
        await sender.send("x")


@in_loop
async def test_closing_while_there_is_no_connection_ends_at_once() -> None:
    async with ScriptedNode() as node:
        connection = await connect(node.url)
        sender = await connection.sender("q")
        posted = sender.post("x")
    await connection.close()
    assert not connection.is_open
    with pytest.raises(ConnectionClosed):
        await posted


@in_loop
async def test_a_link_that_is_refused_on_the_way_back_is_over_and_the_others_go_on() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        one, two = await connection.sender("one"), await connection.sender("two")
        node.script.on(Attach, name=one.name).refuse("amqp:not-found", "gone")
        node.connections[0].cut()
        await two.send("x")
        with pytest.raises(LinkDetached, match="gone"):
            await one.send("x")


# --- sessions and links that are lost alone ----------------------------------------------------------------


@in_loop
async def test_a_session_that_the_peer_ends_is_begun_anew_with_its_links() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender, receiver = await connection.sender("q"), await connection.receiver("q")
        await sender.send("one")
        assert await take(receiver, 1) == ["one"]
        node.connections[0].end(0, None, is_sent=False)
        await sender.send("two")
        assert await take(receiver, 1) == ["two"]
        assert node.accepted == 1
        assert len(node.received(Begin)) == 2


@in_loop
async def test_a_link_that_takes_its_session_along_is_found_out_and_the_others_come_back() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        senders = [await connection.sender(f"q{number}") for number in range(3)]
        node.script.on(Attach, when=_is_for_bad).end("amqp:invalid-field", "no such thing")
        with pytest.raises(SessionEnded, match="no such thing"):
            await connection.sender("bad")
        for sender in senders:
            await sender.send("x")
        found = await asyncio.gather(
            *(_attach(connection, address) for address in ("a", "bad", "b", "bad", "c"))
        )
        assert found == [True, False, True, False, True]
        for sender in senders:
            await sender.send("y")


def _is_for_bad(seen: Any) -> bool:
    target = seen.performative.target
    return isinstance(target, Target) and target.address == "bad"


async def _attach(connection: Connection, address: str) -> bool:
    try:
        sender = await connection.sender(address)
    except SessionEnded:
        return False
    return await sender.send("x") == Accepted()


@in_leaping_loop
async def test_a_session_that_never_lasts_is_given_up() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        node.script.on(Transfer).end("amqp:internal-error", "I cannot take this")
        node.script.before(Disposition).drop()
        with pytest.raises(SessionEnded, match="cannot take this"):
            await sender.send("poison", timeout=None)
        assert connection.is_connected


@in_loop
async def test_a_link_that_the_peer_detaches_without_a_reason_is_attached_again() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        receiver = await connection.receiver("q")
        node.script.on(Flow, times=1).detach()
        sender = await connection.sender("other")
        await node.wait_for(lambda: node.received(Detach))
        node.put("q", "x")
        assert await take(receiver, 1) == ["x"]
        assert receiver.counters.reattached == 1
        await sender.send("y")


@in_loop
async def test_a_transfer_under_way_when_its_link_is_detached_gets_its_outcome() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.script.before(Disposition, times=1).drop()
        node.script.on(Transfer, times=1).detach("amqp:link:detach-forced", "idle")
        sender = await connection.sender("q")
        assert await sender.send("x") == Accepted()
        assert set(bodies(node)) == {"x"}


@in_loop
async def test_without_reconnecting_a_lost_session_is_the_end_of_its_links() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=None) as connection:
        sender = await connection.sender("q")
        node.connections[0].end(0, None, is_sent=False)
        with pytest.raises(SessionEnded):
            await sender.send("x")


@in_loop
async def test_many_messages_under_way_survive_many_cuts() -> None:
    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        for offset in (2000, 3000, 5000, 9000):
            node.script.cut(after_read=offset)
        sender = await connection.sender("q")
        outcomes = await sender.send_many((Message(number) for number in range(1000)), window=50)
        assert outcomes == [Accepted()] * 1000
        assert set(bodies(node)) == set(range(1000))
        assert node.accepted >= 4


@in_loop
async def test_a_rejected_message_is_not_sent_again() -> None:
    from amqpforge_protocol.amqp_1_0 import Rejected

    async with ScriptedNode() as node, connect(node.url, reconnect=SOON) as connection:
        node.queue("q").answer = Rejected()
        sender = await connection.sender("q")
        with pytest.raises(NotAccepted):
            await sender.send("x")
        node.connections[0].cut()
        await node.wait_for(lambda: node.accepted == 2)
        node.queue("q").answer = Accepted()
        await sender.send("y")
        assert bodies(node) == ["y"]

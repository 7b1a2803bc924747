"""What outcomes do to messages in the queues of the test node (sections 3.2.1 and 3.4.2 to 3.4.5)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from amqpforge.message import Message
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    Error,
    Modified,
    Received,
    ReceiverSettleMode,
    Rejected,
    Released,
    SenderSettleMode,
    Source,
    Symbol,
)

from .peer import Peer, asynchronous, bodies, message_of

KEY = Symbol("x-opt-a")
OTHER = Symbol("x-opt-b")


@asynchronous
@pytest.mark.spec("M-OUTCOME-007", "M-TERM-013")
async def test_accepted_archives_the_message_as_it_is() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", Message("one", delivery_count=3))
        receiver = await peer.receiver(credit=5)
        (delivery,) = await peer.receive(receiver)
        assert node.queue("q").stored()[0].is_acquired
        await peer.settle(delivery, Accepted())
        assert not node.queue("q").stored()
        (gone,) = node.queue("q").retired
        assert gone.outcome == Accepted()
        assert gone.message.delivery_count == 3


@asynchronous
@pytest.mark.spec("M-OUTCOME-006", "M-NODE-005")
async def test_an_unsettled_accepted_is_applied_and_settled_by_the_node() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        receiver = await peer.receiver(credit=1, rcv_settle_mode=ReceiverSettleMode.SECOND)
        (delivery,) = await peer.receive(receiver)
        delivery.update(Received(section_number=1, section_offset=0))
        await peer.echo(receiver)
        assert node.queue("q").stored()[0].is_acquired
        delivery.update(Accepted())
        assert not delivery.settled
        peer.pump()
        await peer.until(lambda: delivery.remote_settled)
        assert delivery.remote_state in (None, Accepted())
        assert node.queue("q").retired[0].outcome == Accepted()


@asynchronous
@pytest.mark.spec("M-OUTCOME-008", "M-OUTCOME-009")
async def test_rejected_counts_and_keeps_its_error() -> None:
    error = Error(condition=AmqpError.INVALID_FIELD, description="no such colour")
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "bad")
        receiver = await peer.receiver(credit=5)
        (delivery,) = await peer.receive(receiver)
        await peer.settle(delivery, Rejected(error=error))
        (gone,) = node.queue("q").retired
        assert gone.outcome == Rejected(error=error)
        assert gone.message.delivery_count == 1
        assert gone.message.body == "bad"


@asynchronous
@pytest.mark.spec("M-OUTCOME-011", "M-OUTCOME-012")
async def test_released_frees_the_message_unchanged_for_anybody() -> None:
    original = Message("m", annotations={"x-opt-a": 1}, priority=7).encode()
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", Message.from_octets(original))
        receiver = await peer.receiver(credit=10)
        for _ in range(5):
            (delivery,) = await peer.receive(receiver)
            assert delivery.payload == original
            await peer.settle(delivery, Released())
        assert node.queue("q").stored()[0].payload == original
        (delivery,) = await peer.receive(receiver)
        receiver.flow(0)
        other = await peer.receiver(name="other", credit=1)
        await peer.settle(delivery, Released())
        (again,) = await peer.receive(other)
        assert again.payload == original


@asynchronous
@pytest.mark.spec("M-OUTCOME-021", "M-OUTCOME-020", "M-HEADER-018", "M-OUTCOME-018")
async def test_modified_with_delivery_failed_counts_each_time_and_leaves_the_bare_message_alone() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        sender = await peer.sender()
        await peer.send(sender, Message({"a": [1, 2]}, message_id="m-1"))
        receiver = await peer.receiver(credit=10)
        bare = None
        for count in range(3):
            (delivery,) = await peer.receive(receiver)
            message = message_of(delivery)
            assert message.delivery_count == count
            assert message.annotations.get("x-opt-a") == (count or None)
            bare = bare or message.sections.bare
            assert message.sections.bare == bare
            changes: dict[str, Any] = {KEY: count + 1}
            await peer.settle(delivery, Modified(delivery_failed=True, message_annotations=changes))


@asynchronous
@pytest.mark.spec("M-HEADER-019", "M-OUTCOME-022")
async def test_the_delivery_count_moves_with_the_outcome_and_by_its_rule() -> None:
    outcomes: list[tuple[Any, int]] = [
        (Released(), 0),
        (Modified(), 0),
        (Modified(delivery_failed=False), 0),
        (Modified(delivery_failed=True), 1),
        (Rejected(), 2),
    ]
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        (stored,) = node.queue("q").stored()
        receiver = await peer.receiver(credit=10)
        before = 0
        for outcome, count in outcomes:
            (delivery,) = await peer.receive(receiver)
            assert stored.message.delivery_count == before  # The transfer alone counts for nothing.
            await peer.settle(delivery, outcome)
            assert stored.message.delivery_count == count
            before = count
        node.put("q", "accepted")
        (delivery,) = await peer.receive(receiver)
        await peer.settle(delivery, Accepted())
        assert node.queue("q").retired[-1].message.delivery_count == 0


@asynchronous
@pytest.mark.spec("M-OUTCOME-017")
async def test_the_three_fields_of_modified_are_independent() -> None:
    for number, (failed, barred, annotated) in enumerate(product((False, True), repeat=3)):
        async with ScriptedNode() as node, Peer(node) as peer:
            node.put("q", Message("m", annotations={"x-opt-b": 0}))
            receiver = await peer.receiver(credit=10)
            (delivery,) = await peer.receive(receiver)
            outcome = Modified(
                delivery_failed=failed or None,
                undeliverable_here=barred or None,
                message_annotations={KEY: number} if annotated else None,
            )
            await peer.settle(delivery, outcome)
            assert bool(peer.inbox["in"]) is not barred
            message = node.messages("q")[0]
            assert message.delivery_count == int(failed)
            assert dict(message.annotations) == ({OTHER: 0, KEY: number} if annotated else {OTHER: 0})


@asynchronous
@pytest.mark.spec("M-OUTCOME-023", "M-OUTCOME-024")
async def test_undeliverable_here_bars_one_link_only() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        receiver = await peer.receiver(credit=1)
        (delivery,) = await peer.receive(receiver)
        await peer.settle(delivery, Modified(undeliverable_here=True))
        receiver.flow(10)
        await peer.echo(receiver)
        assert not peer.inbox["in"]
        node.put("q", "next")
        assert bodies(await peer.receive(receiver)) == ["next"]
        other = await peer.receiver(name="other", credit=1)
        assert bodies(await peer.receive(other)) == ["m"]


@asynchronous
@pytest.mark.spec("M-OUTCOME-025", "M-OUTCOME-026", "M-OUTCOME-027")
async def test_annotations_of_modified_are_merged_into_their_own_section() -> None:
    stored = [
        Message("none"),
        Message("same", annotations={"x-opt-a": 1}),
        Message("other", annotations={"x-opt-b": 5}),
    ]
    async with ScriptedNode() as node, Peer(node) as peer:
        for message in stored:
            node.put("q", message)
        receiver = await peer.receiver(credit=3)
        for delivery in await peer.receive(receiver, 3):
            delivery.settle(Modified(message_annotations={KEY: 2}))
        receiver.flow(3)
        peer.pump()
        again = [message_of(delivery) for delivery in await peer.receive(receiver, 3)]
        assert [dict(message.annotations) for message in again] == [{KEY: 2}, {KEY: 2}, {OTHER: 5, KEY: 2}]
        assert all(message.sections.header is None for message in again)


@asynchronous
@pytest.mark.spec("M-HEADER-016")
async def test_first_acquirer_is_told_to_the_first_link_alone() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", Message("m", first_acquirer=True))
        receiver = await peer.receiver(credit=1)
        (delivery,) = await peer.receive(receiver)
        assert message_of(delivery).first_acquirer
        await peer.settle(delivery, Released())
        other = await peer.receiver(name="other", credit=1)
        (delivery,) = await peer.receive(other)
        assert not message_of(delivery).first_acquirer


@asynchronous
@pytest.mark.spec("M-HEADER-004", "M-HEADER-005")
async def test_a_target_in_memory_alone_rejects_durable_messages() -> None:
    async with ScriptedNode(memory_only=True) as node, Peer(node) as peer:
        sender = await peer.sender()
        durable, plain = await peer.send(sender, Message("kept", durable=True), Message("plain"))
        assert isinstance(durable, Rejected)
        assert durable.error is not None
        assert durable.error.condition == AmqpError.PRECONDITION_FAILED
        assert plain == Accepted()
        assert [message.body for message in node.messages("q")] == ["plain"]


@asynchronous
@pytest.mark.spec("M-HEADER-006")
async def test_such_a_target_detaches_where_the_source_does_not_take_rejected() -> None:
    source = Source(outcomes=[Accepted.SYMBOL, Released.SYMBOL])
    async with ScriptedNode(memory_only=True) as node, Peer(node) as peer:
        sender = await peer.sender(source=source)
        assert await peer.send(sender, Message("plain")) == [Accepted()]
        sender.send(Message("kept", durable=True).encode())
        peer.pump()
        await peer.until(lambda: sender.error)
        assert sender.error is not None
        assert sender.error.condition == AmqpError.PRECONDITION_FAILED
        assert [message.body for message in node.messages("q")] == ["plain"]


@asynchronous
async def test_without_that_setting_durable_messages_are_taken() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        sender = await peer.sender()
        assert await peer.send(sender, Message("kept", durable=True)) == [Accepted()]


@asynchronous
@pytest.mark.spec("M-TERM-010", "M-TERM-012")
async def test_the_default_outcome_is_for_what_is_settled_without_one() -> None:
    source = Source(address="q", default_outcome=Released(), outcomes=[])
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        receiver = await peer.receiver(credit=1, source=source)
        (delivery,) = await peer.receive(receiver)
        await peer.settle(delivery, None)
        assert node.queue("q").stored()[0].is_acquired is False
        assert not node.queue("q").retired


@asynchronous
@pytest.mark.spec("M-TERM-010")
async def test_the_default_outcome_is_for_what_is_open_when_the_source_goes() -> None:
    source = Source(address="q", default_outcome=Modified(delivery_failed=True))
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        receiver = await peer.receiver(credit=1, source=source)
        await peer.receive(receiver)
        receiver.close()
        peer.pump()
        await node.wait_for(lambda: not node.queue("q").stored()[0].is_acquired)
        assert node.messages("q")[0].delivery_count == 1


@asynchronous
async def test_what_is_settled_plainly_without_a_default_is_accepted() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        receiver = await peer.receiver(credit=1)
        (delivery,) = await peer.receive(receiver)
        await peer.settle(delivery, None)
        assert node.queue("q").retired[0].outcome == Accepted()


@asynchronous
async def test_what_is_sent_settled_is_not_sent_again() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        receiver = await peer.receiver(credit=1, snd_settle_mode=SenderSettleMode.SETTLED)
        (delivery,) = await peer.receive(receiver)
        assert delivery.remote_settled
        receiver.close()
        peer.pump()
        await node.wait_for(lambda: node.queue("q").retired)
        assert not node.messages("q")


@pytest.mark.parametrize("receiving", list(ReceiverSettleMode))
@pytest.mark.parametrize("sending", list(SenderSettleMode))
def test_every_settle_mode_works_both_ways(sending: SenderSettleMode, receiving: ReceiverSettleMode) -> None:
    @asynchronous
    async def check() -> None:
        modes: dict[str, Any] = {"snd_settle_mode": sending, "rcv_settle_mode": receiving}
        async with ScriptedNode() as node, Peer(node) as peer:
            sender = await peer.sender(**modes)
            outcomes = await peer.send(sender, "a", "b")
            is_settled = sending is SenderSettleMode.SETTLED
            assert outcomes == ([None, None] if is_settled else [Accepted(), Accepted()])
            receiver = await peer.receiver(credit=2, **modes)
            assert (receiver.snd_settle_mode, sender.rcv_settle_mode) == (sending, receiving)
            deliveries = await peer.receive(receiver, 2)
            for delivery in deliveries:
                assert delivery.remote_settled is is_settled
                delivery.update(Accepted(), settled=receiving is ReceiverSettleMode.FIRST)
            peer.pump()
            await node.wait_for(lambda: len(node.queue("q").retired) == 2)
            await peer.until(lambda: not receiver.unsettled)
            assert not node.messages("q")

    check()


@asynchronous
async def test_a_queue_answers_as_the_test_wants() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        queue = node.queue("q")
        sender = await peer.sender()
        queue.answer = Released()
        assert await peer.send(sender, "m") == [Released()]
        queue.answer = lambda message: Accepted() if message.body == "good" else Rejected()
        assert await peer.send(sender, "good", "bad") == [Accepted(), Rejected()]
        assert (queue.arrived, [message.body for message in queue.messages()]) == (3, ["good"])


@asynchronous
async def test_a_full_queue_rejects() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.queue("q").capacity = 1
        sender = await peer.sender()
        first, second = await peer.send(sender, "a", "b")
        assert first == Accepted()
        assert second.error.condition == AmqpError.RESOURCE_LIMIT_EXCEEDED


@asynchronous
async def test_octets_that_are_no_message_are_kept_as_they_are_unless_somebody_looks() -> None:
    async with ScriptedNode(memory_only=True) as node, Peer(node) as peer:
        sender = await peer.sender()
        for message_format in (0, 0x1200):
            delivery = sender.send(b"\x00", message_format=message_format)
            peer.pump()
            await peer.until(lambda: delivery.settled)  # noqa: B023
        receiver = await peer.receiver(credit=2)
        assert [one.payload for one in await peer.receive(receiver, 2)] == [b"\x00", b"\x00"]
        assert node.messages("q")[1].raw == b"\x00"
        node.queue("q").answer = lambda message: Accepted() if message.body else Rejected()
        delivery = sender.send(b"\x00")
        peer.pump()
        await peer.until(lambda: delivery.settled)
        assert isinstance(delivery.remote_state, Rejected)
        assert delivery.remote_state.error is not None
        assert delivery.remote_state.error.condition == AmqpError.DECODE_ERROR

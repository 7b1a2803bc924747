"""Transactions, from the controller's side (section 4)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.client import Connection, TransactionFailed, connect
from amqpforge.errors import AmqpforgeError, LinkDetached, LocalError, NotAccepted
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpValue,
    Attach,
    Coordinator,
    Declare,
    Discharge,
    Disposition,
    Released,
    TransactionalState,
    Transfer,
    decode_message,
)

from .loops import in_loop


def bodies(node: ScriptedNode, address: str = "q") -> list[Any]:
    return [message.body for message in node.messages(address)]


def commands(node: ScriptedNode) -> list[Any]:
    """What the coordinator was told."""
    found = []
    for seen in node.frames:
        if isinstance(seen.performative, Transfer) and not seen.is_sent and seen.payload:
            body = decode_message(seen.payload).body
            if isinstance(body, AmqpValue) and isinstance(body.value, Declare | Discharge):
                found.append(body.value)
    return found


@in_loop
async def test_what_belongs_to_a_transaction_takes_effect_when_it_is_committed() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("in", "job")
        sender = await connection.sender("q")
        receiver = await connection.receiver("in", auto_accept=False)
        async with connection.transaction() as transaction:
            id = transaction.id
            assert await sender.send("a", transaction=transaction) == Accepted()
            assert await sender.send_many(["b", "c"], transaction=transaction) == [Accepted()] * 2
            await sender.post("d", transaction=transaction)
            async with sender.stream(transaction=transaction) as stream:
                await stream.write(b"e")
            (await receiver.receive()).accept(transaction=transaction)
            assert bodies(node) == []
            assert bodies(node, "in") == ["job"]
        assert bodies(node) == ["a", "b", "c", "d", b"e"]
        assert bodies(node, "in") == []
        assert commands(node) == [Declare(), Discharge(txn_id=id, fail=False)]
        states = [one.state for one in node.received(Disposition) if one.state]
        assert TransactionalState(txn_id=id, outcome=Accepted()) in states
        assert sender.counters.accepted == 5
        assert sender.counters.unsettled == 0


@in_loop
async def test_an_exception_rolls_the_transaction_back() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("in", "job")
        sender = await connection.sender("q")
        receiver = await connection.receiver("in", auto_accept=False)

        async def failing() -> None:
            async with connection.transaction() as transaction:
                await sender.send("a", transaction=transaction)
                (await receiver.receive()).accept(transaction=transaction)
                raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await failing()
        assert bodies(node) == []
        assert bodies(node, "in") == ["job"]
        assert commands(node)[-1].fail is True


@in_loop
async def test_other_work_is_no_part_of_the_transaction() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")

        async def failing() -> None:
            async with connection.transaction() as transaction:
                await sender.send("inside", transaction=transaction)
                await sender.send("outside")
                raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await failing()
        assert bodies(node) == ["outside"]


@in_loop
async def test_transactions_can_overlap_over_one_coordinator_link() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        async with connection.transaction() as one, connection.transaction() as two:
            await sender.send("one", transaction=one)
            await sender.send("two", transaction=two)
            await two.rollback()
            with pytest.raises(LocalError, match="over"):
                await sender.send("three", transaction=two)
        assert bodies(node) == ["one"]
        targets = [attach.target for attach in node.received(Attach)]
        assert len([target for target in targets if isinstance(target, Coordinator)]) == 1


@in_loop
async def test_a_transaction_can_be_committed_by_hand_and_is_over_then() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")
        async with connection.transaction() as transaction:
            await sender.send("a", transaction=transaction)
            await transaction.commit()
            assert bodies(node) == ["a"]
            with pytest.raises(LocalError, match="over"):
                await transaction.commit()
        assert len(commands(node)) == 2


@in_loop
async def test_an_outcome_other_than_accepted_is_an_error_inside_too() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.queue("q").answer = Released()
        sender = await connection.sender("q")
        with pytest.raises(NotAccepted):
            async with connection.transaction() as transaction:
                await sender.send("a", transaction=transaction)
        assert commands(node)[-1].fail is True


@in_loop
async def test_a_transaction_that_the_coordinator_does_not_carry_out_is_an_error() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        with pytest.raises(TransactionFailed, match="unknown-id") as caught:
            async with connection.transaction():
                await _forget_transactions(node)
        assert caught.value.error is not None


async def _forget_transactions(node: ScriptedNode) -> None:
    (controlled,) = [
        link.context for link in node.container.links.values() if hasattr(link.context, "_declared")
    ]
    controlled._declared.clear()


@in_loop
async def test_a_peer_without_transactions_refuses_the_coordinator() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.script.on(Attach).refuse("amqp:not-implemented", "no transactions")
        with pytest.raises(LinkDetached, match="no transactions"):
            async with connection.transaction():
                pass
        node.script.clear()
        async with connection.transaction():
            pass


@in_loop
async def test_a_transaction_is_lost_with_its_connection() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        sender = await connection.sender("q")

        async def failing() -> None:
            async with connection.transaction() as transaction:
                await sender.send("a", transaction=transaction)
                await _lose(node, connection)

        with pytest.raises(AmqpforgeError):
            await failing()
        assert bodies(node) == []
        async with connection.transaction() as transaction:
            await sender.send("b", transaction=transaction)
        assert bodies(node) == ["b"]


async def _lose(node: ScriptedNode, connection: Connection) -> None:
    accepted = node.accepted
    node.connections[0].cut()
    await node.wait_for(lambda: node.accepted > accepted)


@in_loop
async def test_a_link_on_another_session_needs_a_coordinator_that_allows_for_it() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.script.before(Attach).replace(_without_capabilities)
        node.put("q", b"x")
        receiver = await connection.receiver("q", stream=True, auto_accept=False)
        delivery = await receiver.receive()
        with pytest.raises(LocalError, match="multi-ssns-per-txn"):
            async with connection.transaction() as transaction:
                delivery.accept(transaction=transaction)


def _without_capabilities(seen: Any) -> Attach:
    attach: Attach = seen.performative
    if isinstance(attach.target, Coordinator):
        attach.target.capabilities = None
    return attach

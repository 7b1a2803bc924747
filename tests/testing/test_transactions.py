"""Local transactions of the test node, as the controller of a client sees them (section 4)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine.sender import Sender
from amqpforge.message import Message
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Error,
    Modified,
    Rejected,
    Released,
    Source,
    TransactionalState,
    TransactionError,
    TxnCapability,
)

from .peer import Peer, asynchronous, bodies, message_of


async def controller(peer: Peer, name: str = "controller", source: Source | None = None) -> Sender:
    """A link to the coordinator, whose source takes rejected unless it says otherwise."""
    outcomes = source or Source(outcomes=[Accepted.SYMBOL, Rejected.SYMBOL])
    return await peer.attach(Sender(name, source=outcomes, target=Coordinator()))


async def declare(peer: Peer, link: Sender) -> Any:
    """Declare a transaction; returns its id."""
    (state,) = await peer.send(link, Message(AmqpValue(Declare())))
    assert isinstance(state, Declared)
    return state.txn_id


async def discharge(peer: Peer, link: Sender, id: Any, *, fail: bool = False) -> Any:
    """Discharge a transaction; returns the outcome."""
    (outcome,) = await peer.send(link, Message(AmqpValue(Discharge(txn_id=id, fail=fail))))
    return outcome


def contents(node: ScriptedNode) -> list[Any]:
    return [message.body for message in node.messages("q")]


@asynchronous
async def test_the_coordinator_tells_what_it_can() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        link = await controller(peer)
        assert isinstance(link.target, Coordinator)
        assert TxnCapability.LOCAL_TRANSACTIONS in (link.target.capabilities or ())


@pytest.mark.parametrize("fail", [False, True])
def test_messages_are_there_after_the_commit_alone(fail: bool) -> None:
    @asynchronous
    async def check() -> None:
        async with ScriptedNode() as node, Peer(node) as peer:
            link, sender = await controller(peer), await peer.sender()
            id = await declare(peer, link)
            state = TransactionalState(txn_id=id)
            for body in ("one", "two"):
                delivery = sender.send(Message(body).encode(), state=state)
                peer.pump()
                await peer.until(lambda: delivery.remote_settled)  # noqa: B023
                assert delivery.remote_state == TransactionalState(txn_id=id, outcome=Accepted())
            await peer.send(sender, "outside")
            assert contents(node) == ["outside"]
            assert await discharge(peer, link, id, fail=fail) == Accepted()
            assert contents(node) == (["outside"] if fail else ["outside", "one", "two"])

    check()


@pytest.mark.parametrize("settles", [False, True])
def test_outcomes_hold_after_the_commit_alone(settles: bool) -> None:
    @asynchronous
    async def check() -> None:
        outcomes: list[Any] = [Accepted(), Released(), Modified(delivery_failed=True), Rejected()]
        async with ScriptedNode() as node, Peer(node) as peer:
            for number in range(4):
                node.put("q", number)
            link, receiver = await controller(peer), await peer.receiver(credit=4)
            id = await declare(peer, link)
            deliveries = await peer.receive(receiver, 4)
            for delivery, outcome in zip(deliveries, outcomes, strict=True):
                delivery.update(TransactionalState(txn_id=id, outcome=outcome), settled=settles)
            await peer.echo(receiver)
            assert [stored.is_acquired for stored in node.queue("q")] == [True] * 4
            assert await discharge(peer, link, id) == Accepted()
            assert contents(node) == [1, 2]
            assert [message.delivery_count for message in node.messages("q")] == [0, 1]
            assert [stored.outcome for stored in node.queue("q").retired] == [Accepted(), Rejected()]
            if not settles:
                await peer.until(lambda: all(delivery.remote_settled for delivery in deliveries))
                assert [delivery.remote_state for delivery in deliveries] == outcomes

    check()


@asynchronous
async def test_after_a_rollback_settled_messages_are_free_again() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        link, receiver = await controller(peer), await peer.receiver(credit=2)
        id = await declare(peer, link)
        (delivery,) = await peer.receive(receiver)
        await peer.settle(delivery, TransactionalState(txn_id=id, outcome=Accepted()))
        await discharge(peer, link, id, fail=True)
        (again,) = await peer.receive(receiver)
        assert message_of(again).delivery_count == 0


@asynchronous
async def test_after_a_rollback_unsettled_messages_stay_with_their_link() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        link, receiver = await controller(peer), await peer.receiver(credit=2)
        (delivery,) = await peer.receive(receiver)
        for fail in (True, False):
            id = await declare(peer, link)
            delivery.update(TransactionalState(txn_id=id, outcome=Accepted()))
            await peer.echo(receiver)
            await discharge(peer, link, id, fail=fail)
            assert [stored.is_acquired for stored in node.queue("q")] == ([True] if fail else [])
        await peer.until(lambda: delivery.remote_settled)
        assert not peer.inbox["in"]


@asynchronous
async def test_what_is_open_when_the_controller_goes_is_rolled_back() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        link, sender = await controller(peer), await peer.sender()
        id = await declare(peer, link)
        sender.send(Message("m").encode(), state=TransactionalState(txn_id=id))
        link.close()
        peer.pump()
        await node.wait_for(lambda: not node.transactions.open)
        assert not contents(node)


@asynchronous
async def test_an_unknown_transaction() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        link, sender, receiver = await controller(peer), await peer.sender(), await peer.receiver(credit=1)
        outcome = await discharge(peer, link, b"none")
        assert isinstance(outcome, Rejected)
        assert outcome.error is not None
        assert outcome.error.condition == TransactionError.UNKNOWN_ID
        node.put("q", "m")
        (delivery,) = await peer.receive(receiver)
        delivery.update(TransactionalState(txn_id=b"none", outcome=Accepted()))
        sender.send(Message("m").encode(), state=TransactionalState(txn_id=b"none"))
        peer.pump()
        await peer.until(lambda: sender.error and receiver.error)
        for one in (sender, receiver):
            assert one.error is not None
            assert one.error.condition == TransactionError.UNKNOWN_ID


@asynchronous
async def test_a_controller_that_takes_no_rejected_loses_its_link() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        link = await controller(peer, source=Source())
        link.send(Message(AmqpValue(Discharge(txn_id=b"none"))).encode())
        peer.pump()
        await peer.until(lambda: link.error)
        assert link.error is not None
        assert link.error.condition == TransactionError.UNKNOWN_ID


@asynchronous
async def test_requests_that_make_no_sense() -> None:
    requests: list[tuple[bytes, AmqpError]] = [
        (Message("hello").encode(), AmqpError.NOT_ALLOWED),
        (Message([Declare()]).encode(), AmqpError.NOT_ALLOWED),
        (b"\x00", AmqpError.DECODE_ERROR),
    ]
    async with ScriptedNode() as node, Peer(node) as peer:
        link = await controller(peer)
        for payload, condition in requests:
            delivery = link.send(payload)
            peer.pump()
            await peer.until(lambda: delivery.settled)  # noqa: B023
            assert isinstance(delivery.remote_state, Rejected)
            error = delivery.remote_state.error
            assert isinstance(error, Error)
            assert error.condition == condition


@asynchronous
async def test_the_order_of_a_transaction_is_kept() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        link, sender, receiver = await controller(peer), await peer.sender(), await peer.receiver(credit=20)
        id = await declare(peer, link)
        for number in range(10):
            sender.send(Message(number).encode(), state=TransactionalState(txn_id=id))
        await discharge(peer, link, id)
        assert bodies(await peer.receive(receiver, 10)) == list(range(10))

"""Transactions over publishing and outcomes (section 4)."""

from __future__ import annotations

import pytest

from amqpforge.broker.settings import QueueSettings
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Coordinator,
    Declare,
    Modified,
    Rejected,
    Released,
    Source,
    Symbol,
    Target,
    TerminusExpiryPolicy,
    TransactionalState,
)

from .ground import a_ground
from .peer import condition_of, in_transaction


def condition(state: object) -> str:
    assert isinstance(state, Rejected), state
    assert state.error is not None
    return str(state.error.condition)


def test_what_is_published_is_seen_once_it_is_committed() -> None:
    ground = a_ground("a", "b")
    peer = ground.peer()
    control = peer.controller()
    assert control.target.capabilities
    a, b = peer.sender("a", "to-a"), peer.sender("b", "to-b")
    id = peer.declare(control)
    for sender in (a, b):
        delivery = peer.send(sender, "m", state=in_transaction(id))
        assert delivery.remote_state == TransactionalState(txn_id=id, outcome=Accepted())
        assert delivery.remote_settled
    assert [ground.host.queues[name].ready for name in "ab"] == [0, 0]
    assert peer.discharge(control, id) == Accepted()
    assert [ground.host.queues[name].ready for name in "ab"] == [1, 1]


def test_what_is_rolled_back_never_was() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    control = peer.controller()
    sender = peer.sender("q")
    peer.send(sender, "kept")
    receiver = peer.receiver("q", credit=1)
    (delivery,) = peer.got(receiver)
    id = peer.declare(control)
    peer.send(sender, "m", state=in_transaction(id))
    delivery.update(in_transaction(id, Accepted()))
    ground.run()
    assert peer.discharge(control, id, fail=True) == Accepted()
    assert (ground.host.queues["q"].ready, ground.host.queues["q"].unacknowledged) == (0, 1)
    peer.settle(delivery, Released())
    assert ground.host.queues["q"].ready == 1


@pytest.mark.parametrize("outcome", [Accepted(), Rejected(), Released(), Modified(delivery_failed=True)])
@pytest.mark.parametrize("settles", [True, False])
def test_outcomes_take_effect_with_the_commit(outcome: object, settles: bool) -> None:
    ground = a_ground("q")
    peer = ground.peer()
    control = peer.controller()
    peer.send(peer.sender("q"), "m")
    receiver = peer.receiver("q", credit=1)
    (delivery,) = peer.got(receiver)
    id = peer.declare(control)
    delivery.update(in_transaction(id, outcome), settled=settles)
    ground.run()
    queue = ground.host.queues["q"]
    assert queue.unacknowledged == 1
    assert peer.discharge(control, id) == Accepted()
    assert queue.unacknowledged == 0
    comes_back = isinstance(outcome, Released | Modified)
    assert queue.ready == int(comes_back)
    assert delivery.remote_settled or settles
    (entry,) = list(queue) if comes_back else (None,)
    if entry is not None:
        assert entry.delivery_count == int(isinstance(outcome, Modified))


def test_a_rollback_frees_what_the_client_has_settled() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    control = peer.controller()
    peer.send(peer.sender("q"), "m")
    receiver = peer.receiver("q", credit=1)
    (delivery,) = peer.got(receiver)
    id = peer.declare(control)
    delivery.update(in_transaction(id, Accepted()), settled=True)
    ground.run()
    peer.discharge(control, id, fail=True)
    assert (ground.host.queues["q"].ready, ground.host.queues["q"].unacknowledged) == (1, 0)


def test_several_transactions_are_apart() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    control = peer.controller()
    sender = peer.sender("q")
    one, other = peer.declare(control), peer.declare(control)
    assert one != other
    peer.send(sender, "one", state=in_transaction(one))
    peer.send(sender, "other", state=in_transaction(other))
    assert peer.discharge(control, other, fail=True) == Accepted()
    assert peer.discharge(control, one) == Accepted()
    receiver = peer.receiver("q", credit=5)
    assert peer.bodies(receiver) == ["one"]


def test_the_end_of_the_coordinator_or_the_connection_rolls_back() -> None:
    for how in ("close", "lose"):
        ground = a_ground("q")
        peer = ground.peer()
        control = peer.controller()
        sender = peer.sender("q")
        id = peer.declare(control)
        peer.send(sender, "m", state=in_transaction(id))
        if how == "close":
            control.close()
            ground.run()
            assert not peer.head.transactions.open
            peer.send(sender, "m", state=in_transaction(id))
            assert condition_of(sender) == "amqp:transaction:unknown-id"
        else:
            peer.lose()
        assert ground.host.queues["q"].ready == 0


def test_transactions_of_another_connection_are_not_known() -> None:
    ground = a_ground("q")
    peer, stranger = ground.peer(), ground.peer(container="stranger")
    id = peer.declare(peer.controller())
    sender = stranger.sender("q")
    stranger.send(sender, "m", state=in_transaction(id))
    assert condition_of(sender) == "amqp:transaction:unknown-id"
    assert condition(stranger.discharge(stranger.controller(), id)) == "amqp:transaction:unknown-id"


def test_what_a_coordinator_does_not_do_is_rejected() -> None:
    ground = a_ground("q", transactions_per_connection=2)
    peer = ground.peer()
    control = peer.controller()
    assert condition(peer.ask(control, Declare(global_id=b"x"))) == "amqp:not-implemented"
    assert condition(peer.ask(control, "hello")) == "amqp:not-allowed"
    assert condition(peer.discharge(control, b"never")) == "amqp:transaction:unknown-id"
    first = peer.declare(control)
    peer.declare(control)
    assert condition(peer.ask(control, Declare())) == "amqp:resource-limit-exceeded"
    peer.discharge(control, first)
    peer.declare(control)


def test_a_controller_that_takes_no_rejection_loses_its_link() -> None:
    peer = a_ground().peer()
    control = peer.attach(Sender("c", source=Source(), target=Coordinator()))
    peer.ask(control, "hello")
    assert condition_of(control) == "amqp:not-allowed"


def test_a_transaction_that_takes_too_long_is_rolled_back() -> None:
    ground = a_ground("q", transaction_timeout=30.0)
    peer = ground.peer()
    control = peer.controller()
    sender = peer.sender("q")
    id = peer.declare(control)
    peer.send(sender, "m", state=in_transaction(id))
    ground.advance(31)
    assert condition(peer.discharge(control, id)) == "amqp:transaction:timeout"
    assert ground.host.queues["q"].ready == 0
    late = peer.declare(control)
    ground.advance(31)
    peer.send(sender, "m", state=in_transaction(late))
    assert condition_of(sender) == "amqp:transaction:timeout"


def test_a_transaction_in_which_something_cannot_be_done_changes_nothing() -> None:
    ground = a_ground("a", "b")
    peer = ground.peer()
    control = peer.controller()
    a, b = peer.sender("a", "to-a"), peer.sender("b", "to-b")
    id = peer.declare(control)
    peer.send(a, "m", state=in_transaction(id))
    peer.send(b, Message("m"), state=in_transaction(id))
    ground.admin.declare_queue("full", QueueSettings(max_length=1))
    peer.send(peer.sender("full", "fill"), "m")
    full = peer.sender("full", "to-full")
    refused = peer.send(full, "m", state=in_transaction(id))
    assert isinstance(refused.remote_state, TransactionalState)
    assert isinstance(refused.remote_state.outcome, Rejected)
    assert peer.discharge(control, id) == Accepted()
    assert [ground.host.queues[name].ready for name in ("a", "b", "full")] == [1, 1, 1]


def test_a_link_that_is_gone_gives_back_what_a_rolled_back_transaction_held() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    control = peer.controller()
    peer.send(peer.sender("q"), "m")
    receiver = peer.receiver(
        source=Source(address="q", expiry_policy=TerminusExpiryPolicy.LINK_DETACH), credit=1
    )
    (delivery,) = peer.got(receiver)
    id = peer.declare(control)
    delivery.update(in_transaction(id, Accepted()))
    ground.run()
    receiver.detach()
    ground.run()
    assert ground.host.queues["q"].unacknowledged == 1
    peer.discharge(control, id, fail=True)
    assert (ground.host.queues["q"].ready, ground.host.queues["q"].unacknowledged) == (1, 0)


# --- acquiring


def acquire(receiver: Receiver, credit: int, id: object) -> None:
    """Give credit under which messages are acquired in a transaction."""
    session = receiver.session
    assert session is not None
    receiver.flow_state.link_credit = credit
    flow = receiver.flow_state.state(session.flow())
    flow.handle = receiver.handle
    flow.properties = {Symbol("txn-id"): id}
    session.write(flow)


def test_what_was_acquired_in_a_transaction_is_free_once_that_is_undone() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    control = peer.controller()
    sender = peer.sender("q")
    for number in range(3):
        peer.send(sender, number)
    receiver = peer.receiver("q")
    id = peer.declare(control)
    acquire(receiver, 2, id)
    ground.run()
    first, second = peer.got(receiver)
    assert first.remote_state == TransactionalState(txn_id=id)
    first.update(in_transaction(id, Accepted()))
    ground.run()
    assert ground.host.queues["q"].unacknowledged == 2
    peer.discharge(control, id, fail=True)
    assert (ground.host.queues["q"].ready, ground.host.queues["q"].unacknowledged) == (3, 0)
    assert second.remote_settled
    peer.flow(receiver, 1)
    (third,) = peer.got(receiver)
    assert third.remote_state is None
    peer.settle(third, Accepted())
    assert ground.host.queues["q"].ready == 2


def test_what_was_acquired_in_a_transaction_stays_with_the_client_once_that_is_committed() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    control = peer.controller()
    sender = peer.sender("q")
    for number in range(2):
        peer.send(sender, number)
    receiver = peer.receiver("q")
    id = peer.declare(control)
    acquire(receiver, 2, id)
    ground.run()
    first, second = peer.got(receiver)
    first.update(in_transaction(id, Accepted()))
    ground.run()
    assert peer.discharge(control, id) == Accepted()
    assert (ground.host.queues["q"].ready, ground.host.queues["q"].unacknowledged) == (0, 1)
    peer.settle(second, Released())
    assert ground.host.queues["q"].ready == 1


@pytest.mark.parametrize("is_there", [True, False])
def test_a_transaction_may_be_named_ahead_of_the_answer_to_the_attach(is_there: bool) -> None:
    ground = a_ground("q")
    peer = ground.peer()
    control = peer.controller()
    peer.send(peer.sender("q"), "m")
    id = peer.declare(control) if is_there else b"never"
    receiver = Receiver("in", source=Source(address="q"), target=Target())
    peer.session.attach(receiver)
    acquire(receiver, 1, id)
    ground.run()
    if not is_there:
        assert condition_of(receiver) == "amqp:transaction:unknown-id"
        assert ground.host.queues["q"].ready == 1
        return
    (delivery,) = peer.got(receiver)
    assert delivery.remote_state == TransactionalState(txn_id=id)
    peer.discharge(control, id, fail=True)
    assert (ground.host.queues["q"].ready, ground.host.queues["q"].unacknowledged) == (1, 0)


def test_acquiring_in_a_transaction_that_is_not_there_closes_the_link() -> None:
    ground = a_ground("q")
    receiver = ground.peer().receiver("q")
    acquire(receiver, 2, b"never")
    ground.run()
    assert condition_of(receiver) == "amqp:transaction:unknown-id"


def test_a_transaction_holds_only_so_much() -> None:
    ground = a_ground("q", memory=4000)
    peer = ground.peer()
    control = peer.controller()
    sender = peer.sender("q")
    id = peer.declare(control)
    outcomes = []
    for _ in range(3):
        state = peer.send(sender, b"x" * 400, state=in_transaction(id)).remote_state
        assert isinstance(state, TransactionalState)
        outcomes.append(type(state.outcome))
    assert outcomes == [Accepted, Accepted, Rejected]
    peer.discharge(control, id)
    assert ground.host.queues["q"].ready == 2
    again = peer.declare(control)
    state = peer.send(sender, b"x" * 400, state=in_transaction(again)).remote_state
    assert state == TransactionalState(txn_id=again, outcome=Accepted())


def test_a_coordinator_that_is_attached_elsewhere_is_a_new_one() -> None:
    ground = a_ground("q")
    first, second = ground.peer(), ground.peer()
    control = first.controller()
    id = first.declare(control)
    first.send(first.sender("q"), "m", state=in_transaction(id))
    other = second.controller()
    assert condition_of(control) == "amqp:link:stolen"
    assert not first.head.transactions.open
    assert condition(second.discharge(other, id)) == "amqp:transaction:unknown-id"
    assert second.discharge(other, second.declare(other)) == Accepted()
    assert ground.host.queues["q"].ready == 0

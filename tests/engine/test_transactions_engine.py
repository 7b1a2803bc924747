"""Transactions as the engine carries them: a link to a coordinator, and states that name a transaction.

Sections 4.1 to 4.4. What a transaction does is up to who coordinates it.
"""

from __future__ import annotations

import pytest

from amqpforge.engine import events
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpValue,
    Attach,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Disposition,
    Error,
    Message,
    Rejected,
    Role,
    Source,
    TransactionalState,
    TransactionError,
    TransactionId,
    Transfer,
    TxnCapability,
    decode_message,
    encode_message,
)
from tests.engine.joined import BODY, Joined, a_receiver, a_sender
from tests.engine.linked import Severed, frames

TXN = TransactionId(b"t1")


def controlled() -> tuple[Joined, Sender, Receiver]:
    """A link to a coordinator, with credit."""
    joined = Joined()
    session = joined.open()
    link = Sender(
        "control", source=Source(), target=Coordinator(capabilities=[TxnCapability.LOCAL_TRANSACTIONS])
    )
    session.attach(link)
    joined.run()
    receiver: Receiver = joined.peer_of(link)
    receiver.flow(10)
    joined.run()
    return joined, link, receiver


def told(joined: Joined, receiver: Receiver) -> list[object]:
    """What the coordinator was asked for."""
    came = [one for event in joined.told(joined.server, events.Deliveries) for one in event.deliveries]
    bodies = [decode_message(one.payload).body for one in came if one.link is receiver]
    return [body.value for body in bodies if isinstance(body, AmqpValue)]


def request(body: Declare | Discharge) -> bytes:
    return encode_message(Message(body=AmqpValue(body)))


def test_a_coordinator_is_a_target_like_any_other() -> None:
    joined, link, receiver = controlled()
    assert isinstance(receiver.target, Coordinator)
    assert frames(joined, joined.client, Attach)[0].performative.target == link.target


def test_declaring_and_discharging() -> None:
    joined, link, receiver = controlled()
    declaring = link.send(request(Declare()))
    joined.run()
    assert told(joined, receiver) == [Declare()]
    receiver.unsettled[declaring.tag].settle(Declared(txn_id=TXN))
    joined.run()
    assert (declaring.settled, declaring.remote_state) == (True, Declared(txn_id=TXN))
    discharging = link.send(request(Discharge(txn_id=TXN, fail=False)))
    joined.run()
    assert told(joined, receiver)[1] == Discharge(txn_id=TXN, fail=False)
    receiver.unsettled[discharging.tag].settle(Accepted())
    joined.run()
    assert (discharging.state, link.unsettled, receiver.unsettled) == (Accepted(), {}, {})


def test_a_discharge_that_is_refused() -> None:
    joined, link, receiver = controlled()
    discharging = link.send(request(Discharge(txn_id=TXN, fail=False)))
    joined.run()
    error = Error(condition=TransactionError.UNKNOWN_ID)
    receiver.unsettled[discharging.tag].settle(Rejected(error=error))
    joined.run()
    assert discharging.remote_state == Rejected(error=error)


def test_posting_within_a_transaction() -> None:
    """The transfer's state names the transaction; the outcome in answer is not in force before commit."""
    joined = Joined()
    session = joined.open()
    link = a_sender()
    session.attach(link)
    joined.run()
    receiver = joined.peer_of(link)
    receiver.flow(1)
    joined.run()
    sent = link.send(BODY, state=TransactionalState(txn_id=TXN))
    joined.run()
    assert frames(joined, joined.client, Transfer)[0].performative.state == TransactionalState(txn_id=TXN)
    came = joined.told(joined.server, events.Deliveries)[0].deliveries[0]
    assert came.remote_state == TransactionalState(txn_id=TXN)
    came.update(TransactionalState(txn_id=TXN, outcome=Accepted()))
    joined.run()
    assert sent.remote_state == TransactionalState(txn_id=TXN, outcome=Accepted())
    assert not sent.settled  # It is no outcome yet.
    came.settle()
    joined.run()
    assert (sent.settled, link.unsettled) == (True, {})


def test_retiring_within_a_transaction() -> None:
    joined = Joined()
    session = joined.open()
    link = a_receiver()
    session.attach(link)
    joined.run()
    sender = joined.peer_of(link)
    sender.auto_settle = False
    link.flow(1)
    joined.run()
    sent = sender.send(BODY)
    joined.run()
    came = joined.told(joined.client, events.Deliveries)[0].deliveries[0]
    came.update(TransactionalState(txn_id=TXN, outcome=Accepted()))
    joined.run()
    assert len(sender.unsettled) == 1
    sent.settle(Accepted())  # The transaction was committed.
    joined.run()
    assert (came.settled, link.unsettled, sender.unsettled) == (True, {}, {})
    assert frames(joined, joined.server, Disposition)[-1].performative.role is Role.SENDER


def test_a_transaction_id_that_cannot_be_told() -> None:
    joined, link, _ = controlled()
    with pytest.raises(LocalError, match="state"):
        link.send(BODY, state=TransactionalState(txn_id=None))  # type: ignore[arg-type]
    assert frames(joined, joined.client, Transfer) == []


def test_what_was_posted_within_a_transaction_is_resumed() -> None:
    """A state within a transaction is no outcome: the message is sent on."""
    severed = Severed()
    link, receiver = severed.sender()
    link.send(BODY, tag=b"1", state=TransactionalState(txn_id=TXN))
    severed.joined.run()
    severed.came[0].update(TransactionalState(txn_id=TXN, outcome=Accepted()))
    severed.cut()
    severed.resume(link)
    receiver.flow(1)
    severed.joined.run()
    assert [one.performative.resume for one in frames(severed.joined, severed.joined.client, Transfer)] == [
        True
    ]
    assert len(severed.came) == 1
    severed.came[0].settle()
    severed.joined.run()
    assert (link.unsettled, receiver.unsettled) == ({}, {})

"""What survives a broker that is killed, and when clients are told that it does."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.broker.access import Access, Permissions
from amqpforge.broker.settings import QueueSettings
from amqpforge.engine.receiver import Receiver
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    DeleteOnClose,
    Described,
    Modified,
    ReceiverSettleMode,
    Source,
    Symbol,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
)

from .ground import Ground, a_ground
from .keeping import KeepingStore
from .peer import condition_of, in_transaction, message_of

NEVER = TerminusExpiryPolicy.NEVER
TOPIC = "/exchanges/amq.topic/eu.%23"
SELECTOR = Described(Symbol("apache.org:selector-filter:string"), "n > 0")
KEY: Any = Symbol("x-opt-a")


def a_lasting(store: KeepingStore) -> Ground:
    """A broker with a durable queue."""
    ground = a_ground(store=store)
    ground.admin.declare_queue("q", QueueSettings(durable=True))
    return ground


def restarted(ground: Ground, store: KeepingStore) -> Ground:
    """The broker is killed and started again."""
    return a_ground(store=store, clock=ground.clock)


def lasting(**fields: Any) -> Source:
    return Source(
        address=TOPIC,
        **{"durable": TerminusDurability.CONFIGURATION, "expiry_policy": NEVER, **fields},
    )


@pytest.mark.spec("M-HEADER-003")
def test_a_durable_message_is_there_again_after_a_crash() -> None:
    store = KeepingStore()
    ground = a_lasting(store)
    peer = ground.peer()
    sender = peer.sender("q")
    peer.send(sender, Message("durable", durable=True, annotations={"x-opt-b": 1}))
    peer.send(sender, Message("not", durable=False))
    receiver = peer.receiver("q", credit=1)
    (delivery,) = peer.got(receiver)
    peer.flow(receiver, 0)
    peer.settle(delivery, Modified(delivery_failed=True, message_annotations={KEY: 2}))
    again = restarted(ground, store).peer()
    (came,) = again.got(again.receiver("q", credit=9))
    message = message_of(came)
    assert (message.body, message.delivery_count) == ("durable", 1)
    assert dict(message.annotations) == {"x-opt-a": 2, "x-opt-b": 1}


def test_a_durable_message_is_accepted_once_it_is_safe_and_not_before() -> None:
    store = KeepingStore()
    ground = a_lasting(store)
    peer = ground.peer()
    sender = peer.sender("q")
    receiver = peer.receiver("q", credit=9)
    store.is_slow = True
    safe = peer.send(sender, Message("safe", durable=True))
    quick = peer.send(ground.peer(container="b").sender("/exchanges/amq.fanout"), Message("m"))
    assert safe.remote_state is None
    assert quick.remote_settled
    assert peer.got(receiver) == []
    store.sync()
    assert peer.wakes
    ground.run()
    assert safe.remote_state == Accepted()
    assert peer.bodies(receiver) == ["safe"]


@pytest.mark.parametrize("count", [1, 3])
def test_an_outcome_that_the_client_waits_for_is_settled_once_it_is_safe(count: int) -> None:
    store = KeepingStore()
    ground = a_lasting(store)
    peer = ground.peer()
    sender = peer.sender("q")
    for _ in range(count):
        peer.send(sender, Message("m", durable=True))
    receiver = peer.receiver("q", rcv_settle_mode=ReceiverSettleMode.SECOND, credit=count, auto_settle=False)
    deliveries = peer.got(receiver)
    store.is_slow = True
    for delivery in deliveries:
        delivery.update(Accepted())
    ground.run()
    assert [delivery.remote_settled for delivery in deliveries] == [False] * count
    store.sync()
    ground.run()
    assert [delivery.remote_settled for delivery in deliveries] == [True] * count
    assert restarted(ground, store).host.queues["q"].ready == 0


@pytest.mark.parametrize("is_told_before", [True, False])
def test_an_outcome_that_a_resumed_client_knows_is_told_once_it_is_safe(is_told_before: bool) -> None:
    """The client forgets the message as soon as it hears of it (section 3.4.6, tag 3)."""
    store = KeepingStore()
    ground = a_lasting(store)
    peer = ground.peer()
    peer.send(peer.sender("q"), Message("m", durable=True))
    source = Source(address="q", expiry_policy=NEVER)
    receiver = peer.receiver(source=source, credit=1, rcv_settle_mode=ReceiverSettleMode.SECOND)
    (delivery,) = peer.got(receiver)
    store.is_slow = True
    if not is_told_before:
        peer.lose()
    delivery.update(Accepted())
    if is_told_before:
        ground.run()
        peer.lose()
    again = ground.peer()
    again.attach(receiver)
    again.flow(receiver, 5)
    assert list(receiver.unsettled) == [delivery.tag]
    assert not delivery.remote_settled
    store.sync()
    ground.run()
    assert not receiver.unsettled
    assert delivery.remote_settled
    assert restarted(ground, store).host.queues["q"].ready == 0
    assert ground.host.queues["q"].unacknowledged == 0


def test_a_transaction_is_discharged_once_it_is_safe() -> None:
    store = KeepingStore()
    ground = a_lasting(store)
    peer = ground.peer()
    control = peer.controller()
    id = peer.declare(control)
    peer.send(peer.sender("q"), Message("m", durable=True), state=in_transaction(id))
    store.is_slow = True
    assert peer.discharge(control, id) is None
    assert ground.host.queues["q"].ready == 0
    store.sync()
    ground.run()
    assert ground.host.queues["q"].ready == 1
    again = restarted(ground, store)
    assert again.host.queues["q"].ready == 1


@pytest.mark.spec("M-TERM-020")
def test_a_durable_subscription_is_there_after_a_restart_with_its_settings() -> None:
    store = KeepingStore()
    ground = a_lasting(store)
    peer = ground.peer()
    receiver = peer.receiver(source=lasting(filter={Symbol("s"): SELECTOR}, capabilities=[Symbol("topic")]))
    assert receiver.source.durable == TerminusDurability.CONFIGURATION
    sender = peer.sender("/exchanges/amq.topic/eu.de")
    for number in range(3):
        peer.send(sender, Message(number, durable=True, application_properties={"n": number}))
    peer.flow(receiver, 1)
    assert peer.bodies(receiver) == [1]
    after = restarted(ground, store)
    again = after.peer()
    back = again.attach(Receiver("in", source=None, target=Target()))
    assert back.is_attached
    assert back.source.address == TOPIC
    assert back.source.expiry_policy == NEVER
    assert back.source.filter == {Symbol("s"): SELECTOR}
    assert not back.remote_unsettled
    again.flow(back, 9)
    assert again.bodies(back) == [1, 2]
    back.close()
    after.run()
    assert list(after.host.queues) == ["q"]
    last = restarted(after, store)
    assert list(last.host.queues) == ["q"]
    assert condition_of(last.peer().attach(Receiver("in", source=None, target=Target()))) == "amqp:not-found"


@pytest.mark.spec("M-TERM-019")
def test_of_a_terminus_that_is_not_durable_nothing_is_left() -> None:
    store = KeepingStore()
    ground = a_lasting(store)
    ground.peer().receiver(source=lasting(durable=TerminusDurability.NONE))
    assert len(ground.host.queues) == 2
    after = restarted(ground, store)
    assert list(after.host.queues) == ["q"]
    back = after.peer().attach(Receiver("in", source=None, target=Target()))
    assert condition_of(back) == "amqp:not-found"


def test_who_asks_for_more_durability_is_told_what_he_gets() -> None:
    ground = a_lasting(KeepingStore())
    asked = Source(address="q", durable=TerminusDurability.UNSETTLED_STATE)
    receiver = ground.peer().receiver(source=asked)
    assert receiver.source.durable == TerminusDurability.CONFIGURATION


def test_the_attach_is_answered_once_the_terminus_is_safe() -> None:
    store = KeepingStore()
    ground = a_lasting(store)
    peer = ground.peer()
    store.is_slow = True
    receiver = peer.receiver(source=lasting())
    assert not receiver.is_attached
    store.sync()
    ground.run()
    assert receiver.is_attached


def test_a_terminus_that_nobody_comes_back_to_expires_after_a_restart() -> None:
    store = KeepingStore()
    ground = a_lasting(store)
    expires = lasting(expiry_policy=TerminusExpiryPolicy.CONNECTION_CLOSE, timeout=60)
    ground.peer().receiver(source=expires)
    kept = restarted(ground, store)
    kept.advance(59)
    assert len(kept.host.queues) == 2
    assert kept.peer().receiver(source=expires).is_attached
    kept.advance(600)
    assert len(kept.host.queues) == 2
    gone = restarted(kept, store)
    gone.advance(61)
    assert list(gone.host.queues) == ["q"]
    assert not store.open().definitions[1:]


def test_an_attach_that_is_refused_does_not_keep_a_terminus_from_expiring() -> None:
    store = KeepingStore()
    ground = a_lasting(store)
    expires = lasting(expiry_policy=TerminusExpiryPolicy.CONNECTION_CLOSE, timeout=60)
    ground.peer().receiver(source=expires)
    after = restarted(ground, store)
    wrong = lasting(dynamic_node_properties={Symbol("lifetime-policy"): DeleteOnClose()})
    assert condition_of(after.peer().receiver(source=wrong)) == "amqp:invalid-field"
    after.advance(61)
    assert list(after.host.queues) == ["q"]


def test_an_attach_that_is_refused_leaves_the_messages_of_a_durable_subscription() -> None:
    store = KeepingStore()
    ground = a_lasting(store)
    peer = ground.peer()
    peer.receiver(source=lasting())
    peer.send(peer.sender("/exchanges/amq.topic"), Message("waits", durable=True, subject="eu.de"))
    nothing = Permissions.of(configure=".*", write=".*")
    unable = a_ground(store=store, clock=ground.clock, access=Access({("anonymous", "/"): nothing}))
    assert condition_of(unable.peer().receiver(source=lasting())) == "amqp:unauthorized-access"
    again = restarted(unable, store).peer()
    assert again.bodies(again.receiver(source=lasting(), credit=9)) == ["waits"]


def test_a_durable_subscription_to_something_else_takes_the_place_of_the_old_one() -> None:
    store = KeepingStore()
    ground = a_lasting(store)
    ground.peer().receiver(source=lasting())
    after = restarted(ground, store)
    peer = after.peer()
    receiver = peer.receiver(
        source=Source(
            address="/exchanges/amq.topic/us", durable=TerminusDurability.CONFIGURATION, expiry_policy=NEVER
        ),
        credit=9,
    )
    sender = peer.sender("/exchanges/amq.topic")
    peer.send(sender, Message("eu", subject="eu.de"))
    peer.send(sender, Message("us", subject="us"))
    assert peer.bodies(receiver) == ["us"]
    assert len(after.host.queues) == 2


def test_durable_subscriptions_of_users_with_the_same_names_are_apart() -> None:
    store = KeepingStore()
    ground = a_lasting(store)
    for user in ("ann", "bob"):
        assert ground.peer(user=user).receiver(source=lasting()).is_attached
    assert len(ground.host.queues) == 3
    after = restarted(ground, store)
    bob = after.peer(user="bob").attach(Receiver("in", source=None, target=Target()))
    assert bob.is_attached
    eve = after.peer(user="eve").attach(Receiver("in", source=None, target=Target()))
    assert condition_of(eve) == "amqp:not-found"

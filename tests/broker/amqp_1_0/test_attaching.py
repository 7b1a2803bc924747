"""How attaches are answered: what is refused and why, and what is resumed, stolen, or kept apart."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.broker.access import Access, Permissions
from amqpforge.broker.amqp_1_0.links import BrokerLink
from amqpforge.broker.errors import AccessRefused
from amqpforge.broker.settings import ExchangeSettings, QueueSettings
from amqpforge.engine.events import Ended
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    DeleteOnClose,
    DeleteOnNoMessages,
    Described,
    LinkState,
    Rejected,
    Released,
    Source,
    Symbol,
    Target,
    TerminusExpiryPolicy,
)

from .ground import a_ground
from .peer import Peer, condition_of, message_of

NEVER = TerminusExpiryPolicy.NEVER
LIFETIME: Any = Symbol("lifetime-policy")


# --- the connection


def test_the_open_tells_who_answers_and_what_he_can_do() -> None:
    peer = a_ground().peer()
    remote = peer.engine.remote
    assert remote is not None
    assert remote.properties is not None
    assert remote.properties["product"] == "amqpforge"
    assert set(remote.properties) == {"product", "version", "platform"}
    assert "ANONYMOUS-RELAY" in (remote.offered_capabilities or ())


def test_a_virtual_host_that_is_not_there_closes_the_connection() -> None:
    ground = a_ground()
    assert str(ground.peer(hostname="vhost:nowhere").closed.condition) == "amqp:not-found"
    assert str(ground.peer(hostname="vhost:%", container="b").closed.condition) == "amqp:invalid-field"
    assert ground.peer(hostname="vhost:other", container="c").closed is None
    assert ground.peer(hostname="broker.example", container="d").closed is None


def test_virtual_hosts_are_apart() -> None:
    ground = a_ground("q")
    peer = ground.peer(hostname="vhost:other")
    assert condition_of(peer.sender("/queues/q")) == "amqp:not-found"


def test_a_user_without_a_right_to_the_virtual_host_is_turned_away() -> None:
    access = Access({})
    access.grant("ann", "/", Permissions.of(configure=".*", write=".*", read=".*"))
    ground = a_ground("q", access=access)
    assert ground.peer(user="ann").closed is None
    assert str(ground.peer(user="bob", container="b").closed.condition) == "amqp:unauthorized-access"


def test_links_without_the_right_to_them_are_refused_and_others_go_on() -> None:
    access = Access({})
    access.grant("ann", "/", Permissions.of(write="in.*", read="out.*"))
    ground = a_ground("in1", "out1", access=access)
    peer = ground.peer(user="ann")
    assert condition_of(peer.sender("out1", "a")) == "amqp:unauthorized-access"
    assert condition_of(peer.receiver("in1", "b")) == "amqp:unauthorized-access"
    assert condition_of(peer.receiver(None, "c", source=Source(dynamic=True))) == "amqp:unauthorized-access"
    anonymous = peer.sender(None, "d")
    assert isinstance(peer.send(anonymous, Message("m", to="out1")).remote_state, Rejected)
    assert peer.send(anonymous, Message("m", to="in1")).remote_state == Accepted()
    assert peer.receiver("out1", "e").is_attached


def test_who_has_no_right_to_something_does_not_learn_whether_it_is_there() -> None:
    access = Access({})
    access.grant("ann", "/", Permissions.of(configure="subscription.*"))
    ground = a_ground("there", access=access)
    peer = ground.peer(user="ann")
    places = ("/queues/there", "/queues/nowhere", "/exchanges/amq.topic", "/exchanges/nowhere")
    for number, address in enumerate(places):
        assert condition_of(peer.sender(address, f"to {number}")) == "amqp:unauthorized-access"
        assert condition_of(peer.receiver(address, f"from {number}")) == "amqp:unauthorized-access"
    anonymous = peer.sender(None, "relay")
    for address in places:
        told = peer.send(anonymous, Message("m", to=address)).remote_state
        assert isinstance(told, Rejected)
        assert told.error is not None
        assert str(told.error.condition) == "amqp:unauthorized-access"


def test_the_broker_closes_connections_with_a_reason() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    peer.receiver("q")
    peer.head.close("the broker stops")
    ground.run()
    assert str(peer.closed.condition) == "amqp:connection:forced"
    assert peer.closed.description == "the broker stops"
    assert ground.left == 1
    assert not ground.service.heads


# --- refusals


@pytest.mark.parametrize(
    ("address", "condition"),
    [
        ("missing", "amqp:not-found"),
        ("/queues/missing", "amqp:not-found"),
        ("/exchanges/missing/k", "amqp:not-found"),
        ("/what/is/this", "amqp:invalid-field"),
        ("$management", "amqp:not-found"),
    ],
)
def test_an_address_that_leads_nowhere_refuses_the_link(address: str, condition: str) -> None:
    peer = a_ground().peer()
    if address != "missing":  # A bare name may be a routing key of the default exchange.
        sender = peer.sender(address)
        assert (condition_of(sender), sender.state) == (condition, LinkState.CLOSED)
    receiver = peer.receiver(address)
    assert (condition_of(receiver), receiver.state) == (condition, LinkState.CLOSED)
    assert not peer.head.links


def test_a_source_without_an_address_is_refused() -> None:
    peer = a_ground().peer()
    assert condition_of(peer.receiver(source=Source())) == "amqp:invalid-field"


def test_an_exclusive_or_private_queue_turns_others_away() -> None:
    ground = a_ground()
    ground.admin.declare_queue("private", QueueSettings(private=True))
    peer = ground.peer()
    first = peer.receiver("private", "first")
    assert condition_of(peer.receiver("private", "second")) == "amqp:resource-locked"
    first.close()
    ground.run()
    assert peer.receiver("private", "third").is_attached


def test_there_are_only_so_many_links_on_a_connection() -> None:
    ground = a_ground("q", links_per_connection=3)
    peer = ground.peer()
    for number in range(3):
        assert peer.sender("q", f"l-{number}").is_attached
    more = peer.engine.session()
    more.begin()
    ground.run()
    refused = peer.attach(Sender("more", source=Source(), target=Target(address="q")), more)
    assert condition_of(refused) == "amqp:resource-limit-exceeded"
    assert ground.peer(container="other").sender("q").is_attached


def test_a_link_that_comes_from_another_connection_counts_as_well() -> None:
    ground = a_ground("q", links_per_connection=2)
    first, second = ground.peer(), ground.peer()
    moving = Source(address="q", expiry_policy=NEVER)
    lost = first.receiver(source=moving, name="moves")
    for number in range(2):
        assert second.receiver("q", f"l-{number}").is_attached
    first.lose()
    more = second.engine.session()
    more.begin()
    ground.run()
    refused = second.attach(Receiver("moves", source=moving, target=Target()), more)
    assert condition_of(refused) == "amqp:resource-limit-exceeded"
    third = ground.peer()
    assert third.attach(lost).is_attached


def test_an_attach_that_cannot_be_answered_ends_its_session_alone() -> None:
    ground = a_ground("q")
    peer = ground.peer(settings=ConnectionSettings(max_frame_size=512))
    other = peer.engine.session()
    other.begin()
    ground.run()
    peer.attach(Receiver("n" * 400, source=Source(address="q"), target=Target()))
    (ended,) = peer.told(Ended)
    assert ended.session is peer.session
    assert ended.error is not None
    assert str(ended.error.condition) == "amqp:resource-limit-exceeded"
    assert not peer.head.links
    assert peer.attach(Receiver("n", source=Source(address="q"), target=Target()), other).is_attached


# --- resuming and stealing


def test_an_attach_elsewhere_steals_the_link_with_its_deliveries() -> None:
    ground = a_ground("q")
    first = ground.peer()
    first.send(first.sender("q"), "m")
    source = Source(address="q", expiry_policy=NEVER)
    receiver = first.receiver(source=source, credit=1)
    assert len(first.got(receiver)) == 1
    second = ground.peer()
    thief = Receiver("in", source=source, target=Target(), unsettled=())
    second.attach(thief)
    assert condition_of(receiver) == "amqp:link:stolen"
    assert thief.is_attached
    assert ground.host.queues["q"].consumer_count == 1


def test_links_of_different_users_with_the_same_names_are_apart() -> None:
    ground = a_ground("q")
    ann = ground.peer(user="ann")
    receiver = ann.receiver(source=Source(address="q", expiry_policy=NEVER), credit=5)
    bob = ground.peer(user="bob")
    other = bob.receiver(source=Source(address="q", expiry_policy=NEVER), credit=5)
    third = ground.peer(user="ann", hostname="vhost:other")
    assert condition_of(third.receiver("q")) == "amqp:not-found"
    assert receiver.is_attached
    assert other.is_attached
    assert ground.host.queues["q"].consumer_count == 2


def test_a_link_is_resumed_by_its_name_alone() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    peer.send(peer.sender("q"), "m")
    receiver = peer.receiver(source=Source(address="q", expiry_policy=NEVER), credit=1)
    (delivery,) = peer.got(receiver)
    peer.lose()
    assert ground.host.queues["q"].unacknowledged == 1
    again = ground.peer()
    back = again.attach(Receiver("in", source=None, target=Target(), unsettled=[delivery]))
    assert back.is_attached
    assert back.source.address == "q"
    again.flow(back, 5)
    delivery.settle(Accepted())
    ground.run()
    assert ground.host.queues["q"].unacknowledged == 0


def test_a_link_that_is_attached_again_counts_its_deliveries_from_0() -> None:
    # There are clients that do so whatever the attach says: the credit that they give has to be all theirs.
    ground = a_ground("q")
    peer = ground.peer()
    sender = peer.sender("q")
    for body in ("a", "b", "c"):
        peer.send(sender, body)
    receiver = peer.receiver(source=Source(address="q", expiry_policy=NEVER), credit=1)
    (delivery,) = peer.got(receiver)
    peer.settle(delivery, Accepted())
    receiver.detach()
    ground.run()
    peer.attach(receiver)
    assert receiver.flow_state.delivery_count == 0
    peer.flow(receiver, 2)
    assert peer.bodies(receiver) == ["b", "c"]


def test_nothing_is_there_to_recover_of_a_link_that_never_was() -> None:
    peer = a_ground("q").peer()
    assert condition_of(peer.attach(Receiver("in", source=None, target=Target()))) == "amqp:not-found"
    assert condition_of(peer.attach(Sender("out", source=Source(), target=None))) == "amqp:not-found"


def test_an_attach_for_another_node_makes_another_terminus() -> None:
    ground = a_ground("a", "b")
    peer = ground.peer()
    receiver = peer.receiver(source=Source(address="a", expiry_policy=NEVER))
    receiver.detach()
    ground.run()
    assert ground.host.queues["a"].consumer_count == 1
    receiver.source = Source(address="b", expiry_policy=NEVER)
    peer.attach(receiver)
    assert receiver.is_attached
    assert ground.host.queues["a"].consumer_count == 0
    assert ground.host.queues["b"].consumer_count == 1


# --- subscriptions


@pytest.mark.parametrize(
    ("type_", "address", "gets"),
    [
        ("topic", "/exchanges/e/eu.*", ["eu.de"]),
        ("topic", "/exchanges/e", ["eu.de", "us.ny.x"]),
        ("fanout", "/exchanges/e", ["eu.de", "us.ny.x"]),
        ("direct", "/exchanges/e/us.ny.x", ["us.ny.x"]),
    ],
)
def test_a_source_at_an_exchange_is_a_subscription(type_: str, address: str, gets: list[str]) -> None:
    ground = a_ground()
    ground.admin.declare_exchange("e", ExchangeSettings(type=type_))
    peer = ground.peer()
    one = peer.receiver(address, "one", credit=9)
    other = peer.receiver(address, "other", credit=9)
    assert one.source.address == address
    sender = peer.sender("/exchanges/e")
    for key in ("eu.de", "us.ny.x"):
        outcome = peer.send(sender, Message(key, subject=key)).remote_state
        assert outcome == (Accepted() if key in gets else Released())
    assert peer.bodies(one) == peer.bodies(other) == gets
    one.close()
    other.close()
    ground.run()
    assert not ground.host.queues
    assert not ground.service.nodes


def test_a_subscription_that_does_not_expire_collects_while_nobody_is_there() -> None:
    ground = a_ground()
    source = Source(address="/exchanges/amq.topic/%23", expiry_policy=NEVER)
    peer = ground.peer()
    assert peer.receiver(source=source).is_attached
    peer.lose()
    writer = ground.peer(container="writer")
    for number in range(3):
        writer.send(writer.sender("/exchanges/amq.topic/k", f"s-{number}"), number)
    again = ground.peer()
    receiver = again.receiver(source=source, credit=9)
    assert again.bodies(receiver) == [0, 1, 2]
    receiver.close()
    ground.run()
    assert not ground.host.queues


def test_a_subscription_with_a_selector() -> None:
    ground = a_ground()
    selector = Described(Symbol("apache.org:selector-filter:string"), "n > 1")
    peer = ground.peer()
    source = Source(address="/exchanges/amq.fanout", filter={Symbol("s"): selector})
    receiver = peer.receiver(source=source, credit=9)
    sender = peer.sender("/exchanges/amq.fanout")
    for number in range(4):
        peer.send(sender, Message(number, application_properties={"n": number}))
    assert peer.bodies(receiver) == [2, 3]


# --- dynamic nodes


@pytest.mark.spec("M-TERM-004", "M-TERM-005", "M-TERM-007")
def test_a_dynamic_source_tells_its_address_with_both_names_in_it() -> None:
    ground = a_ground()
    peer = ground.peer(container="my-client")
    receiver = peer.receiver(
        source=Source(dynamic=True, dynamic_node_properties={LIFETIME: DeleteOnClose(), Symbol("x"): 1}),
        name="my-replies",
        credit=5,
    )
    address = receiver.source.address
    assert "my-client" in address
    assert "my-replies" in address
    assert set(receiver.source.dynamic_node_properties) == {"lifetime-policy", "supported-dist-modes"}
    sender = peer.sender(address)
    assert peer.send(sender, "answer").remote_state == Accepted()
    assert peer.bodies(receiver) == ["answer"]


@pytest.mark.spec("M-TERM-016", "M-TERM-017", "M-TERM-018")
def test_a_dynamic_target_tells_its_address() -> None:
    ground = a_ground()
    peer = ground.peer(container="my-client")
    sender = peer.sender(target=Target(dynamic=True), name="my-requests")
    address = sender.target.address
    assert "my-client" in address
    assert "my-requests" in address
    assert sender.source.address is None
    peer.send(sender, "m")
    other = ground.peer(container="other")
    assert other.bodies(other.receiver(address, credit=1)) == ["m"]


def test_long_and_odd_names_still_make_an_address_that_leads_there() -> None:
    ground = a_ground()
    peer = ground.peer(container="c/%" + "ü" * 200)
    receiver = peer.receiver(source=Source(dynamic=True), name="n/%" + "ß" * 200, credit=1)
    peer.send(peer.sender(receiver.source.address), "m")
    (delivery,) = peer.got(receiver)
    assert message_of(delivery).body == "m"


def test_there_are_only_so_many_dynamic_nodes_on_a_connection() -> None:
    ground = a_ground(dynamic_nodes_per_connection=2)
    peer = ground.peer()
    for number in range(2):
        assert peer.receiver(source=Source(dynamic=True), name=f"n-{number}").is_attached
    refused = peer.receiver(source=Source(dynamic=True), name="more")
    assert condition_of(refused) == "amqp:resource-limit-exceeded"


# --- what a hostile or hasty client does


def test_all_that_a_client_needs_may_come_at_once() -> None:
    ground = a_ground("q")
    peer = Peer(ground.bench, container="hasty")
    ground.bench.peers.append(peer)
    peer.engine.open()
    peer.session.begin()
    sender = Sender("out", source=Source(), target=Target(address="q"))
    peer.session.attach(sender)
    sender.send(Message("m").encode())
    ground.run()
    assert ground.host.queues["q"].ready == 1


def test_what_comes_with_an_open_that_is_refused_counts_for_nothing() -> None:
    ground = a_ground("q")
    peer = Peer(ground.bench, container="hasty", hostname="vhost:nowhere")
    ground.bench.peers.append(peer)
    peer.engine.open()
    peer.session.begin()
    peer.session.attach(Sender("out", source=Source(), target=Target(address="q")))
    peer.session.attach(Receiver("in", source=Source(address="q"), target=Target()))
    ground.run()
    assert str(peer.closed.condition) == "amqp:not-found"
    assert not peer.head.links
    assert not ground.service.heads
    assert ground.host.queues["q"].consumer_count == 0


def test_nothing_is_left_of_a_connection_that_is_lost() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    peer.send(peer.sender("q"), "m")
    peer.receiver("q", credit=1)
    peer.receiver(source=Source(dynamic=True), name="dynamic")
    peer.declare(peer.controller())
    peer.lose()
    queue = ground.host.queues["q"]
    assert (queue.ready, queue.unacknowledged, queue.consumer_count) == (1, 0, 0)
    assert list(ground.host.queues) == ["q"]
    assert not ground.service.container.links
    assert not ground.service.nodes
    assert not ground.service.heads
    assert ground.left == 1


def test_the_management_node_makes_its_own_links() -> None:
    class Answering:
        def __init__(self) -> None:
            self.made: list[BrokerLink] = []

        def receive(self, head: Any, receiver: Any, target: Any) -> BrokerLink:
            self.made.append(BrokerLink(head, receiver, None))
            receiver.attach(target=target)
            return self.made[-1]

        def send(self, head: Any, sender: Any, source: Any) -> BrokerLink:
            raise AccessRefused("not you")

    ground = a_ground()
    answering = Answering()
    ground.service.management = answering
    peer = ground.peer()
    sender = peer.sender("$management")
    assert sender.is_attached
    assert condition_of(peer.receiver("$management")) == "amqp:unauthorized-access"
    sender.detach()
    ground.run()
    assert answering.made[0].is_gone


def test_a_broker_that_stops_leaves_nothing_to_be_done_later() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    patience: Any = 60
    timed = Source(address="q", expiry_policy=TerminusExpiryPolicy.CONNECTION_CLOSE, timeout=patience)
    peer.receiver(source=timed)
    properties = {LIFETIME: DeleteOnNoMessages()}
    maker = peer.receiver(source=Source(dynamic=True, dynamic_node_properties=properties), name="maker")
    peer.send(peer.sender(maker.source.address), "m")
    maker.close()
    ground.run()
    peer.lose()
    assert ground.clock.waiting
    ground.service.stop()
    for host in ground.hosts.values():
        host.stop()
    assert not ground.clock.waiting

"""Messages that clients send: where they go, and what the clients are told."""

from __future__ import annotations

import pytest

from amqpforge.broker.settings import ExchangeSettings, Overflow, QueueSettings
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    ReceiverSettleMode,
    Released,
    SenderSettleMode,
    Source,
    Target,
)

from .ground import Ground, a_ground
from .peer import condition_of, message_of, rejection


def bodies(ground: Ground, queue: str) -> list[object]:
    """The bodies of the messages in a queue."""
    found = []
    for entry in ground.host.queues[queue]:
        assert entry.message.payload is not None
        found.append(Message.from_octets(entry.message.payload).body)
    return found


@pytest.mark.parametrize("address", ["q", "/queues/q", "/exchanges/e/key", "/exchanges/amq.fanout"])
def test_each_form_of_an_address_leads_to_the_queue(address: str) -> None:
    ground = a_ground("q")
    ground.admin.declare_exchange("e", ExchangeSettings(type="direct"))
    ground.admin.bind("e", "q", "key")
    ground.admin.bind("amq.fanout", "q")
    peer = ground.peer()
    sender = peer.sender(address)
    assert sender.target.address == address
    assert peer.send(sender, "m").remote_state == Accepted()
    assert bodies(ground, "q") == ["m"]


def test_the_subject_is_the_routing_key_where_the_address_has_none() -> None:
    ground = a_ground("q")
    ground.admin.bind("amq.topic", "q", "eu.#")
    peer = ground.peer()
    sender = peer.sender("/exchanges/amq.topic")
    assert peer.send(sender, Message("yes", subject="eu.de")).remote_state == Accepted()
    assert peer.send(sender, Message("no", subject="us")).remote_state == Released()
    assert bodies(ground, "q") == ["yes"]


def test_a_message_that_no_queue_is_for_is_released() -> None:
    peer = a_ground().peer()
    delivery = peer.send(peer.sender("/exchanges/amq.direct/nowhere"))
    assert delivery.remote_state == Released()
    assert delivery.remote_settled


@pytest.mark.spec("M-PROPS-006")
def test_without_an_address_each_message_says_where_it_goes() -> None:
    ground = a_ground("q", "r")
    peer = ground.peer()
    sender = peer.sender(None)
    assert sender.target.address is None
    assert peer.send(sender, Message("to q", to="/queues/q")).remote_state == Accepted()
    assert peer.send(sender, Message("to r", to="r")).remote_state == Accepted()
    assert bodies(ground, "q") == ["to q"]
    assert bodies(ground, "r") == ["to r"]
    assert rejection(peer.send(sender, Message("nowhere")))[0] == "amqp:invalid-field"
    assert rejection(peer.send(sender, Message("m", to="/queues/s")))[0] == "amqp:not-found"
    assert rejection(peer.send(sender, Message("m", to="/exchanges/x/y")))[0] == "amqp:not-found"
    assert rejection(peer.send(sender, Message("m", to="/what")))[0] == "amqp:invalid-field"
    assert sender.is_attached


def test_to_is_not_looked_at_where_the_target_has_an_address() -> None:
    ground = a_ground("q", "r")
    peer = ground.peer()
    peer.send(peer.sender("q"), Message("m", to="r"))
    assert bodies(ground, "q") == ["m"]
    assert bodies(ground, "r") == []


def test_what_is_no_message_is_rejected_and_the_link_goes_on() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    sender = peer.sender("q")
    broken = sender.send(b"\x00\x53\x77")
    ground.run()
    assert rejection(broken)[0] == "amqp:decode-error"
    assert peer.send(sender, "m").remote_state == Accepted()


def test_a_message_beyond_the_limit_closes_its_link() -> None:
    ground = a_ground("q", message_size=100)
    peer = ground.peer()
    sender = peer.sender("q")
    assert sender.remote.max_message_size == 100
    sender.remote = None  # A client that does not look.
    sender.send(Message(b"x" * 200).encode())
    ground.run()
    assert condition_of(sender) == "amqp:link:message-size-exceeded"
    assert peer.send(peer.sender("q", "other"), "m").remote_state == Accepted()


def test_a_full_queue_rejects() -> None:
    ground = a_ground()
    ground.admin.declare_queue("q", QueueSettings(max_length=1, overflow=Overflow.REJECT))
    peer = ground.peer()
    sender = peer.sender("q")
    assert peer.send(sender, "m").remote_state == Accepted()
    assert rejection(peer.send(sender, "m"))[0] == "amqp:resource-limit-exceeded"


def test_in_settle_mode_second_the_sender_settles_first() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    sender = peer.sender("q", rcv_settle_mode=ReceiverSettleMode.SECOND, auto_settle=False)
    delivery = peer.send(sender)
    assert (delivery.remote_state, delivery.remote_settled) == (Accepted(), False)
    delivery.settle()
    ground.run()
    (link,) = peer.head.links
    assert not link.link.unsettled  # type: ignore[attr-defined]


def test_what_is_sent_settled_is_taken_without_a_word() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    sender = peer.sender("q", snd_settle_mode=SenderSettleMode.SETTLED)
    for number in range(3):
        peer.send(sender, number)
    assert bodies(ground, "q") == [0, 1, 2]


def test_credit_is_given_in_steps_and_only_as_much_as_the_limit_says() -> None:
    ground = a_ground("q", credit_per_link=10)
    peer = ground.peer()
    sender = peer.sender("q")
    assert sender.link_credit == 10
    for number in range(100):
        assert sender.link_credit > 0
        peer.send(sender, number)
    assert len(bodies(ground, "q")) == 100


def test_under_pressure_publishers_get_no_credit() -> None:
    ground = a_ground("q", credit_per_link=10)
    peer = ground.peer()
    sender = peer.sender("q")
    ground.press(True)
    ground.run()
    assert sender.link_credit == 0
    late = ground.peer(container="late").sender("q")
    assert late.link_credit == 0
    waiting = peer.send(sender, "later")
    assert waiting.remote_state is None
    ground.press(False)
    ground.run()
    assert waiting.remote_state == Accepted()
    assert late.link_credit == 10


@pytest.mark.spec("M-PROPS-005")
def test_the_user_id_is_compared_only_if_that_is_asked_for() -> None:
    for checks in (False, True):
        ground = a_ground("q", checks_user_id=checks)
        peer = ground.peer(user="ann")
        sender = peer.sender("q")
        assert peer.send(sender, Message("m", user_id=b"ann")).remote_state == Accepted()
        assert peer.send(sender, Message("m")).remote_state == Accepted()
        other = peer.send(sender, Message("m", user_id=b"bob"))
        if checks:
            assert rejection(other)[0] == "amqp:unauthorized-access"
        else:
            assert other.remote_state == Accepted()


@pytest.mark.spec("M-PROPS-002", "M-PROPS-019")
def test_the_bare_message_passes_octet_for_octet() -> None:
    ground = a_ground("q")
    ground.admin.declare_exchange("h", ExchangeSettings(type="headers"))
    ground.admin.bind("h", "q", "", {"x-match": "all", "region": "eu"})
    peer = ground.peer()
    message = Message(
        {"a": [1, 2]},
        message_id="m-1",
        to="elsewhere",
        user_id=b"u",
        subject="s",
        ttl=60,
        application_properties={"region": "eu", "n": 1},
        annotations={"x-opt-a": 1},
        delivery_annotations={"x-opt-d": 1},
        footer={"x-opt-f": 1},
    )
    receiver = peer.receiver("q", credit=5)
    assert peer.send(peer.sender("/exchanges/h"), message).remote_state == Accepted()
    (delivery,) = peer.got(receiver)
    came = message_of(delivery)
    sent = Message.from_octets(message.encode())
    assert came.sections.bare == sent.sections.bare
    assert dict(came.delivery_annotations) == {}
    assert dict(came.annotations) == {"x-opt-a": 1}
    assert dict(came.footer) == {"x-opt-f": 1}


@pytest.mark.spec("M-TERM-002")
def test_a_minimal_source_and_target_are_taken() -> None:
    ground = a_ground("q")
    peer = ground.peer()
    sender = peer.sender(source=Source(), target=Target(address="q"))
    receiver = peer.receiver(source=Source(address="q"), target=Target(), credit=1)
    peer.send(sender, "m")
    assert peer.bodies(receiver) == ["m"]


@pytest.mark.spec("M-PROPS-004")
def test_a_repeated_message_id_is_dropped_where_the_queue_looks_for_it() -> None:
    ground = a_ground("plain")
    ground.admin.declare_queue("once", QueueSettings(duplicate_window=10))
    peer = ground.peer()
    for queue in ("once", "plain"):
        sender = peer.sender(queue, f"to-{queue}")
        for _ in range(2):
            assert peer.send(sender, Message("m", message_id="same")).remote_settled
    assert len(bodies(ground, "once")) == 1
    assert len(bodies(ground, "plain")) == 2

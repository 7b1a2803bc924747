"""When dynamic nodes go (sections 3.5.9 to 3.5.13)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    Described,
    Source,
    Symbol,
)

from .ground import Ground, a_ground
from .peer import Peer, condition_of

LIFETIME: Any = Symbol("lifetime-policy")
POLICIES = (DeleteOnClose(), DeleteOnNoLinks(), DeleteOnNoMessages(), DeleteOnNoLinksOrMessages())


def a_node(policy: Any) -> tuple[Ground, Peer, Any, str]:
    """A dynamic node: the link that made it, and its address."""
    ground = a_ground()
    peer = ground.peer()
    maker = peer.receiver(
        source=Source(dynamic=True, dynamic_node_properties={LIFETIME: policy}), name="maker"
    )
    assert maker.source.dynamic_node_properties["lifetime-policy"] == policy
    return ground, peer, maker, maker.source.address


def is_there(ground: Ground) -> bool:
    return bool(ground.host.queues)


def close(ground: Ground, link: Any) -> None:
    link.close()
    ground.run()


@pytest.mark.spec("M-LIFETIME-001")
@pytest.mark.parametrize("policy", POLICIES)
def test_the_node_lives_as_long_as_the_link_that_made_it(policy: Any) -> None:
    ground, peer, _, address = a_node(policy)
    sender = peer.sender(address)
    peer.send(sender, "m")
    receiver = peer.receiver(address, "other", credit=1)
    (delivery,) = peer.got(receiver)
    peer.settle(delivery, Accepted())
    close(ground, sender)
    close(ground, receiver)
    assert is_there(ground)


@pytest.mark.spec("M-LIFETIME-003")
def test_delete_on_close_takes_links_and_messages_along() -> None:
    ground, peer, maker, address = a_node(DeleteOnClose())
    peer.send(peer.sender(address), "m")
    other, writer = peer.receiver(address, "other"), peer.sender(address, "writer")
    close(ground, maker)
    assert not is_there(ground)
    assert condition_of(other) == "amqp:resource-deleted"
    assert condition_of(writer) == "amqp:resource-deleted"
    assert not peer.head.links
    assert not ground.service.nodes


@pytest.mark.spec("M-LIFETIME-004")
def test_delete_on_no_links_waits_for_the_last_link_alone() -> None:
    ground, peer, maker, address = a_node(DeleteOnNoLinks())
    sender = peer.sender(address)
    close(ground, maker)
    assert is_there(ground)
    peer.send(sender, "m")
    close(ground, sender)
    assert not is_there(ground)


@pytest.mark.spec("M-LIFETIME-005")
def test_delete_on_no_messages_waits_for_the_last_message_alone() -> None:
    ground, peer, maker, address = a_node(DeleteOnNoMessages())
    sender = peer.sender(address)
    peer.send(sender, "m")
    close(ground, maker)
    assert is_there(ground)
    other = peer.receiver(address, "other", credit=1)
    (delivery,) = peer.got(other)
    assert is_there(ground)
    peer.settle(delivery, Accepted())
    assert not is_there(ground)
    assert not ground.service.nodes


@pytest.mark.spec("M-LIFETIME-006")
@pytest.mark.parametrize("links_first", [True, False])
def test_delete_on_no_links_or_messages_waits_for_both(links_first: bool) -> None:
    ground, peer, maker, address = a_node(DeleteOnNoLinksOrMessages())
    sender = peer.sender(address)
    peer.send(sender, "m")
    close(ground, maker)
    if links_first:
        close(ground, sender)
        assert is_there(ground)
        sender = peer.receiver(address, "last", credit=1)
        (delivery,) = peer.got(sender)
        peer.settle(delivery, Accepted())
    else:
        other = peer.receiver(address, "last", credit=1)
        (delivery,) = peer.got(other)
        peer.settle(delivery, Accepted())
        close(ground, other)
    assert is_there(ground)
    close(ground, sender)
    assert not is_there(ground)


def test_a_node_goes_when_its_last_message_expires() -> None:
    ground, peer, maker, address = a_node(DeleteOnNoMessages())
    peer.send(peer.sender(address), Message("m", ttl=5))
    close(ground, maker)
    assert is_there(ground)
    ground.advance(20)
    assert not is_there(ground)


def test_a_node_goes_with_the_connection_of_its_maker() -> None:
    ground, peer, _, _ = a_node(DeleteOnClose())
    peer.lose()
    assert not is_there(ground)


def test_what_is_no_lifetime_policy_is_refused() -> None:
    peer = a_ground().peer()
    wrong = Source(dynamic=True, dynamic_node_properties={LIFETIME: Described(Symbol("x:y:list"), [])})
    assert condition_of(peer.receiver(source=wrong)) == "amqp:invalid-field"

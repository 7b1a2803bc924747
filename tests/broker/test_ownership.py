"""What a virtual host keeps account of: what is a connection's own, and what was counted already."""

from __future__ import annotations

import pytest

from amqpforge.broker.amqp_1_0.form import FORM
from amqpforge.broker.bodies import Bodies
from amqpforge.broker.core import Core
from amqpforge.broker.errors import LimitExceeded, NotAllowed
from amqpforge.broker.exchanges import Binding, Chain, Destination, Step
from amqpforge.broker.host import VirtualHost
from amqpforge.broker.limits import BrokerLimits, Usage
from amqpforge.broker.message import Message
from amqpforge.broker.settings import Overflow, QueueSettings
from amqpforge.broker.store.memory import MemoryStore
from tests.broker.clock import FakeClock

OWN = QueueSettings(exclusive=True)


def a_host(**limits: int) -> VirtualHost:
    store = MemoryStore()
    bodies = Bodies(store, limit=1 << 20)
    return VirtualHost("/", Core(store, FakeClock(), bodies, Usage(BrokerLimits(**limits))))


def test_exclusive_queues_go_with_their_owner_and_no_others() -> None:
    host = a_host()
    mine, other = object(), object()
    for name in ("a", "b", "c"):
        host.declare_queue(name, OWN, owner=mine)
    host.declare_queue("d", OWN, owner=other)
    host.declare_queue("e", owner=mine)
    host.delete_queue("b", owner=mine)
    host.declare_queue("b", OWN, owner=other)
    host.release_owner(mine)
    assert sorted(host.queues) == ["b", "d", "e"]
    host.release_owner(mine)
    host.release_owner(other)
    assert list(host.queues) == ["e"]


def test_a_binding_that_is_there_is_not_one_too_many() -> None:
    host = a_host(bindings=2)
    host.declare_queue("q")
    plain = Binding("amq.topic", Destination.queue("q"), "#")
    chain = Chain("q", [Step("amq.topic", "a"), Step("amq.direct", "b")])
    for bound in (plain, chain, plain, chain):
        host.bind(bound)
    assert host.core.usage.bindings.used == 2
    with pytest.raises(LimitExceeded):
        host.bind(Binding("amq.topic", Destination.queue("q"), "other"))
    with pytest.raises(NotAllowed):
        host.bind(Binding("", Destination.queue("q"), "q"))
    assert host.core.usage.bindings.used == 2


def test_a_message_of_the_greatest_size_can_become_a_dead_letter() -> None:
    payload = b"\x00\x53\x75\xa0\x01a"
    host = a_host(message_size=len(payload))
    dead = host.declare_queue("dead")
    settings = QueueSettings(
        max_length=1, overflow=Overflow.DEAD_LETTER, dead_letter_exchange="", dead_letter_key="dead"
    )
    host.declare_queue("q", settings)
    for _ in range(2):
        host.traffic.publish(Message(FORM, payload, key="q"), None, lambda error, count: None)
    host.core.flush()
    assert dead.ready == 1

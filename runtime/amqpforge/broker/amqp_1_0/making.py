"""Queues that are made for links: dynamic nodes (section 3.5.9), and subscriptions to exchanges."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from amqpforge.broker.access import Operation
from amqpforge.broker.errors import InvalidArgument, LimitExceeded
from amqpforge.broker.exchanges import Binding, Destination
from amqpforge.broker.settings import QueueSettings
from amqpforge_protocol.amqp_1_0 import (
    Array,
    DeleteOnClose,
    Source,
    StdDistMode,
    Symbol,
    TerminusDurability,
)

from .addresses import Address, queue_address
from .nodes import POLICIES, Node

if TYPE_CHECKING:
    from amqpforge.broker.queues import Queue
    from amqpforge_protocol.amqp_1_0.archetypes import AnyLifetimePolicy

    from .head import Head
    from .termini import Identity

__all__ = ["make_dynamic", "make_subscription", "node_properties"]

_LIFETIME: Final = Symbol("lifetime-policy")
_MODES: Final = Symbol("supported-dist-modes")
_LONGEST: Final = 80  # octets of a container-id, or of the name of a link, that are shown in a name
_EVERYTHING: Final = "#"


def make_dynamic(head: Head, link: str, properties: Mapping[Any, Any] | None) -> tuple[str, Node]:
    """A new queue for a link, with the names of client and link in its address; and that address.

    Raises:
        InvalidArgument: the lifetime policy is none.
        LimitExceeded: the connection has too many of them.
        AccessRefused: the user must not make it.
    """
    policy = _policy(properties)
    limit = head.broker.limits.dynamic_nodes_per_connection
    if sum(known.node is not None for known in head.links) >= limit:
        raise LimitExceeded(f"the limit dynamic_nodes_per_connection is {limit}, and so many are there")
    name = f"dynamic.{_shown(head.peer)}.{_shown(link)}.{uuid4().hex}"
    actor = head.working
    node = Node(head.service.nodes, actor, actor.declare_queue(name, QueueSettings()), policy)
    return queue_address(name), node


def _policy(properties: Mapping[Any, Any] | None) -> AnyLifetimePolicy:
    """The lifetime policy that is asked for; the least one if none is."""
    asked = (properties or {}).get(_LIFETIME)
    if asked is None:
        return DeleteOnClose()
    if not isinstance(asked, POLICIES):
        raise InvalidArgument(f"{asked!r:.80} is no lifetime-policy; give one of the four delete-on types")
    return asked


def node_properties(policy: AnyLifetimePolicy) -> dict[Any, Any]:
    """What a dynamic node really has."""
    return {
        _LIFETIME: policy,
        _MODES: Array([Symbol(StdDistMode.MOVE), Symbol(StdDistMode.COPY)], "symbol"),
    }


def make_subscription(head: Head, identity: Identity, source: Source, address: Address) -> tuple[Queue, Node]:
    """The queue of a subscription: bound to the exchange, it goes with its link.

    One whose terminus is durable has a name that its link has for ever, and is there again after a restart.

    Raises:
        BrokerError: there is no such exchange, the user must not do this, or the queue is another's.
    """
    actor = head.working
    is_durable = source.durable != TerminusDurability.NONE and bool(identity.container)
    name = f"subscription.{_shown(identity.container)}.{_shown(identity.link)}."
    name += _digest(identity) if is_durable else uuid4().hex
    exchange = address.exchange or ""
    actor.check(Operation.READ, exchange)
    known = actor.declare_exchange(exchange, passive=True)
    key = address.key
    if key is None:
        key = _EVERYTHING if known.settings.type == "topic" else ""
    is_new = name not in actor.host.queues
    queue = actor.declare_queue(name, QueueSettings(durable=is_durable))
    try:
        actor.bind(Binding(exchange, Destination.queue(name), key))
    except BaseException:
        if is_new:  # Else there are messages in it that wait for a subscriber who may come back.
            actor.delete_queue(name)
        raise
    return queue, Node(head.service.nodes, actor, queue, DeleteOnClose())


def _shown(text: str) -> str:
    """As much of a name that a client has chosen as fits into the name of a queue."""
    octets = text.encode()
    return text if len(octets) <= _LONGEST else octets[:_LONGEST].decode(errors="ignore")


def _digest(identity: Identity) -> str:
    """What tells the link from all others, however long its names are."""
    return blake2b(repr(tuple(map(str, identity))).encode(), digest_size=16).hexdigest()

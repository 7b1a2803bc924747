"""How the broker answers an attach: which node it is for, and what terminus there is then (section 2.6.3)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from amqpforge.broker.errors import BrokerError, InvalidArgument, LimitExceeded, NotFound, NotSupported
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Coordinator,
    LinkState,
    Modified,
    Rejected,
    Released,
    Role,
    Source,
    StdDistMode,
    Symbol,
    Target,
    TerminusDurability,
)

from .addresses import Address, parse_address
from .conditions import error_of
from .coordinator import Controlling
from .filters import SELECTOR, choose_filters
from .incoming import Incoming
from .links import BrokerLink
from .making import make_dynamic, make_subscription, node_properties
from .outgoing import Outgoing
from .termini import Identity, durability

if TYPE_CHECKING:
    from amqpforge.broker.queues import Queue
    from amqpforge.engine.link import Link
    from amqpforge_protocol.amqp_1_0.archetypes import AnyAddress, AnySource, AnyTarget

    from .head import Head
    from .nodes import Node

__all__ = ["attach"]

_OUTCOMES: Final = (Accepted, Rejected, Released, Modified)
_QUEUE: Final = Symbol("queue")
_TOPIC: Final = Symbol("topic")


def attach(head: Head, link: Link, asked: Attach) -> None:
    """Answer the attach of a client: with a terminus, new or resumed, or with none and the reason.

    Raises:
        LocalError: the client's own limits leave no way to answer.
    """
    known: BrokerLink | None = link.context
    try:
        if known is not None and not known.is_gone and _is_same(known, asked):
            if known not in head.links:
                _check_room(head)
            known.adopt(head, link)
            link.attach()
            known.attached()
            return
        if known is not None:
            known.destroy()
            link.forget()
            link.context = None
        _make(head, link, asked)
    except BrokerError as refused:
        link.refuse(error_of(refused))


def _is_same(known: BrokerLink, asked: Attach) -> bool:
    """Whether an attach is for a terminus that is there already: it names its node, or none at all, because
    the client has lost what it knew of the link (section 2.6.3). A coordinator is always a new one: its
    transactions are those of its connection.
    """
    terminus = asked.source if known.link.role is Role.SENDER else asked.target
    if known.settings is None:
        return False
    if terminus is None:
        return True
    return isinstance(terminus, Source | Target) and terminus.address in (None, known.address)


def _check_room(head: Head) -> None:
    """Raises LimitExceeded if the connection has all the links that it may have, on whatever sessions."""
    most = head.broker.limits.links_per_connection
    if len(head.links) >= most:
        raise LimitExceeded(
            f"the limit links_per_connection is {most}, and so many are there: close some, or raise the limit"
        )


def _make(head: Head, link: Link, asked: Attach) -> None:
    _check_room(head)
    if head.service.is_full:
        raise LimitExceeded("the broker keeps as many links as it can, of all connections")
    if isinstance(link, Sender):
        _make_source(head, link, asked)
    elif isinstance(link, Receiver):
        _make_target(head, link, asked)


# --- targets


def _make_target(head: Head, link: Receiver, asked: Attach) -> None:
    target = asked.target
    if isinstance(target, Coordinator):
        controlling = Controlling(head, link)
        link.attach(target=controlling.target())
        controlling.attached()
        return
    identity = _identity(head, link)
    target = _recovered(head, identity, target)  # type: ignore[assignment]
    if not isinstance(target, Target):
        raise NotSupported("the target is of a kind that is not known here")
    address, node, to = _target_address(head, link, target)
    if to is not None and to.is_management:
        _manage(head, link, target)
        return
    told = replace(
        target,
        address=address,
        durable=durability(target),
        dynamic_node_properties=None if node is None or not target.dynamic else node_properties(node.policy),
        capabilities=None,
    )
    made = Incoming(head, link, node, told, to)
    _answer(head, made, identity, None)


def _target_address(
    head: Head, link: Receiver, target: Target
) -> tuple[AnyAddress | None, Node | None, Address | None]:
    """The address that a target is told, its node if that was made for a link, and where messages go."""
    _check_dynamic(target)
    if target.dynamic:
        address, node = make_dynamic(head, link.name, target.dynamic_node_properties)
        return address, node, parse_address(address)
    if target.address is None:
        return None, None, None
    to = parse_address(_text(target.address))
    actor = head.working
    if to.is_management:
        return target.address, None, to
    if to.exchange is None:
        queue = to.queue or ""
        actor.check_target("", queue)
        if queue not in actor.host.queues:
            raise _no_queue(head, queue)
    else:
        actor.check_target(to.exchange, to.key)
    return target.address, _node_of(head, to.queue), to


# --- sources


def _make_source(head: Head, link: Sender, asked: Attach) -> None:
    source = asked.source
    identity = _identity(head, link)
    source = _recovered(head, identity, source)  # type: ignore[assignment]
    if not isinstance(source, Source):
        raise NotSupported("the source is of a kind that is not known here")
    filters, condition = choose_filters(source)
    _check_dynamic(source)
    address: AnyAddress | None = source.address
    node: Node | None = None
    kind = _QUEUE
    if source.dynamic:
        address, node = make_dynamic(head, link.name, source.dynamic_node_properties)
        queue = node.queue
    else:
        if address is None:
            raise InvalidArgument("the source has no address")
        parsed = parse_address(_text(address))
        if parsed.is_management:
            _manage(head, link, source)
            return
        if parsed.exchange and not parsed.is_bare:
            kind = _TOPIC
            queue, node = make_subscription(head, identity, source, parsed)
        else:
            queue = head.working.readable(parsed.queue or "")
            node = _node_of(head, parsed.queue)
    told = replace(
        source,
        address=address,
        durable=durability(source),
        dynamic_node_properties=node_properties(node.policy) if source.dynamic and node is not None else None,
        distribution_mode=_mode(source),
        filter=filters,
        outcomes=_outcomes(source),
        capabilities=[kind, SELECTOR],
    )
    made = Outgoing(head, link, node, told, queue, condition)
    try:
        queue.attach(made)
    except BrokerError:
        made.destroy()
        link.context = None
        raise
    _answer(head, made, identity, queue if kind is _TOPIC else None)


def _mode(asked: Source) -> StdDistMode:
    """The distribution mode in use: copies if that is asked for."""
    return StdDistMode.COPY if asked.distribution_mode == StdDistMode.COPY else StdDistMode.MOVE


def _outcomes(asked: Source) -> list[Symbol] | None:
    """The outcomes that the client may choose: those it asks for, as far as there are any."""
    supported = [Symbol(outcome.SYMBOL) for outcome in _OUTCOMES]
    if asked.outcomes:
        return [symbol for symbol in supported if symbol in asked.outcomes] or None
    return supported if asked.default_outcome is None else None


# --- both


def _answer(head: Head, made: Incoming | Outgoing, identity: Identity, queue: Queue | None) -> None:
    """Answer the attach, once a terminus that is to survive a restart is safe."""
    termini = head.service.termini(head.working.host)
    if made.settings.durable == TerminusDurability.NONE or not identity.container:
        _attached(head, made, None)
        return
    made.identity = identity
    name = None if queue is None else queue.name
    termini.save(identity, made.settings, name, partial(_attached, head, made))


def _attached(head: Head, made: Incoming | Outgoing, refused: BrokerError | None) -> None:
    link = made.link
    if link.state is not LinkState.ATTACH_RCVD:
        return
    if made.is_gone:
        refused = NotFound("the node was deleted before the link was attached")
    if refused is not None:
        made.destroy()
        link.context = None
        link.refuse(error_of(refused))
    elif isinstance(made, Outgoing):
        link.attach(source=made.source)
        made.attached()
    else:
        link.attach(target=made.target)
        made.attached()
    head.stir()


def _manage(head: Head, link: Receiver | Sender, asked: Source | Target) -> None:
    """The link is to the node that manages the virtual host."""
    management = head.service.management
    if management is None:
        raise NotFound("this broker has no node $management")
    if isinstance(link, Receiver) and isinstance(asked, Target):
        management.receive(head, link, asked)
    elif isinstance(link, Sender) and isinstance(asked, Source):
        management.send(head, link, asked)


def _identity(head: Head, link: Link) -> Identity:
    """What tells the link from all others of the virtual host."""
    return Identity(head.working.user or "", head.peer, link.name, link.role)


def _recovered(head: Head, identity: Identity, asked: AnySource | AnyTarget | None) -> AnySource | AnyTarget:
    """What is asked for; or, if that is nothing, the terminus that the store has of the link.

    One that the store has and that is not the one that is asked for goes.

    Raises:
        NotFound: nothing is asked for, and the store has nothing.
    """
    termini = head.service.termini(head.working.host)
    saved = termini.find(identity)
    if asked is None:
        if saved is None:
            raise NotFound(f"there is no link {identity.link!r:.80} here that could be recovered")
        return saved.settings
    if saved is not None and not (
        isinstance(asked, Source | Target)
        and asked.address == saved.settings.address
        and asked.durable != TerminusDurability.NONE
    ):
        termini.drop(identity)
    return asked


def _node_of(head: Head, queue: str | None) -> Node | None:
    """The node of a queue that was made for a link; None for any other queue."""
    return None if queue is None else head.service.nodes.get((head.working.host.name, queue))


def _check_dynamic(asked: Source | Target) -> None:
    if asked.dynamic and asked.address is not None:
        raise InvalidArgument("an address is given for a node that is to be made")
    if not asked.dynamic and asked.dynamic_node_properties:
        raise InvalidArgument("there are properties for a dynamic node, and none is asked for")


def _text(address: AnyAddress) -> str:
    if not isinstance(address, str):
        raise NotSupported("only addresses that are strings are known here")
    return str(address)


def _no_queue(head: Head, name: str) -> NotFound:
    host = head.working.host.name
    return NotFound(f"there is no queue {name!r:.80} in the virtual host {host!r:.80}: declare it first")

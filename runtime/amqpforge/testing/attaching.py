"""How the node answers an attach: which node it is for, and what terminus there is then (section 2.6.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    Array,
    Attach,
    Coordinator,
    DeleteOnClose,
    Described,
    Error,
    Modified,
    Rejected,
    Released,
    Source,
    StdDistMode,
    Symbol,
    Target,
    TerminusDurability,
)

from .intake import Intake
from .nodelink import NodeLink
from .outlet import Outlet
from .transactions import Controlled, coordinator

if TYPE_CHECKING:
    from amqpforge.engine.link import Link

    from .nodeconnection import NodeConnection
    from .queue import Queue

__all__ = ["Filter", "answer_attach"]

Filter: TypeAlias = Callable[[Message, Any], bool]
"""Whether a message passes a filter; the second argument is the value that the client gave the filter."""

_OUTCOMES: Final = (Accepted, Rejected, Released, Modified)
_MOST_TERMINI: Final = 10_000


class _Refused(Exception):
    """The node has no terminus for the link."""

    def __init__(self, condition: AmqpError, description: str) -> None:
        super().__init__(description)
        self.error = Error(condition=condition, description=description)


def answer_attach(connection: NodeConnection, link: Link, attach: Attach) -> None:
    """Answer the attach of a client: with a terminus, new or resumed, or with none."""
    known: NodeLink | None = link.context
    try:
        if known is not None and not known.is_gone and _is_same(known, attach):
            known.adopt(connection, link)
            link.attach()
        else:
            if known is not None:
                known.destroy()
                link.forget()
            known = _make(connection, link, attach)
    except _Refused as refused:
        link.refuse(refused.error)
        return
    known.attached()


def _is_same(known: NodeLink, attach: Attach) -> bool:
    """Whether an attach is for a terminus that is there already: it names its node, or none at all, because
    the client has lost what it knew of the link (section 2.6.3).
    """
    asked = attach.source if isinstance(known, Outlet) else attach.target
    if asked is None:
        return True
    if isinstance(known, Outlet | Intake):
        return isinstance(asked, Source | Target) and asked.address in (None, known.address)
    return isinstance(asked, Coordinator)


def _make(connection: NodeConnection, link: Link, attach: Attach) -> NodeLink:
    node = connection.node
    if len(node.container.links) >= _MOST_TERMINI:
        raise _Refused(AmqpError.RESOURCE_LIMIT_EXCEEDED, f"the node keeps {_MOST_TERMINI} links already")
    if isinstance(link, Sender):
        return _make_outlet(connection, link, attach)
    if not isinstance(link, Receiver):
        raise TypeError(f"{link!r} is neither a sender nor a receiver")
    link.max_message_size = node.max_message_size
    link.prefetch = node.credit
    target = attach.target
    if isinstance(target, Coordinator):
        made: NodeLink = Controlled(connection, link)
        link.attach(target=coordinator())
        return made
    if target is None:
        raise _Refused(
            AmqpError.NOT_FOUND, f"there is no link {link.name!r:.80} here that could be recovered"
        )
    if not isinstance(target, Target):
        raise _Refused(AmqpError.NOT_IMPLEMENTED, "the target is of a kind that is not known here")
    queue = _queue_for(connection, link, target)
    address = None if queue is None else queue.address
    told = replace(
        target,
        address=address,
        durable=TerminusDurability.NONE,
        dynamic_node_properties=_properties(target.dynamic),
        capabilities=None,
    )
    made = Intake(connection, link, queue, told)
    if queue is not None and target.dynamic:
        queue.maker = made
    link.attach(target=told)
    return made


def _make_outlet(connection: NodeConnection, link: Sender, attach: Attach) -> NodeLink:
    asked = attach.source
    if asked is None:
        raise _Refused(
            AmqpError.NOT_FOUND, f"there is no link {link.name!r:.80} here that could be recovered"
        )
    if not isinstance(asked, Source):
        raise _Refused(AmqpError.NOT_IMPLEMENTED, "the source is of a kind that is not known here")
    queue = _queue_for(connection, link, asked)
    if queue is None:
        raise _Refused(AmqpError.INVALID_FIELD, "the source has no address")
    filters = connection.node.filters
    in_place = {name: value for name, value in (asked.filter or {}).items() if _descriptor(value) in filters}
    told = replace(
        asked,
        address=queue.address,
        durable=TerminusDurability.NONE,
        dynamic_node_properties=_properties(asked.dynamic),
        distribution_mode=_mode(asked),
        filter=in_place or None,
        outcomes=_outcomes(asked),
        capabilities=[Symbol(name) for name in filters] or None,
    )
    made = Outlet(connection, link, queue, told, _joined(filters, in_place) if in_place else None)
    if asked.dynamic:
        queue.maker = made
    link.attach(source=told)
    return made


def _queue_for(connection: NodeConnection, link: Link, asked: Source | Target) -> Queue | None:
    """The queue that a terminus is for; None for a target that leaves it to each message."""
    node = connection.node
    address = asked.address
    if asked.dynamic:
        if address is not None:
            raise _Refused(AmqpError.INVALID_FIELD, "an address is given for a node that is to be made")
        return node.make_dynamic_queue(connection.peer, link.name)
    if asked.dynamic_node_properties:
        raise _Refused(
            AmqpError.INVALID_FIELD, "there are properties for a dynamic node, and none is asked for"
        )
    if address is None:
        return None
    if not isinstance(address, str):
        raise _Refused(AmqpError.NOT_IMPLEMENTED, "only addresses that are strings are known here")
    try:
        return node.find_queue(str(address))
    except LookupError as error:
        raise _Refused(AmqpError.NOT_FOUND, str(error.args[0])) from None


def _properties(dynamic: bool) -> dict[str, Any] | None:
    """What a node that was made for a link really has."""
    if not dynamic:
        return None
    return {
        Symbol("lifetime-policy"): DeleteOnClose(),
        Symbol("supported-dist-modes"): Array([Symbol(StdDistMode.MOVE), Symbol(StdDistMode.COPY)], "symbol"),
    }


def _mode(asked: Source) -> StdDistMode:
    """The distribution mode in use: copies if that is asked for."""
    return StdDistMode.COPY if asked.distribution_mode == StdDistMode.COPY else StdDistMode.MOVE


def _outcomes(asked: Source) -> list[Symbol] | None:
    """The outcomes that the client may choose: those it asks for, as far as there are any."""
    supported = [Symbol(outcome.SYMBOL) for outcome in _OUTCOMES]
    if asked.outcomes:
        return [symbol for symbol in supported if symbol in asked.outcomes] or None
    return supported if asked.default_outcome is None else None


def _descriptor(value: object) -> str | None:
    return str(value.descriptor) if isinstance(value, Described) else None


def _joined(filters: Mapping[str, Filter], in_place: dict[str, Any]) -> Callable[[Message], bool]:
    """All filters of a set as one; a message passes if it passes each of them (section 3.5.8)."""
    chosen = [(filters[str(value.descriptor)], value.value) for value in in_place.values()]
    return lambda message: all(admits(message, value) for admits, value in chosen)

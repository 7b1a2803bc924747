"""Lists: what a user sees of them, and one page at a time, so that no reply is very large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amqpforge.broker.access import Operation
from amqpforge.broker.errors import AccessRefused, InvalidArgument
from amqpforge.broker.exchanges import Binding, Chain, Destination, DestinationKind
from amqpforge_protocol.amqp_1_0 import encode_value

from .attributes import Attributes
from .requests import Reply
from .views import Served, View, chosen, shown

if TYPE_CHECKING:
    from amqpforge.broker.actor import Actor
    from amqpforge.broker.host import VirtualHost

    from .requests import Request

__all__ = ["MOST_OCTETS", "MOST_RESULTS", "Sight", "bindings", "check_sight", "consumers", "page"]

MOST_RESULTS: Final = 500
"""Things in one reply."""

MOST_OCTETS: Final = 1 << 20
"""Octets that these take as values of AMQP, but for the last one."""

_OK: Final = 200


class Sight:
    """Whether a user sees a queue or an exchange; asked often, so it remembers."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._known: dict[str, bool] = {}

    def has(self, name: str) -> bool:
        """Whether the user may do anything at all to what has this name."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = (
                self._may(Operation.READ, name)
                or self._may(Operation.WRITE, name)
                or self._may(Operation.CONFIGURE, name)
            )
        return known

    def _may(self, operation: Operation, name: str) -> bool:
        try:
            self._actor.check(operation, name)
        except AccessRefused:
            return False
        return True


def check_sight(actor: Actor, name: str) -> None:
    """Raises AccessRefused for what the user has no right to at all, whether there is such a thing or not."""
    if not Sight(actor).has(name):
        actor.check(Operation.READ, name)


def page(
    request: Request, view: View, things: Iterable[object], attributes: Attributes | None = None
) -> Reply:
    """The things that a ``QUERY`` asks for, as far as one reply takes them.

    The body has ``attributeNames``; ``results``, a list of values for each thing, in the order of these; and
    ``next``: the offset to go on from, or null at the end.

    Args:
        request: it, with offset and count.
        view: how attributes are found.
        things: all of them, in an order that stays the same.
        attributes: the body, if something was taken of it already.

    Raises:
        InvalidArgument: an attribute of the body is malformed, or not known.
    """
    attributes = attributes or Attributes(request.body)
    columns = chosen(view, attributes.texts("attributeNames"))
    attributes.finish()
    most = MOST_RESULTS if request.count is None else min(request.count, MOST_RESULTS)
    rest = islice(things, request.offset, None)
    results: list[list[Any]] = []
    octets = 0
    for thing in islice(rest, most):
        row = list(shown(columns, thing).values())
        octets += len(encode_value(row))
        results.append(row)
        if octets >= MOST_OCTETS:
            break
    is_more = next(rest, None) is not None
    body = {
        "attributeNames": list(columns),
        "results": results,
        "next": request.offset + len(results) if is_more else None,
    }
    return Reply(_OK, body, count=len(results))


class Found(NamedTuple):
    """What a list is made of, and the rest of the body that asked for it."""

    things: Iterator[object]
    attributes: Attributes


def bindings(request: Request, actor: Actor) -> Found:
    """The bindings and chained bindings that a user sees: those of whose two ends he sees both.

    The body may ask for those from a ``source``, and those to a ``destination`` that is a
    ``destination_type``: ``queue``, which is usual, or ``exchange``.

    Raises:
        InvalidArgument: an attribute is malformed.
    """
    attributes = Attributes(request.body)
    source, name = attributes.text("source"), attributes.text("destination")
    kind = attributes.text("destination_type")
    if kind not in (None, "queue", "exchange"):
        raise InvalidArgument(f"the attribute 'destination_type' is queue or exchange, not {kind!r:.80}")
    if kind is not None and name is None:
        raise InvalidArgument("the attribute 'destination_type' goes with 'destination'")
    destination = None if name is None else Destination(DestinationKind(kind or "queue"), name)
    sight = Sight(actor)
    things = (
        bound
        for bound in _bound(actor.host, source, destination)
        if all(sight.has(end) for end in _ends(bound)) and (source is None or source in _ends(bound)[1:])
    )
    return Found(things, attributes)


def _bound(
    host: VirtualHost, source: str | None, destination: Destination | None
) -> Iterator[Binding | Chain]:
    """What is bound, without default bindings and the parts of chains; maybe more than from the source."""
    wiring = host.wiring
    if destination is not None:
        yield from wiring.bindings_to(destination)
    else:
        known = wiring.exchanges
        exchanges = known.values() if source is None else [known[source]] if source in known else []
        for exchange in exchanges:
            if exchange.name and exchange.part_of is None:
                for binding in exchange.bindings:
                    kind, name = binding.destination
                    if kind is DestinationKind.QUEUE or known[name].part_of is None:
                        yield binding
    for chain in wiring.chains:
        if destination is None or destination == Destination.queue(chain.queue):
            yield chain


def _ends(bound: Binding | Chain) -> tuple[str, ...]:
    """Where it leads to, and then where it comes from."""
    if isinstance(bound, Chain):
        return bound.queue, *(step.exchange for step in bound.steps)
    return bound.destination.name, bound.source


def consumers(request: Request, actor: Actor, known: Mapping[object, str]) -> Found:
    """The consumers of queues that a user sees; the body may ask for those of one ``queue``.

    ``known``: the ids of connections, by the owner of their consumers.

    Raises:
        InvalidArgument: an attribute is malformed.
        AccessRefused: the user does not see that queue.
        NotFound: there is no such queue.
    """
    attributes = Attributes(request.body)
    name = attributes.text("queue")
    if name is not None:
        check_sight(actor, name)
        queues = iter([actor.host.queue(name)])
    else:
        sight = Sight(actor)
        queues = (queue for queue in actor.host.queues.values() if sight.has(queue.name))
    things = (
        Served(queue, consumer, known.get(consumer.owner)) for queue in queues for consumer in queue.consumers
    )
    return Found(things, attributes)

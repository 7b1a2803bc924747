"""What there is to manage, and what is done about each request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from amqpforge import __version__
from amqpforge.broker.access import Operation
from amqpforge.broker.errors import (
    BrokerError,
    InvalidArgument,
    NotAllowed,
    NotFound,
    NotSupported,
    PreconditionFailed,
)
from amqpforge.broker.exchanges import Chain, Destination

from .attributes import Attributes, bound_of, differing, exchange_settings, queue_settings
from .connections import check_administrator, may_administrate
from .listing import Sight, bindings, check_sight, consumers, page
from .rates import QUEUE_FIGURES, Sampler
from .requests import MANAGEMENT_TYPE, Reply, Request
from .views import BINDING, CONNECTION, CONSUMER, exchange_view, queue_view, shown

if TYPE_CHECKING:
    from amqpforge.broker.actor import Actor
    from amqpforge.broker.broker import Broker
    from amqpforge.broker.core import Core
    from amqpforge.broker.host import VirtualHost

    from .connections import ManagedConnection

__all__ = ["Manager"]

_Do: TypeAlias = "Callable[[Request, Actor], Reply]"

_OK: Final = 200
_CREATED: Final = 201
_NO_CONTENT: Final = 204
_CONFLICT: Final = 409
_USAGE: Final = ("connections", "queues", "exchanges", "bindings")


class Manager:
    """Answers requests. Each is about the virtual host of whoever asks, and no other.

    What a user has no right to at all, he does not see either: a queue or an exchange is there for him if
    he may configure, write or read it.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sources: list[Callable[[], Iterable[ManagedConnection]]] = []
        self._sampler: Sampler | None = None
        self._started = 0.0
        self._operations: Mapping[str, Mapping[str, _Do]] = {
            "queue": {
                "CREATE": self._declare_queue,
                "READ": self._read_queue,
                "DELETE": self._delete_queue,
                "PURGE": self._purge_queue,
                "BIND": partial(self._bind, Destination.queue),
                "UNBIND": partial(self._unbind, Destination.queue),
                "QUERY": self._query_queues,
            },
            "exchange": {
                "CREATE": self._declare_exchange,
                "READ": self._read_exchange,
                "DELETE": self._delete_exchange,
                "BIND": partial(self._bind, Destination.exchange),
                "UNBIND": partial(self._unbind, Destination.exchange),
                "QUERY": self._query_exchanges,
            },
            "binding": {"QUERY": self._query_bindings},
            "connection": {
                "READ": self._read_connection,
                "DELETE": self._close_connection,
                "QUERY": self._query_connections,
            },
            "consumer": {"QUERY": self._query_consumers},
            "vhost": {"READ": self._read_vhost},
            "broker": {"READ": self._read_broker},
            MANAGEMENT_TYPE: {"GET-TYPES": self._get_types, "GET-OPERATIONS": self._get_operations},
        }

    def add_connections(self, source: Callable[[], Iterable[ManagedConnection]]) -> None:
        """Manage the connections of a head too, which ``source`` gives whenever they are asked for."""
        self._sources.append(source)

    def start(self) -> None:
        """The broker runs: begin to look at its totals."""
        core = self._core
        self._started = core.clock.now()
        self._sampler = Sampler(core.clock, lambda: self._broker.hosts)
        self._sampler.start()

    def stop(self) -> None:
        """The broker stops."""
        if self._sampler is not None:
            self._sampler.stop()

    def handle(self, request: Request, actor: Actor) -> Reply:
        """Do what is asked for, at once, as this user; what cannot be done is said in the reply."""
        try:
            return self._operation(request)(request, actor)
        except BrokerError as error:
            return Reply.refusal(error)

    @property
    def _core(self) -> Core:
        return self._broker.core

    @property
    def _rates(self) -> Sampler:
        if self._sampler is None:
            raise NotSupported("the broker is not managed: it does not run")
        return self._sampler

    def _operation(self, request: Request) -> _Do:
        operations = self._operations.get(request.type)
        if operations is None:
            known = ", ".join(self._operations)
            raise InvalidArgument(
                f"the application property 'type' is one of {known}, not {request.type!r:.80}"
            )
        found = operations.get(request.operation)
        if found is None:
            known = ", ".join(operations)
            raise NotSupported(
                f"{request.operation!r:.80} is no operation of the type {request.type!r}; these are: {known}"
            )
        return found

    # --- queues --------------------------------------------------------------------------------------------

    def _declare_queue(self, request: Request, actor: Actor) -> Reply:
        settings = queue_settings(Attributes(request.body))
        is_new = not request.name or request.name not in actor.host.queues
        try:
            queue = actor.declare_queue(request.name, settings)
        except PreconditionFailed as error:
            known = actor.host.queue(request.name or "").settings
            return Reply.refusal(differing(f"queue {request.name!r:.80}", known, settings, error), _CONFLICT)
        body = shown(queue_view(self._rates), queue)
        return Reply(_CREATED if is_new else _OK, body, is_change=True)

    def _read_queue(self, request: Request, actor: Actor) -> Reply:
        Attributes(request.body).finish()
        name = _name(request)
        check_sight(actor, name)
        return Reply(_OK, shown(queue_view(self._rates), actor.host.queue(name)))

    def _delete_queue(self, request: Request, actor: Actor) -> Reply:
        attributes = Attributes(request.body)
        if_unused, if_empty = attributes.flag("if_unused"), attributes.flag("if_empty")
        attributes.finish()
        count = actor.delete_queue(_name(request), if_unused=if_unused, if_empty=if_empty)
        return Reply(_OK, {"messages": count}, is_change=True)

    def _purge_queue(self, request: Request, actor: Actor) -> Reply:
        Attributes(request.body).finish()
        return Reply(_OK, {"messages": actor.purge_queue(_name(request))}, is_change=True)

    def _query_queues(self, request: Request, actor: Actor) -> Reply:
        sight = Sight(actor)
        things = (queue for name, queue in actor.host.queues.items() if sight.has(name))
        return page(request, queue_view(self._rates), things)

    # --- exchanges -----------------------------------------------------------------------------------------

    def _declare_exchange(self, request: Request, actor: Actor) -> Reply:
        settings = exchange_settings(Attributes(request.body))
        name = _name(request)
        is_new = name not in actor.host.wiring.exchanges
        try:
            exchange = actor.declare_exchange(name, settings)
        except PreconditionFailed as error:
            known = actor.host.wiring.exchanges[name].settings
            return Reply.refusal(differing(f"exchange {name!r:.80}", known, settings, error), _CONFLICT)
        body = shown(exchange_view(self._rates), exchange)
        return Reply(_CREATED if is_new else _OK, body, is_change=True)

    def _read_exchange(self, request: Request, actor: Actor) -> Reply:
        Attributes(request.body).finish()
        name = _name(request)
        check_sight(actor, name)
        exchange = actor.declare_exchange(name, passive=True)
        return Reply(_OK, shown(exchange_view(self._rates), exchange))

    def _delete_exchange(self, request: Request, actor: Actor) -> Reply:
        attributes = Attributes(request.body)
        if_unused = attributes.flag("if_unused")
        attributes.finish()
        actor.delete_exchange(_name(request), if_unused=if_unused)
        return Reply(_NO_CONTENT, is_change=True)

    def _query_exchanges(self, request: Request, actor: Actor) -> Reply:
        sight = Sight(actor)
        things = (
            exchange
            for name, exchange in actor.host.wiring.exchanges.items()
            if exchange.part_of is None and sight.has(name)
        )
        return page(request, exchange_view(self._rates), things)

    # --- bindings ------------------------------------------------------------------------------------------

    def _bind(self, kind: Callable[[str], Destination], request: Request, actor: Actor) -> Reply:
        bound = bound_of(kind(_name(request)), Attributes(request.body))
        before = self._broker.usage.bindings.used
        actor.bind(bound)
        is_new = self._broker.usage.bindings.used > before
        return Reply(_CREATED if is_new else _OK, shown(BINDING, bound), is_change=True)

    def _unbind(self, kind: Callable[[str], Destination], request: Request, actor: Actor) -> Reply:
        bound = bound_of(kind(_name(request)), Attributes(request.body))
        before = self._broker.usage.bindings.used
        actor.unbind(bound)
        if self._broker.usage.bindings.used == before:
            what = "chained binding" if isinstance(bound, Chain) else "binding"
            raise NotFound(f"there is no such {what}: {bound!r:.200}")
        return Reply(_NO_CONTENT, is_change=True)

    def _query_bindings(self, request: Request, actor: Actor) -> Reply:
        return page(request, BINDING, *bindings(request, actor))

    # --- connections and consumers -------------------------------------------------------------------------

    def _connections(self, actor: Actor) -> Iterable[ManagedConnection]:
        """The connections that a user sees: his own, or all to the virtual host."""
        sees_all = may_administrate(actor, Operation.READ)
        for source in self._sources:
            for one in source():
                if one.vhost == actor.host.name and (sees_all or one.user == actor.user):
                    yield one

    def _connection(self, request: Request, actor: Actor) -> ManagedConnection:
        name = _name(request)
        found = next((one for one in self._connections(actor) if one.id == name), None)
        if found is None:
            raise NotFound(f"there is no connection {name!r:.80}: it is over, or another user's")
        return found

    def _read_connection(self, request: Request, actor: Actor) -> Reply:
        Attributes(request.body).finish()
        return Reply(_OK, shown(CONNECTION, self._connection(request, actor)))

    def _close_connection(self, request: Request, actor: Actor) -> Reply:
        attributes = Attributes(request.body)
        reason = attributes.text("reason") or f"closed by the user {actor.user!r}"
        attributes.finish()
        connection = self._connection(request, actor)
        if connection.owner is actor.owner:
            raise NotAllowed("this is your own connection, over which the reply would go: close it yourself")
        if connection.user != actor.user:
            check_administrator(actor, Operation.CONFIGURE)
        connection.close(reason)
        return Reply(_NO_CONTENT)

    def _query_connections(self, request: Request, actor: Actor) -> Reply:
        return page(request, CONNECTION, self._connections(actor))

    def _query_consumers(self, request: Request, actor: Actor) -> Reply:
        known = {one.owner: one.id for source in self._sources for one in source()}
        return page(request, CONSUMER, *consumers(request, actor, known))

    # --- the whole -----------------------------------------------------------------------------------------

    def _read_vhost(self, request: Request, actor: Actor) -> Reply:
        Attributes(request.body).finish()
        host = actor.host
        if request.name not in (None, host.name):
            raise NotFound(f"{request.name!r:.80} is not the virtual host of this connection: connect to it")
        return Reply(_OK, self._figures(host))

    def _figures(self, host: VirtualHost) -> dict[str, Any]:
        ready = held = octets = consumers = published = delivered = accepted = 0
        for queue in host.queues.values():
            ready += queue.ready
            held += queue.unacknowledged
            octets += queue.bytes
            consumers += queue.consumer_count
            counters = queue.counters
            published += counters.published
            delivered += counters.delivered
            accepted += counters.accepted
        sums = (published, delivered, accepted)
        return {
            "name": host.name,
            "queues": len(host.queues),
            "exchanges": sum(one.part_of is None for one in host.wiring.exchanges.values()),
            "consumers": consumers,
            "messages": ready + held,
            "messages_ready": ready,
            "messages_unacknowledged": held,
            "bytes": octets,
            "totals": dict(zip(QUEUE_FIGURES, sums, strict=True)),
            "rates": self._rates.rates_of_host(host, sums),
        }

    def _read_broker(self, request: Request, actor: Actor) -> Reply:
        """What it is; and how much of it is in use, for those who may read all of the virtual host."""
        Attributes(request.body).finish()
        usage = self._broker.usage
        body: dict[str, Any] = {
            "product": "amqpforge",
            "version": __version__,
            "user": actor.user,
            "vhost": actor.host.name,
            "is_durable": self._core.store.is_durable,
            "started": self._started,
            "uptime": max(0.0, self._core.clock.now() - self._started),
            "usage": None,
        }
        if may_administrate(actor, Operation.READ):
            quotas = {name: getattr(usage, name) for name in _USAGE}
            counted = {name: {"used": one.used, "limit": one.limit} for name, one in quotas.items()}
            bodies = self._core.bodies
            body["usage"] = {**counted, "memory": {"used": bodies.used, "limit": usage.limits.memory}}
        return Reply(_OK, body)

    def _get_types(self, request: Request, actor: Actor) -> Reply:
        return Reply(_OK, {type_: [] for type_ in self._operations if type_ != MANAGEMENT_TYPE})

    def _get_operations(self, request: Request, actor: Actor) -> Reply:
        return Reply(_OK, {type_: list(known) for type_, known in self._operations.items()})


def _name(request: Request) -> str:
    if request.name is None:
        raise InvalidArgument("the application property 'name' is missing: it has to be given")
    return request.name

"""The wiring of one virtual host: its exchanges, what is bound to them, and the way of a message through."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic

from amqpforge.broker.errors import (
    AccessRefused,
    BrokerError,
    NotAllowed,
    NotFound,
    PreconditionFailed,
)
from amqpforge.broker.settings import ExchangeSettings

from .binding import Binding, Destination, DestinationKind
from .exchange import Exchange, identity_of
from .registry import new_matcher
from .tables import DEFAULT, Named, Queue, Removal, Removed, Tables, default_binding, links
from .values import check_arguments, check_name

if TYPE_CHECKING:
    from amqpforge.broker.message import Message

    from .chain import Chain

__all__ = ["Named", "Removed", "Wiring"]

_PREDECLARED = {
    DEFAULT: "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.topic": "topic",
}
_RESERVED = "amq."


class Wiring(Generic[Queue]):
    """All exchanges, queues and bindings of a virtual host.

    A method that raises BrokerError has changed nothing.

    Attributes:
        exchanges: by name, in the order in which they came; the parts of chains are among them.
        queues: by name.
        chains: the chained bindings, with the exchanges that each is made of.
    """

    def __init__(self) -> None:
        self._tables = tables = Tables[Queue]()
        self._chains_made = 0
        self.exchanges: Mapping[str, Exchange] = MappingProxyType(tables.exchanges)
        self.queues: Mapping[str, Queue] = MappingProxyType(tables.queues)
        self.chains: Mapping[Chain, tuple[Exchange, ...]] = MappingProxyType(tables.chains)
        for name, type_ in _PREDECLARED.items():
            settings = ExchangeSettings(type=type_, durable=True)
            tables.exchanges[name] = Exchange(name, settings, new_matcher(settings))

    # ---- exchanges ----

    def declare(self, name: str, settings: ExchangeSettings, *, passive: bool = False) -> Exchange:
        """Have an exchange: a new one, or the one that there is if it has equal settings.

        With ``passive`` it is only looked for, and the settings do not count.

        Raises:
            AccessRefused: there is none, and the name is one that only the broker gives.
            InvalidArgument: it cannot be called so, or its type makes nothing of its arguments.
            LimitExceeded: it has too many arguments.
            NotFound: there is none, and it is only looked for.
            NotSupported: there is no such type.
            PreconditionFailed: there is one with other settings.
        """
        if passive:
            return self._exchange(name)
        check_arguments(settings.arguments)
        identity = identity_of(settings)
        known = self._tables.exchanges.get(name)
        if known is not None:
            if identity_of(known.settings) != identity:
                raise PreconditionFailed(
                    f"exchange {name!r} is there already, as {known.settings!r:.200}: declare it "
                    "like that, or delete it first"
                )
            return known
        check_name("an exchange", name)
        if name.startswith(_RESERVED):
            raise AccessRefused(
                f"exchange {name!r}: names that begin with {_RESERVED!r} are the broker's own"
            )
        exchange = self._tables.exchanges[name] = Exchange(name, settings, new_matcher(settings))
        return exchange

    def delete(self, name: str, *, if_unused: bool = False) -> Removed:
        """Delete an exchange with all that is bound to it, and its own bindings to others.

        Raises:
            NotAllowed: every virtual host has it, or it is part of a chain.
            NotFound: there is none.
            PreconditionFailed: it is used, and is to be deleted only if it is not.
        """
        exchange = self._exchange(name)
        if name in _PREDECLARED:
            raise NotAllowed(f"exchange {name!r} is there in every virtual host and cannot be deleted")
        self._refuse_parts(exchange)
        if if_unused and exchange.is_used:
            count = len(exchange.bindings) + len(exchange.chains)
            raise PreconditionFailed(f"exchange {name!r} is used: it has {count} bindings")
        removal = Removal(self._tables)
        removal.exchange(exchange)
        return removal.finish()

    # ---- queues ----

    def add_queue(self, queue: Queue) -> None:
        """Take a new queue, and bind it to the default exchange.

        Raises:
            InvalidArgument: it cannot be called so.
            PreconditionFailed: there is a queue of this name.
        """
        check_name("a queue", queue.name)
        if queue.name in self._tables.queues:
            raise PreconditionFailed(f"queue {queue.name!r} is there already")
        self._tables.exchanges[DEFAULT].add(default_binding(queue.name))
        self._tables.queues[queue.name] = queue

    def remove_queue(self, name: str) -> Removed:
        """Forget a queue, with all its bindings.

        Raises:
            NotFound: there is no such queue.
        """
        self._queue(name)
        removal = Removal(self._tables)
        removal.bindings_to(Destination.queue(name))
        for chain in list(self._tables.chains_to.get(name, ())):
            removal.chain(chain)
        self._tables.exchanges[DEFAULT].remove(default_binding(name))
        del self._tables.queues[name]
        return removal.finish()

    # ---- bindings ----

    def bindings(self) -> Iterator[Binding]:
        """All bindings: default ones, and those that chains are made of, too."""
        for exchange in self._tables.exchanges.values():
            yield from exchange.bindings

    def bindings_to(self, destination: Destination) -> tuple[Binding, ...]:
        """The bindings that lead to a queue or an exchange; not its default binding, not chains."""
        return tuple(self._tables.bound.get(destination, ()))

    def bind(self, binding: Binding) -> bool:
        """Have a binding, from now on; returns whether it is new.

        Raises:
            InvalidArgument: its key or arguments are not possible with this type of exchange.
            LimitExceeded: it has too many arguments.
            NotAllowed: it is from or to the default exchange, or a part of a chain.
            NotFound: its source or destination is not there.
        """
        source = self._source(binding.source)
        kind, name = binding.destination
        if kind is DestinationKind.QUEUE:
            self._queue(name)
        else:
            self._source(name)
        if binding in source.bindings:
            return False
        check_arguments(binding.arguments)
        source.matcher.validate(binding)
        source.add(binding)
        self._tables.bound.setdefault(binding.destination, {})[binding] = None
        return True

    def unbind(self, binding: Binding) -> Removed:
        """Have a binding no longer; nothing is removed if it is not there.

        Raises:
            NotAllowed: it is from or to the default exchange, or a part of a chain.
            NotFound: its source is not there.
        """
        source = self._source(binding.source)
        removal = Removal(self._tables)
        if binding in source.bindings:
            part = self._tables.exchanges.get(binding.destination.name)
            if part is not None and binding.destination.kind is DestinationKind.EXCHANGE:
                self._refuse_parts(part)
            removal.binding(binding)
        return removal.finish()

    # ---- chains ----

    def bind_chain(self, chain: Chain) -> bool:
        """Have a chained binding, from now on; returns whether it is new.

        Only messages that come to the exchange of the first step and meet all conditions get to the queue.
        The conditions behind the first are held by exchanges of the chain's own, of the same types as those
        that the steps name, so that nothing else that is bound to these is touched.

        Raises:
            InvalidArgument: a step's key or arguments are not possible with this type of exchange.
            LimitExceeded: a step has too many arguments.
            NotAllowed: a step names the default exchange, or a part of a chain.
            NotFound: the queue or an exchange is not there.
        """
        self._queue(chain.queue)
        named = [self._source(step.exchange) for step in chain.steps]
        if chain in self._tables.chains:
            return False
        parts = [self._new_part(chain, number, exchange) for number, exchange in enumerate(named[1:], 1)]
        holders = (named[0], *parts)
        bindings = links(chain, holders)
        for holder, binding in zip(holders, bindings, strict=True):
            check_arguments(binding.arguments)
            holder.matcher.validate(binding)
        for holder, binding in zip(holders, bindings, strict=True):
            holder.add(binding)
        self._tables.exchanges.update({part.name: part for part in parts})
        self._chains_made += 1
        self._tables.chains[chain] = holders
        self._tables.chains_to.setdefault(chain.queue, {})[chain] = None
        for exchange in named:
            exchange.chains[chain] = None
        return True

    def unbind_chain(self, chain: Chain) -> Removed:
        """Have a chained binding no longer; nothing is removed if it is not there."""
        removal = Removal(self._tables)
        if chain in self._tables.chains:
            removal.chain(chain)
        return removal.finish()

    def _new_part(self, chain: Chain, number: int, model: Exchange) -> Exchange:
        settings = ExchangeSettings(
            type=model.settings.type, internal=True, arguments=model.settings.arguments
        )
        name = f"{_RESERVED}chain.{self._chains_made + 1}.{number}"
        return Exchange(name, settings, new_matcher(settings), part_of=chain)

    # ---- messages ----

    def route(self, message: Message, *, is_client: bool = True) -> list[Queue]:
        """The queues that a message is for, each once; the same wiring always gives the same order.

        A message comes to an exchange once, however many bindings lead there. If a further exchange refuses
        it, it goes no further there, and elsewhere all the same: whoever published it knows only the first.

        Args:
            message: what was published; its payload is at hand.
            is_client: whether a client published it. The broker itself can publish to internal exchanges.

        Raises:
            AccessRefused: its exchange is internal.
            BrokerError: its exchange refuses it.
            NotFound: there is no such exchange.
        """
        first = self._exchange(message.exchange)
        if is_client and first.settings.internal:
            raise AccessRefused(f"exchange {first.name!r} is internal: clients cannot publish to it")
        destinations = first.pass_on(message)
        known = self._tables.queues
        for kind, _ in destinations:
            if kind is not DestinationKind.QUEUE:
                return self._route_on(message, first, destinations)
        return [known[name] for _, name in destinations]

    def _route_on(self, message: Message, first: Exchange, destinations: list[Destination]) -> list[Queue]:
        """The queues that a message is for which its first exchange passes on to further ones, too."""
        queues: dict[str, Queue] = {}
        reached = {first.name}
        pending: deque[Exchange] = deque()
        while True:
            for kind, name in destinations:
                if kind is DestinationKind.QUEUE:
                    queues[name] = self._tables.queues[name]
                elif name not in reached:
                    reached.add(name)
                    pending.append(self._tables.exchanges[name])
            if not pending:
                return list(queues.values())
            try:
                destinations = pending.popleft().pass_on(message)
            except BrokerError:
                destinations = []

    # ---- what there is ----

    def _exchange(self, name: str) -> Exchange:
        exchange = self._tables.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"there is no exchange {name[:255]!r}: declare it first")
        return exchange

    def _queue(self, name: str) -> Queue:
        queue = self._tables.queues.get(name)
        if queue is None:
            raise NotFound(f"there is no queue {name[:255]!r}: declare it first")
        return queue

    def _source(self, name: str) -> Exchange:
        """An exchange that can be bound."""
        if name == DEFAULT:
            raise NotAllowed("the default exchange has one binding for each queue and takes no others")
        exchange = self._exchange(name)
        self._refuse_parts(exchange)
        return exchange

    def _refuse_parts(self, exchange: Exchange) -> None:
        if exchange.part_of is not None:
            raise NotAllowed(f"exchange {exchange.name!r} is part of {exchange.part_of!r:.200}: unbind that")

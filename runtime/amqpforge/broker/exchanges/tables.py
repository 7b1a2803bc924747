"""What a wiring consists of, and how parts of it are taken away with all that hangs on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from .binding import Binding, Destination
from .chain import Chain
from .exchange import Exchange

__all__ = ["DEFAULT", "Named", "Queue", "Removal", "Removed", "Tables", "default_binding", "links"]

DEFAULT = ""
"""The default exchange, to which every queue is bound under its own name."""


class Named(Protocol):
    """A queue, as far as the wiring is concerned."""

    @property
    def name(self) -> str: ...


Queue = TypeVar("Queue", bound=Named)


@dataclass(slots=True)
class Removed:
    """What is gone after a change; false if that is nothing.

    Default bindings and the parts of chains are not listed: they come and go with their queue and chain.

    Attributes:
        exchanges: exchanges, those that went by themselves (``auto_delete``) included.
        bindings: bindings, as they were when they were bound.
        chains: chained bindings, likewise.
    """

    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    bindings: list[Binding] = field(default_factory=list[Binding])
    chains: list[Chain] = field(default_factory=list[Chain])

    def __bool__(self) -> bool:
        return bool(self.exchanges or self.bindings or self.chains)


@dataclass(slots=True)
class Tables(Generic[Queue]):
    """The things of a virtual host, and where each leads.

    Attributes:
        exchanges: by name, parts of chains included.
        queues: by name.
        chains: each with the exchanges that hold its conditions: the first one's own, and the parts.
        bound: bindings by where they lead, without default bindings and those of chains.
        chains_to: chains by the name of their queue.
    """

    exchanges: dict[str, Exchange] = field(default_factory=dict[str, Exchange])
    queues: dict[str, Queue] = field(default_factory=dict[str, Queue])
    chains: dict[Chain, tuple[Exchange, ...]] = field(default_factory=dict[Chain, tuple[Exchange, ...]])
    bound: dict[Destination, dict[Binding, None]] = field(
        default_factory=dict[Destination, dict[Binding, None]]
    )
    chains_to: dict[str, dict[Chain, None]] = field(default_factory=dict[str, dict[Chain, None]])


def default_binding(queue: str) -> Binding:
    """What ties a queue to the default exchange."""
    return Binding(DEFAULT, Destination.queue(queue), queue)


def links(chain: Chain, holders: tuple[Exchange, ...]) -> list[Binding]:
    """The bindings from one holder of a chain to the next, and from the last to the queue."""
    destinations = [Destination.exchange(holder.name) for holder in holders[1:]]
    destinations.append(Destination.queue(chain.queue))
    return [
        Binding(holder.name, destination, step.key, step.arguments)
        for holder, destination, step in zip(holders, destinations, chain.steps, strict=True)
    ]


class Removal(Generic[Queue]):
    """One change that takes things away; then, exchanges that are not used any more and go by themselves."""

    def __init__(self, tables: Tables[Queue]) -> None:
        self._tables = tables
        self._removed = Removed()
        self._touched: list[str] = []  # Exchanges to which one thing less is bound.

    def exchange(self, exchange: Exchange) -> None:
        """Take an exchange away, with what is bound to it, and with its own bindings to others."""
        for chain in list(exchange.chains):
            self.chain(chain)
        for binding in list(exchange.bindings):
            self.binding(binding)
        self.bindings_to(Destination.exchange(exchange.name))
        del self._tables.exchanges[exchange.name]
        self._removed.exchanges.append(exchange)

    def bindings_to(self, destination: Destination) -> None:
        """Take away what leads somewhere."""
        for binding in list(self._tables.bound.get(destination, ())):
            self.binding(binding)

    def binding(self, binding: Binding) -> None:
        """Take a binding away that is there."""
        bound = self._tables.bound
        self._removed.bindings.append(self._tables.exchanges[binding.source].remove(binding))
        del bound[binding.destination][binding]
        if not bound[binding.destination]:
            del bound[binding.destination]
        self._touched.append(binding.source)

    def chain(self, chain: Chain) -> None:
        """Take a chain away that is there."""
        tables = self._tables
        first, *parts = tables.chains.pop(chain)
        first.remove(links(chain, (first, *parts))[0])
        for part in parts:
            del tables.exchanges[part.name]
        del tables.chains_to[chain.queue][chain]
        if not tables.chains_to[chain.queue]:
            del tables.chains_to[chain.queue]
        for name in dict.fromkeys(step.exchange for step in chain.steps):
            del tables.exchanges[name].chains[chain]
            self._touched.append(name)
        self._removed.chains.append(parts[0].part_of or chain)

    def finish(self) -> Removed:
        """Let those go that are left over; returns all that is gone."""
        while self._touched:
            exchange = self._tables.exchanges.get(self._touched.pop())
            if exchange is not None and exchange.settings.auto_delete and not exchange.is_used:
                self.exchange(exchange)
        return self._removed

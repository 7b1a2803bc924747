"""What routing means, said as plainly as possible: no index, no tree, every binding looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from amqpforge.broker.exchanges import Binding, Chain, Destination, DestinationKind

__all__ = ["Model", "fits", "meets"]


def fits(pattern: str, key: str) -> bool:
    """Whether a topic pattern fits a key."""
    return _fits(pattern.split(".") if pattern else [], key.split(".") if key else [])


def _fits(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    first, *rest = pattern
    if first == "#":
        return _fits(rest, words) or (bool(words) and _fits(pattern, words[1:]))
    return bool(words) and first in ("*", words[0]) and _fits(rest, words[1:])


def meets(arguments: Mapping[str, Any], headers: Mapping[str, Any]) -> bool:
    """Whether headers have what the arguments of a binding ask for."""
    mode = str(arguments.get("x-match", "all"))
    answers = [
        name in headers and (value is None or _same(value, headers[name]))
        for name, value in arguments.items()
        if name != "x-match" and ("with-x" in mode or not name.startswith("x-"))
    ]
    return any(answers) if mode.startswith("any") else all(answers)


def _same(one: object, other: object) -> bool:
    families = (bool, int | float, str, bytes)
    kinds = [
        next((family for family in families if isinstance(value, family)), None) for value in (one, other)
    ]
    if "Timestamp" in (type(one).__name__, type(other).__name__):
        return type(one) is type(other) and one == other
    return kinds[0] is kinds[1] and one == other


@dataclass
class Model:
    """Exchanges by name with their types, bindings and chains in lists."""

    types: dict[str, str]
    auto_delete: set[str] = field(default_factory=set[str])
    queues: set[str] = field(default_factory=set[str])
    bindings: list[Binding] = field(default_factory=list[Binding])
    chains: list[Chain] = field(default_factory=list[Chain])

    def holds(self, exchange: str, key: str, arguments: Mapping[str, Any], sent: tuple[str, Any]) -> bool:
        """Whether a message meets a condition in the way of an exchange."""
        match self.types[exchange]:
            case "direct":
                return key == sent[0]
            case "topic":
                return fits(key, sent[0])
            case "headers":
                return meets(arguments, sent[1])
            case _:
                return True

    def route(self, exchange: str, key: str, headers: Mapping[str, Any]) -> set[str]:
        """The queues that a message is for."""
        sent = (key, headers)
        if exchange == "":
            return self.queues & {key}
        reached, found = {exchange}, set[str]()
        for _ in self.types:
            for binding in self.bindings:
                if binding.source in reached and self.holds(
                    binding.source, binding.key, binding.arguments, sent
                ):
                    is_queue = binding.destination.kind is DestinationKind.QUEUE
                    (found if is_queue else reached).add(binding.destination.name)
        for chain in self.chains:
            if chain.steps[0].exchange in reached and all(
                self.holds(step.exchange, step.key, step.arguments, sent) for step in chain.steps
            ):
                found.add(chain.queue)
        return found

    def is_used(self, exchange: str) -> bool:
        return any(binding.source == exchange for binding in self.bindings) or any(
            step.exchange == exchange for chain in self.chains for step in chain.steps
        )

    def used(self) -> set[str]:
        return {name for name in self.types if self.is_used(name)}

    def prune(self, used: set[str]) -> None:
        """Exchanges that were used, and are not any more, may go by themselves."""
        while gone := [name for name in used & self.auto_delete if not self.is_used(name)]:
            self.drop(gone[0])

    def remove_queue(self, queue: str) -> None:
        self.queues.discard(queue)
        self.bindings = [
            binding for binding in self.bindings if binding.destination != Destination.queue(queue)
        ]
        self.chains = [chain for chain in self.chains if chain.queue != queue]

    def drop(self, exchange: str) -> None:
        """An exchange is gone, with all that names it."""
        del self.types[exchange]
        self.auto_delete.discard(exchange)
        self.bindings = [
            binding
            for binding in self.bindings
            if binding.source != exchange and binding.destination != Destination.exchange(exchange)
        ]
        self.chains = [
            chain for chain in self.chains if exchange not in [step.exchange for step in chain.steps]
        ]

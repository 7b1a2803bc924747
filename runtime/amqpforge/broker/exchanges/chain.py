"""Chained bindings: several conditions, each of one exchange's kind, that a message has to meet together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from amqpforge.broker.errors import InvalidArgument

from .binding import NO_ARGUMENTS
from .data import arguments_from_data, arguments_to_data, field
from .values import fingerprint

__all__ = ["MAX_STEPS", "Chain", "Step"]

MAX_STEPS = 16
"""How many conditions a chain may have."""


class Step:
    """One condition of a chain. It never changes.

    Attributes:
        exchange: the name of the exchange whose type says what the condition means.
        key: as in a binding to that exchange.
        arguments: likewise.

    Raises:
        InvalidArgument: an argument is no AMQP value.
    """

    __slots__ = ("arguments", "exchange", "identity", "key")

    def __init__(self, exchange: str, key: str = "", arguments: Mapping[str, Any] = NO_ARGUMENTS) -> None:
        self.exchange = exchange
        self.key = key
        self.arguments = MappingProxyType(dict(arguments)) if arguments else NO_ARGUMENTS
        self.identity = (exchange, key, fingerprint(arguments))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Step) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"Step({self.exchange!r}, {self.key!r:.80}, {dict(self.arguments)!r:.80})"


class Chain:
    """A queue takes what is published to the first exchange and meets the conditions of all steps.

    It never changes. Two are equal if they are for the same queue and have equal steps in the same order.

    Attributes:
        queue: the name of the queue.
        steps: two at least. The order of those behind the first makes no difference to what arrives.

    Raises:
        InvalidArgument: there are too few steps, or too many.
    """

    __slots__ = ("_identity", "queue", "steps")

    def __init__(self, queue: str, steps: Sequence[Step]) -> None:
        if not 2 <= len(steps) <= MAX_STEPS:
            raise InvalidArgument(f"a chain has 2 to {MAX_STEPS} steps, not {len(steps)}")
        self.queue = queue
        self.steps = tuple(steps)
        self._identity = (queue, *(step.identity for step in steps))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chain) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"<Chain of queue {self.queue!r}, {', '.join(map(repr, self.steps))}>"

    def to_data(self) -> dict[str, Any]:
        """JSON values that say all of it."""
        steps = [
            {"exchange": step.exchange, "key": step.key, "arguments": arguments_to_data(step.arguments)}
            for step in self.steps
        ]
        return {"queue": self.queue, "steps": steps}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Chain:
        """What ``to_data`` wrote.

        Raises:
            InvalidArgument: it did not write this.
        """
        steps: list[Step] = []
        for step in field(data, "steps", list):
            if not isinstance(step, dict):
                raise InvalidArgument(f"a step of a chain is an object, not {step!r:.80}")
            arguments = arguments_from_data(field(step, "arguments", dict))
            steps.append(Step(field(step, "exchange", str), field(step, "key", str), arguments))
        return cls(field(data, "queue", str), steps)

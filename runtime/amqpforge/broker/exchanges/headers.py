"""The headers type: the arguments of a binding are what the headers of a message have to hold.

``x-match`` says how many of them: ``all`` (also if it is not there), or ``any``. Other arguments that begin
with ``x-`` do not count, unless it is ``all-with-x`` or ``any-with-x``. An argument without a value asks only
that there is such a header.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from amqpforge.broker.errors import InvalidArgument

from .matcher import Matcher
from .values import Comparable, canonical

if TYPE_CHECKING:
    from amqpforge.broker.message import Message

    from .binding import Binding

__all__ = ["HeadersMatcher"]

_MATCH = "x-match"
_MODES = ("all", "any", "all-with-x", "any-with-x")
_EXISTS = ...
"""Stands where a value would, if any value will do; no AMQP value is canonically this."""

_Pair: TypeAlias = "tuple[str, Comparable]"
_Key: TypeAlias = "tuple[bool, frozenset[_Pair]]"


class _Condition:
    """What some bindings ask for, all the same."""

    __slots__ = ("bindings", "is_any", "pairs", "under")

    def __init__(self, is_any: bool, pairs: frozenset[_Pair]) -> None:
        self.is_any = is_any
        self.pairs = pairs
        self.under: list[_Pair] = []  # Where it is in the index.
        self.bindings: dict[Binding, None] = {}


class HeadersMatcher(Matcher):
    """Conditions, indexed so that only those are looked at that share a pair with the message.

    One that asks for any of its pairs is under each, and met as soon as it is found. One that asks for all is
    under the one that fewest others were under when it came, which a message has to hold in any case.
    """

    __slots__ = ("_conditions", "_index", "_unconditional")

    def __init__(self) -> None:
        self._conditions: dict[_Key, _Condition] = {}
        self._index: dict[_Pair, dict[_Condition, None]] = {}
        self._unconditional: dict[_Condition, None] = {}

    def validate(self, binding: Binding) -> None:
        super().validate(binding)
        _parse(binding.arguments)

    def add(self, binding: Binding) -> None:
        is_any, pairs = _parse(binding.arguments)
        key = is_any, frozenset(pairs)
        condition = self._conditions.get(key)
        if condition is None:
            condition = self._conditions[key] = _Condition(*key)
            if is_any:
                condition.under = pairs
            elif pairs:
                condition.under = [min(pairs, key=self._crowd)]
            else:
                self._unconditional[condition] = None
            for pair in condition.under:
                self._index.setdefault(pair, {})[condition] = None
        condition.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        is_any, pairs = _parse(binding.arguments)
        key = is_any, frozenset(pairs)
        condition = self._conditions[key]
        del condition.bindings[binding]
        if condition.bindings:
            return
        del self._conditions[key]
        self._unconditional.pop(condition, None)
        for pair in condition.under:
            conditions = self._index[pair]
            del conditions[condition]
            if not conditions:
                del self._index[pair]

    def match(self, message: Message) -> Iterable[Binding]:
        """The bindings whose condition the headers meet.

        Raises:
            ValueError: the payload of the message is not at hand.
        """
        if message.payload is None:
            raise ValueError(f"{message!r} is routed by its headers: its payload has to be read first")
        present = _pairs_of(message.form.headers(message.payload))
        met = dict(self._unconditional)
        for pair in present:
            for condition in self._index.get(pair, ()):
                if condition.is_any or present.keys() >= condition.pairs:
                    met[condition] = None
        return [binding for condition in met for binding in condition.bindings]

    def _crowd(self, pair: _Pair) -> tuple[int, bool]:
        """How many conditions are under a pair; of equals, one with a value is met less often."""
        return len(self._index.get(pair, ())), pair[1] is _EXISTS


def _parse(arguments: Mapping[str, Any]) -> tuple[bool, list[_Pair]]:
    """Whether any pair will do, and the pairs in the order of the arguments."""
    mode = arguments.get(_MATCH, "all")
    if not isinstance(mode, str) or mode not in _MODES:
        raise InvalidArgument(f"{_MATCH} is one of {', '.join(_MODES)}, not {mode!r:.80}")
    with_x = mode.endswith("-with-x")
    pairs = [
        (name, _EXISTS if value is None else canonical(value))
        for name, value in arguments.items()
        if name != _MATCH and (with_x or not name.startswith("x-"))
    ]
    return mode.startswith("any"), pairs


def _pairs_of(headers: Mapping[str, Any]) -> dict[_Pair, None]:
    """All that a message has for a condition; of values that cannot be compared, only that they are there."""
    pairs: dict[_Pair, None] = {}
    for name, value in headers.items():
        pairs[name, _EXISTS] = None
        try:
            pairs[name, canonical(value)] = None
        except InvalidArgument:
            continue
    return pairs

"""The direct type: the message's key equals the binding's, literally."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .matcher import Matcher

if TYPE_CHECKING:
    from amqpforge.broker.message import Message

    from .binding import Binding

__all__ = ["DirectMatcher"]


class DirectMatcher(Matcher):
    """Bindings by key; arguments do not count."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: dict[str, dict[Binding, None]] = {}

    def add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.key, {})[binding] = None

    def remove(self, binding: Binding) -> None:
        bindings = self._by_key[binding.key]
        del bindings[binding]
        if not bindings:
            del self._by_key[binding.key]

    def match(self, message: Message) -> Iterable[Binding]:
        return self._by_key.get(message.key, ())

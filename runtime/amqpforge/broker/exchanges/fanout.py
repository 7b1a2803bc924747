"""The fanout type: every message follows every binding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .matcher import Matcher

if TYPE_CHECKING:
    from amqpforge.broker.message import Message

    from .binding import Binding

__all__ = ["FanoutMatcher"]


class FanoutMatcher(Matcher):
    """Bindings in the order in which they came; neither key nor arguments count."""

    __slots__ = ("_bindings",)

    def __init__(self) -> None:
        self._bindings: dict[Binding, None] = {}

    def add(self, binding: Binding) -> None:
        self._bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        del self._bindings[binding]

    def match(self, message: Message) -> Iterable[Binding]:
        return self._bindings

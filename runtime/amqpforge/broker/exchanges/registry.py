"""The types of exchanges by name: the standard ones, and those that an application adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from amqpforge.broker.errors import NotAllowed, NotSupported
from amqpforge.broker.settings import ExchangeSettings

from .direct import DirectMatcher
from .fanout import FanoutMatcher
from .headers import HeadersMatcher
from .matcher import Matcher
from .topic import TopicMatcher
from .values import check_name

__all__ = ["ExchangeFactory", "exchange_types", "new_matcher", "register_exchange_type"]

ExchangeFactory: TypeAlias = Callable[[ExchangeSettings], Matcher]
"""Makes the matcher of a new exchange; raises InvalidArgument if its ``arguments`` mean nothing to it."""

_STANDARD: dict[str, ExchangeFactory] = {
    "direct": lambda settings: DirectMatcher(),
    "fanout": lambda settings: FanoutMatcher(),
    "headers": lambda settings: HeadersMatcher(),
    "topic": lambda settings: TopicMatcher(),
}
_added: dict[str, ExchangeFactory] = {}


def register_exchange_type(name: str, factory: ExchangeFactory) -> None:
    """Add a type of exchange for all brokers of this process.

    A type of one's own that has the name already is replaced; exchanges that there are stay as they are.

    Raises:
        InvalidArgument: nothing can be called so.
        NotAllowed: it is the name of a standard type.
    """
    check_name("a type of exchange", name)
    if name in _STANDARD:
        raise NotAllowed(f"{name!r} is a standard type of exchange: choose another name")
    _added[name] = factory


def exchange_types() -> tuple[str, ...]:
    """The names of all types, sorted."""
    return tuple(sorted([*_STANDARD, *_added]))


def new_matcher(settings: ExchangeSettings) -> Matcher:
    """The matcher of a new exchange.

    Raises:
        NotSupported: there is no such type.
        BrokerError: the type refuses the settings.
    """
    factory = _STANDARD.get(settings.type) or _added.get(settings.type)
    if factory is None:
        types = ", ".join(exchange_types())
        raise NotSupported(f"there is no type of exchange {settings.type[:80]!r}; there are {types}")
    return factory(settings)

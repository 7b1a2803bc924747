"""The filters of a source (section 3.5.8): selectors, of which there is one kind here."""

from __future__ import annotations

from typing import Any, Final

from amqpforge.broker.errors import InvalidArgument
from amqpforge.broker.selector import Selector, SelectorError
from amqpforge_protocol.amqp_1_0 import Described, Source, Symbol

__all__ = ["SELECTOR", "choose_filters"]

SELECTOR: Final = Symbol("apache.org:selector-filter:string")
"""The filter type that sources here support, as their capabilities tell."""

_SELECTOR_CODE: Final = 0x0000_468C_0000_0004


class _All:
    """Several selectors: a message has to pass each of them."""

    def __init__(self, selectors: list[Selector]) -> None:
        self._selectors = selectors

    def admits(self, facts: Any) -> bool:
        return all(selector.admits(facts) for selector in self._selectors)


def choose_filters(source: Source) -> tuple[dict[str, Any] | None, Selector | _All | None]:
    """The filters of a source that are supported, as its client wrote them; and all of them as one.

    Those of other types are left out: the client compares what it is told with what it needs.

    Raises:
        InvalidArgument: the value of a selector is no string, or no selector.
    """
    in_place: dict[str, Any] = {}
    selectors: list[Selector] = []
    for name, value in (source.filter or {}).items():
        if not isinstance(value, Described) or value.descriptor not in (SELECTOR, _SELECTOR_CODE):
            continue
        if not isinstance(value.value, str):
            raise InvalidArgument(
                f"the filter {str(name)!r:.80} is a {type(value.value).__name__}; a selector is a string"
            )
        try:
            selectors.append(Selector(str(value.value)))
        except SelectorError as error:
            raise InvalidArgument(f"the filter {str(name)!r:.80}: {error}") from error
        in_place[Symbol(name)] = value
    if not selectors:
        return None, None
    return in_place, selectors[0] if len(selectors) == 1 else _All(selectors)

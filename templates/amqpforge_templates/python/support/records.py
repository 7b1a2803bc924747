"""The decorator of the generated classes.

This module stays interpreted when the codec modules are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@recursive_repr()
def _repr(self: Any) -> str:
    held = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__field_names__])
    return f"{type(self).__qualname__}({held})"


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    names = self.__field_names__
    return [getattr(self, name) for name in names] == [getattr(other, name) for name in names]


@dataclass_transform()
def record(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """A dataclass with slots whose constants, named in capitals, are facts about the class and no fields.

    ``ClassVar`` says the same to ``dataclass``, but a compiler that evaluates annotations may lose it.
    ``__repr__`` and ``__eq__``, of which every dataclass gets its own, all records share: to compile one of
    each for every class takes half of the time of an import.
    """

    def make(kind: Any) -> Any:
        annotations: dict[str, Any] = kind.__annotations__
        for name in [name for name in annotations if name.isupper()]:
            del annotations[name]
        kind.__repr__, kind.__eq__, kind.__hash__ = _repr, _eq, None
        made = dataclass(slots=True, kw_only=kw_only, repr=False, eq=False)(kind)
        made.__field_names__ = tuple([member.name for member in fields(made)])
        return made

    return make

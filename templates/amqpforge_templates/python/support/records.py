"""The decorator of the generated classes.

This module stays interpreted when the codec modules are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform()
def record(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """A dataclass with slots whose constants, named in capitals, are facts about the class and no fields.

    ``ClassVar`` says the same to ``dataclass``, but a compiler that evaluates annotations may lose it.
    """

    def make(kind: Any) -> Any:
        annotations: dict[str, Any] = kind.__annotations__
        for name in [name for name in annotations if name.isupper()]:
            del annotations[name]
        return dataclass(slots=True, kw_only=kw_only)(kind)

    return make

"""Values without a counterpart in Python: described values, arrays, maps that a dict cannot hold, values of
unknown types.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID


@dataclass(slots=True)
class Described:
    """A value with a descriptor that this dialect does not know.

    Attributes:
        descriptor: a Symbol or a ULong; any other value is legal on the wire but reserved by the
            specification.
        value: the value that the descriptor annotates.
    """

    descriptor: Any
    value: Any


@dataclass(slots=True)
class Array:
    """A sequence whose elements all have one wire type.

    Attributes:
        items: the elements, each of the Python type that a free-standing value of ``element`` has.
        element: the specification's name of the element type, such as ``"symbol"``; ``"described"`` for
            elements that carry two or more descriptors; the code, such as ``"0x2f"``, for elements of a type
            that is not known.
        descriptor: the descriptor that all elements share, or None. Elements are then the values without it.
    """

    items: list[Any]
    element: str
    descriptor: Any = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value of a type that the dialect does not know, but whose width its type code tells.

    Attributes:
        code: the type code, 0 to 255.
        octets: the octets of the value, a size in front of them left out.
    """

    code: int
    octets: bytes


@dataclass(frozen=True, slots=True)
class UnknownStruct:
    """A struct of which the dialect has no definition.

    Attributes:
        code: the code of the struct, 0 to 65535.
        octets: what follows the code.
    """

    code: int
    octets: bytes


def identity(value: Any) -> Hashable:
    """A hashable stand-in that is equal for two values exactly when their wire type and value are equal.

    ``1``, ``UInt(1)``, ``True`` and ``1.0`` have four identities; so have ``0.0`` and ``-0.0`` two.
    """
    kind = type(value)
    if isinstance(value, float):
        return kind, struct.pack(">d", value)
    if isinstance(value, Decimal):
        return kind, str(value)
    if isinstance(value, UUID):  # hash(UUID) is no secret: a peer could make keys that all collide
        return kind, value.bytes
    if isinstance(value, (list, tuple)):
        return list, tuple([identity(item) for item in value])
    if isinstance(value, Mapping | Map):
        return dict, tuple([(identity(key), identity(item)) for key, item in value.items()])
    if is_dataclass(value):
        return kind, tuple([identity(getattr(value, member.name)) for member in fields(value)])
    return kind, value


class Map:
    """An ordered, dict-like map for keys that a dict would merge or cannot hash, or that could all collide.

    Keys are told apart by wire type and value: ``UInt(1)`` and ``ULong(1)`` are two keys. Look-ups take the
    key with its type; a plain ``int`` is a long. Iteration follows the order of insertion. Two maps, or a
    map and a dict, are equal when they hold the same keys with equal values, in any order.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, items: Iterable[tuple[Any, Any]] = ()) -> None:
        self._entries: dict[Hashable, tuple[Any, Any]] = {}
        for key, value in items:
            self[key] = value

    def __setitem__(self, key: Any, value: Any) -> None:
        self._entries[identity(key)] = (key, value)

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._entries[identity(key)][1]
        except KeyError:
            raise KeyError(key) from None

    def __delitem__(self, key: Any) -> None:
        try:
            del self._entries[identity(key)]
        except KeyError:
            raise KeyError(key) from None

    def __contains__(self, key: object) -> bool:
        return identity(key) in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return iter([key for key, _ in self._entries.values()])

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        entry = self._entries.get(identity(key))
        return default if entry is None else entry[1]

    def keys(self) -> list[Any]:
        """The keys, in order."""
        return [key for key, _ in self._entries.values()]

    def values(self) -> list[Any]:
        """The values, in the order of their keys."""
        return [value for _, value in self._entries.values()]

    def items(self) -> list[tuple[Any, Any]]:
        """The pairs of key and value, in order."""
        return list(self._entries.values())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Map, dict)):
            return NotImplemented
        if len(self) != len(other):
            return False
        pairs = {identity(key): value for key, value in other.items()}
        return all(ident in pairs and pairs[ident] == value for ident, (_, value) in self._entries.items())

    def __repr__(self) -> str:
        return f"Map({self.items()!r})"

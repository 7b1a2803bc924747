"""The usual forms of what travels: values that contain no others, and lists of fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyspark.sql.types import StructType

from .tagged import Family
from .wire import Constructor, Constructors

__all__ = ["FAMILIES", "Encodings", "Field", "FieldType", "Listed", "Marks", "Names"]

FAMILIES: Final[Mapping[str, Family]] = {
    "null": "null",
    "boolean": "bool",
    "ubyte": "long",
    "ushort": "long",
    "uint": "long",
    "ulong": "decimal",
    "byte": "long",
    "short": "long",
    "int": "long",
    "long": "long",
    "float": "double",
    "double": "double",
    "timestamp": "timestamp",
    "uuid": "string",
    "binary": "binary",
    "string": "string",
    "symbol": "string",
}
"""The types that are dealt with here, and the column of ``TAGGED`` that their values stand in."""


class Encodings:
    """How the values of a dialect travel.

    Attributes:
        constructors: of the types that are dealt with here.
        lists: the codes of the constructors of lists, with the octets of their size and of their count; 0:
            the list is empty.
        maps: the same of maps.
    """

    def __init__(
        self, single: Mapping[int, Constructor], lists: Mapping[int, int], maps: Mapping[int, int]
    ) -> None:
        """``single`` has the constructors of all values that contain no others, by code."""
        known = {code: one for code, one in single.items() if one.type in FAMILIES}
        self.constructors = Constructors(known)
        self.lists = lists
        self.maps = maps


@dataclass(frozen=True, slots=True)
class Names:
    """Values that have names.

    Attributes:
        type: the specification's name of their type.
        names: the name of each.
    """

    type: str
    names: Mapping[Any, str]


@dataclass(frozen=True, slots=True)
class Marks:
    """One of several described types; those that have no fields are dealt with here.

    Attributes:
        names: their names, by the codes of their descriptors.
    """

    names: Mapping[int, str]


FieldType: TypeAlias = str | Names | Marks | None
"""What is in a field: values of the type with this name, or with ``*`` of any type; values that have names;
described types; None: none are dealt with here.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a list.

    Attributes:
        type: what is in it.
        default: what is meant where it is not there; None: nothing.
        is_mandatory: whether it has to be there.
        most: octets of the value at most; None: any number.
    """

    type: FieldType
    default: object = None
    is_mandatory: bool = False
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A described list of fields.

    Attributes:
        code: of its descriptor.
        spark: the type of its column.
        fields: in their order.
    """

    code: int
    spark: StructType
    fields: tuple[Field, ...]

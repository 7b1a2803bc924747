"""What announces a content in the class/method dialects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql.types import ArrayType, DecimalType, IntegerType, StructField, StructType

from .columns import Lists, StructColumns, Tagged
from .tagged import TAGGED, Kinds

__all__ = ["CONTENT_FACTS", "CONTENT_STRUCTS", "ContentStructs"]

CONTENT_FACTS = [
    StructField("class_id", IntegerType()),
    StructField("body_size", DecimalType(20, 0)),
    StructField("weight", IntegerType()),
]
"""Of a content header: the class whose methods carry the content, the octets of its body, and the number of
contents in it.
"""

CONTENT_STRUCTS = StructType([StructField("structs", ArrayType(TAGGED))])
"""What describes a content by structs with codes."""


class ContentStructs(StructColumns):
    """The columns of ``CONTENT_STRUCTS``."""

    __slots__ = ()

    def __init__(self, kinds: Kinds) -> None:
        super().__init__(CONTENT_STRUCTS, [Lists(Tagged(kinds), TAGGED)])

    def fields(self, structs: Sequence[Any]) -> Iterable[Sequence[Any]]:
        """The structs of content headers."""
        return ([header.structs for header in structs],)

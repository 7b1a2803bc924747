"""What fits no column: values that are kept as JSON beside the row, and octets that could not be decoded."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from amqpforge_protocol._support.errors import CodecError

from .arrow import Array, arrow_type, nulls

__all__ = ["CORRUPT", "Corrupt", "Rest", "json_text"]

CORRUPT = StructType(
    [
        StructField("error", StringType()),
        StructField("type", StringType()),
        StructField("field", StringType()),
        StructField("offset", LongType()),
        StructField("octets", BinaryType()),
    ]
)
"""Octets that are not what they should be: the error, the specification's name of the type and of the field
it is about, the offset of the first octet that cannot be read (each null where it is not known), and the
octets themselves.
"""

_CORRUPT = arrow_type(CORRUPT)


def json_text(notation: object) -> str:
    """The JSON text of a value in the notation, without spaces."""
    return json.dumps(notation, ensure_ascii=False, separators=(",", ":"))


class Rest:
    """Values that fit no column, by their row and the path of the column."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, object]] = {}

    def add(self, row: int, path: str, notation: object) -> None:
        """Keep a value, in the notation."""
        self._rows.setdefault(row, {})[path] = notation

    def finish(self, count: int) -> Array:
        """The column of ``count`` rows: a JSON object by path, or null."""
        texts = {row: json_text(found) for row, found in self._rows.items()}
        self._rows.clear()
        return _sparse(texts, count, pa.string())


class Corrupt:
    """The octets that could not be decoded, by row."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[int, tuple[CodecError, bytes]] = {}

    def add(self, row: int, error: CodecError, octets: bytes) -> None:
        """Row number ``row`` holds ``octets`` that are wrong because of ``error``."""
        self._rows[row] = (error, octets)

    def finish(self, count: int) -> Array:
        """The column of ``count`` rows."""
        values = {
            row: {
                "error": error.reason,
                "type": error.type,
                "field": error.field,
                "offset": error.offset,
                "octets": octets,
            }
            for row, (error, octets) in self._rows.items()
        }
        self._rows.clear()
        return _sparse(values, count, _CORRUPT)


def _sparse(values: dict[int, Any], count: int, type_: Any) -> Array:
    if not values:
        return nulls(count, type_)
    return pa.array([values.get(row) for row in range(count)], type_)

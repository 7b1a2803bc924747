"""The body of a message as columns: octets, sequences of values, or one value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField

from .arrow import Array, arrow_type, nulls, spread
from .columns import offsets_of
from .tagged import TAGGED, Kinds, tagged_array

__all__ = ["BODY", "BodyColumns"]

BODY = [
    StructField("body_kind", StringType()),
    StructField("body", BinaryType()),
    StructField("body_sizes", ArrayType(LongType())),
    StructField("body_value", TAGGED),
    StructField("body_sequence", ArrayType(ArrayType(TAGGED))),
]
"""The columns of a body. ``body_kind`` is the specification's name of the section; null: there is no body.
``body`` has the octets of all data sections, one behind the other, and ``body_sizes`` their sizes where there
are several; ``body_value`` the value of an amqp-value; ``body_sequence`` a list of values for each
amqp-sequence.
"""

_BINARY, _SIZES = arrow_type(BinaryType()), arrow_type(ArrayType(LongType()))
_SEQUENCES = arrow_type(ArrayType(ArrayType(TAGGED)))
_SEQUENCE = arrow_type(ArrayType(TAGGED))


class BodyColumns:
    """Takes the bodies of messages, one by one."""

    __slots__ = (
        "_data",
        "_kinds",
        "_names",
        "_octets",
        "_rows",
        "_sequence",
        "_sequences",
        "_single",
        "_sizes",
        "_values",
    )

    def __init__(self, data: Any, sequence: Any, single: Any, kinds: Kinds) -> None:
        """``data``, ``sequence`` and ``single`` are the classes of the sections of a body."""
        self._data, self._sequence, self._single, self._kinds = data, sequence, single, kinds
        self._names = {kind: kind.XML_NAME for kind in (data, sequence, single)}
        self._rows: list[str | None] = []
        self._octets: list[bytes | None] = []
        self._sizes: list[list[int] | None] = []
        self._values: list[Any] = []
        self._sequences: list[list[Any]] = []

    def append(self, body: Any) -> None:
        """Take the body of the next row: a list of data or of sequences, a value, or None."""
        octets = sizes = None
        if type(body) is not list:
            self._rows.append(self._names.get(type(body)))
            if body is not None:
                self._values.append(body.value)
        elif type(body[0]) is self._data:
            self._rows.append(self._names[self._data])
            if len(body) == 1:
                octets = body[0].value
            else:
                octets = b"".join([section.value for section in body])
                sizes = [len(section.value) for section in body]
        else:
            self._rows.append(self._names[type(body[0])])
            self._sequences.append([section.value for section in body])
        self._octets.append(octets)
        self._sizes.append(sizes)

    def finish(self) -> list[Array]:
        """The arrays of all rows; the columns are empty then."""
        rows = self._rows
        arrays = [
            pa.array(rows, pa.string()),
            pa.array(self._octets, _BINARY),
            nulls(len(rows), _SIZES) if not any(self._sizes) else pa.array(self._sizes, _SIZES),
            self._spread(
                self._single, self._values, tagged_array(self._values, self._kinds, null_is_absent=False)
            ),
            self._spread(self._sequence, self._sequences, self._sequence_array()),
        ]
        for column in (rows, self._octets, self._sizes, self._values, self._sequences):
            column.clear()
        return arrays

    def _spread(self, section: Any, values: list[Any], array: Array) -> Array:
        """The array of the values of the rows that have a section of this class."""
        name = self._names[section]
        return spread(array, [row == name for row in self._rows] if values else [False] * len(self._rows))

    def _sequence_array(self) -> Array:
        sections = [section for row in self._sequences for section in row]
        values = [value for section in sections for value in section]
        tagged = tagged_array(values, self._kinds, null_is_absent=False)
        inner = pa.ListArray.from_arrays(offsets_of([*map(len, sections)]), tagged, type=_SEQUENCE)
        outer = offsets_of([*map(len, self._sequences)])
        return pa.ListArray.from_arrays(outer, inner, type=_SEQUENCES)

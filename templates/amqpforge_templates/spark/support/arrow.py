"""Arrow beside Spark: the Arrow type of a Spark type, and arrays with room between their values.

A Python data source hands Spark record batches whose schema has to equal the one that Spark makes of the
``StructType``, names and nullability of nested fields included; `arrow_type` makes the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

__all__ = ["Array", "Batch", "Schema", "arrow_schema", "arrow_type", "compute", "nulls", "spread"]

# pyarrow has no types of its own for the checkers, so what it makes is Any to them; these say what is meant.
Array = Any
"""A ``pyarrow.Array``."""

Batch = Any
"""A ``pyarrow.RecordBatch``."""

Schema = Any
"""A ``pyarrow.Schema``."""

compute: Any = pc
"""The module ``pyarrow.compute``, whose functions are made when it is imported."""

_PLAIN: dict[type[DataType], Any] = {
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    DoubleType: pa.float64(),
    FloatType: pa.float32(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    ShortType: pa.int16(),
    StringType: pa.string(),
    TimestampType: pa.timestamp("us", "UTC"),
}


def arrow_type(spark: DataType) -> Any:
    """The ``pyarrow.DataType`` that Spark takes for ``spark`` when times are in UTC.

    Raises:
        TypeError: no column of this package has the type.
    """
    if isinstance(spark, StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in spark.fields])
    if isinstance(spark, MapType):
        key = pa.field("key", arrow_type(spark.keyType), nullable=False)
        return pa.map_(key, pa.field("value", arrow_type(spark.valueType)))
    if isinstance(spark, ArrayType):
        return pa.list_(pa.field("element", arrow_type(spark.elementType)))
    if isinstance(spark, DecimalType):
        return pa.decimal128(spark.precision, spark.scale)
    plain = _PLAIN.get(type(spark))
    if plain is None:
        raise TypeError(f"{spark.simpleString()} is the type of no column here")
    return plain


def arrow_schema(spark: StructType) -> Schema:
    """The ``pyarrow.Schema`` that Spark takes for the rows of ``spark``."""
    return pa.schema(list(arrow_type(spark)))


def nulls(count: int, kind: Any) -> Array:
    """An array of nulls of an Arrow type, without anything below its lists and maps.

    Those that pyarrow makes of such types have room below for elements that are not there, which is written
    wherever they go: most columns of most rows are null, so that it would be most of what Spark has to read.
    """
    if not pa.types.is_nested(kind):
        return pa.nulls(count, kind)
    return _many_nulls(1 << count.bit_length(), kind).slice(0, count)


@lru_cache(maxsize=256)
def _many_nulls(count: int, kind: Any) -> Array:
    """As `nulls`; nearly all batches have as many rows, and the same columns without values."""
    buffers = [pa.py_buffer(bytes((count + 7) // 8))]
    if pa.types.is_struct(kind):
        children = [nulls(count, field.type) for field in kind]
    else:
        buffers.append(pa.py_buffer(bytes(4 * (count + 1))))
        children = [pa.array([], _element(kind))]
    return pa.Array.from_buffers(kind, count, buffers, null_count=count, children=children)


def _element(kind: Any) -> Any:
    """The type of what a list or a map has: a map has pairs."""
    if not pa.types.is_map(kind):
        return kind.value_type
    return pa.struct([kind.key_field, kind.item_field])


def spread(array: Array, present: Sequence[bool] | Array) -> Array:
    """The values of ``array`` where ``present`` is true, in their order, and nulls elsewhere.

    ``present`` has as many true values as ``array`` has values; it may be an array itself.
    """
    if len(array) == len(present):
        return array
    mask: Array = pa.array(present, pa.bool_())
    places = compute.subtract(compute.cumulative_sum(mask.cast(pa.int32())), 1)
    return _taken(array, compute.if_else(mask, places, None))


def _taken(array: Array, places: Array) -> Array:
    """The values at these places; a null place is a null. Most fields of most structs are null everywhere:
    those cost nothing here.
    """
    if array.null_count == len(array):
        return nulls(len(places), array.type)
    if not pa.types.is_struct(array.type):
        return array.take(places)
    fields = [_taken(array.field(number), places) for number in range(array.type.num_fields)]
    missing = compute.invert(array.is_valid().take(places).fill_null(False))
    return pa.StructArray.from_arrays(fields, fields=list(array.type), mask=missing)

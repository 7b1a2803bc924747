"""Which columns a table may have to be written, and of which types: judged before anything is sent.

The columns are those that the source gives, so that rows that were read can be written, and besides them the
fields of header and properties as columns of their own.
"""

from __future__ import annotations

from typing import Final

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
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from amqpforge_spark.amqp_1_0 import MESSAGE

from .errors import ColumnError

__all__ = ["BODIES", "FLAT", "SECTIONS", "TAGGED", "check_table"]

TAGGED: Final = MESSAGE["body_value"].dataType
"""How the source gives a value of any type."""

_ENVELOPE: Final = frozenset(("address", "link", "delivery_tag", "received_at", "message_format", "_corrupt"))
"""Columns of the source that are about a delivery, and no part of the message."""
_COLUMNS: Final[dict[str, DataType]] = {field.name: field.dataType for field in MESSAGE.fields}

SECTIONS: Final = frozenset(_COLUMNS) - _ENVELOPE
"""The columns of the source that are parts of a message."""


def _flat() -> dict[str, str]:
    found: dict[str, str] = {}
    for section in ("header", "properties"):
        of = _COLUMNS[section]
        if isinstance(of, StructType):
            found |= dict.fromkeys(of.fieldNames(), section)
    return found


FLAT: Final = _flat()
"""The fields that may be columns of their own, with the section that each belongs to."""

BODIES: Final = ("body", "body_value", "body_sequence")
_NUMBERS: Final = (ByteType, ShortType, IntegerType, LongType)
_PLAIN: Final = (StringType, BinaryType, BooleanType, *_NUMBERS, FloatType, DoubleType, TimestampType)
_ANY: Final = (
    "string, binary, boolean, byte to long, float, double, timestamp, decimal to (20,0), the source's struct"
)


def check_table(schema: StructType, *, has_address: bool) -> None:
    """Check that each row of a table can become a message.

    Args:
        schema: of the table.
        has_address: whether all messages go to one address, so that there need not be a column for it.

    Raises:
        ColumnError: a column is not known, or has a type that does not fit; or there is no address.
    """
    problems: list[str] = []
    names = schema.fieldNames()
    problems += [
        f"there are two columns {name!r}" for name in sorted({n for n in names if names.count(n) > 1})
    ]
    for field in schema.fields:
        problems += _problems(field.name, field.dataType, names)
    if not any(name in names for name in BODIES):
        problems.append(f"it has no column of a body: {', '.join(BODIES)}")
    if not has_address and "address" not in names:
        problems.append("it has no column 'address' (string), and there is no option address")
    if problems:
        raise ColumnError(problems)


def _problems(name: str, given: DataType, names: list[str]) -> list[str]:
    """What is wrong with a column."""
    wanted = _COLUMNS.get(name)
    if wanted is None:
        section = FLAT.get(name)
        of = _COLUMNS.get(section or "")
        if section is None or not isinstance(of, StructType):
            return [
                f"column {name!r} ({given.simpleString()}) has no place in a message; possible are {_KNOWN}"
            ]
        wanted = of[name].dataType
        if section in names:
            return [f"column {name!r} is a part of column {section!r}: leave one of them out"]
    elif name == "body" and isinstance(given, StringType):
        return []
    return list(_misfits(name, given, wanted))


_KNOWN: Final = ", ".join([*(name for name in _COLUMNS if name in SECTIONS | {"address"}), *FLAT])


def _misfits(path: str, given: DataType, wanted: DataType) -> list[str]:
    """Where a type does not fit the one that is wanted."""
    if isinstance(given, NullType) or given == wanted:
        return []
    if wanted == TAGGED and (isinstance(given, _PLAIN) or _is_ulong(given)):
        return []
    if isinstance(wanted, StructType) and isinstance(given, StructType):
        return _misfits_of_fields(path, given, wanted)
    if isinstance(wanted, MapType) and isinstance(given, MapType):
        keys = _misfits(f"{path}.key", given.keyType, wanted.keyType)
        return keys + _misfits(f"{path}.value", given.valueType, wanted.valueType)
    if isinstance(wanted, ArrayType) and isinstance(given, ArrayType):
        return _misfits(f"{path}.element", given.elementType, wanted.elementType)
    if isinstance(wanted, _NUMBERS) and isinstance(given, _NUMBERS):
        return []
    if type(given) is type(wanted) and not isinstance(given, DecimalType):
        return []
    possible = "string or binary" if path == "body" else _shown(wanted)
    return [f"column {path!r} is {given.simpleString()}; possible is {possible}"]


def _misfits_of_fields(path: str, given: StructType, wanted: StructType) -> list[str]:
    found: list[str] = []
    possible = wanted.fieldNames()
    if wanted == TAGGED and "kind" not in given.fieldNames():
        found.append(f"column {path!r} is a struct without the field 'kind'; possible is {_ANY}")
    for field in given.fields:
        if field.name not in possible:
            found.append(f"column {path!r} has a field {field.name!r}; possible are {', '.join(possible)}")
        else:
            found += _misfits(f"{path}.{field.name}", field.dataType, wanted[field.name].dataType)
    return found


def _is_ulong(given: DataType) -> bool:
    return isinstance(given, DecimalType) and given.scale == 0 and given.precision <= 20


def _shown(wanted: DataType) -> str:
    """A type, as people read it."""
    if wanted == TAGGED:
        return _ANY
    if isinstance(wanted, MapType):
        return f"map<{_shown(wanted.keyType)}, any of {_shown(wanted.valueType)}>"
    if isinstance(wanted, StructType):
        return f"struct with any of the fields {', '.join(wanted.fieldNames())}"
    if isinstance(wanted, ArrayType):
        return f"array<{_shown(wanted.elementType)}>"
    return wanted.simpleString()

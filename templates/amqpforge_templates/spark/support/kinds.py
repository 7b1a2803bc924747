"""How the values of dialects are tagged: of those with constructors, and of those with type codes."""

from __future__ import annotations

from decimal import Decimal
from types import ModuleType, NoneType
from typing import Any
from uuid import UUID

from amqpforge.coded_notation import CodedNotation
from amqpforge.notation import to_json
from amqpforge_protocol._support.composite import FieldInfo
from amqpforge_protocol._support.wrappers import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Float,
    Int,
    PosixTime,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

from .tagged import Family, Kinds

__all__ = ["CONSTRUCTED", "coded_kinds"]

_CONSTRUCTED: dict[type, tuple[str | None, Family]] = {
    NoneType: ("null", "null"),
    bool: ("boolean", "bool"),
    UByte: ("ubyte", "long"),
    UShort: ("ushort", "long"),
    UInt: ("uint", "long"),
    ULong: ("ulong", "decimal"),
    Byte: ("byte", "long"),
    Short: ("short", "long"),
    Int: ("int", "long"),
    int: ("long", "long"),
    Float: ("float", "double"),
    float: ("double", "double"),
    Decimal32: ("decimal32", "string"),
    Decimal64: ("decimal64", "string"),
    Decimal: ("decimal128", "string"),
    Char: ("char", "string"),
    Timestamp: ("timestamp", "timestamp"),
    UUID: ("uuid", "string"),
    bytes: ("binary", "binary"),
    str: ("string", "string"),
    Symbol: ("symbol", "string"),
}


def _constructed_name(value: Any) -> str:
    notation = to_json(value)
    name: str = notation["type"]
    return name


CONSTRUCTED = Kinds(_CONSTRUCTED, _constructed_name, to_json)
"""AMQP 1.0: every value has a constructor, and every type a Python type."""

_CODED: dict[type, tuple[str | None, Family]] = {
    NoneType: (None, "null"),
    bool: (None, "bool"),
    int: (None, "long"),
    ULong: (None, "decimal"),
    float: (None, "double"),
    str: (None, "string"),
    Decimal: (None, "string"),
    UUID: (None, "string"),
    bytes: (None, "binary"),
    Timestamp: (None, "timestamp"),
    PosixTime: (None, "timestamp"),
}


def coded_kinds(dialect: ModuleType) -> Kinds:
    """How the values of a dialect are tagged whose types are told by the code under which a value travels.

    ``dialect`` is its generated package.
    """
    writer = CodedNotation(dialect)
    names: dict[int, str] = dialect.values.ELEMENT_NAMES

    def name(value: Any) -> str:
        code: int = dialect.encode_value(value)[0]
        return names.get(code) or f"0x{code:02x}"

    def notation(value: Any) -> object:
        info = FieldInfo("value", "value", "any", name(value))
        return writer.fields([(info, value)])["value"]

    return Kinds(_CODED, name, notation)

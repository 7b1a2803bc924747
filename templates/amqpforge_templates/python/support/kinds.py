"""All wrapper types, for those who have to tell them from plain values.

A dialect without the type that a wrapper means must not take it for the plain value that it derives from.
"""

from __future__ import annotations

from . import wrappers
from .serial import SerialNumber

WRAPPERS: frozenset[type] = frozenset(
    (
        *(wrappers.Bit, wrappers.Byte, wrappers.Char, wrappers.CodedBytes, wrappers.CodedDecimal),
        *(wrappers.CodedInt, wrappers.CodedStr, wrappers.Decimal32, wrappers.Decimal64, wrappers.Float),
        *(wrappers.Int, wrappers.Long, wrappers.PosixTime, SerialNumber, wrappers.Short, wrappers.Symbol),
        *(wrappers.Timestamp, wrappers.UByte, wrappers.UInt, wrappers.ULong, wrappers.UShort),
    )
)

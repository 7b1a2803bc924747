"""Values of every type of AMQP 1.0 as tests use them: by kind, the ends of the range among them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import amqpforge_protocol.amqp_1_0 as amqp

VALUES: dict[str, list[Any]] = {
    "null": [None],
    "boolean": [True, False],
    "ubyte": [amqp.UByte(0), amqp.UByte(255)],
    "ushort": [amqp.UShort(0), amqp.UShort(2**16 - 1)],
    "uint": [amqp.UInt(0), amqp.UInt(2**32 - 1)],
    "ulong": [amqp.ULong(0), amqp.ULong(2**64 - 1)],
    "byte": [amqp.Byte(-128), amqp.Byte(127)],
    "short": [amqp.Short(-(2**15)), amqp.Short(2**15 - 1)],
    "int": [amqp.Int(-(2**31)), amqp.Int(2**31 - 1)],
    "long": [-(2**63), 2**63 - 1],
    "float": [amqp.Float(0.5), amqp.Float("inf"), amqp.Float("-0.0")],
    "double": [0.1, float("-inf"), -0.0, 5e-324],
    "decimal32": [amqp.Decimal32("1.50"), amqp.Decimal32("-0E+3"), amqp.Decimal32("9999999E90")],
    "decimal64": [amqp.Decimal64("0.1"), amqp.Decimal64("NaN"), amqp.Decimal64("-Infinity")],
    "decimal128": [Decimal("1E-6176"), Decimal("9" * 34), Decimal("Infinity")],
    "char": [amqp.Char("a"), amqp.Char("\U0010ffff")],
    "timestamp": [amqp.Timestamp(0), amqp.Timestamp(-1), amqp.Timestamp(1_700_000_000_123)],
    "uuid": [UUID(int=0), UUID(int=2**128 - 1)],
    "binary": [b"", bytes(range(256))],
    "string": ["", "größer \U0001f600"],
    "symbol": [amqp.Symbol(""), amqp.Symbol("amqp:x")],
    "list": [[], [1, [amqp.UInt(2), None]]],
    "map": [{}, {"a": {amqp.Symbol("b"): [1]}}],
    "array": [amqp.Array([amqp.UInt(1)], "uint"), amqp.Array([], "symbol")],
    "described": [amqp.Described(amqp.Symbol("x:y"), [1, "a"])],
}

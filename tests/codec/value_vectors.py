"""Values behind their type codes, written down octet by octet from what the documents say about each type.

A value stands for itself by type, code and number: two are alike when they print alike (wrappers print what
tells them apart, see :mod:`amqpforge_protocol._support.wrappers`).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from amqpforge_protocol import amqp_0_9_1, amqp_0_10_preview, amqp_1_0_draft
from amqpforge_protocol._support.containers import Array, Opaque, UnknownStruct
from amqpforge_protocol._support.serial import SerialNumber
from amqpforge_protocol._support.wrappers import (
    Bit,
    Byte,
    Char,
    CodedBytes,
    CodedDecimal,
    CodedInt,
    CodedStr,
    Float,
    Long,
    PosixTime,
    Short,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)


class Vector(NamedTuple):
    """A value of a dialect, and its octets, the type code first."""

    dialect: Any
    octets: bytes
    value: Any

    def __str__(self) -> str:
        return f"{self.dialect.__name__.rpartition('.')[2]}-{self.octets[:8].hex()}"


IDENTIFIER = UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")  # the example of RFC 4122, section 3
IDENTIFIER_OCTETS = b"\xf8\x1d\x4f\xae\x7d\xec\x11\xd0\xa7\x65\x00\xa0\xc9\x1e\x6b\xf6"

# AMQP 0-9-1, section 4.2.5.5, with the letters that RabbitMQ settled on.
LETTERS: list[tuple[bytes, Any]] = [
    (b"t\x00", False),
    (b"t\x01", True),
    (b"b\xff", Byte(-1)),
    (b"b\x80", Byte(-128)),
    (b"B\xff", UByte(255)),
    (b"B\x00", UByte(0)),
    (b"s\x80\x00", Short(-32768)),
    (b"s\x7f\xff", Short(32767)),
    (b"u\xff\xff", UShort(65535)),
    (b"I\xff\xff\xff\xff", -1),
    (b"I\x80\x00\x00\x00", -2147483648),
    (b"I\x7f\xff\xff\xff", 2147483647),
    (b"i\xff\xff\xff\xff", UInt(4294967295)),
    (b"l\x00\x00\x00\x00\x80\x00\x00\x00", 2147483648),
    (b"l\xff\xff\xff\xff\x7f\xff\xff\xff", -2147483649),
    (b"l\x80\x00\x00\x00\x00\x00\x00\x00", -9223372036854775808),
    (b"l\x00\x00\x00\x00\x00\x00\x00\x01", Long(1)),
    (b"l\xff\xff\xff\xff\xff\xff\xff\xff", Long(-1)),
    (b"L\x00\x00\x00\x00\x00\x00\x00\x01", CodedInt(1, 0x4C)),
    (b"f\x3f\xc0\x00\x00", Float(1.5)),
    (b"d\x3f\xf8\x00\x00\x00\x00\x00\x00", 1.5),
    (b"d\x80\x00\x00\x00\x00\x00\x00\x00", -0.0),
    (b"d\x7f\xf0\x00\x00\x00\x00\x00\x00", float("inf")),
    (b"d\x7f\xf8\x00\x00\x00\x00\x00\x00", float("nan")),
    (b"D\x02\x00\x00\x30\x39", Decimal("123.45")),
    (b"D\x02\x00\x00\x00\x96", Decimal("1.50")),
    (b"D\x00\xff\xff\xff\xff", Decimal(-1)),
    (b"D\xff\x7f\xff\xff\xff", Decimal("2147483647E-255")),
    (b"S\x00\x00\x00\x00", ""),
    (b"S\x00\x00\x00\x03abc", "abc"),
    (b"S\x00\x00\x00\x02\xc3\xa9", "é"),
    (b"S\x00\x00\x00\x02\xff\xfe", CodedBytes(b"\xff\xfe", 0x53)),
    (b"A\x00\x00\x00\x00", []),
    (b"A\x00\x00\x00\x08I\x00\x00\x00\x01t\x01V", [1, True, None]),
    (b"T\x00\x00\x00\x00\x65\x92\x00\x80", PosixTime(1704067200)),
    (b"T\xff\xff\xff\xff\xff\xff\xff\xff", PosixTime(2**64 - 1)),
    (b"F\x00\x00\x00\x00", {}),
    (b"F\x00\x00\x00\x0e\x01aI\x00\x00\x00\x05\x02\xc3\xa9t\x00\x00V", {"a": 5, "é": False, "": None}),
    (b"V", None),
    (b"x\x00\x00\x00\x00", b""),
    (b"x\x00\x00\x00\x02\x00\xff", b"\x00\xff"),
]

# What the constants of the class field-table-type and the types of the draft (section 6) have in common.
SHARED: list[tuple[bytes, Any]] = [
    (b"\x00A", CodedBytes(b"A", 0x00)),
    (b"\x01\x80", Byte(-128)),
    (b"\x01\xff", Byte(-1)),
    (b"\x02\xff", UByte(255)),
    (b"\x04\xa4", CodedStr("€", 0x04)),  # the euro sign in ISO 8859-15
    (b"\x08\x00", False),
    (b"\x08\x01", True),
    (b"\x10AB", CodedBytes(b"AB", 0x10)),
    (b"\x11\x80\x00", Short(-32768)),
    (b"\x12\xff\xff", UShort(65535)),
    (b"\x20ABCD", CodedBytes(b"ABCD", 0x20)),
    (b"\x21\xff\xff\xff\xff", -1),
    (b"\x21\x7f\xff\xff\xff", 2147483647),
    (b"\x22\xff\xff\xff\xff", UInt(4294967295)),
    (b"\x23\x3f\xc0\x00\x00", Float(1.5)),
    (b"\x27\x00\x01\xf6\x00", Char("\U0001f600")),
    (b"\x30ABCDEFGH", CodedBytes(b"ABCDEFGH", 0x30)),
    (b"\x31\x00\x00\x00\x00\x80\x00\x00\x00", 2147483648),
    (b"\x31\x80\x00\x00\x00\x00\x00\x00\x00", -9223372036854775808),
    (b"\x31\xff\xff\xff\xff\xff\xff\xff\xff", Long(-1)),
    (b"\x32\x00\x00\x00\x00\x00\x00\x00\x01", ULong(1)),
    (b"\x32\x80\x00\x00\x00\x00\x00\x00\x00", 9223372036854775808),
    (b"\x33\x3f\xf8\x00\x00\x00\x00\x00\x00", 1.5),
    (b"\x40" + bytes(range(16)), CodedBytes(bytes(range(16)), 0x40)),
    (b"\x48" + IDENTIFIER_OCTETS, IDENTIFIER),
    (b"\x50" + bytes(range(32)), CodedBytes(bytes(range(32)), 0x50)),
    (b"\x60" + bytes(range(64)), CodedBytes(bytes(range(64)), 0x60)),
    (b"\x70" + bytes(range(128)), CodedBytes(bytes(range(128)), 0x70)),
    (b"\x80\x00", b""),
    (b"\x80\x02AB", b"AB"),
    (b"\x84\x02\xa4x", CodedStr("€x", 0x84)),
    (b"\x85\x00", ""),
    (b"\x85\x03\xe2\x82\xac", "€"),
    (
        b"\x86\x04\xd8\x3d\xde\x00",
        CodedStr("\U0001f600", 0x86),
    ),  # a surrogate pair: four octets, one character
    (b"\x90\x00\x02AB", CodedBytes(b"AB", 0x90)),
    (b"\x90\x01\x00" + bytes(256), bytes(256)),
    (b"\x94\x00\x01\xa4", CodedStr("€", 0x94)),
    (b"\x95\x00\x01a", CodedStr("a", 0x95)),
    (b"\x95\x01\x00" + b"a" * 256, "a" * 256),
    (b"\x96\x00\x02\x20\xac", CodedStr("€", 0x96)),
    (b"\xa0\x00\x00\x00\x02AB", CodedBytes(b"AB", 0xA0)),
    (b"\xa0\x00\x01\x00\x00" + bytes(65536), bytes(65536)),
    (b"\xc0ABCDE", CodedBytes(b"ABCDE", 0xC0)),
    (b"\xc8\x02\x00\x00\x30\x39", Decimal("123.45")),
    (b"\xc8\x00\x80\x00\x00\x00", Decimal(-2147483648)),
    (b"\xd0ABCDEFGHI", CodedBytes(b"ABCDEFGHI", 0xD0)),
    (b"\xd8\x01\x00\x00\x00\x00\x00\x00\x00\x0f", CodedDecimal("1.5", 0xD8)),
    (b"\xd8\x00\x00\x00\x00\x00\x80\x00\x00\x00", Decimal(2147483648)),
    (b"\xf0", None),
]

# What only the preview has.
PREVIEW: list[tuple[bytes, Any]] = [
    (b"\x38\x00\x00\x00\x00\x65\x92\x00\x80", PosixTime(1704067200)),
    (b"\x87\x04\x00\x01\xf6\x00", CodedStr("\U0001f600", 0x87)),
    (b"\x97\x00\x04\x00\x00\x20\xac", CodedStr("€", 0x97)),
    (b"\xa4\x00\x00\x00\x01\xa4", CodedStr("€", 0xA4)),
    (b"\xa5\x00\x00\x00\x01a", CodedStr("a", 0xA5)),
    (b"\xa5\x00\x01\x00\x00" + b"a" * 65536, "a" * 65536),
    (b"\xa6\x00\x00\x00\x02\x20\xac", CodedStr("€", 0xA6)),
    (b"\xa7\x00\x00\x00\x04\x00\x00\x20\xac", CodedStr("€", 0xA7)),
    (b"\xa8\x00\x00\x00\x00", {}),
    (b"\xa8\x00\x00\x00\x0b\x01a\x21\x00\x00\x00\x05\x01b\x08\x01", {"a": 5, "b": True}),
    (b"\xa9\x00\x00\x00\x00", []),
    (b"\xa9\x00\x00\x00\x06\x08\x01\x85\x01a\xf0", [True, "a", None]),
    (b"\x85\x02\xff\xfe", CodedBytes(b"\xff\xfe", 0x85)),
    (b"\xaa\x00\x00\x00\x05\x21\x00\x00\x00\x00", Array([], "field-table-signed-int")),
    (
        b"\xaa\x00\x00\x00\x0d\x21\x00\x00\x00\x02\x00\x00\x00\x01\xff\xff\xff\xff",
        Array([1, -1], "field-table-signed-int"),
    ),
]

# What only the draft has: a count in maps and lists (6.12.2, 6.12.3), types and codes without a type (6).
DRAFT: list[tuple[bytes, Any]] = [
    (b"\x28\xff\xff\xff\xff", SerialNumber(4294967295)),
    (b"\x38\x00\x00\x01\x8c\xc2\x51\xf4\x00", Timestamp(1704067200000)),
    (b"\x38\xff\xff\xff\xff\xff\xff\xff\xff", Timestamp(-1)),
    (b"\xa8\x00\x00\x00\x04\x00\x00\x00\x00", {}),
    (b"\xa8\x00\x00\x00\x0f\x00\x00\x00\x02\x01a\x21\x00\x00\x00\x05\x01b\x08\x01", {"a": 5, "b": True}),
    (b"\xa9\x00\x00\x00\x04\x00\x00\x00\x00", []),
    (b"\xa9\x00\x00\x00\x0a\x00\x00\x00\x03\x08\x01\x85\x01a\xf0", [True, "a", None]),
    (b"\xaa\x00\x00\x00\x05\x21\x00\x00\x00\x00", Array([], "int32")),
    (b"\xaa\x00\x00\x00\x0d\x21\x00\x00\x00\x02\x00\x00\x00\x01\xff\xff\xff\xff", Array([1, -1], "int32")),
    (b"\xab\x00\x00\x00\x05\xfe\xdcabc", UnknownStruct(0xFEDC, b"abc")),
    (b"\xaa\x00\x00\x00\x05\xf0\x00\x00\x00\x03", Array([None, None, None], "void")),
    (
        b"\xaa\x00\x00\x00\x09\x13\x00\x00\x00\x02ABCD",
        Array([Opaque(0x13, b"AB"), Opaque(0x13, b"CD")], "0x13"),
    ),
    (b"\xf1", Bit()),
    (b"\x0fA", Opaque(0x0F, b"A")),
    (b"\x13AB", Opaque(0x13, b"AB")),
    (b"\x2fABCD", Opaque(0x2F, b"ABCD")),
    (b"\x34ABCDEFGH", Opaque(0x34, b"ABCDEFGH")),
    (b"\x41" + bytes(16), Opaque(0x41, bytes(16))),
    (b"\x51" + bytes(32), Opaque(0x51, bytes(32))),
    (b"\x61" + bytes(64), Opaque(0x61, bytes(64))),
    (b"\x71" + bytes(128), Opaque(0x71, bytes(128))),
    (b"\x81\x02AB", Opaque(0x81, b"AB")),
    (b"\x91\x00\x02AB", Opaque(0x91, b"AB")),
    (b"\xa1\x00\x00\x00\x02AB", Opaque(0xA1, b"AB")),
    (b"\xc1ABCDE", Opaque(0xC1, b"ABCDE")),
    (b"\xd1ABCDEFGHI", Opaque(0xD1, b"ABCDEFGHI")),
    (b"\xf2", Opaque(0xF2, b"")),
]

VECTORS = [
    *[Vector(amqp_0_9_1, octets, value) for octets, value in LETTERS],
    *[Vector(amqp_0_10_preview, octets, value) for octets, value in SHARED + PREVIEW],
    *[Vector(amqp_1_0_draft, octets, value) for octets, value in SHARED + DRAFT],
]

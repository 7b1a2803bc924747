"""Wrapper types that keep wire types apart where Python's own types cannot.

All are subclasses of a Python type, so they compute, compare and print like it: ``UInt(1) == 1``. They
check their range on construction. This module stays interpreted when the codec modules are compiled:
compiled classes cannot derive from ``int`` or ``str``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Self


class _Integer(int):
    """An integer of one wire type; subclasses set the range."""

    __slots__ = ()
    MIN: ClassVar[int]
    MAX: ClassVar[int]

    def __new__(cls, value: int = 0) -> Self:
        if not cls.MIN <= value <= cls.MAX:
            raise ValueError(f"{cls.__name__} holds {cls.MIN} to {cls.MAX}, not {value}")
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"

    __str__ = int.__repr__


class UByte(_Integer):
    """ubyte: 0 to 2^8 - 1."""

    __slots__ = ()
    MIN = 0
    MAX = 0xFF


class UShort(_Integer):
    """ushort: 0 to 2^16 - 1."""

    __slots__ = ()
    MIN = 0
    MAX = 0xFFFF


class UInt(_Integer):
    """uint: 0 to 2^32 - 1."""

    __slots__ = ()
    MIN = 0
    MAX = 0xFFFF_FFFF


class ULong(_Integer):
    """ulong: 0 to 2^64 - 1."""

    __slots__ = ()
    MIN = 0
    MAX = 0xFFFF_FFFF_FFFF_FFFF


class Byte(_Integer):
    """byte: -2^7 to 2^7 - 1."""

    __slots__ = ()
    MIN = -0x80
    MAX = 0x7F


class Short(_Integer):
    """short: -2^15 to 2^15 - 1."""

    __slots__ = ()
    MIN = -0x8000
    MAX = 0x7FFF


class Int(_Integer):
    """int: -2^31 to 2^31 - 1."""

    __slots__ = ()
    MIN = -0x8000_0000
    MAX = 0x7FFF_FFFF


class Long(_Integer):
    """A signed number of 64 bits, where a plain int would travel in fewer: -2^63 to 2^63 - 1."""

    __slots__ = ()
    MIN = -0x8000_0000_0000_0000
    MAX = 0x7FFF_FFFF_FFFF_FFFF


class Bit(_Integer):
    """A bit as a value by itself: its type being there means true, so there is only the one value, 1."""

    __slots__ = ()
    MIN = 1
    MAX = 1

    def __new__(cls, value: int = 1) -> Self:
        return super().__new__(cls, value)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Timestamp(_Integer):
    """timestamp: milliseconds since 1970-01-01T00:00:00Z, a signed 64-bit number."""

    __slots__ = ()
    MIN = -0x8000_0000_0000_0000
    MAX = 0x7FFF_FFFF_FFFF_FFFF

    @classmethod
    def from_datetime(cls, moment: datetime) -> Self:
        """The timestamp of an aware datetime, rounded down to the millisecond.

        Raises:
            ValueError: the datetime has no time zone.
        """
        if moment.tzinfo is None:
            raise ValueError("a timestamp needs a datetime with a time zone")
        return cls((moment - _EPOCH) // timedelta(milliseconds=1))

    def to_datetime(self) -> datetime:
        """The same moment in UTC.

        Raises:
            OverflowError: the moment lies outside the years 1 to 9999.
        """
        return _EPOCH + timedelta(milliseconds=int(self))


class PosixTime(_Integer):
    """A moment in seconds since 1970-01-01T00:00:00Z, an unsigned 64-bit number."""

    __slots__ = ()
    MIN = 0
    MAX = 0xFFFF_FFFF_FFFF_FFFF

    @classmethod
    def from_datetime(cls, moment: datetime) -> Self:
        """The number of an aware datetime, rounded down to the second.

        Raises:
            ValueError: the datetime has no time zone, or lies before 1970.
        """
        if moment.tzinfo is None:
            raise ValueError("a PosixTime needs a datetime with a time zone")
        return cls((moment - _EPOCH) // timedelta(seconds=1))

    def to_datetime(self) -> datetime:
        """The same moment in UTC.

        Raises:
            OverflowError: the moment lies behind the year 9999.
        """
        return _EPOCH + timedelta(seconds=int(self))


class Float(float):
    """float: IEEE 754 binary32. The value is held as a Python float and rounded to 32 bits on the wire."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Float({float(self)!r})"

    __str__ = float.__repr__


class Decimal32(Decimal):
    """decimal32: at most 7 significant digits, exponent -101 to 90; checked when encoded."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Decimal32({str(self)!r})"


class Decimal64(Decimal):
    """decimal64: at most 16 significant digits, exponent -398 to 369; checked when encoded."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Decimal64({str(self)!r})"


class Char(str):
    """char: one Unicode scalar value."""

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        if len(value) != 1 or "\ud800" <= value <= "\udfff":
            raise ValueError(f"Char holds one Unicode scalar value, not {value!r}")
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return f"Char({str.__repr__(self)})"

    __str__ = str.__str__


class Symbol(str):
    """symbol: ASCII text from a constrained domain; checked when encoded."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Symbol({str.__repr__(self)})"

    __str__ = str.__str__


class SymbolEnum(Symbol, Enum):
    """Base of the enumerations whose values are symbols; members print as their value."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return str.__str__(self)


class CodedInt(int):
    """A whole number under a type code that means the same as another, more usual one.

    Attributes:
        code: the type code, 0 to 255.
    """

    code: int

    def __new__(cls, value: int, code: int) -> Self:
        self = super().__new__(cls, value)
        self.code = code
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[int, int]]:
        return type(self), (int(self), self.code)

    def __repr__(self) -> str:
        return f"CodedInt({int(self)}, 0x{self.code:02x})"

    __str__ = int.__repr__


class CodedStr(str):
    """Text whose type code is not the one that a plain ``str`` of this text would travel under.

    Attributes:
        code: the type code, 0 to 255.
    """

    __slots__ = ("code",)
    code: int

    def __new__(cls, value: str, code: int) -> Self:
        self = super().__new__(cls, value)
        self.code = code
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[str, int]]:
        return type(self), (str(self), self.code)

    def __repr__(self) -> str:
        return f"CodedStr({str.__repr__(self)}, 0x{self.code:02x})"

    __str__ = str.__str__


class CodedBytes(bytes):
    """Octets whose type code is not the one that plain ``bytes`` of their number would travel under.

    Text that is not of its character set comes as such octets too, with the code of the text.

    Attributes:
        code: the type code, 0 to 255.
    """

    code: int

    def __new__(cls, value: bytes, code: int) -> Self:
        self = super().__new__(cls, value)
        self.code = code
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[bytes, int]]:
        return type(self), (bytes(self), self.code)

    def __repr__(self) -> str:
        return f"CodedBytes({bytes.__repr__(self)}, 0x{self.code:02x})"


class CodedDecimal(Decimal):
    """A decimal number whose type code is not the one that a plain ``Decimal`` would travel under.

    Attributes:
        code: the type code, 0 to 255.
    """

    __slots__ = ("code",)
    code: int

    def __new__(cls, value: Decimal | int | str, code: int) -> Self:
        self = super().__new__(cls, value)
        self.code = code
        return self

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.code)

    def __repr__(self) -> str:
        return f"CodedDecimal({str(self)!r}, 0x{self.code:02x})"

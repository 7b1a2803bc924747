"""IEEE 754-2008 decimals in Binary Integer Decimal form, read a second time: by bit strings, as the
standard draws them.

The codec does the same with shifts and masks; the two were written apart so that they can check each other.
"""

from __future__ import annotations

from decimal import Decimal

_EXPONENT_BITS = {4: 8, 8: 10, 16: 14}
_BIAS = {4: 101, 8: 398, 16: 6176}


def read(octets: bytes, digits: int) -> Decimal:
    """The number that ``octets`` hold in the format of their length, which has ``digits`` significant
    digits.
    """
    bits = "".join(f"{octet:08b}" for octet in octets)
    sign, rest = bits[0], bits[1:]
    prefix = "-" if sign == "1" else ""
    width = _EXPONENT_BITS[len(octets)]
    if rest.startswith("11110"):
        return Decimal(f"{prefix}Infinity")
    if rest.startswith("11111"):
        payload = int(rest[width + 3 :], 2)  # behind five bits of the kind and those that mean nothing
        name = "sNaN" if rest[5] == "1" else "NaN"
        return Decimal(f"{prefix}{name}{payload if 0 < payload < 10 ** (digits - 1) else ''}")
    if rest.startswith("11"):
        exponent, coefficient = rest[2 : 2 + width], "100" + rest[2 + width :]
    else:
        exponent, coefficient = rest[:width], rest[width:]
    number = int(coefficient, 2)
    if number >= 10**digits:
        number = 0
    return Decimal(f"{prefix}{number}E{int(exponent, 2) - _BIAS[len(octets)]}")

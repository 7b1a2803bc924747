"""Decimals as a whole number and a count of decimal places: the value is number / 10^places."""

from __future__ import annotations

from decimal import Context, Decimal

from .errors import EncodeError, shown

_MOST_DIGITS = 19  # of a signed number of 64 bits, the widest there is
_UNITS = [Decimal(f"1E-{places}") for places in range(256)]
_text = Decimal.__str__
_multiply = Context(prec=_MOST_DIGITS, Emin=-999999, Emax=999999, clamp=0, traps=[]).multiply


def from_scaled(number: int, places: int) -> Decimal:
    """``number / 10^places`` with that many decimal places, whatever the caller's decimal context.

    Args:
        number: of at most 19 digits.
        places: 0 to 255.
    """
    return _multiply(number, _UNITS[places])


def to_scaled(value: Decimal) -> tuple[int, int]:
    """The whole number (of at most 19 digits) and the decimal places (0 to 255) of a decimal.

    A positive exponent becomes zeros, so ``1E+3`` is 1000 without decimal places; the sign of a zero is lost.

    Raises:
        EncodeError: it is no Decimal, or no finite one, or has more digits or decimal places.
    """
    if not isinstance(value, Decimal):
        raise EncodeError(f"{shown(value)} is not a Decimal")
    whole, _, fraction = _text(value).partition(".")
    number = whole + fraction
    if len(number) <= _MOST_DIGITS and number[number[0] == "-" :].isdecimal():  # written without an exponent
        return int(number), len(fraction)
    return _scaled_by_digits(value)


def _scaled_by_digits(value: Decimal) -> tuple[int, int]:
    """What :func:`to_scaled` gives, of any decimal."""
    sign, digits, exponent = value.as_tuple()
    if isinstance(exponent, str):
        raise EncodeError(f"{value} is not finite")
    if len(digits) + max(exponent, 0) > _MOST_DIGITS or exponent < -255:
        raise EncodeError(f"{shown(value)} has more than {_MOST_DIGITS} digits or 255 decimal places")
    number = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    return -number if sign else number, max(-exponent, 0)

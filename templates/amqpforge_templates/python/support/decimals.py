"""IEEE 754-2008 decimals in Binary Integer Decimal form.

Bits from the top: sign; then a combination field that holds either the biased exponent followed by the
coefficient, or, when its first two bits are ``11``, the exponent two bits further down and a coefficient
with the implied prefix ``100``; ``11110`` is infinity and ``11111`` NaN. Both directions are exact: sign,
coefficient, exponent, infinities, NaNs with their payload and signed zeros survive.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from .errors import EncodeError

D = TypeVar("D", bound=Decimal)


@dataclass(frozen=True, slots=True)
class DecimalFormat:
    """The parameters of one interchange format.

    Attributes:
        octets: width of the encoding.
        digits: most significant digits a coefficient may have.
        bias: what is added to the exponent before it is written.
        exponent_bits: width of the biased exponent.
    """

    octets: int
    digits: int
    bias: int
    exponent_bits: int

    @property
    def coefficient_bits(self) -> int:
        """Width of the coefficient in the ordinary form."""
        return self.octets * 8 - 1 - self.exponent_bits

    @property
    def largest_exponent(self) -> int:
        """The largest biased exponent: its two leading bits are never both set."""
        return (3 << (self.exponent_bits - 2)) - 1


DECIMAL32 = DecimalFormat(octets=4, digits=7, bias=101, exponent_bits=8)
DECIMAL64 = DecimalFormat(octets=8, digits=16, bias=398, exponent_bits=10)
DECIMAL128 = DecimalFormat(octets=16, digits=34, bias=6176, exponent_bits=14)


def decode_decimal(octets: bytes, form: DecimalFormat, kind: type[D]) -> D:
    """The number that ``octets`` (exactly ``form.octets`` of them, big-endian) hold, as an instance of
    ``kind``.

    A coefficient with more digits than the format has is not canonical and counts as zero (IEEE 754-2008,
    3.5.2).
    """
    bits = int.from_bytes(octets, "big")
    width = form.octets * 8
    sign = bits >> (width - 1)
    top = (bits >> (width - 6)) & 0x1F
    if top >= 0x1E:
        return kind(_special(bits, sign, top, form))
    if top < 0x18:
        exponent = (bits >> form.coefficient_bits) & ((1 << form.exponent_bits) - 1)
        coefficient = bits & ((1 << form.coefficient_bits) - 1)
    else:
        short = form.coefficient_bits - 2
        exponent = (bits >> short) & ((1 << form.exponent_bits) - 1)
        coefficient = (4 << (form.coefficient_bits - 2)) | (bits & ((1 << short) - 1))
    if coefficient >= 10**form.digits:
        coefficient = 0
    return kind((sign, tuple(map(int, str(coefficient))), exponent - form.bias))


def _special(bits: int, sign: int, top: int, form: DecimalFormat) -> str:
    """An infinity or NaN as Decimal spells it."""
    prefix = "-" if sign else ""
    if top == 0x1E:
        return prefix + "Infinity"
    payload = bits & ((1 << (form.coefficient_bits - 3)) - 1)
    if payload >= 10 ** (form.digits - 1):
        payload = 0
    signals = (bits >> (form.octets * 8 - 7)) & 1
    return f"{prefix}{'sNaN' if signals else 'NaN'}{payload or ''}"


def encode_decimal(value: Decimal, form: DecimalFormat) -> bytes:
    """``value`` in ``form.octets`` octets, big-endian.

    The exponent is kept where the format can hold it; beyond that it moves only as far as trailing zeros
    allow without changing the number.

    Raises:
        EncodeError: the number has more digits, or a larger or smaller exponent, than the format can hold.
    """
    sign, digits, exponent = value.as_tuple()
    width = form.octets * 8
    if isinstance(exponent, str):
        return _encode_special(value, sign, exponent, digits, form)
    coefficient = int("".join(map(str, digits)))
    coefficient, exponent = _fit(coefficient, exponent, form)
    if len(str(coefficient)) > form.digits:
        raise EncodeError(f"{value} has more than {form.digits} significant digits")
    biased = exponent + form.bias
    if not 0 <= biased <= form.largest_exponent:
        low, high = -form.bias, form.largest_exponent - form.bias
        raise EncodeError(f"the exponent of {value} is outside {low} to {high}")
    if coefficient < 1 << form.coefficient_bits:
        bits = biased << form.coefficient_bits | coefficient
    else:
        short = form.coefficient_bits - 2
        bits = 3 << (width - 3) | biased << short | coefficient & ((1 << short) - 1)
    return (sign << (width - 1) | bits).to_bytes(form.octets, "big")


def _fit(coefficient: int, exponent: int, form: DecimalFormat) -> tuple[int, int]:
    """The same number with its exponent moved towards the format's range as far as trailing zeros allow."""
    highest = form.largest_exponent - form.bias
    if coefficient == 0:
        return 0, min(max(exponent, -form.bias), highest)
    spare = min(exponent - highest, form.digits - len(str(coefficient)))
    if spare > 0:
        return coefficient * 10**spare, exponent - spare
    while exponent < -form.bias and coefficient % 10 == 0:
        coefficient, exponent = coefficient // 10, exponent + 1
    return coefficient, exponent


def _encode_special(
    value: Decimal, sign: int, kind: str, digits: tuple[int, ...], form: DecimalFormat
) -> bytes:
    width = form.octets * 8
    top = 0x1E if kind == "F" else 0x1F
    payload = int("".join(map(str, digits)) or "0") if kind != "F" else 0
    if payload >= 10 ** (form.digits - 1):
        raise EncodeError(f"the payload of {value} has more than {form.digits - 1} digits")
    signals = 1 if kind == "N" else 0
    bits = sign << (width - 1) | top << (width - 6) | signals << (width - 7) | payload
    return bits.to_bytes(form.octets, "big")

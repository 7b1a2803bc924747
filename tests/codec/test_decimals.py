"""IEEE 754-2008 decimals in binary integer form, to the bit."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge_protocol.amqp_1_0 import (
    Decimal32,
    Decimal64,
    DecodeError,
    EncodeError,
    decode_value,
    encode_value,
)
from tests.codec import bid, strategies
from tests.codec.sameness import same

CODES: dict[int, tuple[int, type[Decimal], int]] = {
    4: (0x74, Decimal32, 7),
    8: (0x84, Decimal64, 16),
    16: (0x94, Decimal, 34),
}


def decode(pattern: str) -> Decimal:
    octets = bytes.fromhex(pattern.replace(" ", ""))
    value, behind = decode_value(bytes((CODES[len(octets)][0],)) + octets)
    assert behind == len(octets) + 1
    assert isinstance(value, CODES[len(octets)][1])
    return value


def encode(value: Decimal, width: int) -> str:
    code, kind, _ = CODES[width]
    octets = encode_value(kind(value))
    assert octets[0] == code
    return octets[1:].hex()


# Bit patterns worked out by hand from the standard's figures; the last column says whether encoding gives the
# same bits.
PATTERNS = [
    ("32800000", "0", True),
    ("b2800000", "-0", True),
    ("32800001", "1", True),
    ("b2800001", "-1", True),
    ("3200000f", "1.5", True),
    ("00000000", "0E-101", True),
    ("00000001", "1E-101", True),
    ("5f800001", "1E+90", True),
    ("77f8967f", "9999999E+90", True),
    ("6cb8967f", "9999999", True),
    ("6ca00000", "8388608", True),
    ("32ffffff", "8388607E+0", True),
    ("6cb89680", "0", False),  # 10,000,000 has eight digits: not canonical, counts as zero
    ("6cbfffff", "0", False),
    ("78000000", "Infinity", True),
    ("f8000000", "-Infinity", True),
    ("7bffffff", "Infinity", False),
    ("7c000000", "NaN", True),
    ("fc000000", "-NaN", True),
    ("7e000000", "sNaN", True),
    ("fe000000", "-sNaN", True),
    ("7c000001", "NaN1", True),
    ("7c0f423f", "NaN999999", True),
    ("7c0f4240", "NaN", False),  # a payload of seven digits is not canonical
    ("7e0f423f", "sNaN999999", True),
    ("31c0000000000000", "0", True),
    ("31c0000000000001", "1", True),
    ("0000000000000001", "1E-398", True),
    ("77fb86f26fc0ffff", "9999999999999999E+369", True),
    ("6c7386f26fc0ffff", "9999999999999999", True),
    ("6c7386f26fc10000", "0", False),
    ("7800000000000000", "Infinity", True),
    ("7c000000000004d2", "NaN1234", True),
    ("30400000000000000000000000000000", "0", True),
    ("30400000000000000000000000000001", "1", True),
    ("b0400000000000000000000000000001", "-1", True),
    ("00000000000000000000000000000001", "1E-6176", True),
    ("5ffe0000000000000000000000000001", "1E+6111", True),
    ("3041ed09bead87c0378d8e63ffffffff", "9999999999999999999999999999999999", True),
    ("3041ed09bead87c0378d8e6400000000", "0", False),
    (
        "6c100000000000000000000000000000",
        "0",
        False,
    ),  # the short form: every coefficient of it has too many digits
    ("78000000000000000000000000000000", "Infinity", True),
    ("7c000000000000000000000000000001", "NaN1", True),
    ("fe000000000000000000000000000000", "-sNaN", True),
]


@pytest.mark.parametrize(("pattern", "text", "is_canonical"), PATTERNS)
def test_bit_patterns(pattern: str, text: str, is_canonical: bool) -> None:
    value = decode(pattern)
    width = len(pattern) // 2
    assert same(Decimal(value), bid.read(bytes.fromhex(pattern), CODES[width][2]))
    expected = Decimal(text)
    if is_canonical:
        assert same(Decimal(value), expected)
        assert encode(value, width) == pattern
    else:
        assert same(Decimal(value), expected) or (value == 0 == expected)
        assert encode(value, width) != pattern
        assert same(decode(encode(value, width)), value)


@given(st.sampled_from([4, 8, 16]).flatmap(lambda width: st.binary(min_size=width, max_size=width)))
def test_any_bits_are_a_number_that_stays_itself(octets: bytes) -> None:
    value = decode(octets.hex())
    assert same(Decimal(value), bid.read(octets, CODES[len(octets)][2]))
    again = encode(value, len(octets))
    assert same(decode(again), value)
    assert encode(decode(again), len(octets)) == again


@given(strategies.SIMPLE["decimal32"], strategies.SIMPLE["decimal64"], strategies.SIMPLE["decimal128"])
def test_any_number_is_kept(single: Decimal, double: Decimal, quadruple: Decimal) -> None:
    for value in (single, double, quadruple):
        assert same(decode_value(encode_value(value))[0], value)


LIMITS = [(4, 7, -101, 90), (8, 16, -398, 369), (16, 34, -6176, 6111)]


@pytest.mark.parametrize(("width", "digits", "low", "high"), LIMITS)
def test_too_many_digits_and_exponents_out_of_range_are_refused(
    width: int, digits: int, low: int, high: int
) -> None:
    nines = "9" * digits
    for text in (f"{nines}E{high}", f"{nines}E{low}", f"-{nines}", f"1E{low}", f"1E{high}"):
        assert decode(encode(Decimal(text), width)) == Decimal(text)
    with pytest.raises(EncodeError, match=f"more than {digits} significant digits"):
        encode(Decimal(f"1{nines}"), width)
    with pytest.raises(EncodeError, match=f"more than {digits} significant digits"):
        encode(Decimal(f"1{'0' * digits}"), width)
    for text in (f"{nines}E{high + 1}", f"1E{low - 1}", f"{nines}E{low - 1}", f"1E{high + digits}"):
        with pytest.raises(EncodeError, match="is outside"):
            encode(Decimal(text), width)
    with pytest.raises(EncodeError, match=f"more than {digits - 1} digits"):
        encode(Decimal(f"NaN{nines}"), width)


@pytest.mark.parametrize(("width", "digits", "low", "high"), LIMITS)
def test_an_exponent_moves_only_as_far_as_zeros_allow(width: int, digits: int, low: int, high: int) -> None:
    for text in (f"1E{high + digits - 1}", f"10E{low - 1}", f"100E{low - 2}"):
        value = decode(encode(Decimal(text), width))
        assert value == Decimal(text)
        assert low <= int(value.as_tuple().exponent) <= high
    for text in (f"0E{high + 1000}", f"-0E{low - 1000}"):
        value = decode(encode(Decimal(text), width))
        assert value == 0
        assert value.is_signed() == text.startswith("-")


def test_signed_zeros_infinities_and_nans_are_kept() -> None:
    for width in (4, 8, 16):
        for text in ("-0", "0E+5", "Infinity", "-Infinity", "NaN", "-NaN", "sNaN", "NaN42", "-sNaN7"):
            assert same(Decimal(decode(encode(Decimal(text), width))), Decimal(text))


def test_a_plain_decimal_is_a_decimal128() -> None:
    assert encode_value(Decimal("1.50"))[0] == 0x94
    assert same(decode_value(encode_value(Decimal("1.50")))[0], Decimal("1.50"))
    assert repr(Decimal32("1.5")) == "Decimal32('1.5')"
    assert repr(Decimal64("1E+5")) == "Decimal64('1E+5')"


@pytest.mark.parametrize("width", [4, 8, 16])
def test_part_of_a_decimal_is_refused(width: int) -> None:
    octets = bytes((CODES[width][0],)) + bytes(width)
    for size in range(width + 1):
        with pytest.raises(DecodeError):
            decode_value(octets[:size])

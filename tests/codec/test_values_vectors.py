"""Every type code of the three dialects whose values tell their type by a code: known octets, both ways."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from amqpforge_protocol import amqp_0_9_1, amqp_0_10_preview, amqp_1_0_draft
from amqpforge_protocol._support.errors import DecodeError, EncodeError
from amqpforge_protocol._support.serial import SerialNumber
from amqpforge_protocol._support.wrappers import Char, CodedBytes, CodedStr, PosixTime
from amqpforge_protocol.amqp_0_9_1 import values as letters
from amqpforge_protocol.amqp_1_0_draft import values as coded
from tests.codec.value_vectors import VECTORS, Vector

TABLES: list[tuple[Any, Any, Any]] = [
    (amqp_0_9_1, amqp_0_9_1.encode_table, amqp_0_9_1.decode_table),
    (amqp_0_10_preview, amqp_0_10_preview.encode_table, amqp_0_10_preview.decode_table),
    (amqp_1_0_draft, amqp_1_0_draft.encode_map, amqp_1_0_draft.decode_map),
]


def vectors(*codes: int, dialect: Any = amqp_1_0_draft) -> list[Vector]:
    return [vector for vector in VECTORS if vector.dialect is dialect and vector.octets[0] in codes]


@pytest.mark.parametrize("vector", VECTORS, ids=str)
def test_octets_and_value(vector: Vector) -> None:
    value, behind = vector.dialect.decode_value(b"\xee" + vector.octets + b"\xee", 1)
    assert repr(value) == repr(vector.value)
    assert behind == len(vector.octets) + 1
    assert vector.dialect.encode_value(vector.value) == vector.octets
    assert vector.dialect.encode_value(value) == vector.octets


def test_every_code_has_a_vector() -> None:
    known = {letter.value for letter in amqp_0_9_1.FieldTableType}
    codes = {code.value for code in amqp_0_10_preview.FieldTableType}
    assert {vector.octets[0] for vector in vectors(*range(256), dialect=amqp_0_9_1)} == known
    assert {vector.octets[0] for vector in vectors(*range(256), dialect=amqp_0_10_preview)} == codes
    draft = (
        "00 01 02 04 08 10 11 12 20 21 22 23 27 28 30 31 32 33 38 40 48 50 60 70 c0 c8 d0 d8 f0 f1"
        "80 84 85 86 90 94 95 96 a0 a8 a9 aa ab"
    )
    assert {vector.octets[0] for vector in vectors(*range(256))} >= set(bytes.fromhex(draft))


@pytest.mark.spec("D-TYPE-002")
@pytest.mark.parametrize(
    ("octets", "value"),
    [
        ("01 80", -128), ("01 7f", 127), ("01 ff", -1), ("02 00", 0), ("02 ff", 255),
        ("11 8000", -32768), ("11 7fff", 32767), ("11 ffff", -1), ("12 0100", 256), ("12 ffff", 65535),
        ("21 80000000", -(2**31)), ("21 7fffffff", 2**31 - 1), ("21 ffffffff", -1), ("22 01000000", 2**24),
        ("22 ffffffff", 2**32 - 1), ("31 8000000000000000", -(2**63)), ("31 7fffffffffffffff", 2**63 - 1),
        ("31 ffffffffffffffff", -1), ("32 0100000000000000", 2**56), ("32 ffffffffffffffff", 2**64 - 1),
    ],
)  # fmt: skip
def test_numbers_have_their_highest_octet_first_and_two_s_complement(octets: str, value: int) -> None:
    for dialect in (amqp_0_10_preview, amqp_1_0_draft):
        found, _ = dialect.decode_value(bytes.fromhex(octets))
        assert found == value
        assert dialect.encode_value(found) == bytes.fromhex(octets)


@pytest.mark.spec("D-TYPE-001")
@pytest.mark.parametrize(
    ("name", "width", "value"),
    [
        ("vbin8", 1, b"x"), ("str8_latin", 1, "é"), ("str8", 1, "x"), ("vbin16", 2, b"x"),
        ("str16_latin", 2, "é"), ("str16", 2, "x"), ("vbin32", 4, b"x"),
    ],
)  # fmt: skip
def test_a_size_of_one_two_or_four_octets_counts_what_follows_it(name: str, width: int, value: Any) -> None:
    encode = getattr(coded, f"encode_{name}")
    for count in (0, 1, 255) if width == 1 else (0, 256, 65535) if width == 2 else (0, 65536):
        octets = encode(value * count)
        assert octets[:width] == count.to_bytes(width, "big")
        assert len(octets) == width + count
    if width < 4:
        with pytest.raises(EncodeError, match=f"at most {256**width - 1}"):
            encode(value * 256**width)


@pytest.mark.spec("D-TYPE-011")
@pytest.mark.parametrize("code", [0x85, 0x86, 0x95, 0x96])
def test_the_size_of_text_counts_octets(code: int) -> None:
    text, width = "€\U0001f600", 1 if code < 0x90 else 2
    octets = amqp_1_0_draft.encode_value(CodedStr(text, code))
    body = text.encode("utf-8" if code in (0x85, 0x95) else "utf-16-be")
    assert octets == bytes((code,)) + len(body).to_bytes(width, "big") + body
    assert len(body) == (7 if code in (0x85, 0x95) else 6)
    assert amqp_1_0_draft.decode_value(octets)[0] == text


@pytest.mark.spec("D-TYPE-006")
def test_characters_of_iso_8859_15_and_of_unicode() -> None:
    for code in (0x04, 0x84, 0x94):
        octets = amqp_1_0_draft.encode_value(CodedStr("€", code))
        assert octets[-1:] == b"\xa4"
        assert amqp_1_0_draft.decode_value(octets)[0] == "€"
        with pytest.raises(EncodeError):
            amqp_1_0_draft.encode_value(CodedStr("¤", code))  # its place in ISO 8859-1 is that of the euro
    assert amqp_1_0_draft.encode_value(Char("\U0001f600")) == b"\x27\x00\x01\xf6\x00"
    assert amqp_1_0_draft.decode_value(b"\x27\x00\x01\xf6\x00")[0] == "\U0001f600"
    for octets in (b"\x27\x00\x00\xd8\x00", b"\x27\x00\x11\x00\x00"):
        with pytest.raises(DecodeError):
            amqp_1_0_draft.decode_value(octets)


@pytest.mark.spec("D-TYPE-007")
@pytest.mark.parametrize("octet", [0, 1, 2, 0xFF])
def test_a_boolean_is_false_for_zero_and_true_for_all_else(octet: int) -> None:
    for dialect, code in ((amqp_0_9_1, b"t"), (amqp_0_10_preview, b"\x08"), (amqp_1_0_draft, b"\x08")):
        value, _ = dialect.decode_value(code + bytes((octet,)))
        assert value is (octet != 0)
        assert dialect.encode_value(value) == code + bytes((octet != 0,))


@pytest.mark.spec("D-TYPE-008")
def test_floats_and_identifiers() -> None:
    found = {vector.octets: vector.value for vector in vectors(0x23, 0x33, 0x48)}
    assert len(found) >= 3
    for octets, value in {
        "23 7f800000": float("inf"), "23 ff800000": float("-inf"), "23 80000000": -0.0,
        "33 7ff0000000000000": float("inf"), "33 3fb999999999999a": 0.1,
    }.items():  # fmt: skip
        decoded, _ = amqp_1_0_draft.decode_value(bytes.fromhex(octets))
        assert repr(float(decoded)) == repr(value)
        assert amqp_1_0_draft.encode_value(decoded) == bytes.fromhex(octets)
    for octets in ("23 7fc00000", "33 7ff8000000000000"):
        decoded, _ = amqp_1_0_draft.decode_value(bytes.fromhex(octets))
        assert decoded != decoded
        assert amqp_1_0_draft.encode_value(decoded) == bytes.fromhex(octets)


@pytest.mark.spec("D-TYPE-009")
def test_sequence_numbers_start_over() -> None:
    last, _ = amqp_1_0_draft.decode_value(b"\x28\xff\xff\xff\xff")
    assert type(last) is SerialNumber
    assert last + 2 == 1
    assert last < SerialNumber(1)
    assert amqp_1_0_draft.encode_value(last + 1) == b"\x28\x00\x00\x00\x00"


@pytest.mark.spec("D-TYPE-010")
def test_timestamps_count_milliseconds_before_and_after_1970() -> None:
    for moment in (
        datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC),
        datetime(2024, 2, 29, 1, 2, 3, 4000, UTC),
    ):
        octets = amqp_1_0_draft.encode_value(moment)
        assert octets[0] == 0x38
        value, _ = amqp_1_0_draft.decode_value(octets)
        assert value.to_datetime() == moment
    assert amqp_1_0_draft.decode_value(b"\x38" + b"\xff" * 8)[0] == -1


@pytest.mark.spec("D-TYPE-017")
@pytest.mark.parametrize(
    ("octets", "value"),
    [
        ("c8 00 00000000", "0"), ("c8 00 00000007", "7"), ("c8 02 ffffffff", "-0.01"),
        ("c8 ff 00000001", "1E-255"), ("c8 03 7fffffff", "2147483.647"),
        ("d8 00 0000000080000000", "2147483648"), ("d8 12 8000000000000000", "-9.223372036854775808"),
    ],
)  # fmt: skip
def test_a_decimal_is_a_number_and_its_decimal_places(octets: str, value: str) -> None:
    found, _ = amqp_1_0_draft.decode_value(bytes.fromhex(octets))
    assert found.as_tuple() == Decimal(value).as_tuple()
    assert amqp_1_0_draft.encode_value(Decimal(value)) == bytes.fromhex(octets)


@pytest.mark.spec("D-TYPE-018", "D-TYPE-013")
def test_void_is_an_empty_value_of_a_map() -> None:
    octets = b"\x00\x00\x00\x0a\x00\x00\x00\x02\x01k\xf0\x01l\xf0"
    assert amqp_1_0_draft.decode_map(octets) == ({"k": None, "l": None}, len(octets))
    assert amqp_1_0_draft.encode_map({"k": None, "l": None}) == octets
    with pytest.raises(EncodeError, match="256 octets"):
        amqp_1_0_draft.encode_map({"k" * 256: None})
    assert amqp_1_0_draft.encode_map({"k" * 255: None})[8] == 255


@pytest.mark.spec("D-TYPE-014", "D-TYPE-015", "D-TYPE-016")
@pytest.mark.parametrize("vector", vectors(0xA9, 0xAA, 0xAB), ids=str)
def test_the_size_of_a_list_array_or_struct_counts_what_is_behind_it(vector: Vector) -> None:
    assert int.from_bytes(vector.octets[1:5], "big") == len(vector.octets) - 5
    assert amqp_1_0_draft.encode_value(vector.value) == vector.octets
    assert repr(amqp_1_0_draft.decode_value(vector.octets)[0]) == repr(vector.value)


@pytest.mark.spec("D-TYPE-019")
def test_any_has_no_code() -> None:
    for vector in vectors(*range(256)):
        assert coded.encode_any(vector.value) == vector.octets
        assert repr(coded.read_value(vector.octets, 0, [9999999, 9])) == repr(
            (vector.value, len(vector.octets))
        )
    assert "any" not in coded.ELEMENT_NAMES.values()


# ---- codes that stand for no type ----

WIDTHS = {high: 1 << high for high in range(8)} | {0xC: 5, 0xD: 9, 0xF: 0}
"""Octets of the values of fixed width by the upper half of their code (section 6)."""
SIZES = {0x8: 1, 0x9: 2, 0xA: 4}
"""Octets of the size in front of the others."""


@pytest.mark.spec("D-TYPE-003", "D-TYPE-004")
@pytest.mark.parametrize("code", [code for code in range(256) if code >> 4 not in (0xB, 0xE)])
def test_the_range_of_a_code_tells_how_far_to_skip(code: int) -> None:
    high = code >> 4
    if high in WIDTHS:
        octets = bytes((code,)) + bytes(WIDTHS[high])
    else:
        count = {0xA8: 4, 0xA9: 4, 0xAA: 5, 0xAB: 2}.get(code, 6)
        octets = bytes((code,)) + count.to_bytes(SIZES[high], "big") + bytes(count)
    entries = b"\x01a" + octets + b"\x01b\x02\x07"
    body = b"\x00\x00\x00\x02" + entries
    found, behind = amqp_1_0_draft.decode_map(len(body).to_bytes(4, "big") + body)
    assert behind == len(body) + 4
    assert found["b"] == 7
    assert amqp_1_0_draft.encode_map(found) == len(body).to_bytes(4, "big") + body


@pytest.mark.spec("D-TYPE-005")
@pytest.mark.parametrize("code", [*range(0xB0, 0xC0), *range(0xE0, 0xF0)])
def test_a_reserved_code_cannot_be_skipped(code: int) -> None:
    body = b"\x00\x00\x00\x01\x01a" + bytes((code,)) + bytes(8)
    with pytest.raises(DecodeError, match=f"no type has the code 0x{code:02x}") as caught:
        amqp_1_0_draft.decode_map(len(body).to_bytes(4, "big") + body)
    assert caught.value.offset == 10
    array = b"\xaa\x00\x00\x00\x06" + bytes((code,)) + b"\x00\x00\x00\x01\x00"
    with pytest.raises(DecodeError, match="no type has the code"):
        amqp_1_0_draft.decode_value(array)


@pytest.mark.parametrize("dialect", [amqp_0_9_1, amqp_0_10_preview])
def test_a_code_of_a_dialect_without_ranges(dialect: Any) -> None:
    known = {vector.octets[0] for vector in VECTORS if vector.dialect is dialect}
    for code in set(range(256)) - known:
        with pytest.raises(DecodeError, match=f"no type has the code 0x{code:02x}") as caught:
            dialect.decode_value(bytes((code,)) + bytes(8))
        assert caught.value.offset == 0


# ---- keys ----


@pytest.mark.spec("D-TYPE-012")
def test_a_key_does_not_occur_twice() -> None:
    body = b"\x00\x00\x00\x02\x01k\x08\x01\x01k\xf0"
    with pytest.raises(DecodeError, match="the key 'k' occurs twice") as caught:
        amqp_1_0_draft.decode_map(len(body).to_bytes(4, "big") + body)
    assert caught.value.offset == 13
    with pytest.raises(DecodeError, match="the key 'k' occurs twice"):
        amqp_0_9_1.decode_table(b"\x00\x00\x00\x06\x01kV\x01kV")


@pytest.mark.parametrize(("dialect", "encode", "decode"), TABLES)
def test_keys_are_texts_of_up_to_255_octets(dialect: Any, encode: Any, decode: Any) -> None:
    for key in ("", "k", "é" * 127, "x" * 255, "k" * 64, "k" * 65):
        for _ in range(2):  # the second time from what is kept of keys
            octets = encode({key: None})
            assert octets[-2 - len(key.encode()) : -1] == bytes((len(key.encode()),)) + key.encode()
            assert decode(octets) == ({key: None}, len(octets))
    wrong: list[Any] = ["x" * 256, "é" * 128, "\ud800", 1, None, b"k", True]
    for key in wrong:
        with pytest.raises(EncodeError, match="is not a key"):
            encode({key: None})
    broken = encode({"kk": None}).replace(b"kk", b"\xff\xfe")
    with pytest.raises(DecodeError, match="is not UTF-8") as caught:
        decode(broken)
    assert (caught.value.type, caught.value.offset) == ("key", broken.index(b"\xff"))


@pytest.mark.parametrize(("dialect", "encode", "decode"), TABLES)
def test_entries_keep_their_order(dialect: Any, encode: Any, decode: Any) -> None:
    entries = {f"k{number}": number for number in (3, 1, 2)}
    assert list(decode(encode(entries))[0].items()) == [("k3", 3), ("k1", 1), ("k2", 2)]


@pytest.mark.spec("A-FRAME-004")
@pytest.mark.parametrize(("dialect", "encode", "decode"), TABLES)
def test_a_table_holds_values_of_every_type(dialect: Any, encode: Any, decode: Any) -> None:
    entries = {str(vector): vector.value for vector in VECTORS if vector.dialect is dialect}
    octets = encode(entries)
    found, behind = decode(octets)
    assert behind == len(octets)
    assert repr(found) == repr(entries)
    assert encode(found) == octets


@pytest.mark.spec("A-FRAME-001")
@pytest.mark.parametrize("shift", [1, 2, 3])
def test_unsigned_numbers_anywhere_in_the_data(shift: int) -> None:
    for code, width in ((0x02, 1), (0x12, 2), (0x22, 4), (0x32, 8)):
        for number in (0, 256**width - 1):
            octets = bytes(shift) + bytes((code,)) + number.to_bytes(width, "big")
            value, behind = amqp_0_10_preview.decode_value(octets, shift)
            assert (value, behind) == (number, shift + 1 + width)
            assert amqp_0_10_preview.encode_value(value) == octets[shift:]


@pytest.mark.spec("A-FRAME-003")
def test_short_and_long_strings() -> None:
    for text in ("", "x" * 255):
        assert letters.encode_shortstr(text) == bytes((len(text),)) + text.encode()
    with pytest.raises(EncodeError, match="at most 255"):
        letters.encode_shortstr("x" * 256)
    everything = bytes(range(256)) * 4096
    assert letters.encode_longstr(everything) == b"\x00\x10\x00\x00" + everything
    secure = amqp_0_9_1.ConnectionSecure(challenge=everything)
    assert amqp_0_9_1.decode_method(secure.encode()) == secure
    declared = amqp_0_9_1.QueueDeclareOk(queue="x" * 255, message_count=0, consumer_count=0)
    assert amqp_0_9_1.decode_method(declared.encode()) == declared
    with pytest.raises(EncodeError):
        amqp_0_9_1.QueueDeclareOk(queue="x" * 256, message_count=0, consumer_count=0).encode()


def test_text_of_a_table_that_is_no_text() -> None:
    """Peers put octets into what is meant for text; a relay keeps them."""
    octets = b"\x00\x00\x00\x09\x01kS\x00\x00\x00\x02\xff\x00"
    entries, _ = amqp_0_9_1.decode_table(octets)
    assert entries == {"k": b"\xff\x00"}
    assert type(entries["k"]) is CodedBytes
    assert amqp_0_9_1.encode_table(entries) == octets
    with pytest.raises(DecodeError, match="is not UTF-8") as caught:
        amqp_1_0_draft.decode_value(b"\x85\x02a\xff")
    assert (caught.value.type, caught.value.offset) == ("str8", 3)


def test_moments_of_tables() -> None:
    moment = datetime(2024, 1, 1, 5, tzinfo=timezone(timedelta(hours=5)))
    assert amqp_0_9_1.encode_value(moment) == b"T\x00\x00\x00\x00\x65\x92\x00\x80"
    assert PosixTime(1704067200).to_datetime() == datetime(2024, 1, 1, tzinfo=UTC)
    for wrong in (datetime(2024, 1, 1), datetime(1969, 12, 31, tzinfo=UTC)):
        with pytest.raises(EncodeError):
            amqp_0_9_1.encode_value(wrong)

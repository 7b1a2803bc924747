"""The modules that all dialects share: limits, the text of errors, and the second look that finds the field
to blame.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from amqpforge_protocol._support.composite import (
    CODEC_FAILURES,
    NULLS,
    OCTET,
    FieldInfo,
    list_bounds,
    raise_decode_error,
    raise_encode_error,
    raise_misfit,
    raise_value_error,
    skip,
    too_long,
)
from amqpforge_protocol._support.errors import CodecError, truncated
from amqpforge_protocol.amqp_1_0 import DEFAULT_LIMITS, DecodeError, EncodeError, Limits, encode_value
from tests.codec.objects import amqp
from tests.codec.vectors import classes, primitives

INFOS = (
    FieldInfo("first-field", "first_field", "uint", "uint", mandatory=True),
    FieldInfo("second", "second", "string", "string", default="x"),
    FieldInfo("third", "third", "symbol", "symbol", multiple=True),
)


class Held:
    """Something with the attributes of the fields above."""

    def __init__(self, first_field: Any = None, second: Any = "x", third: Any = None) -> None:
        self.first_field, self.second, self.third = first_field, second, third


# ---- limits ----


def test_the_limits_are_safe_by_default() -> None:
    assert Limits() == DEFAULT_LIMITS
    assert (DEFAULT_LIMITS.depth, DEFAULT_LIMITS.elements, DEFAULT_LIMITS.strict) == (64, 1_000_000, False)
    with pytest.raises(AttributeError):
        DEFAULT_LIMITS.depth = 1  # type: ignore[misc]


# ---- errors ----


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DecodeError("is bad"), "is bad"),
        (DecodeError("is bad", type="open"), "open: is bad"),
        (DecodeError("is bad", type="open", field="hostname"), "open.hostname: is bad"),
        (
            DecodeError("is bad", type="open", field="hostname", offset=7),
            "open.hostname: is bad (at octet 7)",
        ),
        (DecodeError("is bad", offset=0), "is bad (at octet 0)"),
        (EncodeError("is bad", field="hostname"), "hostname: is bad"),
    ],
)
def test_the_text_of_an_error(error: CodecError, text: str) -> None:
    assert str(error) == text
    assert error.reason == "is bad"
    assert isinstance(error, ValueError)


def test_the_two_errors_are_told_apart() -> None:
    assert not issubclass(DecodeError, EncodeError)
    assert not issubclass(EncodeError, DecodeError)
    assert truncated(b"abc").offset == 3


# ---- finding the end of a value from its constructors ----


def test_skipping_agrees_with_decoding() -> None:
    for rows in primitives().values():
        for vector in rows:
            assert skip(vector.octets + b"\xff", 0) == len(vector.octets)
            assert skip(b"\x00" + vector.octets + b"\x40" + vector.octets, 0) == len(vector.octets) + 2


@pytest.mark.parametrize(
    "octets", [b"", b"\x00", b"\x00\x40", b"\x52", b"\xa1", b"\xb0\x00\x00", b"\xd0\x00\x00\x00\x09"]
)
def test_skipping_beyond_the_data(octets: bytes) -> None:
    with pytest.raises(DecodeError, match="ends inside a value") as caught:
        skip(octets, 0)
    assert caught.value.offset == len(octets)


def test_skipping_what_is_no_constructor() -> None:
    for code in (0x01, 0x10, 0x3F):
        with pytest.raises(DecodeError, match=f"no type has the constructor 0x{code:02x}"):
            skip(bytes((code,)) * 9, 0)


# ---- the bounds of a list of fields ----


def test_where_fields_start_and_end() -> None:
    assert list_bounds(b"\x45", 0, "t", INFOS, 0) == (1, 1, 0)
    assert list_bounds(b"\xc0\x02\x01\x40", 0, "t", INFOS, 0) == (3, 4, 1)
    assert list_bounds(b"\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x40", 0, "t", INFOS, 1) == (9, 10, 1)


@pytest.mark.parametrize(
    ("octets", "reason", "field"),
    [
        (b"\x40", "its fields are not in a list (constructor 0x40)", None),
        (b"\xc1\x01\x00", "its fields are not in a list (constructor 0xc1)", None),
        (b"\xc0\x05\x01\x40", "its list claims to end at octet 7, the data ends at 4", None),
        (b"\xc0\x05\x04\x40\x40\x40\x40", "has 4 fields, at most 3 are known", None),
        (b"\x45", "is mandatory but absent", "first-field"),
        (b"\xc0\x01\x00", "is mandatory but absent", "first-field"),
    ],
)
def test_lists_that_cannot_be_the_fields(octets: bytes, reason: str, field: str | None) -> None:
    with pytest.raises(DecodeError) as caught:
        list_bounds(octets, 0, "t", INFOS, 1)
    error = caught.value
    assert (error.type, error.field, error.reason) == ("t", field, reason)


# ---- whom to blame ----

FIELDS = b"\x52\x05\xa1\x02ab\x40"


@pytest.mark.parametrize(
    ("pos", "name", "offset"), [(0, "first-field", 0), (2, "second", 2), (3, "second", 2), (6, "third", 6)]
)
def test_a_failed_decoder_is_blamed_on_the_field_where_it_stood(pos: int, name: str, offset: int) -> None:
    with pytest.raises(DecodeError) as caught:
        raise_decode_error(DecodeError("is odd"), "t", INFOS, FIELDS, 0, 7, 3, pos)
    error = caught.value
    assert (error.type, error.field, error.reason, error.offset) == ("t", name, "is odd", offset)


def test_an_inner_error_keeps_its_own_place() -> None:
    inner = DecodeError("is odd", type="list", offset=5)
    with pytest.raises(DecodeError) as caught:
        raise_decode_error(inner, "t", INFOS, FIELDS, 0, 7, 3, 2)
    assert (caught.value.field, caught.value.reason, caught.value.offset) == ("second", "list: is odd", 5)
    named = DecodeError("is odd", type="error", field="info", offset=5)
    with pytest.raises(DecodeError) as again:
        raise_decode_error(named, "t", INFOS, FIELDS, 0, 7, 3, 2)
    assert again.value is named


@pytest.mark.parametrize("failure", [IndexError("x"), struct.error("x")])
def test_a_field_that_runs_out_of_its_list(failure: Exception) -> None:
    with pytest.raises(DecodeError, match="runs past the end of its t") as caught:
        raise_decode_error(failure, "t", INFOS, FIELDS[:4], 0, 4, 2, 2)
    assert (caught.value.type, caught.value.field) == ("t", "second")


def test_fields_that_do_not_end_with_their_list() -> None:
    with pytest.raises(DecodeError, match="its 2 fields take 6 of the 7 octets of its list") as caught:
        raise_misfit("t", INFOS, FIELDS, 0, 7, 2)
    assert (caught.value.type, caught.value.field, caught.value.offset) == ("t", None, 6)


def test_a_described_value_that_cannot_be_read() -> None:
    with pytest.raises(DecodeError) as caught:
        raise_value_error(IndexError(), "data", 3)
    assert (caught.value.type, caught.value.reason, caught.value.offset) == (
        "data",
        "the data ends inside its value",
        3,
    )
    with pytest.raises(DecodeError) as again:
        raise_value_error(DecodeError("is odd", offset=9), "data", 3)
    assert (again.value.type, again.value.offset) == ("data", 9)


@pytest.mark.parametrize(
    ("held", "count", "name", "reason"),
    [
        (Held(), 0, "first-field", "is mandatory but None"),
        (Held(-1), 0, "first-field", "-1 is not a value of type uint"),
        (Held(1, 5), 1, "second", "5 is not a value of type string"),
        (Held(1, "x", 5), 1, "third", "5 is not a list of symbol values"),
    ],
)
def test_a_failed_encoder_is_blamed_on_the_first_field_that_is_left(
    held: Held, count: int, name: str, reason: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        raise_encode_error(ValueError("broken"), held, "t", INFOS, count)
    assert (caught.value.type, caught.value.field, caught.value.reason) == ("t", name, reason)


def test_a_value_that_is_too_long() -> None:
    error = too_long(b"12345", 4, "t", "second", 20)
    assert (error.type, error.field, error.offset) == ("t", "second", 15)
    assert error.reason == "holds at most 4 octets, not 5"


def test_tables() -> None:
    assert (NULLS[0], NULLS[3]) == (b"", b"\x40\x40\x40")
    assert [octets[0] for octets in OCTET] == list(range(256))
    assert max(len(kind.FIELDS) for kind in classes().values()) < len(NULLS)
    assert all(issubclass(failure, Exception) for failure in CODEC_FAILURES)


# ---- facts about fields ----


def test_every_class_says_what_it_is() -> None:
    for name, kind in classes().items():
        assert name == kind.XML_NAME
        domain, symbol, _ = kind.SYMBOL.split(":")
        assert (domain, symbol) == ("amqp", name)
        attributes = [info.attribute for info in kind.FIELDS]
        assert attributes == [info.name.replace("-", "_") for info in kind.FIELDS]
        assert kind.encode.__doc__
        assert kind.__doc__


def test_objects_are_slotted_and_made_by_keyword() -> None:
    header = amqp.Header(durable=True)
    with pytest.raises(AttributeError):
        header.anything = 1
    with pytest.raises(TypeError):
        amqp.Header(True)
    header.priority = 9
    assert header == amqp.Header(durable=True, priority=9)
    assert "priority=9" in repr(header)
    assert encode_value(header) == header.encode()

"""Structs as the documents lay them out: packing flags, sizes, codes, fields that are there or not."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge_protocol import amqp_0_10_preview as preview
from amqpforge_protocol import amqp_1_0_draft as draft
from amqpforge_protocol._support.containers import UnknownStruct
from amqpforge_protocol._support.errors import DecodeError, EncodeError
from amqpforge_protocol._support.serial import SerialNumber
from amqpforge_protocol.amqp_0_10_preview import domains as preview_domains
from amqpforge_protocol.amqp_0_10_preview import values as preview_values
from amqpforge_protocol.amqp_1_0_draft import domains as draft_domains
from amqpforge_protocol.amqp_1_0_draft import values as draft_values

BUDGET = [1_000_000, 64]

FAILURES = (DecodeError, IndexError, struct.error)
"""What a decoder inside of another raises: that the data ends is said by the one outside."""

Decoder = Callable[[bytes, int, list[int]], tuple[Any, int]]


class Vector(NamedTuple):
    """A struct as a field of its type holds it."""

    decode: Decoder
    octets: bytes
    value: Any

    def __str__(self) -> str:
        return f"{type(self.value).__name__}-{self.octets.hex()}"


def vector(decode: Decoder, text: str, value: Any) -> Vector:
    """``text`` is hexadecimal, with words in quotes standing for themselves."""
    parts = text.split("'")
    octets = b"".join(
        bytes.fromhex(part) if not index % 2 else part.encode() for index, part in enumerate(parts)
    )
    return Vector(decode, octets, value)


D, P = draft_domains, preview_domains

VECTORS = [
    # The draft, sections 7.2 and 7.3: two octets of flags, then the fields that are there; records have none.
    vector(D.decode_header, "0000", draft.Header()),
    vector(D.decode_header, "0100", draft.Header(durable=True)),
    vector(D.decode_header, "0200 09", draft.Header(priority=9)),
    vector(D.decode_header, "0700 00 00000001", draft.Header(durable=True, priority=0, format_code=1)),
    vector(D.decode_footer, "0000", draft.Footer()),
    vector(D.decode_message_properties, "0100 0002 'id'", draft.MessageProperties(message_id=b"id")),
    vector(D.decode_exception, "0100 0fa4", draft.AmqpException(error_code=draft.ErrorCode.NOT_FOUND)),
    vector(
        D.decode_exception,
        "3f00 0fa4 00000007 03 02 0004 'gone' 00000008 00000001 01 'k' 08 01",
        draft.AmqpException(
            error_code=draft.ErrorCode.NOT_FOUND,
            command_id=SerialNumber(7),
            command_code=3,
            field_index=2,
            description="gone",
            error_info={"k": True},
        ),
    ),
    vector(D.decode_xid, "00000001 02 'gt' 00", draft.Xid(format=1, global_id=b"gt", branch_id=b"")),
    # The preview: a size, a code where there is one, flags, fields; the size counts all that follows it.
    vector(P.decode_reply_to, "0002 0000", preview.ReplyTo()),
    vector(
        P.decode_reply_to,
        "0008 0300 02 'ex' 02 'rk'",
        preview.ReplyTo(exchange_name="ex", routing_key="rk"),
    ),
    vector(P.decode_execution_header, "01 00", preview.ExecutionHeader()),
    vector(P.decode_execution_header, "01 01", preview.ExecutionHeader(sync=True)),
    vector(
        P.decode_delivery_properties,
        "0000000d 0000 1500 05 00000000000003e8",
        preview.DeliveryProperties(discard_unroutable=True, priority=5, ttl=1000),
    ),
    vector(
        P.decode_message_properties,  # its ninth field has the lowest bit of the second octet
        "00000010 0001 0101 0000000000000007 03 'app'",
        preview.MessageProperties(content_length=7, app_id="app"),
    ),
]  # fmt: skip


def test_where_the_fields_of_the_second_octet_are() -> None:
    names = [info.attribute for info in preview.MessageProperties.FIELDS]
    assert names.index("app_id") == 8


@pytest.mark.spec("D-STRUCT-001", "D-STRUCT-007", "D-STRUCT-010")
@pytest.mark.parametrize("row", VECTORS, ids=str)
def test_octets_and_value(row: Vector) -> None:
    assert row.value.encode() == row.octets
    value, behind = row.decode(b"\xee" + row.octets + b"\xee", 1, BUDGET[:])
    assert value == row.value
    assert type(value) is type(row.value)
    assert behind == len(row.octets) + 1
    assert value.encode() == row.octets


@pytest.mark.spec("D-STRUCT-003")
@pytest.mark.parametrize("row", VECTORS, ids=str)
def test_every_truncation_is_an_error(row: Vector) -> None:
    for length in range(len(row.octets)):
        with pytest.raises(FAILURES):
            row.decode(row.octets[:length], 0, BUDGET[:])


@pytest.mark.spec("D-STRUCT-005")
@pytest.mark.parametrize("row", VECTORS, ids=str)
def test_a_flag_behind_the_last_field_is_refused(row: Vector) -> None:
    kind = type(row.value)
    prefix, width = {
        "Xid": (0, 0), "ReplyTo": (2, 2), "ExecutionHeader": (1, 1), "DeliveryProperties": (6, 2),
        "MessageProperties": (6 if "preview" in kind.__module__ else 0, 2),
    }.get(kind.__name__, (0, 2))  # fmt: skip
    for index in range(len(kind.FIELDS), 8 * width):
        octets = bytearray(row.octets)
        octets[prefix + index // 8] |= 1 << index % 8
        with pytest.raises(DecodeError, match="sets a flag behind that of its last field") as caught:
            row.decode(bytes(octets), 0, BUDGET[:])
        assert (caught.value.type, caught.value.offset) == (kind.XML_NAME, prefix)


@pytest.mark.parametrize(
    "row", [row for row in VECTORS if row.octets[0] == 0 and "preview" in type(row.value).__module__], ids=str
)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_size_that_does_not_fit_the_fields(row: Vector, change: int) -> None:
    width = 2 if type(row.value).__name__ == "ReplyTo" else 4
    size = int.from_bytes(row.octets[:width], "big")
    octets = (size + change).to_bytes(width, "big") + row.octets[width:] + b"\x00"
    with pytest.raises(DecodeError, match=f"its fields take {size} octets, its size says {size + change}"):
        row.decode(octets, 0, BUDGET[:])


def test_a_struct_with_the_code_of_another() -> None:
    octets = preview.DeliveryProperties(priority=1).encode()
    with pytest.raises(DecodeError, match="has the code 0x0000, not 0x0001") as caught:
        P.decode_message_properties(octets, 0, BUDGET[:])
    assert (caught.value.type, caught.value.offset) == ("message-properties", 4)
    with pytest.raises(DecodeError, match="ends inside its code"):
        P.decode_message_properties(octets[:5], 0, BUDGET[:])


# ---- structs that tell by a code what they are ----


@pytest.mark.spec("D-STRUCT-009")
def test_a_struct_of_any_kind() -> None:
    properties = preview.DeliveryProperties(priority=5)
    octets = b"\x00\x00\x00\x05\x00\x00\x04\x00\x05"
    assert preview_values.encode_long_struct(properties) == octets
    assert preview_values.read_long_struct(octets, 0, BUDGET[:]) == (properties, 9)
    unknown = b"\x00\x00\x00\x05\xfe\xdcabc"
    assert preview_values.read_long_struct(unknown, 0, BUDGET[:]) == (UnknownStruct(0xFEDC, b"abc"), 9)
    assert preview_values.encode_long_struct(UnknownStruct(0xFEDC, b"abc")) == unknown
    with pytest.raises(EncodeError, match="struct with a code"):
        preview_values.encode_long_struct(preview.ReplyTo())
    with pytest.raises(DecodeError, match="struct: its fields take 5 octets, its size says 6"):
        preview_values.read_long_struct(b"\x00\x00\x00\x06" + octets[4:] + b"\x00", 0, BUDGET[:])


def test_an_operation_of_the_draft_as_a_value() -> None:
    drain = draft.LinkDrain(handle=3)
    octets = draft.encode_value({"k": drain})
    assert octets[-14:] == bytes.fromhex("6b ab 00000008 0305 0200 00000003")
    assert draft.decode_value(octets)[0] == {"k": drain}


@pytest.mark.spec("D-STRUCT-009")
def test_the_codes_of_structs_are_unique() -> None:
    for values in (preview_values, draft_values):
        codes = [code for code, _ in values.STRUCT_CODES.values()]
        assert len(codes) == len(set(codes)) == len(values.STRUCTS)


def test_structs_nest_as_deep_as_the_limit() -> None:
    value: Any = draft.SessionNoop()
    for _ in range(4):
        value = draft.SessionNoop(options={"k": value})
    octets = draft.encode_value(value)
    assert draft.decode_value(octets, limits=draft.Limits(depth=9))[0] == value
    with pytest.raises(DecodeError, match="nested deeper"):
        draft.decode_value(octets, limits=draft.Limits(depth=8))


# ---- what a field may hold ----


@pytest.mark.spec("D-STRUCT-008")
def test_a_required_field_that_is_missing() -> None:
    with pytest.raises(DecodeError, match="is required but absent") as caught:
        D.decode_exception(b"\x02\x00\x00\x00\x00\x07", 0, BUDGET[:])
    assert (caught.value.type, caught.value.field, caught.value.offset) == ("exception", "error-code", 2)
    wrong: Any = draft.AmqpException(error_code=None)  # type: ignore[arg-type]
    with pytest.raises(EncodeError, match=r"exception\.error-code: is required but None"):
        wrong.encode()
    record: Any = draft.Xid(format=1, global_id=b"", branch_id=None)  # type: ignore[arg-type]
    with pytest.raises(EncodeError, match=r"xid\.branch-id: is required but None"):
        record.encode()


@pytest.mark.spec("D-STRUCT-011")
def test_a_value_outside_of_a_closed_set() -> None:
    with pytest.raises(DecodeError, match="4007 is not a error-code; expected 4003") as caught:
        D.decode_exception(b"\x01\x00\x0f\xa7", 0, BUDGET[:])
    assert (caught.value.type, caught.value.field, caught.value.offset) == ("exception", "error-code", 2)
    wrong: Any = draft.AmqpException(error_code=4007)  # type: ignore[arg-type]
    with pytest.raises(EncodeError, match=r"exception\.error-code: 4007 is not a error-code"):
        wrong.encode()
    number: Any = draft.AmqpException(error_code=4004)  # type: ignore[arg-type]
    assert number.encode() == b"\x01\x00\x0f\xa4"


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (draft.Header, {"priority": 256}, "header.priority: 256 is not a value of type uint8"),
    (draft.Header, {"priority": "high"}, "header.priority: 'high' is not a value of type uint8"),
    (draft.Header, {"durable": 2}, "header.durable: 2 is not a value of type bit"),
    (draft.Header, {"durable": None}, "header.durable"),
    (draft.Header, {"durable": "yes"}, "header.durable: 'yes' is not a value of type bit"),
    (draft.MessageProperties, {"message_id": "text"}, "message-properties.message-id: 'text' is not"),
    (
        draft.MessageProperties,
        {"message_id": bytes(65536)},
        "message-properties.message-id: .* at most 65535",
    ),
    (draft.Xid, {"format": -1, "global_id": b"", "branch_id": b""}, "xid.format: -1 is not"),
    (draft.Xid, {"format": 1, "global_id": bytes(256), "branch_id": b""}, "xid.global-id: .* at most 255"),
    (preview.ReplyTo, {"routing_key": "x" * 256}, "reply-to.routing-key: .* at most 255"),
    (preview.ReplyTo, {"routing_key": b"rk"}, "reply-to.routing-key: b'rk' is not"),
    (preview.ReplyTo, {"exchange_name": "a.b"}, r"reply-to.exchange-name: 'a.b' breaks the rule 'regexp"),
    (
        preview.MessageProperties,
        {"application_headers": {"k": object()}},
        "message-properties.application-headers",
    ),
    (preview.MessageProperties, {"application_headers": [1]}, "application-headers: .* is not a map"),
    (preview.MessageProperties, {"reply_to": "queue"}, "message-properties.reply-to: 'queue' is no ReplyTo"),
    (preview.MessageProperties, {"reply_to": preview.ReplyTo(routing_key="x" * 256)}, "reply-to.routing-key"),
]


@pytest.mark.parametrize(("kind", "held", "message"), WRONG, ids=lambda one: str(one)[:40])
def test_the_error_of_an_encoder_names_the_field(kind: Any, held: dict[str, Any], message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        kind(**held).encode()


BAD: list[tuple[Decoder, str, str, str | None, int]] = [
    (D.decode_header, "0400 0000", "the data ends inside it", "format-code", 4),
    (D.decode_header, "0200", "the data ends inside it", "priority", 2),
    (D.decode_message_properties, "0100 00", "the data ends inside it", "message-id", 3),
    (D.decode_message_properties, "0100 0003 'ab'", "the data ends inside it", "message-id", 6),
    (D.decode_exception, "1100 0fa4 0003 'ab'", "the data ends inside it", "description", 8),
    (D.decode_exception, "1100 0fa4 0002 ffff", "is not UTF-8", "description", 6),
    (D.decode_exception, "1100 0fa4 0003 'a' c328", "is not UTF-8", "description", 7),
    (D.decode_exception, "2100 0fa4 00000004 00000001", "claims 1 entries in 0 octets", "error-info", 8),
    (D.decode_exception, "2100 0fa4 000000ff 00000001", "claims 255 octets", "error-info", 8),
    (D.decode_exception, "2100 0fa4 00000008 00000001 01 'k' e0 00", "no type .* 0xe0", "error-info", 14),
    (D.decode_xid, "00000001 05 'gt' 00", "the data ends inside it", "global-id", 8),
    (D.decode_xid, "00000001 00 05 'b'", "the data ends inside it", "branch-id", 7),
    (P.decode_reply_to, "0007 0300 03 'a.b' 00", "'a.b' breaks the rule 'regexp", "exchange-name", 8),
    (P.decode_reply_to, "0007 0300 03 'ab'", "the data ends inside it", "exchange-name", 7),
]  # fmt: skip


@pytest.mark.parametrize(("decode", "text", "reason", "field", "offset"), BAD, ids=lambda one: str(one)[:40])
def test_the_error_of_a_decoder_names_field_and_octet(
    decode: Decoder, text: str, reason: str, field: str | None, offset: int
) -> None:
    with pytest.raises(DecodeError, match=reason) as caught:
        decode(vector(decode, text, None).octets, 0, BUDGET[:])
    assert (caught.value.field, caught.value.offset) == (field, offset)


def test_defaults_and_what_is_absent() -> None:
    header, _ = D.decode_header(b"\x00\x00", 0, BUDGET[:])
    assert (header.durable, header.priority, header.format_code) == (False, None, None)
    assert D.decode_header(draft.Header(priority=0).encode(), 0, BUDGET[:])[0].priority == 0


@given(
    st.builds(
        draft.AmqpException,
        error_code=st.sampled_from(list(draft.ErrorCode)),
        command_id=st.none() | st.integers(0, 2**32 - 1).map(SerialNumber),
        command_code=st.none() | st.integers(0, 255),
        field_index=st.none() | st.integers(0, 255),
        description=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
        error_info=st.none() | st.dictionaries(st.text("ab", max_size=3), st.integers(-9, 9), max_size=3),
    )
)
def test_any_exception_comes_back_as_it_was(value: Any) -> None:
    octets = value.encode()
    assert D.decode_exception(octets, 0, BUDGET[:]) == (value, len(octets))


@given(st.sampled_from([row.decode for row in VECTORS]), st.binary(max_size=40))
def test_garbage_gives_a_struct_or_an_error(decode: Decoder, octets: bytes) -> None:
    try:
        value, behind = decode(octets, 0, BUDGET[:])
    except FAILURES:
        return
    assert behind <= len(octets)
    assert decode(value.encode(), 0, BUDGET[:])[0] == value

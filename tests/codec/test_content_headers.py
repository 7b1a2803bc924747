"""Content headers octet by octet: class, weight, size, property flags, properties."""

from __future__ import annotations

from typing import Any

import pytest

from tests.codec.method_objects import content_classes, example_of, preview, v091

BASIC = v091.BasicProperties


@pytest.mark.spec("A-FRAME-013")
def test_the_layout_of_a_content_header() -> None:
    """Class, weight, body size, flags and properties at the offsets 0, 2, 4, 12 and 14."""
    header = v091.ContentHeader(BASIC(content_type="text/plain", delivery_mode=2), 0x0102030405060708, 0x0A0B)
    octets = (
        "003c"  # class basic
        "0a0b"  # weight
        "0102030405060708"  # octets of the body
        "9000"  # the first and the fourth property, from the highest bit down
        "0a 746578742f706c61696e"  # a short string
        "02"  # an octet
    )
    assert header.encode().hex(" ") == bytes.fromhex(octets).hex(" ")
    assert v091.decode_content_header(bytes.fromhex(octets)) == header
    assert header.class_id == 60


@pytest.mark.parametrize(
    ("properties", "octets"),
    [
        (BASIC(), "0000"),
        (BASIC(content_type=""), "8000 00"),
        (BASIC(content_encoding="gzip"), "4000 04 677a6970"),
        (BASIC(headers={}), "2000 00000000"),
        (BASIC(headers={"n": 1}), "2000 00000007 01 6e 49 00000001"),
        (BASIC(priority=9), "0800 09"),
        (BASIC(expiration="100"), "0100 03 313030"),
        (BASIC(message_id="m"), "0080 01 6d"),
        (BASIC(timestamp=v091.PosixTime(1)), "0040 0000000000000001"),
        (BASIC(cluster_id="c"), "0004 01 63"),
        (
            BASIC(correlation_id="c", reply_to="r", type="t", user_id="u", app_id="a"),
            "0638 01 63 01 72 01 74 01 75 01 61",
        ),
    ],
)
def test_each_property_has_its_flag(properties: Any, octets: str) -> None:
    expected = bytes.fromhex("003c 0000 0000000000000000" + octets)
    assert v091.ContentHeader(properties, 0).encode().hex(" ") == expected.hex(" ")
    assert v091.decode_content_header(expected).properties == properties


def test_a_property_of_zero_is_not_an_absent_one() -> None:
    present = v091.decode_content_header(
        v091.ContentHeader(BASIC(priority=0, app_id=""), 0).encode()
    ).properties
    absent = v091.decode_content_header(v091.ContentHeader(BASIC(), 0).encode()).properties
    assert (present.priority, present.app_id) == (0, "")
    assert (absent.priority, absent.app_id) == (None, None)


def header(rest: str) -> bytes:
    return bytes.fromhex("003c 0000 0000000000000001" + rest)


@pytest.mark.parametrize(
    ("octets", "field", "reason", "offset"),
    [
        (header("0002"), None, "has a flag for property 15 of 14", 13),
        (header("8001 01 74"), None, "has flags for more than its 14 properties", 13),
        (header("00"), None, "the data ends inside its flags", 13),
        (header("8000"), "content-type", "the data ends inside it", 14),
        (header("8800 01 74"), "priority", "the data ends inside it", 16),
        (header("8000 02 74"), "content-type", "the data ends inside it", 16),
        (header("0040 00000000000000"), "timestamp", "the data ends inside it", 21),
        (header("0200 02 c328"), "reply-to", "is not UTF-8", 15),
        (header("0000 00"), None, "1 octets follow the properties", 14),
    ],
)
def test_malformed_properties(octets: bytes, field: str | None, reason: str, offset: int) -> None:
    with pytest.raises(v091.DecodeError) as caught:
        v091.decode_content_header(octets)
    error = caught.value
    assert (error.type, error.field, error.reason, error.offset) == (
        "basic.properties",
        field,
        reason,
        offset,
    )


def test_a_malformed_table_among_the_properties() -> None:
    with pytest.raises(v091.DecodeError) as caught:
        v091.decode_content_header(header("2000 00000003 01 6e 01"))
    assert (caught.value.type, caught.value.field) == ("basic.properties", "headers")


@pytest.mark.parametrize("number", [0, 10, 59, 65535])
def test_a_class_without_contents(number: int) -> None:
    octets = number.to_bytes(2, "big") + bytes(12)
    with pytest.raises(v091.DecodeError, match=f"there is no class {number} whose methods carry contents"):
        v091.decode_content_header(octets)


@pytest.mark.parametrize(
    ("size", "weight"), [(-1, 0), (1 << 64, 0), (0, -1), (0, 65536), ("1", 0), (None, 0)]
)
def test_numbers_out_of_range(size: Any, weight: Any) -> None:
    with pytest.raises(v091.EncodeError, match=r"basic\.properties: .* is out of range"):
        v091.ContentHeader(BASIC(), size, weight).encode()


def test_each_class_of_the_preview_has_properties_of_its_own() -> None:
    kinds = {kind.XML_NAME: kind for kind in content_classes(preview)}
    assert set(kinds) == {
        *("basic.properties", "file.properties", "stream.properties", "tunnel.properties"),
        "message.structs",
    }
    names = {name: [info.name for info in kind.FIELDS] for name, kind in kinds.items()}
    assert names["stream.properties"] == [
        "content-type",
        "content-encoding",
        "headers",
        "priority",
        "timestamp",
    ]
    assert names["file.properties"][-2:] == ["timestamp", "cluster-id"]
    for kind in kinds.values():
        octets = preview.ContentHeader(example_of(preview, kind), 0).encode()
        assert octets[:2] == kind.CLASS_ID.to_bytes(2, "big")


def test_structs_describe_the_messages_of_the_preview() -> None:
    """Class message has no properties: the structs with codes, which no argument holds, are in the header."""
    described = preview.MessageStructs(
        structs=[
            preview.DeliveryProperties(redelivered=True, priority=4, routing_key="k"),
            preview.MessageProperties(content_length=3),
        ]
    )
    octets = (
        "0078 0000 0000000000000003"
        "0000"  # no property flags
        "00000007 0000"  # delivery-properties: its size counts the code and all behind it
        "0601"  # redelivered, priority and routing-key: 2nd, 3rd and 9th, from the lowest bit of each octet
        "04 01 6b"
        "0000000c 0001 0100 0000000000000003"  # message-properties
    )
    made = preview.ContentHeader(described, 3)
    assert made.encode().hex(" ") == bytes.fromhex(octets).hex(" ")
    assert preview.decode_content_header(bytes.fromhex(octets)) == made
    with pytest.raises(preview.DecodeError, match="has a flag for property 1 of 0"):
        preview.decode_content_header(bytes.fromhex("0078 0000 0000000000000003 8000"))
    with pytest.raises(preview.EncodeError, match=r"message\.structs\.structs"):
        preview.MessageStructs(structs=[{"no": "struct"}]).encode()

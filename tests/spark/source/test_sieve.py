"""Messages that were delivered before are told from others by their header."""

from __future__ import annotations

import pytest

from amqpforge.spark.source.sieve import was_delivered
from amqpforge_protocol.amqp_1_0 import Data, Header, Message, Milliseconds, encode_message

BODY = encode_message(Message(body=[Data(b"body")]))


def with_header(header: Header | None) -> bytes:
    return encode_message(Message(header=header, body=[Data(b"body")]))


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (BODY, False),
        (with_header(Header()), False),
        (with_header(Header(durable=True, priority=9)), False),
        (with_header(Header(delivery_count=1)), True),
        (with_header(Header(durable=True, ttl=Milliseconds(1000), delivery_count=67)), True),
        (bytes.fromhex("005370 c007 05 41 5004 40 41") + b"\x43" + BODY, False),
        (bytes.fromhex("005370 c008 05 41 5004 40 41") + b"\x52\x01" + BODY, True),
        (bytes.fromhex("005370 d0 0000000a 00000005 41 40 40 41") + b"\x52\x02" + BODY, True),
        (bytes.fromhex("005370 d0 00000005 00000001 41") + BODY, False),
    ],
)
def test_the_delivery_count_tells(payload: bytes, expected: bool) -> None:
    for _ in range(2):  # A header that is known tells the same.
        assert was_delivered(payload) is expected


@pytest.mark.parametrize(
    "octets", ["", "00", "005370", "005370c0", "005370c005", "005370c00505", "005370c0020541"]
)
def test_octets_that_are_no_header_tell_nothing(octets: str) -> None:
    assert not was_delivered(bytes.fromhex(octets))

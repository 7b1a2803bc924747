"""The body of a received message is read without decoding what is around it, where that is the same."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import DecodeError, decode_message

DATA = b"\x00\x53\x75\xa0\x04body"
LONG_DATA = b"\x00\x53\x75\xb0\x00\x00\x00\x04body"
HEADER = b"\x00\x53\x70\xc0\x02\x01\x41"
LONG_HEADER = b"\x00\x53\x70\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x41"
NOTES = b"\x00\x53\x72\xc1\x07\x02\xa3\x03x-a\x41"
LONG_NOTES = b"\x00\x53\x72\xd1\x00\x00\x00\x0a\x00\x00\x00\x02\xa3\x03x-a\x41"
PROPERTIES = b"\x00\x53\x73\xc0\x05\x01\xa1\x02id"
OWN = b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\x41"
FOOTER = b"\x00\x53\x78\xc1\x07\x02\xa3\x03x-a\x41"

ONLY_DATA = {
    "nothing else": DATA,
    "a long body": LONG_DATA,
    "an empty body": b"\x00\x53\x75\xa0\x00",
    "all that can be ahead": HEADER + NOTES + PROPERTIES + OWN + DATA,
    "long forms": LONG_HEADER + LONG_NOTES + LONG_DATA,
}
OTHERWISE = {
    "two data sections": DATA + DATA,
    "a footer": DATA + FOOTER,
    "a value": HEADER + b"\x00\x53\x77\xa1\x04body",
    "a sequence": b"\x00\x53\x76\xc0\x02\x01\x41",
    "no body": PROPERTIES,
    "an empty list": b"\x00\x53\x70\x45" + DATA,
    "a long descriptor": b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x70" + HEADER[3:] + DATA,
    "a descriptor in letters": b"\x00\xa3\x10amqp:data:binary\xa0\x04body",
    "out of order": PROPERTIES + HEADER + DATA,
}
WRONG = {
    "empty": b"",
    "cut in the data": DATA[:-1],
    "cut in a long size": LONG_DATA[:6],
    "cut in front of the body": HEADER + DATA[:3],
    "more than the message": DATA + b"\x00",
    "data that is no binary": b"\x00\x53\x75\xc0\x02\x01\x41",
    "a header that is binary": b"\x00\x53\x70\xa0\x01\x00" + DATA,
    "a header twice": HEADER + HEADER + DATA,
    "an unknown section": b"\x00\x53\x7f\xc0\x01\x00" + DATA,
    "a section beyond the end": b"\x00\x53\x70\xd0\xff\xff\xff\xff\x00\x00\x00\x00" + DATA,
    "no section": b"\x40" + DATA,
}


def decoded(octets: bytes) -> Any:
    """The body as it is once all is decoded."""
    message = Message.from_octets(octets)
    assert message.sections is not None
    return message.body


@pytest.mark.parametrize("octets", [*ONLY_DATA.values(), *OTHERWISE.values()], ids=[*ONLY_DATA, *OTHERWISE])
def test_the_body_is_the_same_whether_the_rest_is_decoded_or_not(octets: bytes) -> None:
    message = Message.from_octets(octets)
    body = message.body
    assert (type(body), body) == (type(decoded(octets)), decoded(octets))
    assert message.sections == decode_message(octets)
    assert message.body == body


@pytest.mark.parametrize("octets", WRONG.values(), ids=WRONG)
def test_what_is_no_message_is_refused(octets: bytes) -> None:
    with pytest.raises(DecodeError):
        _ = Message.from_octets(octets).body


@pytest.mark.parametrize("octets", ONLY_DATA.values(), ids=ONLY_DATA)
def test_what_is_around_one_data_section_is_not_decoded(
    octets: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(payload: bytes) -> Any:
        raise AssertionError("the message was decoded")

    monkeypatch.setattr("amqpforge.message.decode_message", refuse)
    message = Message.from_octets(octets)
    assert message.body == (b"" if octets.endswith(b"\xa0\x00") else b"body")
    assert message.body is message.body
    assert message.encode() == octets


def test_what_is_wrong_around_the_body_comes_out_when_it_is_looked_at() -> None:
    message = Message.from_octets(b"\x00\x53\x73\xc0\x03\x01\x41\x41" + DATA)
    assert message.body == b"body"
    with pytest.raises(DecodeError, match="properties"):
        _ = message.message_id
    assert message.body == b"body"


def test_a_body_that_was_read_can_be_replaced() -> None:
    message = Message.from_octets(HEADER + DATA)
    assert message.body == b"body"
    message.body = b"other"
    assert message.body == b"other"
    assert message.durable
    assert Message.from_octets(message.encode()).body == b"other"

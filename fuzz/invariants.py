"""Garbage gives a value or a DecodeError, nothing else; and what decodes encodes, and decodes to the same
again.

One function for each entry point of the codec; each takes any octets, and raises what broke the rule. The
fuzzer calls them, and so do the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqpforge_protocol.amqp_1_0 import (
    DecodeError,
    EncodeError,
    FrameReader,
    Limits,
    Message,
    decode_frame,
    decode_frame_header,
    decode_message,
    decode_performative,
    decode_protocol_header,
    decode_value,
    encode_frame,
    encode_message,
    encode_value,
)
from tests.codec.sameness import same

# Ten octets may claim a million elements; the fuzzer has better things to do than to count them.
LIMITS = Limits(elements=10_000)
STRICT = Limits(elements=10_000, strict=True)

Decode = Callable[[bytes, Limits], Any]
Encode = Callable[[Any], bytes]


def _decode_value(data: bytes, limits: Limits) -> Any:
    value, behind = decode_value(data, limits=limits)
    assert 0 < behind <= len(data)
    return value


def _decode_performative(data: bytes, limits: Limits) -> Any:
    performative, behind = decode_performative(data, limits=limits)
    assert 0 < behind <= len(data)
    return performative


def _encode_performative(performative: Any) -> bytes:
    octets: bytes = performative.encode()
    return octets


def _decode_frame(data: bytes, limits: Limits) -> Any:
    frame, behind = decode_frame(data, limits=limits)
    assert 0 < behind <= len(data)
    return frame


def _encode_frame(frame: Any) -> bytes:
    return encode_frame(frame.performative, frame.channel or 0, frame.payload)


def _decode_message(data: bytes, limits: Limits) -> Any:
    message = decode_message(data, limits=limits)
    assert message.bare is None or message.bare in data
    return message


def _encode_message(message: Any) -> bytes:
    octets = encode_message(message)
    assert message.bare is None or message.bare in octets
    return octets


def check(data: bytes, decode: Decode, encode: Encode) -> None:
    """Hold one pair of functions to the rule.

    What only forgiving decoding takes, such as string keys in a map that wants symbols, is written as the
    specification has it: there the second encoding has to be equal to the first, not the value.
    """
    try:
        value = decode(data, LIMITS)
    except DecodeError as error:
        check_error(error, data)
        return
    try:
        octets = encode(value)
    except EncodeError:
        assert _is_message_not_made_anew(value)
        return
    again = decode(octets, Limits())
    assert encode(again) == octets
    assert same(_comparable(again), _comparable(value)) or not _decodes(data, decode, STRICT)


def check_error(error: DecodeError, data: bytes) -> None:
    """An error says where it is, and that is in the data or just behind it."""
    assert error.offset is not None, str(error)
    assert 0 <= error.offset <= len(data), str(error)
    assert error.reason


def _decodes(data: bytes, decode: Decode, limits: Limits) -> bool:
    try:
        decode(data, limits)
    except DecodeError:
        return False
    return True


def _is_message_not_made_anew(value: object) -> bool:
    """Sections out of order leave no octets of a bare message to send on, and we emit neither a message
    without a body nor a content-encoding where there is no data.
    """
    return isinstance(value, Message) and value.bare is None


def _comparable(value: Any) -> Any:
    """The value; a message without the octets that it came from, which may have been longer than they had
    to be.
    """
    if not isinstance(value, Message):
        return value
    sections = (value.header, value.delivery_annotations, value.message_annotations, value.properties)
    return [*sections, value.application_properties, value.body, value.footer]


def check_value(data: bytes) -> None:
    """Decode a free-standing value."""
    check(data, _decode_value, encode_value)


def check_performative(data: bytes) -> None:
    """Decode the start of a frame's body."""
    check(data, _decode_performative, _encode_performative)


def check_frame(data: bytes) -> None:
    """Decode a frame."""
    check(data, _decode_frame, _encode_frame)


def check_message(data: bytes) -> None:
    """Decode a message."""
    check(data, _decode_message, _encode_message)


def check_stream(data: bytes) -> None:
    """Cut a stream into items, whole and in pieces, and decode the headers that it starts with."""
    whole = _items(data, len(data) or 1)
    assert _items(data, 3) == whole
    for decode in (decode_protocol_header, decode_frame_header):
        try:
            decode(data)
        except DecodeError as error:
            check_error(error, data)


def _items(data: bytes, chunk: int) -> tuple[bytes, str | None]:
    """The octets that a reader hands out, and its error if it came to one."""
    reader = FrameReader(max_frame_size=1 << 16)
    found = b""
    for start in (*range(0, len(data), chunk), len(data)):  # the last, empty feed brings an error that is due
        try:
            found += b"".join(reader.feed(data[start : start + chunk]))
        except DecodeError as error:
            check_error(error, data)
            return found, str(error)
    assert len(found) + reader.pending == len(data)
    return found, None


CHECKS: dict[str, Callable[[bytes], None]] = {
    "value": check_value,
    "performative": check_performative,
    "frame": check_frame,
    "message": check_message,
    "stream": check_stream,
}
"""The checks by name."""

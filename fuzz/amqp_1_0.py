"""The rule of :mod:`fuzz.invariants` for the codec of AMQP 1.0."""

from __future__ import annotations

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
from fuzz.invariants import (
    LARGEST_FRAME,
    LIMITS,
    Check,
    Decode,
    Encode,
    check_error,
    check_headers,
    check_reader,
)
from tests.codec.sameness import same

STRICT = Limits(elements=10_000, strict=True)


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
    check_reader(data, lambda: FrameReader(max_frame_size=LARGEST_FRAME))
    check_headers(data, decode_protocol_header, decode_frame_header)


CHECKS: dict[str, Check] = {
    "value": check_value,
    "performative": check_performative,
    "frame": check_frame,
    "message": check_message,
    "stream": check_stream,
}
"""The checks by name."""

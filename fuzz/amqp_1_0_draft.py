"""The rule of :mod:`fuzz.invariants` for the codec of the draft of AMQP 1.0."""

from __future__ import annotations

from typing import Any

from amqpforge_protocol.amqp_1_0_draft import (
    Frame,
    FrameReader,
    FrameType,
    decode_frame,
    decode_frame_header,
    decode_map,
    decode_operation,
    decode_protocol_header,
    decode_value,
    encode_frame,
    encode_map,
    encode_value,
)
from fuzz.invariants import LARGEST_FRAME, Check, check_headers, check_pair, check_reader


def _encode_operation(operation: Any) -> bytes:
    octets: bytes = operation.encode()
    return octets


def _encode_frame(frame: Frame) -> bytes:
    if frame.type is FrameType.CONTROL:
        return encode_frame(frame.operation, frame.channel, kind=frame.type)
    return encode_frame(
        frame.operation,
        frame.channel,
        kind=frame.type,
        flags=frame.flags,
        acknowledged=frame.acknowledged,
        executed=frame.executed,
        capacity=frame.capacity,
        command_id=frame.command_id,
    )


def check_value(data: bytes) -> None:
    """Decode a free-standing value."""
    check_pair(data, lambda octets, limits: decode_value(octets, limits=limits), encode_value)


def check_map(data: bytes) -> None:
    """Decode a map, as a field holds it."""
    check_pair(data, lambda octets, limits: decode_map(octets, limits=limits), encode_map)


def check_operation(data: bytes) -> None:
    """Decode the start of a frame's body."""
    check_pair(data, lambda octets, limits: decode_operation(octets, limits=limits), _encode_operation)


def check_frame(data: bytes) -> None:
    """Decode a frame."""
    check_pair(data, lambda octets, limits: decode_frame(octets, limits=limits), _encode_frame)


def check_stream(data: bytes) -> None:
    """Cut a stream into items, whole and in pieces, and decode the headers that it starts with."""
    check_reader(data, lambda: FrameReader(max_frame_size=LARGEST_FRAME))
    check_headers(data, decode_protocol_header, decode_frame_header)


CHECKS: dict[str, Check] = {
    "value": check_value,
    "map": check_map,
    "operation": check_operation,
    "frame": check_frame,
    "stream": check_stream,
}
"""The checks by name."""

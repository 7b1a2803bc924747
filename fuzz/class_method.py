"""The rule of :mod:`fuzz.invariants` for AMQP 0-9-1 and the 0-10 preview, which share a grammar."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from amqpforge_protocol import amqp_0_9_1, amqp_0_10_preview
from amqpforge_protocol._support.errors import DecodeError
from amqpforge_protocol._support.limits import Limits
from fuzz.invariants import LARGEST_FRAME, LIMITS, Check, check_error, check_headers, check_pair, check_reader
from tests.codec.sameness import same


def checks(amqp: ModuleType) -> dict[str, Check]:
    """The checks of a dialect by name."""

    def value(data: bytes) -> None:
        check_pair(data, lambda octets, limits: amqp.decode_value(octets, limits=limits), amqp.encode_value)

    def table(data: bytes) -> None:
        check_pair(data, lambda octets, limits: amqp.decode_table(octets, limits=limits), amqp.encode_table)

    def method(data: bytes) -> None:
        def decode(octets: bytes, limits: Limits) -> tuple[Any, int]:
            return amqp.decode_method(octets, limits=limits), len(octets)

        check_pair(data, decode, lambda decoded: decoded.encode())

    def header(data: bytes) -> None:
        def decode(octets: bytes, limits: Limits) -> tuple[Any, int]:
            return amqp.decode_content_header(octets, limits=limits), len(octets)

        check_pair(data, decode, lambda decoded: decoded.encode())

    def frame(data: bytes) -> None:
        def encode(decoded: Any) -> bytes:
            octets: bytes = amqp.encode_frame(decoded.payload, decoded.channel, kind=decoded.type)
            return octets

        check_pair(data, lambda octets, limits: amqp.decode_frame(octets, limits=limits), encode)

    def stream(data: bytes) -> None:
        check_reader(data, lambda: amqp.FrameReader(max_frame_size=LARGEST_FRAME))
        check_headers(data, amqp.decode_frame_header)

    def content(data: bytes) -> None:
        for sender in ("client", "server"):
            _check_content(amqp, sender, data)

    return {
        "value": value,
        "table": table,
        "method": method,
        "header": header,
        "frame": frame,
        "stream": stream,
        "content": content,
    }


def _check_content(amqp: ModuleType, sender: str, data: bytes) -> None:
    """Put together what comes on a channel; what is whole is sent again and put together to the same."""
    for method, content in _assembled(amqp, sender, data):
        if content is None or not _is_whole(content):
            continue
        octets = amqp.encode_content(method, content, 1, max_frame_size=LARGEST_FRAME)
        (again,) = _assembled(amqp, sender, octets)
        assert same(list(again), [method, content])


def _is_whole(content: Any) -> bool:
    """Whether it, and what lies in it, arrived completely: what was broken off is not sent."""
    return content.is_complete and all(map(_is_whole, content.children))


def _assembled(amqp: ModuleType, sender: str, data: bytes) -> list[tuple[Any, Any]]:
    """The methods in frames one behind the other, with their contents, up to the first error."""
    assembler = amqp.Assembler(sender)
    found: list[tuple[Any, Any]] = []
    pos = 0
    while pos < len(data):
        try:
            frame, pos = amqp.decode_frame(data, pos, limits=LIMITS)
        except DecodeError as error:
            check_error(error, data)
            break
        try:
            message = assembler.feed(frame.payload)
        except amqp.SequenceError:
            continue  # the assembler is as it was
        if message is not None:
            found.append(message)
    return found


CHECKS_0_9_1 = checks(amqp_0_9_1)
CHECKS_0_10_PREVIEW = checks(amqp_0_10_preview)

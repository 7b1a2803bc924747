"""AMQP 0-10 preview, for the record: message.transfer with the header and the body that go with it.

No other stack for Python speaks this version.
"""

from __future__ import annotations

import struct
from typing import Any

from amqpforge_protocol import amqp_0_10_preview as amqp
from benchmarks.case import Case
from benchmarks.stack import Operation, Stack
from benchmarks.suite import Suite

CHANNEL = 1
BODY = bytes(range(256))
CREATED = 1_700_000_000
METHOD_FRAME, HEADER_FRAME, BODY_FRAME = 1, 2, 3


def _short_string(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


def _sized(octets: bytes) -> bytes:
    """Octets behind their number in four octets."""
    return struct.pack(">I", len(octets)) + octets


def _frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, CHANNEL, len(payload)) + payload + b"\xce"


_METHOD = struct.pack(">HHBBH", 120, 10, 1, 0, 7) + _short_string("orders") + b"\x01\x00"
_DELIVERY = b"".join(
    [
        struct.pack(">HH", 0, 0x2800 | 0x8001),  # delivery-mode, timestamp, exchange, routing-key
        b"\x02",
        struct.pack(">Q", CREATED),
        _short_string("orders"),
        _short_string("orders.eu-west.placed"),
    ]
)
_MESSAGE = b"".join(
    [
        struct.pack(">HH", 1, 0x1300),  # content-length, message-id, content-type
        struct.pack(">Q", len(BODY)),
        _short_string("8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a"),
        _short_string("application/json"),
    ]
)
_HEADER = struct.pack(">HHQH", 120, 0, len(BODY), 0) + _sized(_DELIVERY) + _sized(_MESSAGE)

CASE = Case(
    "message-transfer",
    _frame(METHOD_FRAME, _METHOD) + _frame(HEADER_FRAME, _HEADER) + _frame(BODY_FRAME, BODY),
    {
        "execution-header": amqp.ExecutionHeader(sync=False),
        "ticket": 7,
        "destination": "orders",
        "confirm-mode": 1,
        "acquire-mode": 0,
        "delivery-mode": 2,
        "timestamp": CREATED,
        "exchange": "orders",
        "routing-key": "orders.eu-west.placed",
        "content-length": len(BODY),
        "message-id": "8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a",
        "content-type": "application/json",
        "body": BODY,
    },
    kind="content",
)

TRANSFER = amqp.MessageTransfer(ticket=7, destination="orders", confirm_mode=1, acquire_mode=0)
DELIVERY = amqp.DeliveryProperties(
    delivery_mode=2,
    timestamp=amqp.PosixTime(CREATED),
    exchange="orders",
    routing_key="orders.eu-west.placed",
)
MESSAGE = amqp.MessageProperties(
    content_length=len(BODY),
    message_id="8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a",
    content_type="application/json",
)
HEADER = amqp.ContentHeader(amqp.MessageStructs(structs=[DELIVERY, MESSAGE]), len(BODY))


def _decode(octets: bytes) -> tuple[Any, Any, Any]:
    method, pos = amqp.decode_frame(octets)
    header, pos = amqp.decode_frame(octets, pos)
    body, pos = amqp.decode_frame(octets, pos)
    return method.payload, header.payload, body.payload


def _encode(method: amqp.MessageTransfer) -> bytes:
    return (
        amqp.encode_frame(method, CHANNEL)
        + amqp.encode_frame(HEADER, CHANNEL)
        + amqp.encode_frame(BODY, CHANNEL)
    )


def _plain(message: tuple[Any, Any, bytes]) -> dict[str, Any]:
    method, header, body = message
    values = {
        info.name: getattr(holder, info.attribute)
        for holder in (method, *header.properties.structs)
        for info in holder.FIELDS
    }
    return {**values, "body": body}


def load() -> Stack:
    """The stack of this project."""
    operations = {
        CASE.name: {
            "decode": Operation(_decode, CASE.octets, _plain),
            "encode": Operation(_encode, TRANSFER, CASE.values_of),
        }
    }
    return Stack("ours", "amqpforge_protocol", operations)


SUITE = Suite("AMQP 0-10 preview", (CASE,), load)

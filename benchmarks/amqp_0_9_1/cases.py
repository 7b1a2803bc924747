"""What is measured of AMQP 0-9-1: a message on its way to a consumer and from a publisher, and a field table.

A message is three frames: the method, the header with five properties, and a body of 256 octets. The table
has ten entries of the nine kinds that all four stacks can write and read back. Left out are doubles, which
pika does not write and reads without their fraction, and octets, which py-amqp writes as text.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

from benchmarks.case import Case

CHANNEL = 1
BODY = bytes(range(256))
"""The 256 octets of the message."""

CREATED = 1_700_000_000
"""A time stamp in seconds."""

METHOD_FRAME, HEADER_FRAME, BODY_FRAME = 1, 2, 3
DELIVER, PUBLISH = (60, 60), (60, 40)
"""Class and method numbers."""


def _short_string(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


def _sized(octets: bytes) -> bytes:
    """Octets behind their number in four octets."""
    return struct.pack(">I", len(octets)) + octets


def _string(text: str) -> bytes:
    """Text as a value of a table."""
    return b"S" + _sized(text.encode())


def _table(**entries: bytes) -> bytes:
    """A table of values that bring their type codes."""
    return _sized(b"".join([_short_string(key) + value for key, value in entries.items()]))


def frame(kind: int, payload: bytes) -> bytes:
    """A frame on the channel."""
    return struct.pack(">BHI", kind, CHANNEL, len(payload)) + payload + b"\xce"


HEADERS: dict[str, Any] = {"attempt": 3, "tenant": "eu-west", "traced": True}
PROPERTIES: dict[str, Any] = {
    "content-type": "application/json",
    "headers": HEADERS,
    "delivery-mode": 2,
    "message-id": "8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a",
    "timestamp": CREATED,
}
_HEADER = b"".join(
    [
        struct.pack(">HHQH", 60, 0, len(BODY), 1 << 15 | 1 << 13 | 1 << 12 | 1 << 7 | 1 << 6),
        _short_string("application/json"),
        _table(attempt=b"I" + struct.pack(">i", 3), tenant=_string("eu-west"), traced=b"t\x01"),
        b"\x02",
        _short_string("8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a"),
        struct.pack(">Q", CREATED),
    ]
)
_CONTENT = frame(HEADER_FRAME, _HEADER) + frame(BODY_FRAME, BODY)

DELIVER_CASE = Case(
    "deliver",
    frame(
        METHOD_FRAME,
        b"".join(
            [
                struct.pack(">HH", *DELIVER),
                _short_string("ctag1.5c0e8f7a"),
                struct.pack(">QB", 1042, 0),
                _short_string("orders"),
                _short_string("orders.eu-west.placed"),
            ]
        ),
    )
    + _CONTENT,
    {
        "consumer-tag": "ctag1.5c0e8f7a",
        "delivery-tag": 1042,
        "redelivered": False,
        "exchange": "orders",
        "routing-key": "orders.eu-west.placed",
        "properties": PROPERTIES,
        "body": BODY,
    },
    kind="content",
)

PUBLISH_CASE = Case(
    "publish",
    frame(
        METHOD_FRAME,
        b"".join(
            [
                struct.pack(">HHH", *PUBLISH, 0),
                _short_string("orders"),
                _short_string("orders.eu-west.placed"),
                b"\x01",
            ]
        ),
    )
    + _CONTENT,
    {
        "exchange": "orders",
        "routing-key": "orders.eu-west.placed",
        "mandatory": True,
        "immediate": False,
        "properties": PROPERTIES,
        "body": BODY,
    },
    kind="content",
)

TABLE: dict[str, Any] = {
    "queue": "orders-eu-west",
    "count": 3,
    "sequence": 1 << 40,
    "express": True,
    "reason": "expired",
    "price": Decimal("12.50"),
    "time": CREATED,
    "parent": None,
    "routing-keys": ["orders.eu-west.placed", "orders.placed"],
    "origin": {"host": "node-7", "port": 5672},
}
TABLE_CASE = Case(
    "table",
    _table(
        **{
            "queue": _string("orders-eu-west"),
            "count": b"I" + struct.pack(">i", 3),
            "sequence": b"l" + struct.pack(">q", 1 << 40),
            "express": b"t\x01",
            "reason": _string("expired"),
            "price": b"D" + struct.pack(">Bi", 2, 1250),
            "time": b"T" + struct.pack(">Q", CREATED),
            "parent": b"V",
            "routing-keys": b"A" + _sized(_string("orders.eu-west.placed") + _string("orders.placed")),
            "origin": b"F" + _table(host=_string("node-7"), port=b"I" + struct.pack(">i", 5672)),
        }
    ),
    TABLE,
    kind="table",
)

CASES = (DELIVER_CASE, PUBLISH_CASE, TABLE_CASE)

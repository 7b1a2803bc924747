"""The draft of AMQP 1.0, for the record: the frame of a link.transfer with 256 octets.

No other stack for Python speaks this version.
"""

from __future__ import annotations

import struct
from typing import Any

from amqpforge_protocol import amqp_1_0_draft as amqp
from benchmarks.case import Case
from benchmarks.stack import Operation, Stack
from benchmarks.suite import Suite

CHANNEL = 1
PAYLOAD = bytes(range(256))
SENT = 1_700_000_000_000
"""A time stamp in milliseconds."""

# Fields handle, transmit-time, header and payload; in the header durable and priority.
_FIELDS = b"".join(
    [
        struct.pack(">HH", 0x0306, 0x4203),
        struct.pack(">I", 7),
        struct.pack(">q", SENT),
        struct.pack(">HB", 0x0300, 4),
        struct.pack(">I", len(PAYLOAD)) + PAYLOAD,
    ]
)
_BODY = struct.pack(">I", len(_FIELDS)) + _FIELDS

CASE = Case(
    "link-transfer",
    struct.pack(">IBBHIIII", 24 + len(_BODY), 1, 0, CHANNEL, 1041, 1040, 100, 1042) + _BODY,
    {
        "channel": CHANNEL,
        "acknowledged": 1041,
        "executed": 1040,
        "capacity": 100,
        "command-id": 1042,
        "handle": 7,
        "transmit-time": SENT,
        "header": amqp.Header(durable=True, priority=4),
        "payload": PAYLOAD,
    },
    kind="frame",
)

TRANSFER = amqp.LinkTransfer(
    handle=7,
    transmit_time=amqp.Timestamp(SENT),
    header=amqp.Header(durable=True, priority=4),
    payload=PAYLOAD,
)


def _encode(operation: amqp.LinkTransfer) -> bytes:
    return amqp.encode_frame(
        operation, CHANNEL, acknowledged=1041, executed=1040, capacity=100, command_id=1042
    )


def _plain(result: tuple[amqp.Frame, int]) -> dict[str, Any]:
    frame, _ = result
    operation: Any = frame.operation
    values = {info.name: getattr(operation, info.attribute) for info in operation.FIELDS}
    return {
        **values,
        "channel": frame.channel,
        "acknowledged": frame.acknowledged,
        "executed": frame.executed,
        "capacity": frame.capacity,
        "command-id": frame.command_id,
    }


def load() -> Stack:
    """The stack of this project."""
    operations = {
        CASE.name: {
            "decode": Operation(amqp.decode_frame, CASE.octets, _plain),
            "encode": Operation(_encode, TRANSFER, CASE.values_of),
        }
    }
    return Stack("ours", "amqpforge_protocol", operations)


SUITE = Suite("AMQP 1.0 draft", (CASE,), load)

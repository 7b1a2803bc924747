"""What a decoded capture consists of: one `Record` per frame, protocol header or piece that could not be
read.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Literal, NamedTuple

from amqpforge.capture.tcp import Direction

__all__ = ["Header", "Kind", "Record"]

Kind = Literal[
    "header",
    "empty",
    "error",
    "amqp",
    "sasl",
    "method",
    "content-header",
    "body",
    "heartbeat",
    "trace",
    "control",
    "command",
]
"""A protocol header, a frame without a body, or what cannot be decoded; else the type of a frame: of AMQP 1.0
(amqp, sasl), of a class/method dialect (method to heartbeat), or of a control/command dialect.
"""


class Header(NamedTuple):
    """The four numbers after the letters AMQP in a protocol header (AMQP 1.0 part 2, section 2.2)."""

    protocol_id: int
    major: int
    minor: int
    revision: int


@dataclass(slots=True)
class Record:
    """One line of output.

    `time` is in nanoseconds since 1970-01-01 00:00 UTC, of the packet that completed the frame, or None if
    unknown; `offset` counts octets from the start of the direction, missing ones included. `value` is the
    `Header`, the performative, method, control or command, or the header of a content (None for frames that
    have none, and errors), `name` what the specification calls it, `octets` the body of its frame,
    `payload_bytes` the part of it behind the value, `dialect` the generated package that decoded it. An error
    says its `reason`, and the channel if that is known.
    """

    time: int | None
    stream: int
    direction: Direction
    offset: int
    kind: Kind
    channel: int | None = None
    name: str | None = None
    value: object = None
    octets: bytes = b""
    payload_bytes: int = 0
    reason: str | None = None
    dialect: ModuleType | None = None

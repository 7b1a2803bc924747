"""What a decoded capture consists of: one `Record` per frame, protocol header or piece that could not be
read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from amqpforge.capture.tcp import Direction

__all__ = ["Header", "Kind", "Record"]

Kind = Literal["header", "amqp", "sasl", "empty", "error"]


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
    `Header` or the performative (None for empty frames and errors), `performative` its name,
    `octets` the body of its frame, `payload_bytes` the part of it behind the performative. An error says its
    `reason`, and the channel if that is known.
    """

    time: int | None
    stream: int
    direction: Direction
    offset: int
    kind: Kind
    channel: int | None = None
    performative: str | None = None
    value: object = None
    octets: bytes = b""
    payload_bytes: int = 0
    reason: str | None = None

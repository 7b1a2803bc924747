"""Records as readable lines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple

from amqpforge.capture.dialects import dialect_of
from amqpforge.capture.fields import Fields, fields
from amqpforge.capture.record import Header, Record
from amqpforge.notation import Composite, composite, is_composite
from amqpforge_protocol.amqp_1_0 import Array, Described, Map, Symbol

__all__ = ["Line", "clock", "describe", "line", "printable"]

_SHOWN_OCTETS = 32
_BARE_SYMBOL = re.compile(r"[A-Za-z0-9_.:/*+@$-]+")
_PROTOCOL_IDS = {0: "AMQP", 2: "TLS", 3: "SASL"}


class Line(NamedTuple):
    """The parts of a line, for who wants to colour them."""

    place: str
    """Time, stream and direction."""
    channel: str
    name: str
    details: str
    payload: str

    def __str__(self) -> str:
        """The whole line, without its end."""
        return "  ".join(part for part in self if part).rstrip()


def line(record: Record) -> Line:
    """The line of a record: time in UTC (where known), stream, direction, channel, what it is, its fields,
    its payload.
    """
    time = "" if record.time is None else clock(record.time) + "  "
    channel = "" if record.channel is None else f"ch {record.channel}"
    payload = f"+{record.payload_bytes} octets" if record.payload_bytes else ""
    name, details = _content(record)
    return Line(f"{time}{record.stream} {record.direction}", f"{channel:<5}", f"{name:<11}", details, payload)


def describe(value: Any) -> str:
    """One value on one line; nothing in it can be taken for the end of the line or a terminal's control."""
    if value is None:
        return "null"
    if isinstance(value, Composite):
        return f"{value.name}({_fields(value.fields)})"
    if is_composite(value):
        return describe(composite(value))
    if isinstance(value, Enum):
        return str(value.value) if isinstance(value.value, str) else value.name.lower().replace("_", "-")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        shown = value[:_SHOWN_OCTETS].hex()
        return f"0x{shown}" if len(value) <= _SHOWN_OCTETS else f"0x{shown}... ({len(value)} octets)"
    if isinstance(value, Symbol):
        return str(value) if _BARE_SYMBOL.fullmatch(value) else f"symbol {_quoted(value)}"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list | Array):
        return f"[{', '.join(map(describe, value))}]"
    if isinstance(value, Mapping | Map):
        return f"{{{', '.join(f'{describe(key)}: {describe(item)}' for key, item in value.items())}}}"
    if isinstance(value, Described):
        return f"@{describe(value.descriptor)} {describe(value.value)}"
    if hasattr(type(value), "XML_NAME"):
        return f"{type(value).XML_NAME}({describe(value.value)})"
    return str(value)


def clock(time: int) -> str:
    """The time of day in UTC of nanoseconds since 1970, to the microsecond; seconds since then, if it is no
    date.
    """
    seconds, nanoseconds = divmod(time, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{seconds}.{nanoseconds // 1000:06}"
    return f"{moment:%H:%M:%S}.{nanoseconds // 1000:06}"


def printable(text: str) -> str:
    """A text with escapes for what could be taken for the end of a line, or for a terminal's control."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _content(record: Record) -> tuple[str, str]:
    if record.kind == "error":
        return "ERROR", f"at octet {record.offset}: {printable(record.reason or '')}"
    if isinstance(record.value, Header):
        protocol = _PROTOCOL_IDS.get(record.value.protocol_id)
        if protocol is None:
            return "header", dialect_of(record.value).name
        return "header", f"{protocol} {'.'.join(map(str, record.value[1:]))}"
    return record.name or record.kind, _fields(fields(record))


def _fields(pairs: Fields) -> str:
    return ", ".join(f"{info.name}={describe(held)}" for info, held in pairs)


def _quoted(text: str) -> str:
    return printable(json.dumps(text, ensure_ascii=False))

"""Records as JSON objects: the lines of `amqpforge decode --json`."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from amqpforge.capture.fields import fields
from amqpforge.capture.record import Header, Record
from amqpforge.coded_notation import CodedNotation
from amqpforge.notation import fields_to_json

__all__ = ["as_object"]

_NAME_KEYS = {
    **dict.fromkeys(("method", "content-header", "body", "heartbeat", "trace"), "method"),
    "control": "control",
    "command": "command",
}


def as_object(record: Record) -> dict[str, Any]:
    """The object of a record, ready for the json module; values are in the form of `amqpforge.notation`, or
    of `amqpforge.coded_notation`.

    It always has time (seconds, a float, or None), stream, direction, offset, kind, channel, the name of what
    the frame says, fields and payload_bytes; an error also has its reason. The name stands under
    "performative"; in the frames of a class/method dialect under "method", of a control/command dialect under
    "control" or "command".
    """
    result: dict[str, Any] = {
        "time": None if record.time is None else record.time / 1_000_000_000,
        "stream": record.stream,
        "direction": record.direction,
        "offset": record.offset,
        "kind": record.kind,
        "channel": record.channel,
        _NAME_KEYS.get(record.kind, "performative"): record.name,
        "fields": _fields(record),
        "payload_bytes": record.payload_bytes,
    }
    if record.reason is not None:
        result["reason"] = record.reason
    return result


def _fields(record: Record) -> dict[str, Any]:
    if isinstance(record.value, Header):
        names = ("protocol-id", "major", "minor", "revision")
        return dict(zip(names, record.value, strict=True))
    if record.kind in ("amqp", "sasl"):
        return fields_to_json(fields(record))
    if record.value is None or record.dialect is None:
        return {}
    return _notation(record.dialect).fields(fields(record))


@cache
def _notation(dialect: ModuleType) -> CodedNotation:
    return CodedNotation(dialect)

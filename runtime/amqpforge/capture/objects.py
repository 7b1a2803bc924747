"""Records as JSON objects: the lines of `amqpforge decode --json`."""

from __future__ import annotations

from typing import Any

from amqpforge.capture.record import Header, Record
from amqpforge.notation import as_sent, fields_to_json

__all__ = ["as_object"]


def as_object(record: Record) -> dict[str, Any]:
    """The object of a record, ready for the json module; values are in the form of `amqpforge.notation`.

    It always has time (seconds, a float, or None), stream, direction, offset, kind, channel, performative,
    fields and payload_bytes; an error also has its reason.
    """
    fields: dict[str, Any] = {}
    if isinstance(record.value, Header):
        names = ("protocol-id", "major", "minor", "revision")
        fields = dict(zip(names, record.value, strict=True))
    elif record.performative is not None:
        fields = fields_to_json(as_sent(record.value, record.octets).fields)
    result: dict[str, Any] = {
        "time": None if record.time is None else record.time / 1_000_000_000,
        "stream": record.stream,
        "direction": record.direction,
        "offset": record.offset,
        "kind": record.kind,
        "channel": record.channel,
        "performative": record.performative,
        "fields": fields,
        "payload_bytes": record.payload_bytes,
    }
    if record.reason is not None:
        result["reason"] = record.reason
    return result

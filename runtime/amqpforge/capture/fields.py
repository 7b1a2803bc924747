"""The fields of a record's value, as the definitions name them."""

from __future__ import annotations

from typing import Any

from amqpforge.capture.record import Record
from amqpforge.notation import as_sent
from amqpforge_protocol._support.composite import FieldInfo

__all__ = ["Fields", "fields"]

Fields = list[tuple[FieldInfo, object]]

_CONTENT_HEADER = (
    FieldInfo("class-id", "class_id", "short", "short"),
    FieldInfo("weight", "weight", "short", "short"),
    FieldInfo("body-size", "body_size", "longlong", "longlong"),
    FieldInfo("properties", "properties", "properties", "properties"),
)


def fields(record: Record) -> Fields:
    """The fields that were sent, in order; none for a record without a value of the definitions."""
    if record.kind in ("amqp", "sasl"):
        return as_sent(record.value, record.octets).fields
    if record.kind == "content-header":
        return _held(record.value, _CONTENT_HEADER)
    if record.name is not None:
        return present(record.value)
    return []


def present(value: Any) -> Fields:
    """The fields of a method, control, command or struct that are not None."""
    return _held(value, type(value).FIELDS)


def _held(value: Any, infos: tuple[FieldInfo, ...]) -> Fields:
    pairs = ((info, getattr(value, info.attribute)) for info in infos)
    return [(info, held) for info, held in pairs if held is not None]

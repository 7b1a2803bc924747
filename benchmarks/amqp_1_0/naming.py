"""The fields of composites in the order of the wire, for stacks that return bare lists."""

from __future__ import annotations

from typing import Any

from benchmarks.amqp_1_0.cases import SOURCE, TARGET
from benchmarks.case import Composite

NESTED_CODES = {"source": SOURCE, "target": TARGET}
"""Descriptor codes of the composites inside the performatives."""

FIELD_NAMES: dict[str, tuple[str, ...]] = {
    "transfer": (
        "handle",
        "delivery-id",
        "delivery-tag",
        "message-format",
        "settled",
        "more",
        "rcv-settle-mode",
        "state",
        "resume",
        "aborted",
        "batchable",
    ),
    "flow": (
        "next-incoming-id",
        "incoming-window",
        "next-outgoing-id",
        "outgoing-window",
        "handle",
        "delivery-count",
        "link-credit",
        "available",
        "drain",
        "echo",
        "properties",
    ),
    "disposition": ("role", "first", "last", "settled", "state", "batchable"),
    "attach": (
        "name",
        "handle",
        "role",
        "snd-settle-mode",
        "rcv-settle-mode",
        "source",
        "target",
        "unsettled",
        "incomplete-unsettled",
        "initial-delivery-count",
        "max-message-size",
        "offered-capabilities",
        "desired-capabilities",
        "properties",
    ),
    "source": (
        "address",
        "durable",
        "expiry-policy",
        "timeout",
        "dynamic",
        "dynamic-node-properties",
        "distribution-mode",
        "filter",
        "default-outcome",
        "outcomes",
        "capabilities",
    ),
    "target": (
        "address",
        "durable",
        "expiry-policy",
        "timeout",
        "dynamic",
        "dynamic-node-properties",
        "capabilities",
    ),
    "header": ("durable", "priority", "ttl", "first-acquirer", "delivery-count"),
    "properties": (
        "message-id",
        "user-id",
        "to",
        "subject",
        "reply-to",
        "correlation-id",
        "content-type",
        "content-encoding",
        "absolute-expiry-time",
        "creation-time",
        "group-id",
        "group-sequence",
        "reply-to-group-id",
    ),
}
"""The fields of the composites in the order of the wire, for stacks that return bare lists."""

CODES = {"transfer": 0x14, "flow": 0x13, "disposition": 0x15, "attach": 0x12}
"""Descriptor codes of the performatives."""


def named(type_name: str, fields: list[Any]) -> dict[str, Any]:
    """Positional fields by name, nested sources and targets likewise; nulls left out."""
    result: dict[str, Any] = {}
    for name, value in zip(FIELD_NAMES[type_name], fields, strict=False):
        if value is not None:
            is_nested = name in NESTED_CODES and isinstance(value, list)
            result[name] = Composite(NESTED_CODES[name], named(name, value)) if is_nested else value
    return result

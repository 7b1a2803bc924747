"""pamqp: ``frame.unmarshal`` and ``frame.marshal`` frame by frame, ``decode`` and ``encode`` for tables."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

from benchmarks.amqp_0_9_1 import cases, ours
from benchmarks.amqp_0_9_1.cases import CHANNEL, DELIVER_CASE, PUBLISH_CASE, TABLE_CASE
from benchmarks.amqp_0_9_1.plain import fields, moment, plain
from benchmarks.case import Case
from benchmarks.stack import Operation, Stack


def _decoder(unmarshal: Any) -> Any:
    def decode(octets: bytes) -> tuple[Any, Any, Any]:
        size, _, method = unmarshal(octets)
        octets = octets[size:]
        size, _, header = unmarshal(octets)
        octets = octets[size:]
        _, _, body = unmarshal(octets)
        return method, header, body

    return decode


def _encoder(marshal: Any) -> Any:
    def encode(frames: tuple[Any, Any, Any]) -> bytes:
        method, header, body = frames
        octets: bytes = marshal(method, CHANNEL) + marshal(header, CHANNEL) + marshal(body, CHANNEL)
        return octets

    return encode


def _plain(case: Case) -> Any:
    methods = tuple(name for name in case.values if name not in ("properties", "body"))

    def message(frames: tuple[Any, Any, Any]) -> dict[str, Any]:
        method, header, body = frames
        values = fields(method, methods)
        return {**values, "properties": _properties(header.properties), "body": body.value}

    return message


def _properties(properties: Any) -> dict[str, Any]:
    return fields(properties, tuple(cases.PROPERTIES))


def _frames() -> tuple[Any, Any, Any]:
    """The published message in the classes of the stack."""
    commands, header, body = (import_module(f"pamqp.{name}") for name in ("commands", "header", "body"))
    properties = commands.Basic.Properties(
        content_type="application/json",
        headers=cases.HEADERS,
        delivery_mode=2,
        message_id="8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a",
        timestamp=moment(cases.CREATED),
    )
    method = commands.Basic.Publish(exchange="orders", routing_key="orders.eu-west.placed", mandatory=True)
    return method, header.ContentHeader(0, len(cases.BODY), properties), body.ContentBody(cases.BODY)


def load() -> Stack:
    """The library.

    Raises:
        ImportError: pamqp is not installed.
    """
    frame, decoding, encoding = (import_module(f"pamqp.{name}") for name in ("frame", "decode", "encode"))
    decode = _decoder(frame.unmarshal)
    table = {**cases.TABLE, "time": moment(cases.CREATED)}
    operations = {
        "deliver": {"decode": Operation(decode, DELIVER_CASE.octets, _plain(DELIVER_CASE))},
        "publish": {
            "encode": Operation(_encoder(frame.marshal), _frames(), ours.read_message),
            "read": Operation(decode, PUBLISH_CASE.octets, _plain(PUBLISH_CASE)),
        },
        "table": {
            "decode": Operation(
                decoding.field_table, TABLE_CASE.octets, lambda result: dict(plain(result[1]))
            ),
            "encode": Operation(encoding.field_table, table, ours.read_table),
        },
    }
    return Stack("pamqp", f"pamqp {metadata.version('pamqp')}", operations)

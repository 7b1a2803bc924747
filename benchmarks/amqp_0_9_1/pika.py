"""pika: ``frame.decode_frame`` and ``marshal`` of its frames, ``data`` for the table."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

from benchmarks.amqp_0_9_1 import cases, ours
from benchmarks.amqp_0_9_1.cases import CHANNEL, DELIVER_CASE, PUBLISH_CASE, TABLE_CASE
from benchmarks.amqp_0_9_1.plain import fields, moment, plain
from benchmarks.case import Case
from benchmarks.stack import Operation, Stack


def _decoder(decode_frame: Any) -> Any:
    def decode(octets: bytes) -> tuple[Any, Any, Any]:
        size, method = decode_frame(octets)
        octets = octets[size:]
        size, header = decode_frame(octets)
        octets = octets[size:]
        _, body = decode_frame(octets)
        return method, header, body

    return decode


def _encode(frames: tuple[Any, Any, Any]) -> bytes:
    method, header, body = frames
    octets: bytes = method.marshal() + header.marshal() + body.marshal()
    return octets


def _plain(case: Case) -> Any:
    methods = tuple(name for name in case.values if name not in ("properties", "body"))

    def message(frames: tuple[Any, Any, Any]) -> dict[str, Any]:
        method, header, body = frames
        values = fields(method.method, methods)
        properties = fields(header.properties, tuple(cases.PROPERTIES))
        return {**values, "properties": properties, "body": body.fragment}

    return message


def _frames(frame: Any) -> tuple[Any, Any, Any]:
    """The published message in the frames of the stack."""
    spec = import_module("pika.spec")
    properties = spec.BasicProperties(
        content_type="application/json",
        headers=cases.HEADERS,
        delivery_mode=2,
        message_id="8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a",
        timestamp=cases.CREATED,
    )
    method = spec.Basic.Publish(exchange="orders", routing_key="orders.eu-west.placed", mandatory=True)
    return (
        frame.Method(CHANNEL, method),
        frame.Header(CHANNEL, len(cases.BODY), properties),
        frame.Body(CHANNEL, cases.BODY),
    )


def load() -> Stack:
    """The library.

    Raises:
        ImportError: pika is not installed.
    """
    frame, data = import_module("pika.frame"), import_module("pika.data")
    decode, decode_octets, append_table = _decoder(frame.decode_frame), data.decode_table, data.encode_table
    table = {**cases.TABLE, "time": moment(cases.CREATED)}

    def decode_table(octets: bytes) -> Any:
        return decode_octets(octets, 0)

    def encode_table(value: dict[str, Any]) -> bytes:
        pieces: list[bytes] = []
        append_table(pieces, value)
        return b"".join(pieces)

    operations = {
        "deliver": {"decode": Operation(decode, DELIVER_CASE.octets, _plain(DELIVER_CASE))},
        "publish": {
            "encode": Operation(_encode, _frames(frame), ours.read_message),
            "read": Operation(decode, PUBLISH_CASE.octets, _plain(PUBLISH_CASE)),
        },
        "table": {
            "decode": Operation(decode_table, TABLE_CASE.octets, lambda result: dict(plain(result[0]))),
            "encode": Operation(encode_table, table, ours.read_table),
        },
    }
    return Stack("pika", f"pika {metadata.version('pika')}", operations)

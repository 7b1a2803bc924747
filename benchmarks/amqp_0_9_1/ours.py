"""The generated package, through its public functions and typed objects."""

from __future__ import annotations

from typing import Any

from amqpforge_protocol import amqp_0_9_1 as amqp
from benchmarks.amqp_0_9_1 import cases
from benchmarks.amqp_0_9_1.cases import CHANNEL, DELIVER_CASE, PUBLISH_CASE, TABLE_CASE
from benchmarks.stack import Operation, Stack

PROPERTIES = amqp.BasicProperties(
    content_type="application/json",
    headers=cases.HEADERS,
    delivery_mode=2,
    message_id="8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a",
    timestamp=amqp.PosixTime(cases.CREATED),
)
PUBLISH = amqp.BasicPublish(exchange="orders", routing_key="orders.eu-west.placed", mandatory=True)
HEADER = amqp.ContentHeader(PROPERTIES, len(cases.BODY))
CONTENT = amqp.Content(PROPERTIES, cases.BODY)
TABLE = {**cases.TABLE, "time": amqp.PosixTime(cases.CREATED)}
FRAME_MAX = 131072


def _decode(octets: bytes) -> tuple[Any, Any, Any]:
    method, pos = amqp.decode_frame(octets)
    header, pos = amqp.decode_frame(octets, pos)
    body, pos = amqp.decode_frame(octets, pos)
    return method.payload, header.payload, body.payload


def _encode(method: amqp.AnyMethod) -> bytes:
    return (
        amqp.encode_frame(method, CHANNEL)
        + amqp.encode_frame(HEADER, CHANNEL)
        + amqp.encode_frame(cases.BODY, CHANNEL)
    )


def _fields(value: Any) -> dict[str, Any]:
    return {info.name: getattr(value, info.attribute) for info in value.FIELDS}


def _plain(message: tuple[Any, Any, bytes]) -> dict[str, Any]:
    method, header, body = message
    return {**_fields(method), "properties": _fields(header.properties), "body": body}


def read_message(octets: Any) -> dict[str, Any]:
    """What another stack has encoded, as values."""
    return _plain(_decode(bytes(octets)))


def read_table(octets: Any) -> dict[str, Any]:
    """A table that another stack has encoded."""
    return amqp.decode_table(bytes(octets))[0]


def load() -> Stack:
    """The stack of this project, frame by frame."""
    operations = {
        "deliver": {"decode": Operation(_decode, DELIVER_CASE.octets, _plain)},
        "publish": {"encode": Operation(_encode, PUBLISH, PUBLISH_CASE.values_of)},
        "table": {
            "decode": Operation(amqp.decode_table, TABLE_CASE.octets, lambda result: result[0]),
            "encode": Operation(amqp.encode_table, TABLE, TABLE_CASE.values_of),
        },
    }
    return Stack("ours", "amqpforge_protocol", operations)


def load_channel() -> Stack:
    """The same with what a channel needs around the frames: they are cut out of a stream, contents are put
    together and checked for their sequence, as py-amqp does.
    """
    feed = amqp.FrameReader(FRAME_MAX).feed
    assemble = amqp.Assembler("server").feed
    decode_frame = amqp.decode_frame

    def decode(octets: bytes) -> Any:
        message = None
        for item in feed(octets):
            message = assemble(decode_frame(item)[0].payload)
        return message

    def encode(method: amqp.AnyMethod) -> bytes:
        return amqp.encode_content(method, CONTENT, CHANNEL, max_frame_size=FRAME_MAX)

    def plain(message: tuple[Any, amqp.Content]) -> dict[str, Any]:
        method, content = message
        return {**_fields(method), "properties": _fields(content.properties), "body": content.body}

    operations = {
        "deliver": {"decode": Operation(decode, DELIVER_CASE.octets, plain)},
        "publish": {"encode": Operation(encode, PUBLISH, PUBLISH_CASE.values_of)},
    }
    return Stack("ours-channel", "ours, a whole content", operations, is_target=False)

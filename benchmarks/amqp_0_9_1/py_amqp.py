"""py-amqp (the package ``amqp``): frames as its transport and ``method_framing`` handle them, arguments and
tables by ``serialization.loads`` and ``dumps``.

The transport reads from memory here, and writes nowhere: what is written is a view of the writer's buffer.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

from benchmarks.amqp_0_9_1 import cases, ours
from benchmarks.amqp_0_9_1.cases import CHANNEL, DELIVER, DELIVER_CASE, PUBLISH, PUBLISH_CASE, TABLE_CASE
from benchmarks.amqp_0_9_1.plain import moment, plain
from benchmarks.case import Case
from benchmarks.stack import Operation, Stack

FORMATS = {"deliver": "sLbss", "publish": "Bssbb"}
"""The arguments of the methods, as the channel of the stack spells them."""

ARGUMENTS = 4
"""Where in a method frame's payload the arguments start."""


class _Memory:
    """What stands for the connection and its transport."""

    frame_max = 131072
    bytes_sent = bytes_recv = 0
    octets = b""
    pos = 0
    written: memoryview

    def _read(self, size: int, initial: bool = False) -> bytes:
        begin, self.pos = self.pos, self.pos + size
        return self.octets[begin : self.pos]

    def write(self, view: memoryview) -> None:
        self.written = view


def _decoder(case: Case, method: tuple[int, int]) -> Any:
    """Decodes three frames into arguments and a message."""
    read_frame = import_module("amqp.transport")._AbstractTransport.read_frame
    loads = import_module("amqp.serialization").loads
    frame_handler = import_module("amqp.method_framing").frame_handler
    memory, format_ = _Memory(), FORMATS[case.name]
    arrived: list[tuple[Any, Any]] = []

    def callback(channel: int, method_sig: tuple[int, int], buffer: bytes, message: Any) -> None:
        arrived.append((loads(format_, buffer, ARGUMENTS), message))

    on_frame = frame_handler(memory, callback, content_methods=frozenset([method]))

    def decode(octets: bytes) -> tuple[Any, Any]:
        memory.octets = octets
        memory.pos = 0
        on_frame(read_frame(memory))
        on_frame(read_frame(memory))
        on_frame(read_frame(memory))
        return arrived.pop()

    return decode


def _encoder() -> Any:
    """Encodes arguments and a message as three frames."""
    dumps, memory = import_module("amqp.serialization").dumps, _Memory()
    write_frame = import_module("amqp.method_framing").frame_writer(memory, memory)
    format_ = FORMATS["publish"]

    def encode(message: tuple[tuple[Any, ...], Any]) -> memoryview:
        arguments, content = message
        write_frame(cases.METHOD_FRAME, CHANNEL, PUBLISH, dumps(format_, arguments), content)
        return memory.written

    return encode


def _plain(case: Case) -> Any:
    """Arguments and properties by name; this library has names of its own for some."""
    names = tuple(name for name in case.values if name not in ("properties", "body"))
    if case.name == "publish":
        names = ("ticket", *names)

    def message(arrived: tuple[tuple[list[Any], int], Any]) -> dict[str, Any]:
        (arguments, _), content = arrived
        properties = {name.replace("_", "-"): value for name, value in plain(content.properties).items()}
        properties["headers"] = properties.pop("application-headers")
        values = dict(zip(names, arguments, strict=True))
        return {**values, "properties": properties, "body": content.body}

    return message


def _message() -> tuple[tuple[Any, ...], Any]:
    """The published message: arguments, and the content in the class of the stack."""
    content = import_module("amqp.basic_message").Message(
        cases.BODY,
        content_type="application/json",
        application_headers=cases.HEADERS,
        delivery_mode=2,
        message_id="8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a",
        timestamp=cases.CREATED,
    )
    return (0, "orders", "orders.eu-west.placed", True, False), content


def load() -> Stack:
    """The library.

    Raises:
        ImportError: amqp is not installed.
    """
    serialization = import_module("amqp.serialization")
    loads, dumps = serialization.loads, serialization.dumps
    deliver, publish = _decoder(DELIVER_CASE, DELIVER), _decoder(PUBLISH_CASE, PUBLISH)

    def decode_table(octets: bytes) -> Any:
        return loads("F", octets, 0)

    def encode_table(value: dict[str, Any]) -> Any:
        return dumps("F", (value,))

    table = {**cases.TABLE, "time": moment(cases.CREATED)}
    operations = {
        "deliver": {"decode": Operation(deliver, DELIVER_CASE.octets, _plain(DELIVER_CASE))},
        "publish": {
            "encode": Operation(_encoder(), _message(), ours.read_message),
            "read": Operation(publish, PUBLISH_CASE.octets, _plain(PUBLISH_CASE)),
        },
        "table": {
            "decode": Operation(decode_table, TABLE_CASE.octets, lambda result: dict(plain(result[0][0]))),
            "encode": Operation(encode_table, table, ours.read_table),
        },
    }
    return Stack("py-amqp", f"py-amqp {metadata.version('amqp')}", operations)

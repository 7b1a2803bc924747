"""python-qpid-proton: ``Data`` for performatives, ``Message`` for messages, one of each used over and over.

Performatives go through ``get_object`` and ``put_object``, whole values in one call, as its own Message
does with its maps: bare lists inside ``Described``.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

from benchmarks.amqp_1_0 import cases, ours
from benchmarks.amqp_1_0.naming import CODES, NESTED_CODES, named
from benchmarks.case import Case, Composite
from benchmarks.stack import Operation, Stack

LABEL = "python-qpid-proton"


def bare(value: Any) -> Any:
    """A value without the classes of proton: views are octets, arrays lists, described lists composites."""
    if isinstance(value, memoryview):
        return bytes(value)
    kind = type(value).__name__
    if kind == "Array":
        return [bare(item) for item in value.elements]
    if kind == "Described":
        code = int(value.descriptor)
        name = next((name for name, known in NESTED_CODES.items() if known == code), None)
        fields = [bare(item) for item in value.value]
        return Composite(code, named(name, fields) if name else {})
    return value


def _values(proton: Any) -> dict[str, Any]:
    """The values of the cases as ``put_object`` takes them."""
    uint, ulong, ubyte, symbol = proton.uint, proton.ulong, proton.ubyte, proton.symbol
    outcomes = [symbol(outcome) for outcome in cases.OUTCOMES]
    source = [
        "orders/eu-west",
        uint(2),
        symbol("never"),
        uint(30),
        None,
        None,
        symbol("copy"),
        None,
        None,
        proton.Array(proton.UNDESCRIBED, proton.Data.SYMBOL, *outcomes),
    ]
    attach = [
        "57868d80-b27d-4f9f-84b3-af4f89d647cc",
        uint(1),
        False,
        ubyte(0),
        ubyte(1),
        proton.Described(ulong(cases.SOURCE), source),
        proton.Described(ulong(cases.TARGET), ["billing-7", uint(1)]),
        None,
        None,
        uint(7),
        ulong(1048576),
    ]
    flow = [1042, 2147483647, 1, 2147483647, 1, 1042, 100, 0]
    accepted = proton.Described(ulong(cases.ACCEPTED), [])
    fields: dict[str, list[Any]] = {
        "transfer": [uint(1), uint(1042), b"\x00\x00\x04\x12", uint(0), False],
        "flow": [uint(number) for number in flow],
        "disposition": [True, uint(1042), uint(1051), True, accepted],
        "attach": attach,
    }
    return {name: proton.Described(ulong(CODES[name]), values) for name, values in fields.items()}


def _data_calls(proton: Any) -> dict[str, Any]:
    data = proton.Data()
    clear, decode, rewind, step = data.clear, data.decode, data.rewind, data.next
    get_object, put_object, to_octets = data.get_object, data.put_object, data.encode

    def decode_performative(octets: bytes) -> tuple[Any, int]:
        clear()
        behind = decode(octets)
        rewind()
        step()
        return get_object(), behind

    def encode_performative(value: Any) -> Any:
        clear()
        put_object(value)
        return to_octets()

    def encode_transfer(value: Any) -> Any:
        clear()
        put_object(value)
        return to_octets() + cases.PAYLOAD

    return {"decode": decode_performative, "encode": encode_performative, "encode transfer": encode_transfer}


def _decode_message_call(message: Any) -> Any:
    def decode(octets: bytes) -> tuple[Any, ...]:
        message.decode(octets)
        return (
            message.durable,
            message.priority,
            message.ttl,
            message.annotations,
            message.id,
            message.address,
            message.subject,
            message.reply_to,
            message.correlation_id,
            message.content_type,
            message.creation_time,
            message.properties,
            message.body,
        )

    return decode


def _plain_message(read: tuple[Any, ...]) -> dict[str, Any]:
    """Sections by name; this library tells times in seconds."""
    names = ("message-id", "to", "subject", "reply-to", "correlation-id", "content-type", "creation-time")
    header = dict(zip(("durable", "priority", "ttl"), read[:3], strict=True))
    properties = dict(zip(names, read[4:11], strict=True))
    header["ttl"] = round(header["ttl"] * 1000)
    properties["creation-time"] = round(properties["creation-time"] * 1000)
    return {
        "header": header,
        "message-annotations": read[3],
        "properties": properties,
        "application-properties": read[11],
        "body": bytes(read[12]),
    }


def _message(proton: Any) -> Any:
    message = proton.Message(
        body=cases.BODY,
        inferred=True,
        durable=True,
        priority=7,
        ttl=60,
        id="8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a",
        address="orders/eu-west",
        subject="order placed",
        reply_to="replies-7",
        correlation_id="4f9f84b3",
        content_type="application/json",
        creation_time=cases.CREATED // 1000,
        properties={"region": "eu-west", "attempt": 3, "express": True, "weight": 0.75},
    )
    message.annotations = {
        "x-opt-sequence-number": 1042,
        "x-opt-offset": "118624",
        "x-opt-enqueued-time": proton.timestamp(cases.CREATED),
    }
    return message


def load() -> Stack:
    """The library, whole values in one call.

    Raises:
        ImportError: python-qpid-proton is not installed.
    """
    proton = import_module("proton")
    calls, values = _data_calls(proton), _values(proton)
    reader, writer = proton.Message(), _message(proton)

    def operations(case: Case) -> dict[str, Operation]:
        back = ours.read_back(case)
        if case.kind == "message":
            decoding = Operation(_decode_message_call(reader), case.octets, _plain_message)
            return {"decode": decoding, "encode": Operation(type(writer).encode, writer, back)}

        def plain(result: tuple[Any, int]) -> dict[str, Any]:
            fields = named(case.name, [bare(field) for field in result[0].value])
            return {**fields, "payload": case.octets[result[1] :]}

        encode = calls["encode transfer" if case.payload else "encode"]
        return {
            "decode": Operation(calls["decode"], case.octets, plain),
            "encode": Operation(encode, values[case.name], back),
        }

    label = f"{LABEL} {metadata.version(LABEL)}"
    return Stack("proton", label, {case.name: operations(case) for case in cases.CASES})

"""The pure-Python AMQP stack that azure-eventhub carries along, through the functions its transport calls.

It decodes performatives into bare lists, strings and symbols into octets; it encodes named tuples. Values
inside maps are given with their AMQP types, which it takes faster than plain ones.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

from benchmarks.amqp_1_0 import cases, ours
from benchmarks.amqp_1_0.cases import ACCEPTED
from benchmarks.amqp_1_0.naming import CODES, FIELD_NAMES, named
from benchmarks.case import Case, Composite
from benchmarks.stack import Operation, Stack

PACKAGE = "azure.eventhub._pyamqp"


def _plain_message(message: Any) -> dict[str, Any]:
    return {
        "header": named("header", list(message.header)),
        "message-annotations": message.message_annotations,
        "properties": named("properties", list(message.properties)),
        "application-properties": message.application_properties,
        "body": message.data[0],
    }


def _plain_frame(result: tuple[int, list[Any]]) -> dict[str, Any]:
    code, fields = result
    name = next(name for name, known in CODES.items() if known == code)
    payload = fields.pop() if name == "transfer" else None
    values = named(name, fields)
    if values.get("state") == {"accepted": []}:
        values["state"] = Composite(ACCEPTED, {})
    return values if payload is None else {**values, "payload": bytes(payload)}


def _sized(type_name: str, /, **fields: Any) -> list[Any]:
    """All fields of a type in order, None where none is given."""
    return [fields.get(field.replace("-", "_")) for field in FIELD_NAMES[type_name]]


def _performatives() -> dict[str, Any]:
    """The values of the cases in the stack's own classes."""
    make = import_module(f"{PACKAGE}.performatives")
    ends = import_module(f"{PACKAGE}.endpoints")
    outcomes = import_module(f"{PACKAGE}.outcomes")
    transfer = _sized(
        "transfer",
        handle=1,
        delivery_id=1042,
        delivery_tag=b"\x00\x00\x04\x12",
        message_format=0,
        settled=False,
    )
    flow = [1042, 2147483647, 1, 2147483647, 1, 1042, 100, 0, None, None, None]
    source = _sized(
        "source",
        address="orders/eu-west",
        durable=2,
        expiry_policy="never",
        timeout=30,
        distribution_mode="copy",
        outcomes=cases.OUTCOMES,
    )
    target = _sized("target", address="billing-7", durable=1)
    attach = _sized(
        "attach",
        name="57868d80-b27d-4f9f-84b3-af4f89d647cc",
        handle=1,
        role=False,
        snd_settle_mode=0,
        rcv_settle_mode=1,
        source=ends.Source(*source),
        target=ends.Target(*target),
        initial_delivery_count=7,
        max_message_size=1048576,
    )
    return {
        "transfer": make.TransferFrame(*transfer, cases.PAYLOAD),
        "flow": make.FlowFrame(*flow),
        "disposition": make.DispositionFrame(True, 1042, 1051, True, outcomes.Accepted(), None),
        "attach": make.AttachFrame(*attach),
    }


def _message() -> Any:
    module = import_module(f"{PACKAGE}.message")
    header = module.Header(durable=True, priority=7, ttl=60000)
    properties = module.Properties(
        message_id="8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a",
        to="orders/eu-west",
        subject="order placed",
        reply_to="replies-7",
        correlation_id="4f9f84b3",
        content_type="application/json",
        creation_time=cases.CREATED,
    )
    return module.Message(
        header=header,
        message_annotations={
            "x-opt-sequence-number": _typed("LONG", 1042),
            "x-opt-offset": _typed("STRING", "118624"),
            "x-opt-enqueued-time": _typed("TIMESTAMP", cases.CREATED),
        },
        properties=properties,
        application_properties={
            "region": _typed("STRING", "eu-west"),
            "attempt": _typed("LONG", 3),
            "express": _typed("BOOL", True),
            "weight": _typed("DOUBLE", 0.75),
        },
        data=[cases.BODY],
    )


def _typed(kind: str, value: Any) -> dict[str, Any]:
    return {"TYPE": kind, "VALUE": value}


def _encoders() -> tuple[Any, Any, Any]:
    module = import_module(f"{PACKAGE}._encode")
    describe, encode_value, encode_payload = (
        module.describe_performative,
        module.encode_value,
        module.encode_payload,
    )

    def encode(frame: Any) -> bytearray:
        output = bytearray()
        encode_value(output, describe(frame))
        return output

    def encode_transfer(frame: Any) -> bytearray:
        output = bytearray()
        encode_value(output, describe(frame))
        output += frame.payload
        return output

    def encode_message(message: Any) -> Any:
        return encode_payload(bytearray(), message)

    return encode, encode_transfer, encode_message


def load() -> Stack:
    """The stack.

    Raises:
        ImportError: azure-eventhub is not installed.
    """
    decoder = import_module(f"{PACKAGE}._decode")
    encode, encode_transfer, encode_message = _encoders()
    objects = {**_performatives(), "message": _message()}
    label = f"azure-eventhub {metadata.version('azure-eventhub')}"

    def operations(case: Case) -> dict[str, Operation]:
        octets, back = memoryview(case.octets), ours.read_back(case)
        if case.kind == "message":
            decoding = Operation(decoder.decode_payload, octets, _plain_message)
            return {"decode": decoding, "encode": Operation(encode_message, objects["message"], back)}
        call = encode_transfer if case.name == "transfer" else encode
        return {
            "decode": Operation(decoder.decode_frame, octets, _plain_frame),
            "encode": Operation(call, objects[case.name], back),
        }

    return Stack("pyamqp", label, {case.name: operations(case) for case in cases.CASES})


def load_text() -> Stack:
    """The stack with its text decoded, as the others have it: the whole message, its only case.

    Raises:
        ImportError: azure-eventhub is not installed.
    """
    decode_payload = import_module(f"{PACKAGE}._decode").decode_payload

    def text(value: Any) -> Any:
        return value.decode() if type(value) is bytes else value

    def decode(octets: memoryview) -> Any:
        message = decode_payload(octets)
        annotations, application = message.message_annotations, message.application_properties
        return message._replace(
            message_annotations={key.decode(): text(value) for key, value in annotations.items()},
            properties=message.properties._make(map(text, message.properties)),
            application_properties={key.decode(): text(value) for key, value in application.items()},
        )

    operation = Operation(decode, memoryview(cases.MESSAGE.octets), _plain_message)
    return Stack("pyamqp-text", "pyamqp, text decoded", {"message": {"decode": operation}}, is_target=False)

"""The generated package, through its public functions and typed objects."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from amqpforge_protocol import amqp_1_0 as amqp
from benchmarks.amqp_1_0 import cases
from benchmarks.case import Case, Composite
from benchmarks.stack import Operation, Stack

OBJECTS: dict[str, Any] = {
    "transfer": amqp.Transfer(
        handle=amqp.Handle(1),
        delivery_id=amqp.DeliveryNumber(amqp.SequenceNo(1042)),
        delivery_tag=amqp.DeliveryTag(b"\x00\x00\x04\x12"),
        message_format=amqp.MessageFormat(0),
        settled=False,
    ),
    "flow": amqp.Flow(
        next_incoming_id=amqp.TransferNumber(amqp.SequenceNo(1042)),
        incoming_window=2147483647,
        next_outgoing_id=amqp.TransferNumber(amqp.SequenceNo(1)),
        outgoing_window=2147483647,
        handle=amqp.Handle(1),
        delivery_count=amqp.SequenceNo(1042),
        link_credit=100,
        available=0,
    ),
    "disposition": amqp.Disposition(
        role=amqp.Role.RECEIVER,
        first=amqp.DeliveryNumber(amqp.SequenceNo(1042)),
        last=amqp.DeliveryNumber(amqp.SequenceNo(1051)),
        settled=True,
        state=amqp.Accepted(),
    ),
    "attach": amqp.Attach(
        name="57868d80-b27d-4f9f-84b3-af4f89d647cc",
        handle=amqp.Handle(1),
        role=amqp.Role.SENDER,
        snd_settle_mode=amqp.SenderSettleMode.UNSETTLED,
        rcv_settle_mode=amqp.ReceiverSettleMode.SECOND,
        source=amqp.Source(
            address="orders/eu-west",
            durable=amqp.TerminusDurability.UNSETTLED_STATE,
            expiry_policy=amqp.TerminusExpiryPolicy.NEVER,
            timeout=amqp.Seconds(30),
            distribution_mode=amqp.StdDistMode.COPY,
            outcomes=[amqp.Symbol(outcome) for outcome in cases.OUTCOMES],
        ),
        target=amqp.Target(address="billing-7", durable=amqp.TerminusDurability.CONFIGURATION),
        initial_delivery_count=amqp.SequenceNo(7),
        max_message_size=1048576,
    ),
    "message": amqp.Message(
        header=amqp.Header(durable=True, priority=7, ttl=amqp.Milliseconds(60000)),
        message_annotations={
            amqp.Symbol("x-opt-sequence-number"): 1042,
            amqp.Symbol("x-opt-offset"): "118624",
            amqp.Symbol("x-opt-enqueued-time"): amqp.Timestamp(cases.CREATED),
        },
        properties=amqp.Properties(
            message_id="8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a",
            to="orders/eu-west",
            subject="order placed",
            reply_to="replies-7",
            correlation_id="4f9f84b3",
            content_type=amqp.Symbol("application/json"),
            creation_time=amqp.Timestamp(cases.CREATED),
        ),
        application_properties={"region": "eu-west", "attempt": 3, "express": True, "weight": 0.75},
        body=[amqp.Data(cases.BODY)],
    ),
}
"""The values of the cases as objects of the package."""


def _encode_transfer(transfer: amqp.Transfer) -> bytes:
    return transfer.encode() + cases.PAYLOAD


def _plain_message(message: Any) -> dict[str, Any]:
    return {
        "header": _fields(message.header),
        "message-annotations": message.message_annotations,
        "properties": _fields(message.properties),
        "application-properties": message.application_properties,
        "body": message.body[0].value,
    }


def _plain(value: Any) -> Any:
    """A field as a case has it: choices as what they stand for, composites by code and fields."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if hasattr(type(value), "DESCRIPTOR"):
        return Composite(value.DESCRIPTOR, _fields(value))
    return value


def _fields(composite: Any) -> dict[str, Any]:
    return {info.name: _plain(getattr(composite, info.attribute)) for info in composite.FIELDS}


def read_back(case: Case) -> Callable[[Any], dict[str, Any]]:
    """Turns what another stack has encoded into values again."""

    def read(encoded: Any) -> dict[str, Any]:
        octets = bytes(encoded)
        if case.kind == "message":
            return _plain_message(amqp.decode_message(octets))
        performative, behind = amqp.decode_performative(octets)
        return {**_fields(performative), "payload": octets[behind:]}

    return read


def decoding(case: Case) -> Operation:
    """How ours decodes the octets of a case."""
    if case.kind == "message":
        return Operation(amqp.decode_message, case.octets, _plain_message)

    def plain(result: tuple[Any, int]) -> dict[str, Any]:
        return {**_fields(result[0]), "payload": case.octets[result[1] :]}

    return Operation(amqp.decode_performative, case.octets, plain)


def encoding(case: Case) -> Operation:
    """How ours encodes the values of a case: exactly into its octets."""
    value = OBJECTS[case.name]
    call: Callable[[Any], bytes]
    if case.kind == "message":
        call = amqp.encode_message
    else:
        call = _encode_transfer if case.name == "transfer" else type(value).encode
    return Operation(call, value, case.values_of)


def load() -> Stack:
    """The stack of this project."""
    operations = {case.name: {"decode": decoding(case), "encode": encoding(case)} for case in cases.CASES}
    return Stack("ours", "amqpforge_protocol", operations)

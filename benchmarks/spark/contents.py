"""The messages and frames that are measured, each with its number in it."""

from __future__ import annotations

from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Data,
    DeliveryNumber,
    DeliveryTag,
    Disposition,
    Flow,
    Handle,
    Message,
    MessageFormat,
    Properties,
    Role,
    SequenceNo,
    Timestamp,
    Transfer,
    TransferNumber,
    UInt,
    encode_frame,
    encode_message,
)

BODY_SIZE = 256
"""Octets in the body of a message of the spool and in the payload of a transfer."""

TRANSFERS_IN_TURN = 9
"""Transfers between a disposition and a flow, as in the bulk capture."""

_NOON = 1_790_000_000_000
"""Some moment, in milliseconds since 1970."""


def filler(size: int) -> bytes:
    """What a body of so many octets has behind its number, which takes the first eight."""
    return bytes(index % 251 for index in range(size - 8))


def bodies(count: int, size: int) -> list[bytes]:
    """Bodies that differ by the number they begin with."""
    rest = filler(size)
    return [number.to_bytes(8, "big") + rest for number in range(count)]


def message(number: int, body: bytes) -> bytes:
    """A message with properties and three application properties."""
    return encode_message(
        Message(
            properties=Properties(
                message_id=f"order-{number:09d}",
                subject="placed",
                content_type="application/octet-stream",
                creation_time=Timestamp(_NOON + number),
            ),
            application_properties={"number": number, "country": "PT", "pieces": UInt(number % 9 + 1)},
            body=[Data(body)],
        )
    )


def messages(count: int) -> list[bytes]:
    """So many of them."""
    return [message(number, body) for number, body in enumerate(bodies(count, BODY_SIZE))]


def frames(count: int) -> list[bytes]:
    """So many frames: transfers, then one disposition for them and a flow, and so on."""
    found: list[bytes] = []
    payload = bytes(BODY_SIZE)
    number = 0
    while len(found) < count:
        first = number
        for number in range(first, first + TRANSFERS_IN_TURN):
            found.append(encode_frame(_transfer(number), payload=payload))
        found += (encode_frame(_disposition(first, number)), encode_frame(_flow(number + 1)))
        number += 1
    return found[:count]


def _transfer(number: int) -> Transfer:
    return Transfer(
        handle=Handle(0),
        delivery_id=DeliveryNumber(SequenceNo(number)),
        delivery_tag=DeliveryTag(number.to_bytes(4, "big")),
        message_format=MessageFormat(0),
    )


def _disposition(first: int, last: int) -> Disposition:
    return Disposition(
        role=Role.RECEIVER,
        first=DeliveryNumber(SequenceNo(first)),
        last=DeliveryNumber(SequenceNo(last)),
        settled=True,
        state=Accepted(),
    )


def _flow(number: int) -> Flow:
    return Flow(
        next_incoming_id=TransferNumber(SequenceNo(number)),
        incoming_window=2048,
        next_outgoing_id=TransferNumber(SequenceNo(0)),
        outgoing_window=2048,
        handle=Handle(0),
        delivery_count=SequenceNo(number),
        link_credit=500,
    )

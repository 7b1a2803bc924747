"""What is measured of AMQP 1.0: four performatives and a message, each in its shortest form."""

from __future__ import annotations

from benchmarks.case import Case, Composite

PAYLOAD = bytes(range(100))
"""The 100 octets that the transfer carries."""

BODY = b"The quick brown fox jumps over the lazy dog. " * 2 + b"0123456789"
"""The 100 octets in the data section of the whole message."""

ACCEPTED, SOURCE, TARGET = 0x24, 0x28, 0x29
"""Descriptor codes of the described values inside the performatives."""


def _field(code: int, octets: bytes) -> bytes:
    """A value of a variable-width type in its one-octet-size form."""
    return bytes((code, len(octets))) + octets


def _string(text: str) -> bytes:
    return _field(0xA1, text.encode())


def _symbol(text: str) -> bytes:
    return _field(0xA3, text.encode("ascii"))


def _compound(code: int, count: int, body: bytes) -> bytes:
    """A list or map in its one-octet-size form, or in its four-octet form (code + 0x10) if it needs that."""
    if len(body) < 255:
        return bytes((code, len(body) + 1, count)) + body
    return bytes((code + 0x10,)) + (len(body) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + body


def _list(code: int, *fields: bytes) -> bytes:
    """A described list."""
    return bytes((0x00, 0x53, code)) + _compound(0xC0, len(fields), b"".join(fields))


def _map(code: int, *entries: bytes) -> bytes:
    """A described map, keys and values in turn."""
    return bytes((0x00, 0x53, code)) + _compound(0xC1, len(entries), b"".join(entries))


def _uint(value: int) -> bytes:
    return b"\x70" + value.to_bytes(4, "big")


NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"
OUTCOMES = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]

TRANSFER = Case(
    "transfer",
    _list(0x14, b"\x52\x01", _uint(1042), _field(0xA0, b"\x00\x00\x04\x12"), b"\x43", FALSE) + PAYLOAD,
    {
        "handle": 1,
        "delivery-id": 1042,
        "delivery-tag": b"\x00\x00\x04\x12",
        "message-format": 0,
        "settled": False,
        "payload": PAYLOAD,
    },
    kind="performative",
)

FLOW = Case(
    "flow",
    _list(
        0x13,
        _uint(1042),
        _uint(2147483647),
        b"\x52\x01",
        _uint(2147483647),
        b"\x52\x01",
        _uint(1042),
        b"\x52\x64",
        b"\x43",
    ),
    {
        "next-incoming-id": 1042,
        "incoming-window": 2147483647,
        "next-outgoing-id": 1,
        "outgoing-window": 2147483647,
        "handle": 1,
        "delivery-count": 1042,
        "link-credit": 100,
        "available": 0,
    },
    kind="performative",
)

DISPOSITION = Case(
    "disposition",
    _list(0x15, TRUE, _uint(1042), _uint(1051), TRUE, b"\x00\x53\x24\x45"),
    {"role": True, "first": 1042, "last": 1051, "settled": True, "state": Composite(ACCEPTED, {})},
    kind="performative",
)

_OUTCOMES_BODY = b"\xa3" + b"".join([_symbol(outcome)[1:] for outcome in OUTCOMES])
_SOURCE = _list(
    SOURCE,
    _string("orders/eu-west"),
    b"\x52\x02",
    _symbol("never"),
    b"\x52\x1e",
    NULL,
    NULL,
    _symbol("copy"),
    NULL,
    NULL,
    b"\xe0" + bytes((len(_OUTCOMES_BODY) + 1, len(OUTCOMES))) + _OUTCOMES_BODY,
)
_TARGET = _list(TARGET, _string("billing-7"), b"\x52\x01")

ATTACH = Case(
    "attach",
    _list(
        0x12,
        _string("57868d80-b27d-4f9f-84b3-af4f89d647cc"),
        b"\x52\x01",
        FALSE,
        b"\x50\x00",
        b"\x50\x01",
        _SOURCE,
        _TARGET,
        NULL,
        NULL,
        b"\x52\x07",
        b"\x80" + (1048576).to_bytes(8, "big"),
    ),
    {
        "name": "57868d80-b27d-4f9f-84b3-af4f89d647cc",
        "handle": 1,
        "role": False,
        "snd-settle-mode": 0,
        "rcv-settle-mode": 1,
        "source": Composite(
            SOURCE,
            {
                "address": "orders/eu-west",
                "durable": 2,
                "expiry-policy": "never",
                "timeout": 30,
                "distribution-mode": "copy",
                "outcomes": OUTCOMES,
            },
        ),
        "target": Composite(TARGET, {"address": "billing-7", "durable": 1}),
        "initial-delivery-count": 7,
        "max-message-size": 1048576,
    },
    kind="performative",
)

CREATED = 1_700_000_000_000
"""A time stamp in milliseconds."""


def _timestamp(value: int) -> bytes:
    return b"\x83" + value.to_bytes(8, "big")


MESSAGE = Case(
    "message",
    b"".join(
        [
            _list(0x70, TRUE, b"\x50\x07", _uint(60000)),
            _map(
                0x72,
                _symbol("x-opt-sequence-number"),
                b"\x81" + (1042).to_bytes(8, "big"),
                _symbol("x-opt-offset"),
                _string("118624"),
                _symbol("x-opt-enqueued-time"),
                _timestamp(CREATED),
            ),
            _list(
                0x73,
                _string("8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a"),
                NULL,
                _string("orders/eu-west"),
                _string("order placed"),
                _string("replies-7"),
                _string("4f9f84b3"),
                _symbol("application/json"),
                NULL,
                NULL,
                _timestamp(CREATED),
            ),
            _map(
                0x74,
                _string("region"),
                _string("eu-west"),
                _string("attempt"),
                b"\x55\x03",
                _string("express"),
                TRUE,
                _string("weight"),
                b"\x82\x3f\xe8" + bytes(6),
            ),
            b"\x00\x53\x75" + _field(0xA0, BODY),
        ]
    ),
    {
        "header": {"durable": True, "priority": 7, "ttl": 60000},
        "message-annotations": {
            "x-opt-sequence-number": 1042,
            "x-opt-offset": "118624",
            "x-opt-enqueued-time": CREATED,
        },
        "properties": {
            "message-id": "8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a",
            "to": "orders/eu-west",
            "subject": "order placed",
            "reply-to": "replies-7",
            "correlation-id": "4f9f84b3",
            "content-type": "application/json",
            "creation-time": CREATED,
        },
        "application-properties": {"region": "eu-west", "attempt": 3, "express": True, "weight": 0.75},
        "body": BODY,
    },
    kind="message",
)

CASES = (TRANSFER, FLOW, DISPOSITION, ATTACH, MESSAGE)

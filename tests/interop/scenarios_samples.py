"""What the scenarios send: settle modes, bodies, and messages with all their fields."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from amqpforge import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpSequence,
    AnyOutcome,
    Data,
    Error,
    Modified,
    ReceiverSettleMode,
    Rejected,
    Released,
    SenderSettleMode,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from tests.interop.results import Answer, Body, Outcome, Problem, ReceiverMode, SenderMode

SENDER_MODES: Final[tuple[SenderMode, ...]] = ("unsettled", "settled", "mixed")
RECEIVER_MODES: Final[tuple[ReceiverMode, ...]] = ("first", "second")
MODE_NAMES: Final[dict[str, tuple[SenderMode, ReceiverMode]]] = {
    f"sender {snd}, receiver {rcv}": (snd, rcv) for rcv in RECEIVER_MODES for snd in SENDER_MODES
}
"""The settle modes by their row, as foreign peers are told them."""
MODES: Final[dict[str, dict[str, Any]]] = {
    row: {
        "snd_settle_mode": SenderSettleMode[snd.upper()],
        "rcv_settle_mode": ReceiverSettleMode[rcv.upper()],
    }
    for row, (snd, rcv) in MODE_NAMES.items()
}
"""The same settle modes, as our client is told them."""

MIXED: Final = [False, True, False, True]
"""Which of four messages are sent settled where the mode leaves the choice."""

BIG: Final = 10 << 20

MOMENT: Final = datetime(2030, 1, 2, 3, 4, 5, 678_000, UTC)

BODIES: Final[dict[str, Any]] = {
    "body: data": b"\x00\xffdata",
    "body: several data sections": [Data(b"one"), Data(b"two"), Data(b"three")],
    "body: string": "häuslich",
    "body: list": [1, "two", None],
    "body: map": {"one": 1, "two": ["a", {"b": True}]},
    "body: sequence": AmqpSequence([1, "two", None]),
    "body: several sequences": [AmqpSequence([1]), AmqpSequence(["two", 3])],
}
"""The bodies by their row."""

HEADER: Final[dict[str, Any]] = {"durable": True, "priority": 7, "ttl": 60.0}

PROPERTIES: Final[dict[str, Any]] = {
    "message_id": ULong(1 << 40),
    "user_id": b"guest",
    "to": "to",
    "subject": "subject",
    "reply_to": "reply-to",
    "correlation_id": UUID(int=7),
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "absolute_expiry_time": MOMENT,
    "creation_time": MOMENT,
    "group_id": "group",
    "group_sequence": 5,
    "reply_to_group_id": "reply-group",
}

SHOWN_PROPERTIES: Final = {
    "to": "to",
    "subject": "subject",
    "reply_to": "reply-to",
    "content_type": "text/plain",
    "group_id": "group",
}
"""Those of them that foreign peers show, as they show them."""

APPLICATION_PROPERTIES: Final[dict[str, Any]] = {
    "long": -7,
    "uint": UInt(7),
    "double": 0.5,
    "string": "ü",
    "symbol": Symbol("symbol"),
    "binary": b"\x00\xff",
    "boolean": True,
    "timestamp": Timestamp(1_000),
    "uuid": UUID(int=7),
    "null": None,
}

ANNOTATIONS: Final[dict[str, Any]] = {"x-opt-list": [1, 2], "x-opt-text": "x"}

FIELDS: Final = {
    "header": Message(b"body", **HEADER),
    "properties": Message(b"body", **PROPERTIES),
    "application properties": Message(b"body", application_properties=APPLICATION_PROPERTIES),
    "message annotations": Message(b"body", annotations=ANNOTATIONS),
    "delivery annotations": Message(b"body", delivery_annotations=ANNOTATIONS),
    "footer": Message(b"body", footer=ANNOTATIONS),
}
"""Messages by the row that they are for."""

ANSWERS: Final = {
    "accepted": Answer("accepted"),
    "rejected, with an error": Answer("rejected", Problem("amqp:not-allowed", "not today")),
    "released": Answer("released"),
    "modified": Answer("modified", None, True, False, {"x-opt-why": "tired"}),
}
"""The outcomes by their row, as foreign peers give them."""

OUTCOMES: Final[dict[str, AnyOutcome]] = {
    "accepted": Accepted(),
    "rejected, with an error": Rejected(
        error=Error(condition=Symbol("amqp:not-allowed"), description="not today")
    ),
    "released": Released(),
    "modified": Modified(
        delivery_failed=True, undeliverable_here=False, message_annotations={Symbol("x-opt-why"): "tired"}
    ),
}
"""The same outcomes, as ours."""


def told(given: Answer) -> Outcome:
    """What a foreign peer tells of an outcome that it was given."""
    return Outcome(
        given.name,
        True,
        given.error,
        given.delivery_failed,
        given.undeliverable_here,
        given.message_annotations,
    )


def settled(row: str) -> list[bool]:
    """Which of four messages travel settled."""
    mode = MODE_NAMES[row][0]
    return MIXED if mode == "mixed" else [mode == "settled"] * 4


def plain(outcome: object) -> object:
    """An outcome, with what it does not say as what that means."""
    if not isinstance(outcome, Modified):
        return outcome
    return replace(
        outcome,
        delivery_failed=bool(outcome.delivery_failed),
        undeliverable_here=bool(outcome.undeliverable_here),
    )


LAST_ALONE: Final = "its Message shows the last section alone"
LAST_SECTION: Final = {
    "body: several data sections": ("data", "three", None),
    "body: several sequences": ("sequence", "", ["two", 3]),
}
"""What Proton's ``Message`` makes of a body of several sections."""


def is_shown(row: str, shown: Body) -> bool:
    """Whether a foreign peer got the body of a row as it was sent."""
    match row:
        case "body: data":
            return (shown.kind, shown.size) == ("data", 6)
        case "body: several data sections":
            return (shown.kind, shown.text) == ("data", "onetwothree")
        case "body: string":
            return (shown.kind, shown.text) == ("value", "häuslich")
        case "body: sequence":
            return (shown.kind, shown.value) == ("sequence", [1, "two", None])
        case "body: several sequences":
            return (shown.kind, shown.value) == ("sequence", [[1], ["two", 3]])
    return (shown.kind, shown.value) == ("value", BODIES[row])

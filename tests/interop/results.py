"""What goes into and comes out of the scenarios of a foreign peer, as typed values.

The field names are the keys of the JSON that the programs in ``peers`` read and write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

Json = Mapping[str, Any]

Where = Literal["link", "session", "connection", "transport", "deadline", "unsupported"]
SenderMode = Literal["unsettled", "settled", "mixed"]
ReceiverMode = Literal["first", "second"]
Leave = Literal["close", "detach", "stay"]
"""What becomes of a link, and its session, when its scenario is over: both are closed; the link is detached,
and its terminus may live on; both are left as they are.
"""
BodyKind = Literal["data", "value", "sequence", "none"]


class PeerError(Exception):
    """A scenario of a foreign peer did not go through.

    Attributes:
        where: what the other end ended with an error, or refused: ``link``, ``session``, ``connection``;
            ``transport`` when authentication, TLS, the socket or the peer's own protocol engine failed;
            ``deadline`` when nothing happened in time; ``unsupported`` when the foreign stack lacks it.
        condition: the symbol of the error, where there is one.
        description: what was said about it.
    """

    def __init__(self, where: Where, condition: str | None, description: str | None) -> None:
        super().__init__(f"{where}: {condition or 'no condition'}: {description or 'no description'}")
        self.where = where
        self.condition = condition
        self.description = description


@dataclass(frozen=True, slots=True)
class Message:
    """Messages for a peer to send.

    Number n of a series has ``n`` in the place of ``{}`` in ``message_id``, and the body ``text``, or
    :func:`tests.interop.payload.octets` of n and ``size``. A ``value`` is a string (``text`` is needed), a
    ``sequence`` one list of n and the text, and ``none`` is null.
    """

    size: int = 100
    text: str | None = None
    kind: BodyKind = "data"
    message_id: str | None = "m-{}"
    header: Mapping[str, bool | int] = field(default_factory=dict)
    """``durable``, ``priority``, ``ttl`` in milliseconds."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """``to``, ``subject``, ``reply_to``, ``correlation_id``, ``content_type``, ``group_id``."""
    application_properties: Mapping[str, str | int | bool] = field(default_factory=dict)
    message_annotations: Mapping[str, str | int | bool] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as AMQP carries it."""

    condition: str | None
    description: str | None


def _problem(raw: Json) -> Problem | None:
    return Problem(**raw["error"]) if raw.get("error") else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a delivery: ``name`` is the delivery state that the other end told, or None.

    ``settled`` says whether the other end told it settled, or, of a message sent settled, that it was.
    """

    name: str | None
    settled: bool
    error: Problem | None = None
    delivery_failed: bool = False
    undeliverable_here: bool = False
    message_annotations: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_json(cls, raw: Json) -> Self:
        return cls(**{**raw, "error": _problem(raw)})


@dataclass(frozen=True, slots=True)
class Answer:
    """How a peer answers the messages it receives; ``none`` leaves them unsettled."""

    name: Literal["accepted", "rejected", "released", "modified", "none"] = "accepted"
    error: Problem | None = None
    delivery_failed: bool = False
    undeliverable_here: bool = False
    message_annotations: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it arrived: the octets of data sections or of a string; ``text`` where short and UTF-8."""

    kind: BodyKind
    size: int
    sha256: str
    text: str | None
    value: object = None
    """What a value or a sequence holds, as JSON."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it arrived. Absent fields are absent from the mappings."""

    body: Body
    settled: bool
    header: Mapping[str, object]
    properties: Mapping[str, object]
    application_properties: Mapping[str, object]
    message_annotations: Mapping[str, object]

    @classmethod
    def from_json(cls, raw: Json) -> Self:
        return cls(**{**raw, "body": Body(**raw["body"])})


@dataclass(frozen=True, slots=True)
class Attached:
    """What the other end's attach said."""

    snd_settle_mode: SenderMode
    rcv_settle_mode: ReceiverMode
    source: str | None
    target: str | None
    max_message_size: int | None
    filters: list[str]


@dataclass(frozen=True, slots=True)
class Sent:
    """What a sending scenario saw: one outcome for each message, in order."""

    outcomes: list[Outcome]
    attached: Attached

    @classmethod
    def from_json(cls, raw: Json) -> Self:
        return cls([Outcome.from_json(each) for each in raw["outcomes"]], Attached(**raw["attached"]))


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a receiving scenario saw. ``resettled`` counts the deliveries that the sender settled after us,
    as it does in receiver settle mode ``second``; ``credit`` is what was left at the end.
    """

    messages: list[Received]
    attached: Attached
    resettled: int
    credit: int

    @classmethod
    def from_json(cls, raw: Json) -> Self:
        messages = [Received.from_json(each) for each in raw["messages"]]
        return cls(messages, Attached(**raw["attached"]), raw["resettled"], raw["credit"])


@dataclass(frozen=True, slots=True)
class Opened:
    """What the other end's open said, and how it was authenticated."""

    container_id: str | None
    hostname: str | None
    max_frame_size: int | None
    channel_max: int | None
    idle_time_out: int | None
    """Milliseconds; None or 0 asks for nothing."""
    offered_capabilities: list[str]
    desired_capabilities: list[str]
    properties: Mapping[str, object]
    mechanism: str | None
    """The SASL mechanism, where there was a SASL layer and the foreign stack tells."""
    user: str | None
    """Who the client is to a server."""


@dataclass(frozen=True, slots=True)
class Links:
    """How many links were attached, carried an accepted message, and were closed by both ends; the first
    error that came with a detach.
    """

    opened: int
    accepted: int
    closed: int
    error: Problem | None

    @classmethod
    def from_json(cls, raw: Json) -> Self:
        return cls(**{**raw, "error": _problem(raw)})


@dataclass(frozen=True, slots=True)
class Idle:
    """What passed over a connection on which nobody did anything; an empty frame has 8 octets."""

    is_open: bool
    octets_in: int
    octets_out: int
    error: Problem | None
    """What ended the connection."""

    @classmethod
    def from_json(cls, raw: Json) -> Self:
        return cls(**{**raw, "error": _problem(raw)})


@dataclass(frozen=True, slots=True)
class Replies:
    """The address that the other end gave to a dynamic source, and what came there."""

    address: str
    messages: list[Received]

    @classmethod
    def from_json(cls, raw: Json) -> Self:
        return cls(raw["address"], [Received.from_json(each) for each in raw["messages"]])


@dataclass(frozen=True, slots=True)
class Streamed:
    """A message that was read while it came in, and in how many parts it was."""

    message: Received
    parts: int

    @classmethod
    def from_json(cls, raw: Json) -> Self:
        return cls(Received.from_json(raw["message"]), raw["parts"])


@dataclass(frozen=True, slots=True)
class Transaction:
    """What a transaction saw: the outcome of each send, the messages acquired, and that of the discharge,
    None without one.
    """

    sent: list[Outcome]
    messages: list[Received]
    discharge: Outcome | None

    @classmethod
    def from_json(cls, raw: Json) -> Self:
        return cls(
            [Outcome.from_json(each) for each in raw["sent"]],
            [Received.from_json(each) for each in raw["messages"]],
            Outcome.from_json(raw["discharge"]) if raw["discharge"] is not None else None,
        )

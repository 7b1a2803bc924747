"""What an observer tells of a conversation between two others: what happened, what is unknown, who broke
which rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from amqpforge_protocol.amqp_1_0 import AmqpConnectionError, AmqpError, Error, LinkError, SessionError

if TYPE_CHECKING:
    from .observed_delivery import ObservedDelivery
    from .observed_link import ObservedLink
    from .observed_session import ObservedSession

__all__ = [
    "DEFAULT_OBSERVER_LIMITS",
    "ConnectionNews",
    "Direction",
    "EndName",
    "LinkNews",
    "Notebook",
    "Observation",
    "ObserverLimits",
    "Owed",
    "Reason",
    "Rule",
    "SessionNews",
    "Unknown",
    "Violation",
    "identified",
    "shortened",
]

Direction = Literal["c2s", "s2c"]
"""From client to server, or back; the client is who began the transport."""

EndName = Literal["client", "server"]

_LONGEST_TEXT: Final = 256


def shortened(text: str) -> str:
    """A text that a peer chose, cut so that many of them can be kept."""
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def identified(name: str) -> str:
    """A name that a peer chose, cut, and yet another one for each name."""
    if len(name) <= _LONGEST_TEXT:
        return name
    return f"{shortened(name)} {sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


class Rule(StrEnum):
    """What an end can break."""

    STATE = "state"
    """The state table of a connection, session, link or delivery has no place for the frame."""
    CLOSE = "close"
    """The transport ends with a close (section 2.4.3)."""
    SASL = "sasl"
    """The steps of the SASL exchange have an order (section 5.3.2)."""
    FRAME_SIZE = "max-frame-size"
    """No frame is larger than its receiver takes, 512 octets before that is known (section 2.7.1)."""
    CHANNEL_MAX = "channel-max"
    """No channel is above what the receiver takes, 0 before that is known (section 2.7.1)."""
    CHANNEL = "unmapped-channel"
    """Frames of a session come on a channel with a session (section 2.5.1)."""
    HANDLE_MAX = "handle-max"
    """No handle is above what the receiver takes (section 2.7.2)."""
    HANDLE = "unattached-handle"
    """Frames of a link come between attach and detach (section 2.7.3)."""
    HANDLE_IN_USE = "handle-in-use"
    """A handle names one link, until both ends have detached it (section 2.7.3)."""
    WINDOW = "session-window"
    """No more transfers go out than the receiver's incoming-window allows (section 2.5.6)."""
    CREDIT = "link-credit"
    """No more messages go out than the receiver gave credit for (section 2.6.7)."""
    FLOW = "flow-state"
    """A flow tells what was sent, and nothing that was not (sections 2.5.6 and 2.6.7)."""
    FIELD = "field"
    """A field that is required here is missing, or one that is barred is there."""
    DELIVERY_ID = "delivery-id"
    """Delivery-ids of a session follow each other without gaps (section 2.6.12)."""
    DELIVERY_TAG = "delivery-tag"
    """A delivery-tag differs from those still unsettled on its link (section 2.7.5)."""
    TRANSFER = "transfer"
    """The transfers of a delivery agree with each other (section 2.7.5)."""
    MESSAGE_SIZE = "max-message-size"
    """No message is larger than its receiver takes (section 2.7.3)."""
    SETTLE_MODE = "settle-mode"
    """An end settles in the way that its own attach announced (sections 2.8.2 and 2.8.3)."""
    TERMINUS = "terminus"
    """Nothing is sent from an end that has no source (section 2.7.3)."""
    DISPOSITION = "disposition"
    """A disposition names deliveries that there are, the first of them first (section 2.7.6)."""
    IDLE = "idle-time-out"
    """No end is silent for longer than the other one can bear (section 2.4.5)."""


_CONDITIONS: Final[dict[Rule, str]] = {
    Rule.FRAME_SIZE: AmqpConnectionError.FRAMING_ERROR,
    Rule.CHANNEL_MAX: AmqpConnectionError.FRAMING_ERROR,
    Rule.CHANNEL: AmqpError.NOT_ALLOWED,
    Rule.HANDLE_MAX: AmqpConnectionError.FRAMING_ERROR,
    Rule.HANDLE: SessionError.UNATTACHED_HANDLE,
    Rule.HANDLE_IN_USE: SessionError.HANDLE_IN_USE,
    Rule.WINDOW: SessionError.WINDOW_VIOLATION,
    Rule.CREDIT: LinkError.TRANSFER_LIMIT_EXCEEDED,
    Rule.FLOW: AmqpError.INVALID_FIELD,
    Rule.FIELD: AmqpError.INVALID_FIELD,
    Rule.DELIVERY_ID: AmqpError.NOT_ALLOWED,
    Rule.DELIVERY_TAG: AmqpError.NOT_ALLOWED,
    Rule.TRANSFER: AmqpError.NOT_ALLOWED,
    Rule.MESSAGE_SIZE: LinkError.MESSAGE_SIZE_EXCEEDED,
    Rule.SETTLE_MODE: AmqpError.NOT_ALLOWED,
    Rule.TERMINUS: AmqpError.NOT_ALLOWED,
    Rule.DISPOSITION: AmqpError.INVALID_FIELD,
}
"""The error condition with which the other end can answer; the state tables have their own."""


class Reason(NamedTuple):
    """An error that an end told: both texts shortened."""

    condition: str
    description: str

    @classmethod
    def of(cls, error: Error | None) -> Reason | None:
        """What is kept of an error; None of none."""
        if error is None:
            return None
        return cls(shortened(str(error.condition)), shortened(error.description or ""))

    def __str__(self) -> str:
        return f"{self.condition}: {self.description}" if self.description else self.condition


@dataclass(frozen=True, slots=True)
class Violation:
    """An end broke a rule, with a frame that it sent or with one that it did not send.

    Attributes:
        end: who is to blame.
        rule: what was broken.
        condition: the error condition with which the other end can answer; None if there is none.
        text: what was wrong, for people.
        channel: of the frame; None if it belongs to no session.
        frame: number of the frame, counted from 1 over both directions, protocol headers included; if what
            was wrong is that nothing was sent, that of the frame before.
        time: when it showed, in seconds; None if unknown.
    """

    end: EndName
    rule: Rule
    condition: str | None
    text: str
    channel: int | None
    frame: int
    time: float | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something cannot be followed, since the frames that began it were not seen. It is told once.

    The fields are those of :class:`Violation`; ``end`` is whose frames lack it.
    """

    end: EndName
    text: str
    frame: int
    time: float | None


class Owed(NamedTuple):
    """What an end still has to send; ``channel`` of its session, None for the connection."""

    end: EndName
    channel: int | None
    what: str


@dataclass(frozen=True, slots=True)
class ConnectionNews:
    """An end sent open or close, or ended its half of the transport; ``reason`` of a close with an error."""

    what: Literal["opened", "closed", "transport ended"]
    end: EndName
    reason: Reason | None
    frame: int
    time: float | None


@dataclass(frozen=True, slots=True)
class SessionNews:
    """A session is begun or ended at both ends; ``reason`` of the first end with an error."""

    what: Literal["begun", "ended"]
    session: ObservedSession
    reason: Reason | None
    frame: int
    time: float | None


@dataclass(frozen=True, slots=True)
class LinkNews:
    """A link is attached or detached at both ends; ``reason`` of the first detach with an error."""

    what: Literal["attached", "detached"]
    link: ObservedLink
    reason: Reason | None
    frame: int
    time: float | None


Observation: TypeAlias = "Violation | Unknown | ConnectionNews | SessionNews | LinkNews | ObservedDelivery"
"""What an observer tells, in the order of the frames; a delivery is told once it is settled."""


@dataclass(frozen=True, slots=True)
class ObserverLimits:
    """How much an observer keeps of one connection; what is beyond is not followed, and said to be unknown.

    Attributes:
        sessions: sessions begun at a time.
        links: links attached or detached, over all sessions begun.
        unsettled: deliveries that are not settled; the oldest are forgotten.
    """

    sessions: int = 1024
    links: int = 8192
    unsettled: int = 65_536


DEFAULT_OBSERVER_LIMITS: Final = ObserverLimits()


@dataclass(slots=True)
class Notebook:
    """What all parts of one observer share: the frame at hand, the counts, and whom to tell.

    Attributes:
        tell: is told every observation.
        frame: number of the frame at hand, from 1.
        time: of that frame, in seconds; None if unknown.
        sessions: begun so far, seen from their beginning.
        links: attached so far at both ends.
        deliveries: begun so far.
        outcomes: how many deliveries were settled, by outcome: the name of the delivery state, "none" if none
            was told, "pre-settled", "aborted".
        violations: so far.
        settle_time: seconds from the first transfer to the settlement, added up over ``timed`` deliveries.
        slowest: the longest of these times.
        live_sessions, live_links, live_deliveries: how many are kept at the moment.
        full: of what there was more than is kept.
    """

    tell: Callable[[Observation], None]
    limits: ObserverLimits
    frame: int = 0
    time: float | None = None
    sessions: int = 0
    links: int = 0
    deliveries: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    violations: int = 0
    timed: int = 0
    settle_time: float = 0.0
    slowest: float = 0.0
    live_sessions: int = 0
    live_links: int = 0
    live_deliveries: int = 0
    full: set[str] = field(default_factory=set)

    @property
    def unsettled(self) -> int:
        """Deliveries that were begun and not settled so far."""
        return self.deliveries - sum(self.outcomes.values())

    def violated(
        self, end: EndName, rule: Rule, text: str, channel: int | None = None, condition: str | None = None
    ) -> None:
        """An end broke a rule; without a condition it is the one of the rule."""
        self.violations += 1
        condition = condition or _CONDITIONS.get(rule)
        named = None if condition is None else str(condition)
        self.tell(Violation(end, rule, named, text, channel, self.frame, self.time))

    def unknown(self, end: EndName, text: str) -> None:
        """Something cannot be followed."""
        self.tell(Unknown(end, text, self.frame, self.time))

    def is_full(self, end: EndName, what: Literal["sessions", "links", "deliveries"]) -> None:
        """There is more of something than is kept: told once."""
        if what not in self.full:
            self.full.add(what)
            self.unknown(end, f"too many {what} to follow them all")

    def settled(self, delivery: ObservedDelivery) -> None:
        """A delivery is settled with the frame at hand."""
        outcome = delivery.outcome
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        now = delivery.settled = self.time
        began = delivery.began
        if now is not None and began is not None and not delivery.comes_settled:
            took = now - began
            self.timed += 1
            self.settle_time += took
            if took > self.slowest:
                self.slowest = took
        self.tell(delivery)

"""What a broker tells of itself over AMQP, and how it is asked for queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypedDict, TypeVar

from amqpforge.errors import AmqpforgeError

__all__ = [
    "BindingInfo",
    "BrokerInfo",
    "ConnectionInfo",
    "ConsumerInfo",
    "ExchangeInfo",
    "HostInfo",
    "ManagementError",
    "Overview",
    "QueueInfo",
    "QueueOptions",
    "Rates",
    "Step",
    "made",
    "map_of",
]

Rates = dict[str, dict[str, float]]
"""By the window, such as ``10s``, and the name of a counter: how much that has grown in a second, on average
over this time at least.
"""


class ManagementError(AmqpforgeError):
    """The broker has not done what it was asked for.

    Attributes:
        status: why, as HTTP counts: 400 malformed, 403 no right to it, 404 not there, 409 there already and
            different, or somebody else's, 412 not in the state that was asked for, 500 failed, 501 not known.
        description: why, for people.
    """

    def __init__(self, status: int, description: str) -> None:
        super().__init__(f"{description} (status {status})")
        self.status = status
        self.description = description


class QueueOptions(TypedDict, total=False):
    """How a queue is declared; what is left out is as it usually is.

    Attributes:
        durable: it is there again after a restart, with its durable messages.
        private: it has one consumer at a time.
        exclusive: only this connection can use it, and it goes with that.
        auto_delete: it goes once its last consumer has left, after ``grace`` seconds.
        grace: seconds.
        max_length: messages at most.
        max_bytes: octets of messages at most.
        overflow: ``reject``, ``drop-oldest`` or ``dead-letter``: what happens beyond these.
        message_ttl: seconds that a message lives in it at most.
        expires: seconds after which it goes if nobody uses it.
        priority_levels: how many levels of priority it tells apart, 1 to 256.
        dead_letter_exchange: where messages go that expire, are rejected, or exceed a limit.
        dead_letter_key: the routing key that they have there.
        delivery_limit: failed deliveries before a message is dead-lettered.
        duplicate_window: how many message-ids it remembers, to drop messages that repeat one.
        acquisition_timeout: seconds that a consumer may hold a message unsettled.
    """

    durable: bool
    private: bool
    exclusive: bool
    auto_delete: bool
    grace: float
    max_length: int | None
    max_bytes: int | None
    overflow: str
    message_ttl: float | None
    expires: float | None
    priority_levels: int
    dead_letter_exchange: str | None
    dead_letter_key: str | None
    delivery_limit: int | None
    duplicate_window: int
    acquisition_timeout: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue: how it was declared (see :class:`QueueOptions`), and how it is doing.

    Attributes:
        name: its name.
        messages: how many there are, ready or held by consumers.
        messages_ready: how many can be had.
        messages_unacknowledged: how many consumers hold.
        bytes: octets of all of them.
        consumers: how many are attached.
        totals: counters since the queue, or the broker, began: ``published``, ``delivered``, ``accepted`` and
            others.
        rates: of the first three.
    """

    name: str
    durable: bool
    private: bool
    exclusive: bool
    auto_delete: bool
    grace: float
    max_length: int | None
    max_bytes: int | None
    overflow: str
    message_ttl: float | None
    expires: float | None
    priority_levels: int
    dead_letter_exchange: str | None
    dead_letter_key: str | None
    delivery_limit: int | None
    duplicate_window: int
    acquisition_timeout: float | None
    messages: int
    messages_ready: int
    messages_unacknowledged: int
    bytes: int
    consumers: int
    totals: Mapping[str, int]
    rates: Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeInfo:
    """An exchange.

    Attributes:
        name: its name; empty: the default exchange.
        type: ``direct``, ``topic``, ``fanout``, ``headers``, or another one of the broker.
        durable: it is there again after a restart.
        auto_delete: it goes once nothing is bound to it any more.
        internal: clients cannot publish to it.
        arguments: what else its type was told.
        bindings: how many there are from it.
        totals: ``incoming``, ``outgoing``, ``unroutable`` and ``refused`` messages.
        rates: of the first three.
    """

    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Mapping[str, Any]
    bindings: int
    totals: Mapping[str, int]
    rates: Rates


@dataclass(frozen=True, slots=True)
class Step:
    """One condition of a chained binding: as a binding to ``source`` would have it."""

    source: str
    key: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingInfo:
    """A binding.

    Attributes:
        source: the exchange that messages come from.
        destination: where they go.
        destination_type: ``queue`` or ``exchange``.
        key: the routing key or pattern.
        arguments: the rest of the condition.
        steps: of a chained binding all conditions, the first one included; else None.
    """

    source: str
    destination: str
    destination_type: str
    key: str
    arguments: Mapping[str, Any]
    steps: Sequence[Step] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    """A connection to the virtual host.

    Attributes:
        id: what names it while it is there.
        user: who has logged in.
        vhost: the virtual host.
        protocol: the dialect.
        peer: what the client calls itself, as its container-id.
        address: where the client is, for people.
        since: when it came, in seconds since the epoch.
        product: what the client says it is; None if it says nothing.
        sessions: how many it has.
        links: how many it has.
        frames_received: frames that the broker has received.
        frames_sent: frames that it has sent.
        octets_sent: octets that it has sent.
    """

    id: str
    user: str
    vhost: str
    protocol: str
    peer: str
    address: str
    since: float
    product: str | None
    sessions: int
    links: int
    frames_received: int
    frames_sent: int
    octets_sent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerInfo:
    """A consumer of a queue.

    Attributes:
        queue: the queue.
        name: what it is called there.
        connection: the id of its connection; None: it has none just now.
        is_browser: it looks at messages and leaves them.
        has_selector: it takes some messages only.
    """

    queue: str
    name: str
    connection: str | None
    is_browser: bool
    has_selector: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """A virtual host as a whole: sums over its queues, as :class:`QueueInfo` has them.

    Attributes:
        name: its name.
        queues: how many there are.
        exchanges: likewise.
        consumers: likewise.
    """

    name: str
    queues: int
    exchanges: int
    consumers: int
    messages: int
    messages_ready: int
    messages_unacknowledged: int
    bytes: int
    totals: Mapping[str, int]
    rates: Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """The broker itself.

    Attributes:
        product: what it is.
        version: which one.
        user: who you are to it.
        vhost: the virtual host of the connection.
        is_durable: whether anything survives a restart.
        started: when it began, in seconds since the epoch.
        uptime: for how many seconds it has run.
        usage: what of ``connections``, ``queues``, ``exchanges``, ``bindings`` and ``memory`` is ``used``,
            and the ``limit``, in all virtual hosts; None for users who may not know.
    """

    product: str
    version: str
    user: str
    vhost: str
    is_durable: bool
    started: float
    uptime: float
    usage: Mapping[str, Mapping[str, int]] | None


@dataclass(frozen=True, slots=True)
class Overview:
    """The broker, and the virtual host of the connection."""

    broker: BrokerInfo
    vhost: HostInfo


T = TypeVar("T")


def map_of(body: Any) -> Mapping[str, Any]:
    """The map that the body of an answer has to be; raises ManagementError if it is none."""
    if not isinstance(body, Mapping):
        raise ManagementError(500, "the body of the answer is no map")
    return body


def made(kind: type[T], body: Any) -> T:
    """A thing out of its attributes; those that are not known are left out.

    Raises:
        ManagementError: one is missing.
    """
    attributes = dict(map_of(body))
    steps = attributes.get("steps")
    if isinstance(steps, list):
        attributes["steps"] = [made(Step, step) for step in steps]
    known = fields(kind)  # type: ignore[arg-type]
    for one in known:
        if one.name not in attributes and one.default is MISSING and one.default_factory is MISSING:
            raise ManagementError(500, f"the answer lacks the attribute {one.name!r}")
    return kind(**{one.name: attributes[one.name] for one in known if one.name in attributes})

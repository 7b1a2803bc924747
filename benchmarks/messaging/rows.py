"""What is measured of whole peers, and how one run of it becomes numbers.

Every run checks itself: the receiving worker holds each message against the one that has to come next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any
from urllib.parse import urlsplit

from benchmarks.messaging.stacks import Pair, worker
from benchmarks.messaging.work import Job
from tests.interop.rabbitmq import Broker

SIZES = (100, 1024)
"""Octets in the body of a message."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a run.

    Attributes:
        key: its name in the result of a run.
        title: what it is called in tables; behind the title of the row.
        unit: what it is counted in.
        more_is_better: whether it is a speed; if not, it is a cost.
        targets: by stack, how many times as good as that one ours is meant to be.
    """

    key: str
    title: str
    unit: str
    more_is_better: bool = False
    targets: Mapping[str, float] = field(default_factory=dict)

    def ratio(self, ours: float, peer: float) -> float:
        """How many times as good as a peer's number ours is; above 1 it is the better one."""
        better, worse = (ours, peer) if self.more_is_better else (peer, ours)
        return better / worse if worse else inf


Run = Callable[[Pair, "Row", int], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A way of measuring, for rows of several sizes and settle modes.

    Attributes:
        case: its name, for choosing and for titles.
        roles: what the workers of a stack have to know for it.
        run: measures one stack once, with so many messages or links.
        measures: the numbers that a run gives.
        sizes: octets in the body of a message.
        settle_modes: whether the sender sends its messages settled.
        share: messages or links of a run, as a part of those that the effort says.
        least: what a run has at least, however small the effort.
        rounds: how often each stack has its turn; None: as the effort says.
        needs_broker: whether there is none of it without RabbitMQ.
    """

    case: str
    roles: frozenset[str]
    run: Run
    measures: tuple[Measure, ...]
    sizes: tuple[int, ...] = SIZES
    settle_modes: tuple[bool, ...] = (True, False)
    share: float = 1.0
    least: int = 1
    rounds: int | None = None
    needs_broker: bool = False

    def count(self, messages: int) -> int:
        """How many messages or links make a run, where the effort is so many messages."""
        return max(self.least, round(messages * self.share))


@dataclass(frozen=True, slots=True)
class Row:
    """One thing to measure.

    Attributes:
        kind: how.
        size: octets in the body of a message.
        settled: whether the sender sends its messages settled.
        broker: what messages go through, where the kind asks for it.
    """

    kind: Kind
    size: int
    settled: bool
    broker: Broker | None = None

    @property
    def title(self) -> str:
        """What it is called in tables."""
        mode = "settled" if self.settled else "unsettled"
        parts = [self.kind.case, f"{self.size} B" * bool(self.size), mode * (len(self.kind.settle_modes) > 1)]
        return ", ".join(part for part in parts if part)

    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"case": self.kind.case, "size": self.size, "settled": self.settled}

    def job(self, role: str, count: int, **more: Any) -> Job:
        """A job for a worker that works on this row."""
        return Job(role, count, self.size, self.settled, **more)


def _rate(result: Mapping[str, Any], count: int) -> float:
    """Messages a second between begin and end."""
    return count * 1e9 / float(result["end"] - result["begin"])


def _cpu(result: Mapping[str, Any], count: int) -> float:
    """Microseconds of processor time a message."""
    return float(result["cpu"]) / count / 1000


def joined(pair: Pair, row: Row, count: int) -> dict[str, float]:
    """A sender and a receiver joined in memory, in one process."""
    result = pair.client.do(row.job("joined", count))
    return {"rate": _rate(result, count), "cpu": _cpu(result, count)}


def peer_to_peer(pair: Pair, row: Row, count: int) -> dict[str, float]:
    """From one process to another of the same stack.

    The sender's clock counts, from its attach until its close is answered, when the receiver has taken
    everything in.
    """
    pair.listener.begin(row.job("accept", count))
    port = pair.listener.answer()["port"]
    sent = pair.client.do(row.job("send", count, port=port))
    taken = pair.listener.answer()
    return {"rate": _rate(sent, count), "sender": _cpu(sent, count), "receiver": _cpu(taken, count)}


def through_broker(pair: Pair, row: Row, count: int) -> dict[str, float]:
    """Into a queue of a broker, and out of it when all are in: each with a client of its own."""
    port, address = _queue(pair, row)
    sent = pair.client.do(row.job("send", count, port=port, address=address))
    taken = pair.client.do(row.job("fetch", count, port=port, address=address))
    return {
        "in": _rate(sent, count),
        "in cpu": _cpu(sent, count),
        "out": _rate(taken, count),
        "out cpu": _cpu(taken, count),
    }


def _queue(pair: Pair, row: Row) -> tuple[int, str]:
    """The broker's port, and the address of an empty queue for a stack."""
    if row.broker is None:
        raise ValueError(f"{row.title} needs a broker")
    return urlsplit(row.broker.url).port or 0, row.broker.declare(f"bench-{pair.program.key}")


def broker_round_trips(pair: Pair, row: Row, count: int) -> dict[str, float]:
    """One message at a time into a queue of a broker: how long its outcome takes to come."""
    warm_up = count // 10
    port, address = _queue(pair, row)
    result = pair.client.do(row.job("round trips", count + warm_up, port=port, address=address))
    pair.client.do(row.job("fetch", count + warm_up, port=port, address=address))
    return percentiles(result["micros"][warm_up:])


def round_trips(pair: Pair, row: Row, count: int) -> dict[str, float]:
    """One message at a time to another process of the same stack: how long its outcome takes to come."""
    warm_up = count // 10
    pair.listener.begin(row.job("accept", count + warm_up))
    port = pair.listener.answer()["port"]
    result = pair.client.do(row.job("round trips", count + warm_up, port=port))
    pair.listener.answer()
    return percentiles(result["micros"][warm_up:])


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The middle one of some values, and the one that a hundredth of them exceed: p50 and p99."""
    ordered = sorted(values)
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[len(ordered) * 99 // 100]}


def links(pair: Pair, row: Row, count: int) -> dict[str, float]:
    """Memory that a sending link takes, in a fresh client that has opened as many before.

    A process that has worked, or has just started, has memory to spare, and needs no more for a while.
    """
    with worker(pair.program) as client:
        pair.listener.begin(row.job("listen", 0))
        port = pair.listener.answer()["port"]
        result = client.do(row.job("links", count, port=port))
        pair.listener.answer()
    return {"memory": (result["after"] - result["before"]) / count / 1024}


_AS_GOOD, _TWICE = {"proton": 1.0}, {"proton": 2.0}
_LEAN = {"proton": 1.0, "rhea": 1.0}

IN_MEMORY = Kind(
    "in-memory",
    frozenset({"joined"}),
    joined,
    (
        Measure("rate", "", "msg/s", True, _TWICE),
        Measure("cpu", "CPU of both ends", "us", targets=_AS_GOOD),
    ),
    share=0.5,
)
PEER_TO_PEER = Kind(
    "peer-to-peer",
    frozenset({"accept", "send"}),
    peer_to_peer,
    (
        Measure("rate", "", "msg/s", True, _TWICE),
        Measure("sender", "CPU of the sender", "us", targets=_LEAN),
        Measure("receiver", "CPU of the receiver", "us", targets=_LEAN),
    ),
)
RABBITMQ = Kind(
    "rabbitmq",
    frozenset({"send", "fetch"}),
    through_broker,
    (
        Measure("in", "sending", "msg/s", True, _AS_GOOD),
        Measure("in cpu", "CPU sending", "us", targets=_LEAN),
        Measure("out", "receiving", "msg/s", True, _AS_GOOD),
        Measure("out cpu", "CPU receiving", "us", targets=_LEAN),
    ),
    share=0.3,
    needs_broker=True,
)
_TRIP = (
    Measure("p50", "p50", "us", targets=_AS_GOOD),
    Measure("p99", "p99", "us", targets=_AS_GOOD),
)
ROUND_TRIP = Kind(
    "round-trip",
    frozenset({"accept", "round trips"}),
    round_trips,
    _TRIP,
    sizes=(100,),
    settle_modes=(False,),
    share=0.05,
    least=200,
)
RABBITMQ_TRIP = Kind(
    "rabbitmq-round-trip",
    frozenset({"round trips", "fetch"}),
    broker_round_trips,
    _TRIP,
    sizes=(100,),
    settle_modes=(False,),
    share=0.05,
    least=200,
    needs_broker=True,
)
LINKS = Kind(
    "links",
    frozenset({"listen", "links"}),
    links,
    (Measure("memory", "memory of one", "KiB", targets=_AS_GOOD),),
    sizes=(0,),
    settle_modes=(False,),
    share=0.1,
    least=1000,
    rounds=1,  # no clock is involved, and it takes fresh processes
)
KINDS = (IN_MEMORY, PEER_TO_PEER, RABBITMQ, ROUND_TRIP, RABBITMQ_TRIP, LINKS)

"""Messages from a publisher to a consumer through a broker, both at work at the same time.

The brokers take turns with the same two client processes. Every run checks itself: the consumer holds each
message against the one that has to come next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.broker.brokers import Running, rabbit, served
from benchmarks.messaging.rounds import Findings, Line, Say, medians
from benchmarks.messaging.rows import SIZES, Measure, percentiles
from benchmarks.messaging.stacks import OURS, PROTON, MissingError, Pair, pairs
from benchmarks.messaging.work import Job
from benchmarks.stack import WrongResultError

CASE = "broker"
STORES = ("memory", "durable")


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: rounds of a row, and messages of a run, at full speed and at a steady rate."""

    rounds: int = 3
    messages: int = 3000
    steady: int = 500


QUICK = Effort(rounds=1, messages=600, steady=100)

RATE = 1000
"""Messages a second of a run at a steady rate, which every broker here can take."""

AT_FULL_SPEED = (
    Measure("rate", "", "msg/s", True, {"proton": 2.0}),
    Measure("cpu", "CPU of the broker", "us", targets={"proton": 2.0}),
    Measure("p99", "p99", "ms"),
)
AT_A_STEADY_RATE = (
    Measure("p50", "p50", "ms", targets={"proton": 1.0}),
    Measure("p99", "p99", "ms", targets={"proton": 1.0}),
)


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One thing to measure.

    Attributes:
        store: ``memory``: messages that need not survive; ``durable``: such as have to, in a durable queue.
        client: the stack of publisher and consumer.
        size: octets in the body of a message.
        is_steady: whether messages are sent at a steady rate; if not, as fast as outcomes come.
    """

    store: str
    client: str
    size: int
    is_steady: bool = False

    @property
    def title(self) -> str:
        """What it is called in tables."""
        steady = f", {RATE} msg/s" * self.is_steady
        return f"{CASE} {self.store}, {self.size} B, {self.client}{steady}"

    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "case": CASE,
            "store": self.store,
            "client": self.client,
            "size": self.size,
            "steady": self.is_steady,
        }


def run(broker: Running, clients: Pair, row: BrokerRow, count: int) -> dict[str, float]:
    """Send messages through a broker once, from one process to another.

    The rate is that from the publisher's attach until the consumer has the last message. The times are those
    of messages from their making to their arrival: at full speed, mostly a wait for those before them.
    """
    job = Job(
        "fetch",
        count,
        row.size,
        port=broker.port,
        address=broker.address,
        durable=row.store == "durable",
        timed=True,
        rate=RATE,
    )
    broker.clear()
    before = broker.cpu()
    clients.listener.begin(job)
    try:
        sent = clients.client.do(replace(job, role="pace" if row.is_steady else "send"))
        taken = clients.listener.answer()
    except WrongResultError as error:
        raise WrongResultError(f"{row.title}, through {broker.label}: {error}") from error
    used = broker.cpu() - before
    on_the_way = [(arrived - left) / 1e6 for left, arrived in zip(sent["times"], taken["times"], strict=True)]
    return {
        "rate": count * 1e9 / (taken["end"] - sent["begin"]),
        "cpu": used / count / 1000,
        **percentiles(on_the_way),
    }


@contextmanager
def brokers(say: Say) -> Iterator[Mapping[str, Sequence[Running]]]:
    """The brokers that are installed, ours first, by what they keep; they run during a ``with`` block."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="benchmark-broker-")))
        found: dict[str, list[Running]] = {
            "memory": [stack.enter_context(served("ours", "ours", "memory"))],
            "durable": [stack.enter_context(served("ours", "ours", f"sqlite:{folder / 'store.db'}"))],
        }
        try:
            found["memory"].append(stack.enter_context(served("proton", "proton")))
        except MissingError as error:
            say(f"left out: proton ({error})")
        try:
            transient, durable = stack.enter_context(rabbit(folder))
        except MissingError as error:
            say(f"left out: RabbitMQ ({error})")
        else:
            found["memory"].append(transient)
            found["durable"].append(durable)
        yield found


def measure(effort: Effort, say: Say) -> Findings:
    """Measure all rows.

    Raises:
        WrongResultError: a message arrived changed, out of order or not at all.
        ChildError: a worker or a broker broke.
    """
    lines: list[Line] = []
    with pairs((OURS, PROTON), say) as clients, brokers(say) as found:
        _warm_up(found, clients, effort)
        for store in STORES:
            for pair in clients:
                rows = [BrokerRow(store, pair.program.key, size) for size in SIZES]
                if pair.program is OURS:
                    rows.append(BrokerRow(store, OURS.key, SIZES[0], is_steady=True))
                for row in rows:
                    lines += lines_of(row, found[store], pair, effort)
        labels = {broker.key: broker.label for able in found.values() for broker in able}
    return Findings("Through a broker", lines, labels)


def _warm_up(found: Mapping[str, Sequence[Running]], clients: Sequence[Pair], effort: Effort) -> None:
    for store, able in found.items():
        for broker in able:
            run(broker, clients[0], BrokerRow(store, "", SIZES[0]), effort.messages)


def lines_of(row: BrokerRow, able: Sequence[Running], clients: Pair, effort: Effort) -> list[Line]:
    """Measure a row with all brokers that can do it."""
    count = effort.steady if row.is_steady else effort.messages
    runs = {broker.key: partial(run, broker, clients, row, count) for broker in able}
    return list(medians(row, AT_A_STEADY_RATE if row.is_steady else AT_FULL_SPEED, runs, effort.rounds))

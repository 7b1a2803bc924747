"""What much of everything costs our broker: slow consumers, a backlog, connections, queues, and its start."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.broker import QUEUE
from benchmarks.broker.brokers import Running, served
from benchmarks.messaging.rows import percentiles
from benchmarks.messaging.stacks import OURS, ROOT, Worker, worker
from benchmarks.messaging.work import Job
from benchmarks.processes import Figure
from tests.interop.processes import child

CASE = "broker-scale"
SIZE = 1024
"""Octets in the body of a message."""

PIECE = 20_000
"""Messages of a job, which a worker can do in the time that it has."""

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Effort:
    """How much of everything.

    Attributes:
        backlog: messages that a restarted broker has.
        connections: that are open at once.
        queues: that are declared.
        stuck: messages for a consumer that does not read.
        trips: messages whose way is timed.
        starts: how often the broker is started for the time of that.
    """

    backlog: int = PIECE
    connections: int = 200
    queues: int = 2000
    stuck: int = 3000
    trips: int = 300
    starts: int = 3


QUICK = Effort(connections=50, queues=200, stuck=1000, trips=100, starts=1)
FULL = Effort(backlog=1_000_000, connections=1000, queues=10_000, stuck=20_000, trips=2000)


def figures(effort: Effort) -> Iterator[Figure]:
    """All of it, each figure when it is known.

    Raises:
        WrongResultError: a message arrived changed, out of order or not at all.
        ChildError: a worker or the broker broke.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="benchmark-broker-")))
        one, other = [stack.enter_context(worker(OURS)) for _ in range(2)]
        yield from _starts(folder, effort.starts)
        yield from _slow_consumers(one, other, effort)
        yield from _connections(one, other, effort)
        yield from _queues(one, effort)
        yield from _backlog(one, folder / "backlog.db", effort.backlog)


def _starts(folder: Path, count: int) -> Iterator[Figure]:
    for store in ("memory", f"sqlite:{folder / 'new.db'}"):
        took = [_start(("-m", "amqpforge", "broker", "--port", "0", "--store", store)) for _ in range(count)]
        name = f"amqpforge broker, to listening, {store.partition(':')[0]}"
        yield Figure(name, median(milliseconds for milliseconds, _ in took), "ms", 1000)
    told = [_start(("-m", "benchmarks.broker.serve", "embedded"))[1] for _ in range(count)]
    embedded = median(json.loads(line)["milliseconds"] for line in told)
    yield Figure("embedded broker, to listening, once imported", embedded, "ms", 50)


def _start(arguments: Sequence[str]) -> tuple[float, str]:
    """Milliseconds until a program in Python says something, and what that is."""
    begin = perf_counter()
    with child("python", [sys.executable, *arguments], cwd=ROOT) as process:
        line = process.hear(60)
        return (perf_counter() - begin) * 1000, line


# --- slow consumers


def _slow_consumers(publisher: Worker, consumer: Worker, effort: Effort) -> Iterator[Figure]:
    """Two queues get every message. The consumer of one reads; that of the other is not there, or stalls."""
    for kind in ("absent", "stalled"):
        with ExitStack() as stack:
            broker = stack.enter_context(served("ours", "ours"))
            broker.declare(2, fanout=True)
            if kind == "stalled":
                stalled = stack.enter_context(worker(OURS))
                stalled.begin(_job(broker, "stall", effort.stuck, f"{QUEUE}-1"))
                stalled.answer()
            before = broker.resident()
            rate, _ = _flow(
                publisher, consumer, _job(broker, "send", effort.stuck, "/exchanges/amq.fanout/x")
            )
            grown = broker.resident() - before
            steady = replace(_job(broker, "pace", effort.trips, "/exchanges/amq.fanout/x"), rate=500)
            _, p99 = _flow(publisher, consumer, steady)
            about = f"beside a consumer that is {kind}"
            yield Figure(f"{about}: consuming", rate, "msg/s")
            yield Figure(f"{about}: p99 at 500 msg/s", p99, "ms")
            yield Figure(
                f"{about}: memory of one of {effort.stuck:,} left", grown / effort.stuck / 1024, "KiB"
            )


def _job(broker: Running, role: str, count: int, address: str) -> Job:
    return Job(role, count, SIZE, port=broker.port, address=address)


def _flow(publisher: Worker, consumer: Worker, job: Job) -> tuple[float, float]:
    """Messages a second into the first of the two queues and out of it, and milliseconds that they take."""
    job = replace(job, timed=True)
    consumer.begin(replace(job, role="fetch", address=f"{QUEUE}-0"))
    sent = publisher.do(job)
    taken = consumer.answer()
    on_the_way = [(end - begin) / 1e6 for begin, end in zip(sent["times"], taken["times"], strict=True)]
    return job.count * 1e9 / (taken["end"] - sent["begin"]), percentiles(on_the_way)["p99"]


# --- many of something


def _connections(one: Worker, other: Worker, effort: Effort) -> Iterator[Figure]:
    with served("ours", "ours") as broker:
        yield from _trips(other, broker, QUEUE, effort.trips, "1 connection")
        before = broker.resident()
        one.begin(_job(broker, "connections", effort.connections, QUEUE))
        opened = one.answer()
        name = f"{effort.connections:,} connections"
        each = (broker.resident() - before) / effort.connections / 1024
        yield Figure(f"{name}: memory of one", each, "KiB")
        yield Figure(
            f"{name}: opening one", (opened["end"] - opened["begin"]) / effort.connections / 1e6, "ms"
        )
        yield from _trips(other, broker, QUEUE, effort.trips, name)
        one.go_on()
        one.answer()


def _queues(one: Worker, effort: Effort) -> Iterator[Figure]:
    with served("ours", "ours") as broker:
        before = broker.resident()
        begin = perf_counter()
        broker.declare(effort.queues)
        took = perf_counter() - begin
        name = f"{effort.queues:,} queues"
        yield Figure(f"{name}: memory of one", (broker.resident() - before) / effort.queues / 1024, "KiB")
        yield Figure(f"{name}: declaring one", took / effort.queues * 1e6, "us")
        yield from _trips(one, broker, f"{QUEUE}-{effort.queues // 2}", effort.trips, name)


def _trips(client: Worker, broker: Running, address: str, count: int, name: str) -> Iterator[Figure]:
    """Publishing one message at a time: how long its outcome takes to come."""
    result = client.do(_job(broker, "round trips", count + count // 10, address))
    for key, micros in percentiles(result["micros"][count // 10 :]).items():
        yield Figure(f"{name}: publishing, {key}", micros, "us")


# --- a backlog


def _backlog(client: Worker, path: Path, count: int) -> Iterator[Figure]:
    """Durable messages that a broker finds when it starts."""
    store = f"sqlite:{path}"
    pieces = [min(PIECE, count - start) for start in range(0, count, PIECE)]
    name = f"backlog of {count:,}"
    with served("ours", "ours", store) as broker:
        yield Figure(f"{name}: filling", _rate(client, broker, "send", pieces), "msg/s")
        yield Figure(f"{name}: memory before the restart", broker.resident() / MIB, "MiB")
    begin = perf_counter()
    with served("ours", "ours", store) as broker:
        yield Figure(f"{name}: start to listening", perf_counter() - begin, "s", 5)
        yield Figure(f"{name}: memory after the start", broker.resident() / MIB, "MiB", 400)
        yield Figure(f"{name}: draining", _rate(client, broker, "fetch", pieces), "msg/s")
        yield Figure(f"{name}: most memory while it drains", broker.peak() / MIB, "MiB")


def _rate(client: Worker, broker: Running, role: str, pieces: Sequence[int]) -> float:
    """Messages a second, one job after the other."""
    jobs = [replace(_job(broker, role, piece, QUEUE), durable=True) for piece in pieces]
    took: list[int] = []
    for job in jobs:
        result = client.do(job)
        took.append(result["end"] - result["begin"])
    return sum(pieces) * 1e9 / sum(took)

"""What is measured of Spark, part by part; each figure is told when it is known."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.broker.brokers import Running, served
from benchmarks.messaging.stacks import MissingError
from benchmarks.spark import captures
from benchmarks.spark.bulk import find_bulk
from benchmarks.spark.findings import HEAD, Line, Run, alone, beside, numbers, turns
from benchmarks.spark.tshark import find_tshark
from benchmarks.spark.workers import Worker, worker

CASE = "spark"
"""The name under which the command line chooses it."""

SIZE = 1024
"""Octets in the body of a message that goes through the broker."""

OF_SPOOL = ("address", "body", "properties", "application_properties")
OF_STREAM = ("address", "body", "received_at")
"""The columns where only some are asked for; the time of a stream begins with the first receipt."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much of everything.

    Attributes:
        rounds: how often everybody has a turn.
        columns: rows that are encoded and decoded at once in one process.
        spooled: messages in the spool.
        messages: that are taken from the broker, or sent to it, in a turn.
        has_captures: whether the capture is decoded.
    """

    rounds: int = 3
    columns: int = 10_000
    spooled: int = 200_000
    messages: int = 200_000
    has_captures: bool = True


QUICK = Effort(rounds=1, columns=1000, spooled=2000, messages=2000, has_captures=False)

ROUNDS_OF_COLUMNS = 7
"""They are short."""

WARM_UPS = 4
"""How often a session reads and writes before anything counts; what the JVM compiles by itself is compiled
by then.
"""

COLUMNS = (
    ("encode", "rows to messages, the source's columns", 60_000),
    ("encode table", "rows to messages, body and two maps", 60_000),
    ("decode", "messages to rows", 133_000),
    ("frames", "frames to rows, performatives", 320_000),
)
"""The calls of :mod:`.columns`: their names, titles, and rows a second that they are meant to reach."""


def measure(effort: Effort, say: Say) -> Iterator[Line]:
    """All figures, each when it is known; those that need what is not installed are left out, which is said.

    Raises:
        WrongResultError: somebody has other rows or messages than there are.
        ChildError: a worker or the broker broke.
    """
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if missing:
        say(f"left out: spark ({' and '.join(missing)} cannot be imported)")
        return
    say(HEAD)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="benchmark-spark-")))
        plain = stack.enter_context(worker(0))
        yield from _columns(plain, effort)
        try:
            two = stack.enter_context(worker(2))
        except MissingError as error:
            say(f"left out: what needs a session of Spark ({error})")
            return
        yield alone("start of a session", "s", [two.seconds])
        if effort.has_captures:
            yield from _captures(two, folder, effort, say)
        broker = stack.enter_context(served("ours", "ours"))
        broker.declare(2)
        yield from _spool(plain, two, broker, folder, effort)
        yield from _source(plain, two, broker, folder, effort)
        yield from _sink(plain, two, broker, effort)


def _columns(plain: Worker, effort: Effort) -> Iterator[Line]:
    found = plain.do("columns", count=effort.columns, rounds=ROUNDS_OF_COLUMNS)
    for name, title, target in COLUMNS:
        yield alone(f"one process, {title}", "rows/s", found[name], target)


def _captures(two: Worker, folder: Path, effort: Effort, say: Say) -> Iterator[Line]:
    bulk = find_bulk()
    if bulk is None:
        say("left out: captures (AMQPFORGE_MATERIAL has no bulk capture)")
        return
    tshark = find_tshark(bulk.path, bulk.port)
    say("left out: tshark (it is not installed)" if tshark is None else f"beside: {tshark.label}")
    with worker(1) as one, worker(0, 0) as first, worker(0, 1) as second:
        yield from captures.measure((one, two), (first, second), bulk, tshark, folder, effort.rounds)


def _spool(plain: Worker, two: Worker, broker: Running, folder: Path, effort: Effort) -> Iterator[Line]:
    """The first run fills the spool; those that count find the queue empty. Beside them the same rows are
    written that are there already.
    """
    job = {"port": broker.port, "address": f"{broker.address}-0", "count": effort.spooled}
    folders = {"spool": str(folder / "spool"), "folder": str(folder / "spooled")}

    def spooled(columns: tuple[str, ...]) -> dict[str, float]:
        return _with_rate(two.do("spooled", **job, **folders, columns=columns), effort.spooled)

    def ready(file: str) -> dict[str, float]:
        given = {"path": file, "tasks": 2, "cpus": None, "folder": folders["folder"]}
        return _with_rate(two.do("hand_over", **given), effort.spooled)

    plain.do("send orders", **job)
    runs: dict[str, Run] = {}
    for name, columns in (("all", ()), ("some", OF_SPOOL)):
        file = str(folder / f"{name}.arrow")
        runs[name], runs[f"{name} ready"] = partial(spooled, columns), partial(ready, file)
        runs[name]()
        plain.do("record spool", spool=folders["spool"], columns=columns, file=file)
        runs[f"{name} ready"]()
    turns(runs, WARM_UPS - 1)
    found = turns(runs, effort.rounds)
    shutil.rmtree(folder / "spooled")
    title = "spool into Parquet, local[2]"
    for name, what in (("all", title), ("some", f"{title}, four columns")):
        yield alone(what, "rows/s", numbers(found[name], "rate"), 100_000)
        yield alone(f"{what}, rows that are there already", "rows/s", numbers(found[f"{name} ready"], "rate"))


def _source(plain: Worker, two: Worker, broker: Running, folder: Path, effort: Effort) -> Iterator[Line]:
    """A queue that is full is taken from: by the client, by the receiver of the source, and by a stream."""
    job = {"port": broker.port, "address": broker.address, "count": effort.messages, "size": SIZE}
    number = count()

    def taken(take: Callable[[Path], dict[str, float]]) -> dict[str, float]:
        plain.do("send", **job)
        home = folder / f"taken-{next(number)}"
        before = broker.cpu()
        used = take(home)
        cpu = {"broker": (broker.cpu() - before) / 1000, "spark": used.get("cpu", 0.0) * 1e6}
        shutil.rmtree(home, ignore_errors=True)
        each = {name: microseconds / effort.messages for name, microseconds in cpu.items()}
        return {**_with_rate(used, effort.messages), **each}

    def stream(columns: tuple[str, ...]) -> Run:
        return partial(taken, lambda home: two.do("stream", **job, folder=str(home), columns=columns))

    into_spool = {"port": broker.port, "address": broker.address, "count": effort.messages}
    runs: dict[str, Run] = {
        "all": stream(()),
        "some": stream(OF_STREAM),
        "spool": partial(taken, lambda home: plain.do("receive", **into_spool, folder=str(home))),
        "client": partial(taken, lambda home: plain.do("take", **job)),
    }
    turns(runs, WARM_UPS)
    found = turns(runs, effort.rounds)
    peer = "client", found["client"]
    title = f"broker to Parquet, {SIZE:,} B"
    yield beside(title, "msg/s", "rate", found["all"], peer, 0.8, more_is_better=True)
    yield beside(f"{title}, three columns", "msg/s", "rate", found["some"], peer, 0.8, more_is_better=True)
    for name, what in (("all", title), ("some", f"{title}, three columns")):
        yield alone(f"{what}, CPU of Spark for each", "us", numbers(found[name], "spark"))
        yield beside(f"{what}, CPU of the broker for each", "us", "broker", found[name], peer)
    yield alone("start of a query, to its first message", "s", numbers(found["all"], "before"))
    title = f"broker to the spool, without Spark, {SIZE:,} B"
    yield beside(title, "msg/s", "rate", found["spool"], peer, more_is_better=True)
    yield beside(f"{title}, CPU of the broker for each", "us", "broker", found["spool"], peer)


def _sink(plain: Worker, two: Worker, broker: Running, effort: Effort) -> Iterator[Line]:
    """Messages are put into a queue: by the client, and by Spark without and with ids."""
    job = {"port": broker.port, "address": broker.address, "count": effort.messages, "size": SIZE}

    def write(ids: bool) -> dict[str, float]:
        used = two.do("write", **job, ids=ids)
        plain.do("take", **job)
        return _with_rate(used, effort.messages)

    def send() -> dict[str, float]:
        used = plain.do("send", **job)
        plain.do("take", **job)
        return _with_rate(used, effort.messages)

    runs: dict[str, Run] = {"spark": partial(write, False), "ids": partial(write, True), "client": send}
    turns(runs, WARM_UPS)
    found = turns(runs, effort.rounds)
    peer = "client", found["client"]
    title = f"rows to the broker, {SIZE:,} B"
    yield beside(title, "msg/s", "rate", found["spark"], peer, 0.8, more_is_better=True)
    yield beside(f"{title}, with ids", "msg/s", "rate", found["ids"], peer, more_is_better=True)


def _with_rate(used: dict[str, float], done: int) -> dict[str, float]:
    return {**used, "rate": done / used["seconds"]}

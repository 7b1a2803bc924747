"""Captures: frames a second of ``format("amqp_capture")``, with Spark and without, beside tshark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.spark.bulk import CODES, Bulk
from benchmarks.spark.findings import Line, Run, Samples, alone, beside, numbers, turns
from benchmarks.spark.tenfold import tenfold
from benchmarks.spark.tshark import AS_EK, AS_FIELDS, AS_NAMES, ONLY_AMQP, Tshark
from benchmarks.spark.workers import Worker
from benchmarks.stack import WrongResultError

TARGET_OF_CORES = 1.6
"""What two cores are meant to be beside one."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to decode a capture.

    Attributes:
        title: what it is called in tables.
        columns: the options of the read that say which columns are wanted.
        forms: by what they are called, how tshark is asked for the same; the first one has the target.
        target: how many times as fast as tshark one core is meant to be.
        warm_up: how often a session does it before anything counts; what the JVM compiles by itself is
            compiled by then.
    """

    title: str
    columns: Mapping[str, str]
    forms: Mapping[str, tuple[str, ...]]
    target: float
    warm_up: int


KINDS = (
    Kind(
        "names of performatives",
        {"sections": "false", "fields": "none"},
        {"tshark -T fields, of three": AS_NAMES},
        2.0,
        warm_up=6,
    ),
    Kind("performatives", {"sections": "false"}, {"tshark -T fields": AS_FIELDS}, 2.0, warm_up=3),
    Kind("with messages", {}, {"tshark -T ek": AS_EK, "tshark -T ek -J amqp": ONLY_AMQP}, 3.0, warm_up=2),
)


@dataclass(frozen=True, slots=True)
class Way:
    """A session that decodes, and how.

    Attributes:
        worker: the session.
        tasks: how many it has at a time.
        cpus: how many processors it may use, the JVM included; None: any.
    """

    worker: Worker
    tasks: int
    cpus: int | None = None

    def check(self, bulk: Bulk, kind: Kind) -> int:
        """See that the frames are right; returns how many rows there are.

        Raises:
            WrongResultError: they are not.
        """
        told = self.worker.do("check_capture", **self._job(bulk, kind), expected=bulk.by_name)
        return int(told["rows"])

    def run(self, bulk: Bulk, kind: Kind, rows: int) -> dict[str, float]:
        """Decode the capture once.

        Raises:
            WrongResultError: there are not so many rows.
        """
        used = self.worker.do("capture", **self._job(bulk, kind), cpus=self.cpus)
        if used["rows"] != rows:
            raise WrongResultError(f"{self.worker.label}: {used['rows']} rows of the capture, not {rows}")
        return {**used, "rate": bulk.frames / used["seconds"]}

    def _job(self, bulk: Bulk, kind: Kind) -> dict[str, Any]:
        return {"path": str(bulk.path), "columns": dict(kind.columns), "tasks": self.tasks}


@dataclass(frozen=True, slots=True)
class Ready:
    """A session that is handed rows which are there already, on one processor: what no reader can be below.

    Attributes:
        worker: the session.
        reader: a worker without one, which decodes the capture beforehand.
        file: for the rows.
    """

    worker: Worker
    reader: Worker
    file: Path

    def check(self, bulk: Bulk, kind: Kind) -> int:
        """Decode the capture; returns how many rows there are."""
        job = {"path": str(bulk.path), "columns": dict(kind.columns), "file": str(self.file)}
        return int(self.reader.do("record", **job)["rows"])

    def run(self, bulk: Bulk, kind: Kind, rows: int) -> dict[str, float]:
        """Hand the rows over once.

        Raises:
            WrongResultError: there are not so many rows.
        """
        used = self.worker.do("hand_over", path=str(self.file), tasks=1, cpus=1)
        if used["rows"] != rows:
            raise WrongResultError(f"{self.worker.label}: {used['rows']} rows handed over, not {rows}")
        return {**used, "rate": bulk.frames / used["seconds"]}


@dataclass(frozen=True, slots=True)
class Processes:
    """Workers without a session that decode at once what tasks would, without Spark's JVM.

    Attributes:
        workers: each decodes a part of the file; the first one has planned the parts.
    """

    workers: Sequence[Worker]

    def check(self, bulk: Bulk, kind: Kind) -> int:
        """See that there are as many frames by name as there should be; returns how many rows there are.

        Raises:
            WrongResultError: there are not, or there are not so many parts.
        """
        found: Counter[str] = Counter()
        for told in self._decode("count names", bulk, kind):
            found.update(told)
        frames = {name: found[name] for name in CODES if name in found}
        if frames != bulk.by_name:
            raise WrongResultError(f"the reader without Spark: {frames}, not {bulk.by_name}")
        return found.total()

    def run(self, bulk: Bulk, kind: Kind, rows: int) -> dict[str, float]:
        """Decode the capture once; the time is that from the call that plans until the last one has done.

        Raises:
            WrongResultError: there are not so many rows, or not so many parts.
        """
        begin = perf_counter()
        told = self._decode("decode", bulk, kind)
        seconds = perf_counter() - begin
        found = sum(one["rows"] for one in told)
        if found != rows:
            raise WrongResultError(f"the reader without Spark: {found} rows of the capture, not {rows}")
        return {"seconds": seconds, "rate": bulk.frames / seconds}

    def _decode(self, role: str, bulk: Bulk, kind: Kind) -> list[dict[str, Any]]:
        job = {"path": str(bulk.path), "columns": dict(kind.columns)}
        count = len(self.workers)
        parts = self.workers[0].do("plan", **job, parts=count)["partitions"]
        if len(parts) != count:
            raise WrongResultError(f"the reader without Spark: {len(parts)} parts, not {count}")
        pairs = zip(self.workers, parts, strict=True)
        answers = [worker.ask(role, **job, partition=part) for worker, part in pairs]
        return [answer() for answer in answers]


ONE_CPU, ONE_TASK, TWO_TASKS = "one core", "local[1]", "local[2]"
HANDED_OVER = "one core, rows that are there already"
ONE_PROCESS, TWO_PROCESSES = "one process", "two processes"


def measure(
    sessions: tuple[Worker, Worker],
    apart: tuple[Worker, Worker],
    bulk: Bulk,
    tshark: Tshark | None,
    folder: Path,
    rounds: int,
) -> Iterator[Line]:
    """The lines of all kinds, each when it is known.

    Args:
        sessions: one with one core, and one with two.
        apart: two workers without a session, each on a processor of its own.
        bulk: what is decoded.
        tshark: beside whom; None: nobody.
        folder: for what tshark writes.
        rounds: how often everybody has a turn.

    Raises:
        WrongResultError: somebody has found other frames than there are.
    """
    one, two = sessions
    through_spark: dict[str, Way | Ready | Processes] = {
        ONE_CPU: Way(one, 1, cpus=1),
        ONE_TASK: Way(one, 1),
        TWO_TASKS: Way(two, 2),
        HANDED_OVER: Ready(one, apart[0], folder / "rows.arrow"),
    }
    without = {ONE_PROCESS: Processes(apart[:1]), TWO_PROCESSES: Processes(apart)}
    for kind in KINDS:
        found = _measure(kind, {**through_spark, **without}, bulk, tshark, folder, rounds)
        yield from _lines(f"capture, {kind.title}", kind, found)
        yield from _lines_without_spark(kind, found)
    many = tenfold(bulk, folder)
    for kind in KINDS:
        if "sections" in kind.columns:  # With messages tshark takes a minute and more.
            found = _measure(kind, through_spark, many, tshark, folder, rounds)
            yield from _lines(f"ten captures, {kind.title}", kind, found)
    many.path.unlink()


def _measure(
    kind: Kind,
    ways: Mapping[str, Way | Ready | Processes],
    bulk: Bulk,
    tshark: Tshark | None,
    folder: Path,
    rounds: int,
) -> Samples:
    """Let all ways decode a capture, and tshark; what comes of it is checked before."""
    rows = {name: way.check(bulk, kind) for name, way in ways.items() if name != ONE_CPU}
    count = rows[ONE_TASK]
    if set(rows.values()) != {count}:
        raise WrongResultError(f"not all ways give the same number of rows: {rows}")
    runs: dict[str, Run] = {name: partial(way.run, bulk, kind, count) for name, way in ways.items()}
    for _ in range(kind.warm_up):
        for name in (ONE_TASK, TWO_TASKS, HANDED_OVER):
            runs[name]()
    if tshark is not None:
        mine = replace(tshark, capture=bulk.path)
        for name, form in kind.forms.items():
            mine.check(form, bulk.counts, folder)
            runs[name] = partial(_by_tshark, mine, form, bulk)
    return turns(runs, rounds)


def _by_tshark(tshark: Tshark, form: tuple[str, ...], bulk: Bulk) -> dict[str, float]:
    used = tshark.run(form)
    return {**used, "rate": bulk.frames / used["seconds"]}


def _lines(title: str, kind: Kind, found: Samples) -> Iterator[Line]:
    for number, name in enumerate(kind.forms):
        if name not in found:
            continue
        peer, target = (name, found[name]), None if number else kind.target
        for way in (ONE_CPU, ONE_TASK):
            yield beside(f"{title}, {way}", "frames/s", "rate", found[way], peer, target, more_is_better=True)
        ready = found[HANDED_OVER]
        yield beside(f"{title}, {HANDED_OVER}", "frames/s", "rate", ready, peer, more_is_better=True)
        yield beside(f"{title}, {ONE_CPU}, CPU", "s", "cpu", found[ONE_CPU], peer)
        if not number:
            yield alone(f"{title}, {ONE_CPU}, CPU of the JVM in that", "s", numbers(found[ONE_CPU], "jvm"))
            yield beside(f"{title}, memory of the task's Python", "MiB", "worker", found[ONE_TASK], peer)
            yield beside(f"{title}, memory, JVM and driver too", "MiB", "all", found[ONE_TASK], peer)
    for way in (ONE_CPU, ONE_TASK):
        peer = way, found[way]
        own = found[TWO_TASKS]
        yield beside(
            f"{title}, {TWO_TASKS}", "frames/s", "rate", own, peer, TARGET_OF_CORES, more_is_better=True
        )


def _lines_without_spark(kind: Kind, found: Samples) -> Iterator[Line]:
    own, title = found[ONE_PROCESS], f"capture decoded in {ONE_PROCESS}, {kind.title}"
    for number, name in enumerate(kind.forms):
        if name in found:
            peer, target = (name, found[name]), None if number else kind.target
            yield beside(title, "frames/s", "rate", own, peer, target, more_is_better=True)
    title = f"capture decoded in {TWO_PROCESSES}, {kind.title}"
    both, peer = found[TWO_PROCESSES], ("one", own)
    yield beside(title, "frames/s", "rate", both, peer, TARGET_OF_CORES, more_is_better=True)

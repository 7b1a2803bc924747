"""The brokers, each in a process of its own: how they are started, where they listen, what they cost."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.broker import QUEUE
from benchmarks.messaging.stacks import ROOT, MissingError
from tests.interop import rabbitmq
from tests.interop.certificates import make
from tests.interop.processes import Child, child

START_SECONDS = 60.0
"""How long a broker may take until it listens."""
PROC = Path("/proc")


def _leave_it() -> None:
    """The queue is as it should be."""


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that listens.

    Attributes:
        key: short name, for columns and JSON.
        label: name and version.
        port: on loopback.
        address: its queue.
        process: the child, in whose session all processes of the broker are.
        clear: empties the queue, where a consumer that leaves right after it has accepted may leave messages.
    """

    key: str
    label: str
    port: int
    address: str
    process: Child
    clear: Callable[[], None] = _leave_it

    def cpu(self) -> int:
        """Nanoseconds of processor time that its processes have used, all threads included (Linux)."""
        return sum(_cpu_of(folder) for folder in _session(self.process.pid))

    def resident(self) -> int:
        """Octets of memory of its processes that are resident (Linux)."""
        pages = [(folder / "statm").read_text().split()[1] for folder in _session(self.process.pid)]
        return sum(map(int, pages)) * resource.getpagesize()

    def peak(self) -> int:
        """The most octets of memory that were ever resident in its first process (Linux)."""
        status = (PROC / str(self.process.pid) / "status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def declare(self, queues: int, *, fanout: bool = False) -> None:
        """Have ours declare the queues ``bench-0`` and so on, bound to ``amq.fanout`` if that is wanted."""
        self.process.say(json.dumps({"queues": queues, "fanout": fanout}))
        self.process.hear(START_SECONDS)


def _session(leader: int) -> Iterator[Path]:
    """The folders of the processes in a session."""
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            if int(fields[3]) == leader:
                yield folder


def _cpu_of(folder: Path) -> int:
    total = 0
    for task in (folder / "task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:  # it has just ended
            continue
    return total


@contextmanager
def served(key: str, *arguments: str) -> Iterator[Running]:
    """A broker in Python, for the time of a ``with`` block; ``arguments`` as of :mod:`.serve`.

    Raises:
        ChildError: it does not start.
        MissingError: its library is not installed.
    """
    command = [sys.executable, "-m", "benchmarks.broker.serve", *arguments]
    with child(f"the broker {key}", command, cwd=ROOT) as process:
        told: dict[str, Any] = json.loads(process.hear(START_SECONDS))
        if "missing" in told:
            raise MissingError(told["missing"])
        yield Running(key, told["label"], told["port"], QUEUE, process)


@contextmanager
def rabbit(folder: Path) -> Iterator[tuple[Running, Running]]:
    """RabbitMQ, for the time of a ``with`` block: with a transient queue, and with a durable one.

    Raises:
        ChildError: it does not start.
        MissingError: it is not installed.
    """
    missing = rabbitmq.what_is_missing()
    if missing is not None:
        raise MissingError(missing)
    with rabbitmq.broker(folder, make(folder)) as broker:
        port = urlsplit(broker.url).port or 0
        transient, durable = [
            Running(
                "rabbitmq",
                "RabbitMQ",
                port,
                f"/amq/queue/{name}",
                broker.process,
                partial(_clear, port, name),
            )
            for name in ("transient", "durable")
        ]
        yield transient, durable


def _clear(port: int, name: str) -> None:
    """Have an empty queue of RabbitMQ, which is as durable as its name says."""
    pika: Any = import_module("pika")
    credentials = pika.PlainCredentials(rabbitmq.USER, rabbitmq.PASSWORD)
    parameters = pika.ConnectionParameters(rabbitmq.HOST, port, credentials=credentials)
    with closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=name == "durable")
        channel.queue_purge(name)

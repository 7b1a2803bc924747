"""A process that runs a whole broker until it is killed, and what tests need to start, kill and measure it.

As a program it is given the store's file and options in JSON: it says ``listening URL`` once clients can
connect, answers each line of its input with one of its own, and dies where the options say.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amqpforge.broker import recovery
from amqpforge.broker.broker import Broker
from amqpforge.broker.config import BindingConfig, BrokerConfig, ListenerConfig, VirtualHostConfig
from amqpforge.broker.core import Core, Work
from amqpforge.broker.limits import BrokerLimits
from amqpforge.broker.settings import ExchangeSettings, QueueSettings
from amqpforge.broker.store import writer
from amqpforge.broker.store.sqlite import SqliteStore

__all__ = ["Child", "children", "config_of", "resident"]

_PATIENCE = 20


class Child:
    """A broker in a process of its own.

    Attributes:
        process: the process.
        url: where it listens; None: it died before it could.
    """

    def __init__(self, store: Path, *, tracer: tuple[str, ...] = (), **options: Any) -> None:
        """Start it, and wait until it listens or is dead.

        Args:
            store: the file of its store.
            tracer: a command that runs the process.
            options: see :func:`config_of` and :func:`_prepare`.
        """
        self.process = subprocess.Popen(
            [*tracer, sys.executable, __file__, str(store), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        word, _, rest = self._line().partition(" ")
        self.url = rest if word == "listening" else None

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, question: str) -> Any:
        """The answer of the process: see :func:`_answer`."""
        assert self.process.stdin is not None
        self.process.stdin.write(question + "\n")
        return json.loads(self._line())

    def kill(self) -> None:
        """Kill it, as nobody can refuse; does nothing if it is dead."""
        self.process.kill()

    def end(self) -> int:
        """Kill it, and wait for its end; returns how it ended."""
        self.kill()
        return self.wait()

    def stop(self) -> int:
        """Have it stop as it should; returns how it ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.wait()

    def wait(self) -> int:
        """Wait for its end; returns how it ended."""
        code = self.process.wait(_PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        return code


@contextmanager
def children() -> Iterator[list[Child]]:
    """A list of processes: what is in it at the end is killed."""
    started: list[Child] = []
    try:
        yield started
    finally:
        for child in started:
            child.end()


def resident() -> dict[str, int]:
    """Octets of memory that this process has now, and had at most."""
    found = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "VmHWM"):
            found[name] = int(value.split()[0]) * 1024
    return found


def config_of(store: str, options: Mapping[str, Any]) -> BrokerConfig:
    """The configuration that options describe.

    Args:
        store: as configurations have it.
        options: ``queues`` and ``exchanges`` with their settings by name, ``bindings`` as lists of exchange,
            key and queue, and ``limits``.
    """
    host = VirtualHostConfig(
        queues={name: QueueSettings.from_data(data) for name, data in options.get("queues", {}).items()},
        exchanges={name: ExchangeSettings(**data) for name, data in options.get("exchanges", {}).items()},
        bindings=[
            BindingConfig(exchange=exchange, key=key, queue=queue)
            for exchange, key, queue in options.get("bindings", ())
        ],
    )
    return BrokerConfig(
        listeners=(ListenerConfig(port=0),),
        store=store,
        virtual_hosts={"/": host},
        limits=BrokerLimits(**options.get("limits", {})),
    )


# --- the program -------------------------------------------------------------------------------------------


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _commit_in_haste(self: Core, work: Work) -> None:
    """Say that all is safe before it is."""
    self._committed(work, None)
    self.store.commit(work, lambda _: None)


_reads = {"calls": 0, "payloads": 0}


def _count_reads() -> None:
    read = SqliteStore.read

    def counted(self: SqliteStore, messages: Iterable[int]) -> dict[int, bytes]:
        wanted = list(messages)
        _reads["calls"] += 1
        _reads["payloads"] += len(wanted)
        return read(self, wanted)

    SqliteStore.read = counted  # type: ignore[method-assign]


def _prepare(options: Mapping[str, Any]) -> None:
    """Set what the options name, and die where ``die`` says: ``before commit`` or ``after commit`` of the
    transaction of the store with the number ``count``, in this process; ``recovery`` behind ``count``
    messages.
    """
    writer.SYNCHRONOUS = options.get("synchronous", writer.SYNCHRONOUS)
    writer.CHECKPOINT_PAGES = options.get("checkpoint_pages", writer.CHECKPOINT_PAGES)
    point, left = options.get("die"), options.get("count", 1)
    write_changes, write, messages = writer._write_changes, writer.Writer._write, recovery._messages

    def count() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            _die()

    def die_before_commit(connection: Any, changes: Any) -> None:
        write_changes(connection, changes)
        count()

    def die_after_commit(self: writer.Writer, changes: Any) -> Exception | None:
        fault = write(self, changes)
        if changes:
            count()
        return fault

    def die_in_recovery(recovered: Any) -> Iterator[Any]:
        for message in messages(recovered):
            count()
            yield message

    _count_reads()
    if options.get("is_hasty"):
        Core._commit = _commit_in_haste  # type: ignore[method-assign]
    if point == "before commit":
        writer._write_changes = die_before_commit
    elif point == "after commit":
        writer.Writer._write = die_after_commit  # type: ignore[method-assign]
    elif point == "recovery":
        recovery._messages = die_in_recovery


def _answer(broker: Broker, question: str) -> Any:
    """What a test wants to know: ``memory``, ``reads`` from the store, or ``lengths`` of queues by name."""
    if question == "memory":
        return {**resident(), "bodies": broker.core.bodies.used}
    if question == "reads":
        return _reads
    return {name: queue.ready + queue.unacknowledged for name, queue in broker.hosts["/"].queues.items()}


async def _run(path: str, options: Mapping[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    async with Broker(config_of(f"sqlite:{path}", options)) as broker:
        print(f"listening {broker.url}", flush=True)  # noqa: T201
        over = asyncio.Event()

        def answer() -> None:
            question = sys.stdin.readline()
            if not question:
                over.set()
                return
            print(json.dumps(_answer(broker, question.strip())), flush=True)  # noqa: T201

        loop.add_reader(sys.stdin.fileno(), answer)
        await over.wait()
        loop.remove_reader(sys.stdin.fileno())


if __name__ == "__main__":
    chosen = json.loads(sys.argv[2])
    _prepare(chosen)
    asyncio.run(_run(sys.argv[1], chosen))

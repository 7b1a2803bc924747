"""A broker in a process of its own, as it is measured: ours, or a small one on the reactor of proton.

Run as ``python -m benchmarks.broker.serve KIND [STORE]``, the kind ``ours`` or ``proton``. It begins with a
line of JSON on standard output: ``{"label": name and version, "port": number}``, or ``{"missing": reason}``
if its library is not installed. Ours has a durable queue ``bench``, and declares as many more as a line of
standard input says, with a line in answer; it ends when standard input does, the other one by a signal. The
kind ``embedded`` only tells how long ours takes to start.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from typing import Any

from benchmarks.broker import QUEUE


def say(content: dict[str, Any]) -> None:
    """Tell the parent process something."""
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def _raise_file_limit() -> None:
    """A connection takes a file: let there be as many as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve_ours(store: str) -> None:
    from amqpforge import __version__
    from amqpforge.broker.broker import Broker
    from amqpforge.broker.config import BrokerConfig, ListenerConfig
    from amqpforge.broker.exchanges import Binding, Destination
    from amqpforge.broker.settings import QueueSettings

    durable = QueueSettings(durable=True)
    loop = asyncio.get_running_loop()
    async with Broker(BrokerConfig(listeners=(ListenerConfig(port=0),), store=store)) as broker:
        host = broker.hosts["/"]
        host.declare_queue(QUEUE, durable)
        say({"label": f"amqpforge {__version__}", "port": int(broker.url.rpartition(":")[2])})
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            wanted = json.loads(line)
            for number in range(wanted["queues"]):
                name = f"{QUEUE}-{number}"
                host.declare_queue(name, durable)
                if wanted["fanout"]:
                    host.bind(Binding("amq.fanout", Destination.queue(name), ""))
            say({"done": True})


async def _embed() -> None:
    """Say how many milliseconds it takes to start ours in a program that has imported it."""
    from amqpforge.broker.broker import Broker

    begin = time.perf_counter()
    async with Broker():
        say({"milliseconds": (time.perf_counter() - begin) * 1000})


def main(kind: str, store: str = "memory") -> None:
    """Serve until standard input ends."""
    _raise_file_limit()
    if kind == "ours":
        asyncio.run(_serve_ours(store))
        return
    if kind == "embedded":
        asyncio.run(_embed())
        return
    try:
        from benchmarks.broker.proton_broker import serve
    except ImportError as error:
        say({"missing": str(error)})
        return
    serve(say)


if __name__ == "__main__":
    main(*sys.argv[1:])

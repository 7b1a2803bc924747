"""What one run does, and what every worker needs for it: bodies that can be told apart, clocks, memory.

All numbers of a run are taken by the worker that does the work. Points in time are those of the machine's
monotonic clock, which processes on one machine share; the workers in Node read the same clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WINDOW = 500
"""Credit that a receiver gives, and how many unsettled deliveries a sender has under way at most."""

STATM = Path("/proc/self/statm")

Answer = Callable[[dict[str, Any]], None]
"""Tells the parent process something while a job is still under way."""


class WrongMessageError(Exception):
    """A message arrived out of order, changed or not at all."""


@dataclass(frozen=True, slots=True)
class Job:
    """One thing for a worker to do.

    Attributes:
        role: what to do; the names of the functions in a worker.
        count: how many messages or links.
        size: octets in the body of a message, at least 8.
        settled: whether the sender sends its messages settled.
        port: where on loopback to connect to; 0 for roles that connect to nothing.
        address: the queue on that node.
        durable: whether messages are to survive the node.
        timed: whether sender and receiver note when each message leaves and arrives.
        rate: how many messages a second are sent, for roles that pace themselves.
    """

    role: str
    count: int
    size: int = 100
    settled: bool = False
    port: int = 0
    address: str = "bench"
    durable: bool = False
    timed: bool = False
    rate: int = 0

    def bodies(self) -> list[bytes]:
        """The bodies in the order in which they have to arrive: each begins with its number."""
        filler = bytes(index % 251 for index in range(self.size - 8))
        return [number.to_bytes(8, "big") + filler for number in range(self.count)]


class Meter:
    """Wall clock and processor time of this process, from its making until :meth:`stop`."""

    def __init__(self) -> None:
        self._processor = time.process_time_ns()
        self._begin = time.monotonic_ns()

    def stop(self) -> dict[str, Any]:
        """Begin and end in nanoseconds of the monotonic clock, and nanoseconds of processor time between."""
        end = time.monotonic_ns()
        return {"begin": self._begin, "end": end, "cpu": time.process_time_ns() - self._processor}


class Inbox:
    """Holds what arrives against the bodies that have to arrive.

    Attributes:
        count: how many have arrived.
        times: when, in nanoseconds of the monotonic clock, if the job asks for that.
    """

    def __init__(self, job: Job) -> None:
        self._expected = job.bodies()
        self._is_timed = job.timed
        self.count = 0
        self.times: list[int] = []

    @property
    def is_full(self) -> bool:
        """Whether the last message is there."""
        return self.count == len(self._expected)

    def take(self, body: bytes) -> None:
        """Check the next body.

        Raises:
            WrongMessageError: it is not the one that comes next.
        """
        number = self.count
        if number == len(self._expected) or body != self._expected[number]:
            raise WrongMessageError(f"message {number} has the body {bytes(body[:16]).hex()}...")
        self.count = number + 1
        if self._is_timed:
            self.times.append(time.monotonic_ns())


def resident_octets() -> int | None:
    """Memory of this process that is resident, where the system tells it (Linux)."""
    try:
        pages = int(STATM.read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * 4096

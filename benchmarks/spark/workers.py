"""The workers: processes that each do one job after the other."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.messaging.stacks import ROOT, MissingError
from benchmarks.stack import WrongResultError
from tests.interop.processes import Child, child

START_SECONDS = 120.0
"""How long Spark may take until it is there; on a quiet machine some seconds."""
JOB_SECONDS = 300.0
"""How long a job may take; on a quiet machine some seconds."""


class Worker:
    """A running worker.

    Attributes:
        label: what it is, with its version.
        seconds: what its start took.
    """

    def __init__(self, running: Child) -> None:
        self._child = running
        told = json.loads(running.hear(START_SECONDS))
        if "missing" in told:
            raise MissingError(told["missing"])
        self.label: str = told["label"]
        self.seconds: float = told["seconds"]

    def do(self, role: str, **arguments: Any) -> dict[str, Any]:
        """Give it a job and wait for the answer.

        Raises:
            WrongResultError: the job failed, or what came of it is wrong.
        """
        return self.ask(role, **arguments)()

    def ask(self, role: str, **arguments: Any) -> Callable[[], dict[str, Any]]:
        """Give it a job; returns what waits for the answer, as :meth:`do` does."""
        self._child.say(json.dumps({"role": role, **arguments}))

        def answer() -> dict[str, Any]:
            content: dict[str, Any] = json.loads(self._child.hear(JOB_SECONDS))
            if "error" in content:
                raise WrongResultError(f"{self._child.name}, {role}: {content['error']}")
            return content

        return answer


@contextmanager
def worker(cores: int, processor: int | None = None) -> Iterator[Worker]:
    """A session of Spark with so many cores, or with 0 what takes none, for the time of a ``with`` block; on
    any processor, or on one alone if there are so many, counted from 0.

    Raises:
        MissingError: pyspark or Java is not there.
        ChildError: it does not start.
    """
    name = f"Spark with local[{cores}]" if cores else "the worker without Spark"
    command = [sys.executable, "-m", "benchmarks.spark.worker", str(cores)]
    if processor is not None:
        command.append(str(processor))
    with child(name, command, cwd=ROOT) as running:
        yield Worker(running)

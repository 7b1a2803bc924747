"""The stacks that send and receive, and their workers: processes that each do one job after the other."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.messaging.work import Job
from benchmarks.stack import WrongResultError
from tests.interop.processes import Child, ChildError, child

ROOT = Path(__file__).parents[2]
START_SECONDS = 20.0
"""How long a worker may take until it says what it is."""
JOB_SECONDS = 60.0
"""How long it may take for a job; none needs more than a few seconds."""


class MissingError(Exception):
    """What a stack needs is not installed here."""


@dataclass(frozen=True, slots=True)
class Program:
    """How a worker of a stack is started.

    Attributes:
        key: short name of the stack, for columns and JSON.
        command: program and arguments.
    """

    key: str
    command: tuple[str, ...]


def _python(key: str) -> Program:
    return Program(key, (sys.executable, "-m", "benchmarks.messaging.worker", key))


OURS = _python("ours")
PROTON = _python("proton")
RHEA = Program("rhea", ("node", "--expose-gc", str(Path(__file__).with_name("rhea.js"))))


NODE_MODULES = ROOT / "tests" / "interop" / "peers" / "node_modules"
"""Where npm has put rhea, for the tests."""


def node_path() -> str:
    """Where Node looks for modules: in the places that NODE_PATH names, then where the tests have them."""
    return os.pathsep.join(filter(None, [os.environ.get("NODE_PATH"), str(NODE_MODULES)]))


class Worker:
    """A running worker.

    Attributes:
        label: name and version of its library.
        roles: what it can do.
    """

    def __init__(self, running: Child) -> None:
        self._child = running
        content = json.loads(running.hear(START_SECONDS))
        if "missing" in content:
            raise MissingError(content["missing"])
        self.label: str = content["label"]
        self.roles = frozenset(content["roles"])

    def begin(self, job: Job) -> None:
        """Give it a job; the answers are fetched by :meth:`answer`."""
        self._child.say(json.dumps(asdict(job)))

    def answer(self) -> dict[str, Any]:
        """The next answer.

        Raises:
            WrongResultError: the job failed: a message was lost or changed, or the stack raised an error.
        """
        content: dict[str, Any] = json.loads(self._child.hear(JOB_SECONDS))
        if "error" in content:
            raise WrongResultError(f"{self._child.name}: {content['error']}")
        return content

    def go_on(self) -> None:
        """Have a job end that waits for a line."""
        self._child.say("")

    def do(self, job: Job) -> dict[str, Any]:
        """Give it a job and wait for the answer."""
        self.begin(job)
        return self.answer()


@contextmanager
def worker(program: Program) -> Iterator[Worker]:
    """A worker for the time of a ``with`` block.

    Raises:
        MissingError: its library, or the program that it runs in, is not installed.
    """
    with ExitStack() as stack:
        try:
            running = stack.enter_context(
                child(program.key, program.command, cwd=ROOT, environment={"NODE_PATH": node_path()})
            )
        except ChildError as error:
            raise MissingError(str(error)) from error
        yield Worker(running)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two workers of one stack: one that listens, and a client that connects.

    Attributes:
        program: how more of them are started.
        listener: takes in what its own kind sends.
        client: connects, to the listener or to a broker.
    """

    program: Program
    listener: Worker
    client: Worker


@contextmanager
def pairs(programs: Sequence[Program], say: Callable[[str], None]) -> Iterator[list[Pair]]:
    """The stacks that are installed, for the time of a ``with`` block; says which ones are not."""
    with ExitStack() as stack:
        found = []
        for program in programs:
            try:
                two = [stack.enter_context(worker(program)) for _ in range(2)]
            except MissingError as error:
                say(f"left out: {program.key} ({error})")
            else:
                found.append(Pair(program, *two))
        yield found

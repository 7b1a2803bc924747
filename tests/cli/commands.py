"""Runs commands that talk to a peer, on streams that a test looks at."""

from __future__ import annotations

import io
import json
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amqpforge import cli
from amqpforge.streams import Streams

__all__ = ["Ended", "Terminal", "interrupt_main_thread", "run"]


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


class Octets(io.BytesIO):
    """Standard input that is no terminal, and outlives being read."""


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    output: str
    complaints: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    @property
    def objects(self) -> list[Any]:
        """The JSON lines of the output."""
        return [json.loads(line) for line in self.lines]


def run(
    *argv: object,
    stdin: bytes | io.IOBase = b"",
    on_terminal: bool = False,
    is_watched: bool = False,
    wait: Callable[[float], None] | None = None,
) -> Ended:
    """Run a command line.

    Args:
        argv: its words.
        stdin: what it reads.
        on_terminal: whether a person looks at its output.
        is_watched: whether a person looks at its complaints.
        wait: how it waits; None: not at all.
    """
    given = Octets(stdin) if isinstance(stdin, bytes) else stdin
    out = Terminal() if on_terminal else io.StringIO()
    err = Terminal() if on_terminal or is_watched else io.StringIO()
    code = cli.run([str(word) for word in argv], Streams(given, out, err, wait or (lambda seconds: None)))
    return Ended(code, out.getvalue(), err.getvalue())


def interrupt_main_thread(_: object = None) -> None:
    """What Ctrl-C does."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

"""Child processes that talk in lines, with a deadline on every wait.

A child gets a session of its own, so that whatever it starts ends with it. Two threads keep its pipes from
filling up; the last lines of both are kept to be shown when a test fails.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import IO

KEPT_LINES = 400
GRACE_SECONDS = 15.0
"""How long a child may take to end in order before it is killed."""


class ChildError(Exception):
    """A child process did not start, ended too early, or did not say in time what was expected of it."""


class Child:
    """A running process. Ends with :meth:`stop`, or with the ``with`` block of :func:`child`."""

    def __init__(
        self, name: str, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start ``command`` in the folder ``cwd``; ``environment`` is added to that of this process.

        Raises:
            ChildError: the program cannot be started.
        """
        self.name = name
        try:
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise ChildError(f"{name} did not start: {' '.join(command)}: {error}") from error
        self._said: SimpleQueue[str | None] = SimpleQueue()
        self._heard = True
        self._kept: deque[tuple[int, str]] = deque(maxlen=KEPT_LINES)
        self._lines = 0
        self._keeping = threading.Lock()
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, on_line), daemon=True)
            for pipe, on_line in (
                (self._process.stdout, self._on_output),
                (self._process.stderr, self._keep),
            )
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """The process id, which is the id of the child's session and process group too."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def lines(self) -> int:
        """How many lines were kept so far, the forgotten ones included."""
        return self._lines

    def say(self, line: str) -> None:
        """Write one line to the child's standard input.

        Raises:
            ChildError: the child has ended, or closed it.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._ended(f"does not listen any more ({error})") from error

    def hear(self, seconds: float) -> str:
        """Return the next line of the child's standard output.

        Raises:
            ChildError: the output ended, or ``seconds`` passed without a line.
        """
        try:
            line = self._said.get(timeout=max(0.0, seconds))
        except Empty:
            raise self.failure(f"said nothing for {seconds:.1f} s") from None
        if line is None:
            raise self._ended("says nothing any more")
        return line

    def hear_until(self, wanted: Callable[[str], bool], seconds: float) -> str:
        """Return the first line from now on that is ``wanted``; what comes before is kept for the last words.

        Raises:
            ChildError: the output ended, or ``seconds`` passed before.
        """
        deadline = monotonic() + seconds
        while not wanted(line := self.hear(deadline - monotonic())):
            self._keep(line)
        return line

    def only_keep(self) -> None:
        """Queue no further lines: they are kept for :meth:`last_words` alone, so nobody has to listen."""
        self._heard = False

    def last_words(self, since: int = 0) -> str:
        """The last lines of standard output (where it is not heard) and standard error, as they came; only
        those after the first ``since`` that were kept.
        """
        with self._keeping:
            return "\n".join([line for number, line in self._kept if number >= since])

    def failure(self, what: str) -> ChildError:
        """An error that says ``what`` went wrong with the child, and what the child said last."""
        said = self.last_words()
        return ChildError(f"{self.name} {what}" + (f"; its last lines:\n{said}" if said else ""))

    def stop(self) -> None:
        """Ask the child to end, and kill its process group if it does not; return when it is gone."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        if self.is_running:
            self._process.terminate()
            try:
                self._process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)  # not yet reaped, so the id is still the child's own
                self._process.wait()
        for reader in self._readers:
            reader.join(GRACE_SECONDS)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _ended(self, otherwise: str) -> ChildError:
        """The failure of a child that closed a pipe: it has ended, or ``otherwise``."""
        try:
            status = self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return self.failure(otherwise)
        for reader in self._readers:
            reader.join(GRACE_SECONDS)  # They may have last words to read.
        return self.failure(f"ended with status {status}")

    def _read(self, pipe: IO[str], on_line: Callable[[str], None]) -> None:
        for line in pipe:
            on_line(line.rstrip("\n"))
        if on_line == self._on_output:
            self._said.put(None)

    def _on_output(self, line: str) -> None:
        if self._heard:
            self._said.put(line)
        else:
            self._keep(line)

    def _keep(self, line: str) -> None:
        with self._keeping:
            self._kept.append((self._lines, line))
            self._lines += 1


@contextmanager
def child(
    name: str, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Child]:
    """Run ``command`` for the time of a ``with`` block; see :class:`Child`."""
    running = Child(name, command, cwd=cwd, environment=environment)
    try:
        yield running
    finally:
        running.stop()

"""``amqpforge broker`` as a process that is killed, and comes back on the same port with the same store."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from amqpforge import blocking
from amqpforge.blocking.management import Management

__all__ = ["LastingBroker", "lasting"]

_PATIENCE = 60.0
_LAST_WORDS = 4000
"""Characters of the log that an error shows."""


class LastingBroker:
    """A broker with durable queues and an SQLite store.

    Attributes:
        url: where it listens, for ever.
        process: the process that runs just now, or ran last.
    """

    def __init__(self, folder: Path, *queues: str, patience: float = _PATIENCE) -> None:
        """Start it; its files are in ``folder``; it has so many seconds to listen, and to end."""
        self._folder = folder
        self._patience = patience
        folder.mkdir(exist_ok=True)
        declared = "".join(f'[virtual_hosts."/".queues.{name}]\ndurable = true\n' for name in queues)
        (folder / "broker.toml").write_text(declared)
        self._port = "0"
        self.process, self.url = self._start()
        self._port = self.url.rpartition(":")[2]

    def _start(self) -> tuple[subprocess.Popen[str], str]:
        folder = self._folder
        command = [sys.executable, "-m", "amqpforge", "broker", "--config", str(folder / "broker.toml")]
        command += ["--port", self._port, "--store", f"sqlite:{folder / 'broker.db'}"]
        with (folder / "log").open("a") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        too_late = threading.Timer(self._patience, process.kill)
        too_late.start()
        words = process.stdout.readline().split()  # Nothing, once the process has ended.
        too_late.cancel()
        if "at" not in words:
            process.kill()
            status, last_words = process.wait(), (folder / "log").read_text()[-_LAST_WORDS:]
            process.stdout.close()
            raise RuntimeError(
                f"the broker did not say within {self._patience:g} s where it listens, and ended with status "
                f"{status}; it said {' '.join(words)!r}; its last words:\n{last_words}"
            )
        return process, words[words.index("at") + 1]

    def start(self) -> None:
        """Start it again."""
        self.wait()
        self.process, url = self._start()
        assert url == self.url

    def kill(self) -> None:
        """``kill -9``; it is gone when this returns."""
        self.process.kill()
        self.wait()

    def wait(self) -> None:
        """Wait for the end of the process that runs."""
        self.process.wait(self._patience)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def messages(self, queue: str) -> int:
        """How many messages a queue has, those included that consumers hold."""
        with blocking.connect(self.url) as connection, Management(connection) as management:
            return next(one.messages for one in management.queues() if one.name == queue)

    def is_killed(self) -> bool:
        """Whether it was killed."""
        return self.process.poll() == -signal.SIGKILL


@contextmanager
def lasting(folder: Path, *queues: str) -> Iterator[LastingBroker]:
    """A broker for the time of a block; see :class:`LastingBroker`."""
    broker = LastingBroker(folder, *queues)
    try:
        yield broker
    finally:
        broker.kill()

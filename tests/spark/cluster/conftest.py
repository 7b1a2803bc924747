"""The package as a wheel installs it, a standalone cluster of Spark, and a broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import Queue

import pyspark
import pytest

from amqpforge.spark.java import find_java, home_for_spark
from amqpforge.testing import ScriptedBroker, ThreadedBroker

ROOT = Path(__file__).resolve().parents[3]
_PATIENCE = 240


@pytest.fixture
def broker() -> Iterator[ThreadedBroker]:
    """With the queue ``q``."""
    with ScriptedBroker.threaded() as broker:
        broker.declare_queue("q")
        yield broker


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel of this project installs, and nothing else of the project."""
    folder = tmp_path_factory.mktemp("installed") / "site"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True, timeout=_PATIENCE)
    return folder


@pytest.fixture(scope="session")
def environment(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of every process of the cluster: a Java, a Python, and the installed package."""
    # A local cluster puts the folders of its executors into the home of Spark, wherever that is.
    home = tmp_path_factory.mktemp("spark")
    for part in Path(pyspark.__path__[0]).iterdir():
        (home / part.name).symlink_to(part)
    with home_for_spark(find_java()) as java:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        yield kept | {
            "JAVA_HOME": str(java),
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(installed),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }


@pytest.fixture
def standalone(environment: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The URL of a master with two workers, each with one core; all end with the test.

    They are started as the guide to clusters says, at our address and on ports that are free.
    """
    (master_kind, *master_options), (worker_kind, *worker_options) = _daemons()
    with ExitStack() as running:
        options = (*master_options, "--port", "0", "--webui-port", "0")
        master = running.enter_context(Daemon(environment, tmp_path, master_kind, *options))
        url = master.first(r"Starting Spark master at (spark://\S+)")
        *worker_options, theirs = worker_options
        assert theirs.startswith("spark://")
        for number in (1, 2):
            folder = tmp_path / f"worker-{number}"
            folder.mkdir()
            bounds = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder), "--webui-port", "0")
            worker = running.enter_context(
                Daemon(environment, folder, worker_kind, *worker_options, *bounds, url)
            )
            worker.first(r"Successfully registered with master")
        yield url


def _daemons() -> list[list[str]]:
    """The class and the options of each daemon that the guide to clusters starts; the hosts are ours."""
    guide = (ROOT / "docs" / "spark-cluster.md").read_text(encoding="utf-8")
    found = re.findall(r"^\$ \$SPARK_HOME/bin/spark-class (.+)$", guide, re.MULTILINE)
    return [re.sub(r"--host \S+", "--host 127.0.0.1", command).split() for command in found]


class Daemon:
    """A daemon of Spark in the foreground, started through ``spark-class``; ends with its context."""

    def __init__(self, environment: dict[str, str], folder: Path, kind: str, *options: str) -> None:
        """``kind`` is its class; ``options`` are its own."""
        program = str(Path(environment["SPARK_HOME"], "bin", "spark-class"))
        self._process = subprocess.Popen(
            [program, kind, *options],
            env=environment,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: Queue[str | None] = Queue()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Daemon:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_PATIENCE)

    def first(self, pattern: str) -> str:
        """The first group, or all, of the first line from here on that has the pattern."""
        seen: list[str] = []
        while (line := self._lines.get(timeout=_PATIENCE)) is not None:
            seen.append(line)
            found = re.search(pattern, line)
            if found is not None:
                return found[found.lastindex or 0]
        pytest.fail(f"it ended without {pattern!r}:\n{''.join(seen)}")

    def _read(self) -> None:
        pipe = self._process.stderr
        if pipe is not None:
            with pipe:
                for line in pipe:
                    self._lines.put(line)
        self._lines.put(None)

"""A Spark program that runs a stream, and dies in part or with all its processes; and what starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.source.child import Death, kill_others, kill_session

__all__ = ["AFTER_SINK", "PARTS", "Program", "batches", "program", "run"]

AFTER_SINK = "between sink commit and checkpoint"
PARTS = {
    "driver": "org.apache.spark.deploy.SparkSubmit",
    "receiver": "pyspark.sql.streaming.python_streaming_source_runner",
    "worker": "pyspark.daemon pyspark.worker",
}
"""What the command lines of the processes of a program have."""
_PATIENCE = 180


class Program:
    """A program that runs.

    Attributes:
        process: its first process, which is that of a session of its own.
    """

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self._folder = folder

    def find(self, part: str) -> list[int]:
        """The processes that are such a part just now: see :data:`PARTS`; of workers those of tasks, and not
        the one that makes them.
        """
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if not entry.name.isdecimal() or os.getsid(int(entry.name)) != self.process.pid:
                    continue
                command = (entry / "cmdline").read_bytes().decode().replace("\0", " ")
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if PARTS[part] not in command:
                    continue
                if part == "worker":
                    mother = Path("/proc", parent, "cmdline").read_bytes().decode().replace("\0", " ")
                    if mother != command:
                        continue
                found.append(int(entry.name))
        return found

    def kill(self, part: str) -> bool:
        """``kill -9`` of a part, or of ``everything``; returns whether there was such a process."""
        if part == "everything":
            kill_others(self.process.pid)
            return True
        found = self.find(part)
        for one in found:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        return bool(found)

    def wait(self) -> int:
        """Wait for its end, and end what is left of it; returns its exit code."""
        try:
            return self.process.wait(_PATIENCE)
        finally:
            kill_others(self.process.pid)  # Spark's processes outlive the program for a moment, or for good.
            self.process.wait()

    def stop(self) -> int:
        """Have it end when it likes to."""
        (self._folder / "stop").touch()
        return self.wait()


def batches(folder: Path) -> int:
    """How many batches programs have written into a folder."""
    return len(list(folder.glob("batch=*")))


@contextmanager
def program(options: dict[str, str], folder: Path, *, once: bool = False, **plan: Any) -> Iterator[Program]:
    """Run the program for the time of a block.

    Args:
        options: those of a stream.
        folder: where it puts a folder ``batch=N`` for each batch, and its checkpoint.
        once: take what there is; else it goes on, with a new query if one has failed, until it is stopped.
        plan: that of :func:`tests.spark.source.child.start`; ``die`` may be :data:`AFTER_SINK` too.
    """
    here = Path(__file__).parent
    folder.mkdir(exist_ok=True)
    (folder / "stop").unlink(missing_ok=True)
    path = [str(here / "dying"), *filter(None, sys.path)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path),
        "PYSPARK_PYTHON": sys.executable,
        "AMQPFORGE_DYING": json.dumps(plan),
    }
    command = [sys.executable, __file__, json.dumps(options), str(folder), json.dumps(once)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=errors
        )
        running = Program(process, folder)
        try:
            yield running
        finally:
            kill_others(process.pid)
            process.kill()
            if process.wait() > 0:
                errors.seek(0)
                sys.stderr.write(errors.read().decode()[-4000:])


def run(options: dict[str, str], folder: Path, **plan: Any) -> int:
    """Run the program until there is no more; returns its exit code. Arguments: see :func:`program`."""
    with program(options, folder, once=True, **plan) as running:
        return running.wait()


# --- the program --------------------------------------------------------------------------------------------


def main() -> None:
    """Run a stream."""
    options, folder, once = json.loads(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    plan = json.loads(os.environ["AMQPFORGE_DYING"])
    death = Death(plan.get("die"), plan.get("count", 1), kill_session)
    spark = _session(folder)

    def keep(frame: DataFrame, number: int) -> None:
        frame.write.mode("overwrite").parquet(str(folder / f"batch={number}"))
        death.meet(AFTER_SINK)

    def start() -> StreamingQuery:
        writer = (
            spark.readStream.format("amqpdying")
            .options(**options)
            .load()
            .select("body")
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(folder / "checkpoint"))
        )
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
        return writer.start()

    if once:
        start().awaitTermination()
    else:
        _go_on(start, folder)
    spark.stop()


def _go_on(start: Any, folder: Path) -> None:
    """Run queries, one after the other, until it is to stop."""
    from pyspark.errors import StreamingQueryException

    query = start()
    while not (folder / "stop").exists():
        try:
            if query.awaitTermination(0.2):
                query = start()
        except StreamingQueryException as error:
            sys.stderr.write(f"{error}\n")
            query = start()
    query.stop()


def _session(folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.local.dir", str(folder / "local"))
        # Who dies while the first offset is written leaves half of it, and Spark would not begin again.
        .config("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
        .getOrCreate()
    )


if __name__ == "__main__":
    main()

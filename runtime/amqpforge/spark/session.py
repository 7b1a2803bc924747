"""A Spark session on this machine, for the commands: it finds its Java, and it ends with them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from amqpforge.errors import LocalError
from amqpforge.spark.java import find_java, home_for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkNotStarted", "local_session"]

_SHOWN_LINES: Final = 12
_ENDING_SECONDS: Final = 20
_SETTINGS: Final = {
    # A session of a command is short. Making code of plans for wide rows, and optimising it, takes longer
    # than it saves: without either a report on a small capture needs half of the processor time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A progress bar of Spark's own would write over ours.
    "spark.ui.showConsoleProgress": "false",
}


class SparkNotStarted(LocalError):
    """Spark could not be started here; the message says why, and has the end of its log if it wrote one."""


@contextlib.contextmanager
def local_session(
    name: str,
    *,
    cores: int | None = None,
    memory: str = "1g",
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A new session of Spark in this process and one Java process, on loopback; both end with the context.

    Args:
        name: what Spark calls the application.
        cores: how many tasks run at a time; default: as many as the machine has.
        memory: of the Java process's heap, as Java writes it: ``512m``, ``1g``.
        settings: Spark's own, over ours; ``spark.master`` among them, for tests.

    Raises:
        SparkNotStarted: pyspark is not installed, a session runs in this process already, or Java gave up.
        JavaNotFound: there is no Java that Spark can run on.
    """
    spark = _pyspark()
    if spark.SparkContext._active_spark_context is not None:
        raise SparkNotStarted("a Spark session runs in this process already: stop it first")
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(home_for_spark(find_java()))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="amqpforge-spark-")))
        stack.enter_context(_environment(home, _spark_home(Path(spark.__path__[0]), folder / "spark")))
        tasks = cores or os.cpu_count() or 1
        chosen = {
            "spark.master": f"local[{tasks}]",
            "spark.app.name": name,
            "spark.driver.memory": memory,
            "spark.sql.shuffle.partitions": str(tasks),
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            **_SETTINGS,
            **(settings or {}),
        }
        yield stack.enter_context(_running(chosen, folder / "spark.log"))


def _pyspark() -> ModuleType:
    try:
        import pyspark
    except ImportError as error:
        raise SparkNotStarted(
            f'pyspark cannot be imported ({error}): install it with: pip install "amqpforge[spark]"'
        ) from error
    return pyspark


def _spark_home(installed: Path, place: Path) -> Path:
    """What ``SPARK_HOME`` has to be: a folder at ``place`` with the programs and the jars of a Spark that pip
    installed.

    The installed folder has pyspark once more, as a zip, which Python workers of a Spark that lives there
    take it from: each of them then compiles what it imports, for most of a second.
    """
    try:
        place.mkdir()
        for name in ("bin", "jars"):
            (place / name).symlink_to(installed / name, target_is_directory=True)
    except OSError:  # Windows has links only for those that may make them.
        return installed
    return place


@contextlib.contextmanager
def _running(settings: Mapping[str, str], log: Path) -> Iterator[SparkSession]:
    """A session in a new Java process, which logs to a file; one that runs already is used."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway: Any = None
    try:
        if SparkContext._gateway is None:
            with log.open("ab") as sink:
                # What Java says while it starts would be shown in the middle of what a command says.
                gateway = launch_gateway(conf, {"stdout": sink, "stderr": sink})  # type: ignore[no-untyped-call]
        session = SparkSession(SparkContext(conf=conf, gateway=gateway))
    except (Py4JError, PySparkException, OSError) as error:
        _end(gateway)
        raise SparkNotStarted(f"Spark did not start: {_first_line(error)}{_tail(log)}") from error
    try:
        yield session
    finally:
        session.stop()
        _end(gateway)


def _end(gateway: Any) -> None:
    """End the Java process behind a gateway that we have started, and wait until it has gone."""
    if gateway is None:
        return
    from pyspark import SparkContext

    if SparkContext._gateway is gateway:
        SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        process.stdin.close()  # What it ends for.
    try:
        process.wait(_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _environment(java_home: Path, spark_home: Path) -> Iterator[None]:
    """What Spark's scripts and Python workers look up: our Java, our Spark, our Python, and a shell."""
    path = os.environ.get("PATH", os.defpath)
    new = {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(spark_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PATH": path
        if shutil.which("bash", path=path)
        else f"{path}{os.pathsep}{os.defpath}".strip(os.pathsep),
    }
    before = {name: os.environ.get(name) for name in new}
    os.environ.update(new)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _tail(log: Path) -> str:
    """The end of a log, on lines of its own; nothing if there is none."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "".join(f"\n  {line}" for line in lines[-_SHOWN_LINES:])

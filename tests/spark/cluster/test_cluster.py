"""On a cluster the executors need the installed package alone: no file, path or variable of the driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amqpforge.capture.reader import CaptureReader
from amqpforge.testing import ThreadedBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 500
_PATIENCE = 600


def _run(
    master: str,
    environment: dict[str, str],
    broker: ThreadedBroker,
    data: Path,
    folder: Path,
    *,
    submits: bool = False,
    stream: dict[str, str] | None = None,
    settings: dict[str, str] | None = None,
) -> dict[str, Any]:
    """What the program told that ran on a cluster.

    Args:
        master: the cluster.
        environment: of the driver.
        broker: with the queue ``q``.
        data: where captures are.
        folder: for what the program writes.
        submits: whether ``spark-submit`` starts it.
        stream: more options of its stream.
        settings: more settings of Spark.
    """
    capture = data / "captures" / "p10-rmq-rhea-simple-small.pcapng"
    work = folder / "driver"
    work.mkdir()
    given = {
        "folder": str(folder),
        "capture": str(capture),
        "url": broker.url,
        "rows": ROWS,
        "stream": stream or {},
        "settings": {
            "spark.master": master,
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "768m",
            "spark.local.dir": str(work / "local"),
            "spark.sql.warehouse.dir": str(work / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            **(settings or {}),
        },
    }
    program = Path(__file__).with_name("program.py")
    submit = [str(Path(environment["SPARK_HOME"], "bin", "spark-submit")), "--master", master]
    ran = subprocess.run(
        [*(submit if submits else [sys.executable]), str(program), json.dumps(given)],
        env=environment,
        cwd=work,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-6000:]
    told: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    with capture.open("rb") as file:
        assert told["frames"] == len(list(CaptureReader(file.read, remark=list[str]().append).records()))
    assert told["bodies"] == list(range(ROWS))
    return told


def test_local_cluster(
    environment: dict[str, str], installed: Path, broker: ThreadedBroker, data: Path, tmp_path: Path
) -> None:
    """Two executors of a core and a gigabyte each, as processes of their own."""
    told = _run("local-cluster[2,1,1024]", environment, broker, data, tmp_path)
    folders, packages, _ = zip(*told["places"], strict=True)
    assert len(set(folders)) == 2
    assert {Path(package).parents[1] for package in packages} == {installed}


def test_receivers_on_executors(
    environment: dict[str, str], broker: ThreadedBroker, data: Path, tmp_path: Path
) -> None:
    """Two executors, of which each receives over its own links."""
    stream = {"receiveOn": "executors", "receivers": "2", "maxRowsPerBatch": "200"}
    _run("local-cluster[2,1,1024]", environment, broker, data, tmp_path, stream=stream)
    slots = sorted((tmp_path / "spool").glob("slot-*-[01]"))
    figures = [json.loads((slot / "rounds.json").read_bytes())["figures"] for slot in slots]
    assert len(figures) == 2
    assert sum(one["rows"] for one in figures) == ROWS
    assert min(one["rows"] for one in figures) > 0
    processes = {json.loads((slot / "lock").read_bytes())["process"] for slot in slots}
    assert len(processes) == 2


def test_standalone_cluster(
    standalone: str,
    environment: dict[str, str],
    installed: Path,
    broker: ThreadedBroker,
    data: Path,
    tmp_path: Path,
) -> None:
    """A master and two workers, which never saw the environment of the driver."""
    driver = environment | {"AMQPFORGE_DRIVER": "yes"}
    settings = {"spark.executor.memory": "768m", "spark.cores.max": "2"}
    told = _run(standalone, driver, broker, data, tmp_path, submits=True, settings=settings)
    assert told["driver"] == [str(tmp_path / "driver"), str(installed / "amqpforge" / "__init__.py"), True]
    folders, packages, seen = zip(*told["places"], strict=True)
    assert {Path(folder).parents[1] for folder in folders} == {tmp_path / "worker-1", tmp_path / "worker-2"}
    assert {Path(package).parents[1] for package in packages} == {installed}
    assert seen == (False, False)

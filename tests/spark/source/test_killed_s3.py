"""A spool on S3: kill -9 at each point at which it could hurt, a store that is away, a whole stream."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from amqpforge.spark.source.objects import ObjectStore
from amqpforge.spark.source.segment import SpoolError
from amqpforge.spark.source.spool import Spool
from amqpforge.testing import ThreadedBroker

from . import driver
from .child import SELDOM, UPLOAD_POINTS, run
from .scene import bodies, publish, until
from .stores import S3, SERVER_TIMES
from .test_chaos import found
from .test_storage import batch

N = 1000
LEASE = asdict(SERVER_TIMES)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with S3.running() as server:
        yield server


@pytest.fixture
def location(s3: S3, tmp_path: Path) -> str:
    return s3.location(f"{tmp_path.name}/spool")


def plan(broker: ThreadedBroker, location: str, **more: str) -> dict[str, str]:
    return {
        "url": broker.url,
        "address": "q",
        "spoolLocation": location,
        "credit": "300",
        "startTimeout": "30",
    } | more


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=[] if point in ("after upload", "after fsync") else pytest.mark.slow)
        for point in UPLOAD_POINTS  # Each waits for the lease of who was killed.
    ],
)
def test_killed_at_a_point(broker: ThreadedBroker, location: str, point: str) -> None:
    publish(broker.url, N, ids=False)
    given = plan(broker, location)
    assert run(given, die=point, count=SELDOM.get(point, 3), times=LEASE) == -signal.SIGKILL
    assert run(given, times=LEASE) == 0
    until(lambda: len(broker.queue("q")) == 0, "settling")
    assert sorted(bodies(ObjectStore(location, times=SERVER_TIMES))) == list(range(N))


@pytest.mark.slow
def test_a_restart_that_forgets_the_spool_is_found_out(broker: ThreadedBroker, location: str) -> None:
    publish(broker.url, N)
    given = plan(broker, location)
    assert run(given, die="after fsync", count=3, times=LEASE) == -signal.SIGKILL
    assert run(given, forgets=True, times=LEASE) == 0
    numbers = Counter(bodies(ObjectStore(location, times=SERVER_TIMES)))
    assert set(numbers) == set(range(N))
    assert max(numbers.values()) == 2


@pytest.mark.slow
def test_accepting_too_early_is_found_out(broker: ThreadedBroker, location: str) -> None:
    publish(broker.url, N)
    given = plan(broker, location)
    assert run(given, hasty=True, die="before upload", count=2, times=LEASE) == -signal.SIGKILL
    assert run(given, times=LEASE) == 0
    assert set(bodies(ObjectStore(location, times=SERVER_TIMES))) < set(range(N))


def test_a_process_that_ends_gives_the_lease_up(broker: ThreadedBroker, location: str, s3: S3) -> None:
    """Though nobody closes the spool."""
    program = (
        "import sys; from amqpforge.spark.source.spool import Spool;"
        "from amqpforge.spark.source.storage import open_storage;"
        "Spool(open_storage(sys.argv[1])); sys.exit(3)"
    )
    assert subprocess.run([sys.executable, "-c", program, location], timeout=60).returncode == 3
    folder = location.partition("?")[0].removeprefix("s3://spools/")
    assert "spool.json.1.1" in s3.names(folder)
    assert "lock" not in s3.names(folder)


def test_a_store_that_is_away(location: str, s3: S3) -> None:
    spool = Spool(ObjectStore(location, times=SERVER_TIMES))
    spool.publish(batch(b"a"), 1)
    s3.stop()
    try:
        with pytest.raises(SpoolError, match=r"writing 1 messages to the spool .* failed: .*NETWORK_CONN"):
            spool.publish(batch(b"b"), 1)
    finally:
        s3.start()
    with pytest.raises(SpoolError, match="has failed before"):
        spool.publish(batch(b"b"), 1)
    spool.close()
    again = Spool(ObjectStore(location, times=SERVER_TIMES))
    assert again.next == 1
    again.publish(batch(b"b"), 1)
    again.close()


@pytest.mark.spark
def test_a_whole_stream(broker: ThreadedBroker, location: str, s3: S3, tmp_path: Path) -> None:
    publish(broker.url, N)
    given = plan(broker, location, maxRowsPerBatch="300")
    assert driver.run(given, tmp_path / "out", times=LEASE) == 0
    assert len(broker.queue("q")) == 0
    assert found(tmp_path / "out") == list(range(N))
    secret = os.environ["AWS_SECRET_ACCESS_KEY"].encode()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if secret in path.read_bytes()]


@pytest.mark.slow
@pytest.mark.spark
def test_a_killed_stream(broker: ThreadedBroker, location: str, tmp_path: Path) -> None:
    publish(broker.url, N)
    given = plan(broker, location, maxRowsPerBatch="300")
    for point in (*UPLOAD_POINTS, driver.AFTER_SINK):
        assert driver.run(given, tmp_path / "out", times=LEASE, die=point) == -signal.SIGKILL
    assert driver.run(given, tmp_path / "out", times=LEASE) == 0
    until(lambda: len(broker.queue("q")) == 0, "settling")
    assert found(tmp_path / "out") == list(range(N))

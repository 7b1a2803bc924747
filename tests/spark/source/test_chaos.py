"""kill -9 of a whole Spark program, at each point at which it could hurt."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

import amqpforge
from amqpforge.testing import ThreadedBroker

from .child import POINTS
from .driver import AFTER_SINK, run
from .scene import publish, until

pytestmark = pytest.mark.slow

#: ``make chaos`` asks for more.
ROUNDS = int(os.environ.get("AMQPFORGE_SPARK_CHAOS_ROUNDS", "5"))
N = 300
ALL = (*POINTS, AFTER_SINK)


def found(folder: Path) -> list[int]:
    """The numbers in all batches."""
    import pyarrow.parquet as parquet

    bodies: list[bytes] = []
    for path in folder.glob("batch=*/*.parquet"):
        bodies += parquet.read_table(path)["body"].to_pylist()
    return sorted(int(body) for body in bodies)


def given(broker: ThreadedBroker, spool: Path) -> dict[str, str]:
    return {
        "url": broker.url,
        "address": "q",
        "spoolLocation": str(spool),
        "maxRowsPerBatch": "100",
        "startTimeout": "30",
    }


def test_killed_at_any_point_nothing_is_lost_or_doubled(broker: ThreadedBroker, tmp_path: Path) -> None:
    """The sink writes a batch anew, so what comes out is what the source has served."""
    chance = random.Random(ROUNDS)
    options = given(broker, tmp_path / "spool")
    for number in range(ROUNDS):
        publish(broker.url, N, start=number * N, ids=number % 2 == 0)
        point = ALL[(number + 1) % len(ALL)]
        assert run(options, tmp_path / "out", die=point, count=chance.randrange(1, 3)) == -signal.SIGKILL
    assert run(options, tmp_path / "out") == 0
    until(lambda: len(broker.queue("q")) == 0, "settling")
    assert found(tmp_path / "out") == list(range(ROUNDS * N))


def test_a_source_that_forgets_is_found_out(broker: ThreadedBroker, tmp_path: Path) -> None:
    options = given(broker, tmp_path / "spool")
    for number in range(N):
        broker.put("q", amqpforge.Message(b"%d" % number, message_id=str(number)))
    assert run(options, tmp_path / "out", die="after fsync", count=2) == -signal.SIGKILL
    assert run(options, tmp_path / "out", forgets=True) == 0
    numbers = Counter(found(tmp_path / "out"))
    assert set(numbers) == set(range(N))
    assert max(numbers.values()) > 1

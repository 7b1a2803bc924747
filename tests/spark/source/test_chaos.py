"""kill -9 of a Spark program, of its parts and of the broker, at any moment and at each point that could
hurt.

The sink writes a batch anew under its number, so what comes out is what the source has served.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import amqpforge
from amqpforge.testing import ThreadedBroker

from .child import POINTS, SELDOM
from .driver import AFTER_SINK, Program, batches, program, run
from .lasting import LastingBroker, lasting
from .scene import publish, until

pytestmark = pytest.mark.spark

#: ``make chaos`` asks for more.
ROUNDS = int(os.environ.get("AMQPFORGE_SPARK_CHAOS_ROUNDS", "5"))
N = 300
_PATIENCE = 180
ALL = (*POINTS, AFTER_SINK)
FIRST = (AFTER_SINK, "broker", "worker", "receiver", "driver")
VICTIMS = (*ALL, "broker", "worker", "receiver", "driver", "everything", "everything and broker")


def found(folder: Path) -> list[int]:
    """The numbers in all batches."""
    import pyarrow.parquet as parquet

    bodies: list[bytes] = []
    for path in folder.glob("batch=*/*.parquet"):
        bodies += parquet.read_table(path)["body"].to_pylist()
    return sorted(int(body) for body in bodies)


def given(url: str, spool: Path) -> dict[str, str]:
    return {
        "url": url,
        "address": "q",
        "spoolLocation": str(spool),
        "maxRowsPerBatch": "100",
        "startTimeout": "60",
    }


class Chaos:
    """Rounds with one broker, one spool and one checkpoint."""

    def __init__(self, broker: LastingBroker, folder: Path, seed: int) -> None:
        self.broker = broker
        self.out = folder / "out"
        self.options = given(broker.url, folder / "spool")
        self.chance = random.Random(seed)
        self.sent = 0
        self._half_an_offset()
        self._open = ExitStack()
        self._program: Program | None = None

    def __enter__(self) -> Chaos:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _half_an_offset(self) -> None:
        """What is left of one who died while Spark wrote the first offset."""
        offsets = self.out / "checkpoint" / "offsets"
        offsets.mkdir(parents=True)
        (offsets / ".0.5f0a2b4c.tmp").write_text("v1\n", encoding="ascii")

    def round(self, victim: str) -> None:
        """Send messages, and kill somebody while they are on their way."""
        if victim in ALL:  # None of the messages is for the program that runs.
            self._end(0 if self._program is None else self._program.stop())
        # There will be three batches of these messages alone.
        moment = batches(self.out) + self.chance.randrange(1, 3)
        publish(self.broker.url, N, start=self.sent, durable=True)
        self.sent += N
        if victim in ALL:
            dying = self._start(die=victim, count=SELDOM.get(victim, self.chance.randrange(1, 3)))
            self._end(dying.wait(), -signal.SIGKILL)
            return
        running = self._program or self._start()
        until(lambda: batches(self.out) >= moment, f"batch {moment}", patience=_PATIENCE)
        if victim.endswith("broker"):
            self.broker.kill()
        if victim != "broker":
            until(lambda: running.kill(victim.partition(" ")[0]), f"the death of the {victim}")
        if victim.endswith("broker"):
            self.broker.start()
        if victim not in ("broker", "worker", "receiver"):
            running.wait()
            self._end(0)

    def _start(self, **plan: Any) -> Program:
        self._program = self._open.enter_context(program(self.options, self.out, **plan))
        return self._program

    def _end(self, code: int, wanted: int = 0) -> None:
        self._open.close()
        self._program = None
        assert code == wanted

    def finish(self) -> None:
        """Take what is left."""
        self._end(0 if self._program is None else self._program.stop())
        assert run(self.options, self.out) == 0


def test_whoever_is_killed_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    with (
        lasting(tmp_path / "broker", "q") as broker,
        Chaos(broker, tmp_path, seed=ROUNDS) as chaos,
    ):
        victims = list(FIRST)
        while len(victims) < ROUNDS:
            victims += chaos.chance.sample(VICTIMS, len(VICTIMS))
        for victim in victims[:ROUNDS]:
            chaos.round(victim)
        chaos.finish()
        assert found(chaos.out) == list(range(chaos.sent))
        assert broker.messages("q") == 0


@pytest.mark.slow
def test_killed_at_any_point_nothing_is_lost_or_doubled(broker: ThreadedBroker, tmp_path: Path) -> None:
    """Also of messages without an id, since the broker keeps the link."""
    chance = random.Random(ROUNDS)
    options = given(broker.url, tmp_path / "spool")
    for number in range(ROUNDS):
        publish(broker.url, N, start=number * N, ids=number % 2 == 0)
        point = ALL[(number + 1) % len(ALL)]
        count = SELDOM.get(point, chance.randrange(1, 3))
        assert run(options, tmp_path / "out", die=point, count=count) == -signal.SIGKILL
    assert run(options, tmp_path / "out") == 0
    until(lambda: len(broker.queue("q")) == 0, "settling")
    assert found(tmp_path / "out") == list(range(ROUNDS * N))


@pytest.mark.slow
def test_a_source_that_forgets_is_found_out(broker: ThreadedBroker, tmp_path: Path) -> None:
    options = given(broker.url, tmp_path / "spool")
    for number in range(N):
        broker.put("q", amqpforge.Message(b"%d" % number, message_id=str(number)))
    assert run(options, tmp_path / "out", die="after fsync", count=2) == -signal.SIGKILL
    assert run(options, tmp_path / "out", forgets=True) == 0
    numbers = Counter(found(tmp_path / "out"))
    assert set(numbers) == set(range(N))
    assert max(numbers.values()) > 1


@pytest.mark.slow
def test_a_source_that_accepts_too_early_is_found_out(broker: ThreadedBroker, tmp_path: Path) -> None:
    options = given(broker.url, tmp_path / "spool")
    publish(broker.url, N)
    assert run(options, tmp_path / "out", hasty=True, die="before rename", count=2) == -signal.SIGKILL
    assert run(options, tmp_path / "out") == 0
    assert set(found(tmp_path / "out")) < set(range(N))

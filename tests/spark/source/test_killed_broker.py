"""kill -9 of the broker while a receiver works: nothing is lost, and what has an id does not come twice.

The broker keeps messages and their outcomes in an SQLite store. It forgets links when it is killed, so that a
message without an id comes again if it was in the spool and the broker had not heard of it: the second half
of this module shows that, and so that the first half can fail.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .child import POINTS, SELDOM, start
from .lasting import LastingBroker, lasting
from .scene import bodies, publish

#: ``make chaos`` asks for more.
ROUNDS = int(os.environ.get("AMQPFORGE_SPARK_CHAOS_ROUNDS", "5"))
N = 600
SEGMENTS = N // 50
MOST = dict.fromkeys(POINTS, SEGMENTS // 2) | SELDOM
"""How often a point is met at least: settling is looked at from time to time, for many segments at once."""
_PATIENCE = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LastingBroker]:
    with lasting(tmp_path / "broker", "q") as broker:
        yield broker


def kill_at(broker: LastingBroker, spool: Path, point: str, count: int) -> None:
    """Have a receiver take what is there; the broker dies at a point, and comes back."""
    given = {"url": broker.url, "address": "q", "spoolLocation": str(spool), "credit": "100"}
    receiver = start(given, die=point, count=count, victim=broker.process.pid)
    try:
        broker.wait()
        assert broker.is_killed()
        broker.start()
        assert receiver.wait(_PATIENCE) == 0
    finally:
        receiver.kill()
        receiver.wait()


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point(broker: LastingBroker, tmp_path: Path, point: str) -> None:
    publish(broker.url, N, durable=True)
    kill_at(broker, tmp_path / "spool", point, min(4, MOST[point]))
    assert sorted(bodies(tmp_path / "spool")) == list(range(N))
    assert broker.messages("q") == 0


def test_killed_again_and_again(broker: LastingBroker, tmp_path: Path) -> None:
    """At any point, after any number of segments; one spool for all."""
    chance = random.Random(ROUNDS)
    for number in range(ROUNDS):
        publish(broker.url, N, start=number * N, durable=True)
        point = chance.choice(POINTS)
        kill_at(broker, tmp_path / "spool", point, chance.randint(1, MOST[point]))
    assert sorted(bodies(tmp_path / "spool")) == list(range(ROUNDS * N))
    assert broker.messages("q") == 0


def test_without_ids_nothing_is_lost_and_what_was_not_confirmed_comes_twice(
    broker: LastingBroker, tmp_path: Path
) -> None:
    publish(broker.url, N, ids=False, durable=True)
    kill_at(broker, tmp_path / "spool", "after fsync", 4)
    found = Counter(bodies(tmp_path / "spool"))
    assert set(found) == set(range(N))
    twice = [number for number, count in found.items() if count > 1]
    assert 0 < len(twice) <= 100, "no more than was under way"
    assert max(found.values()) == 2
    assert broker.messages("q") == 0

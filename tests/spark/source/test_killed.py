"""kill -9 at each point at which it could hurt: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from amqpforge.testing import ThreadedBroker

from .child import POINTS, SELDOM, run
from .scene import bodies, publish, until

N = 2000


def plan(broker: ThreadedBroker, spool: Path) -> dict[str, str]:
    return {
        "url": broker.url,
        "address": "q",
        "spoolLocation": str(spool),
        "credit": "300",
        "startTimeout": "20",
    }


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "no ids"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point(broker: ThreadedBroker, tmp_path: Path, point: str, ids: bool) -> None:
    publish(broker.url, N, ids=ids)
    given = plan(broker, tmp_path / "spool")
    assert run(given, die=point, count=SELDOM.get(point, 4)) == -signal.SIGKILL
    assert run(given) == 0
    until(lambda: len(broker.queue("q")) == 0, "settling")
    assert sorted(bodies(tmp_path / "spool")) == list(range(N))


def test_killed_again_and_again(broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, N)
    given = plan(broker, tmp_path / "spool")
    for number, point in enumerate(POINTS):
        assert run(given, die=point, count=1 + number % 2) == -signal.SIGKILL
    assert run(given) == 0
    assert sorted(bodies(tmp_path / "spool")) == list(range(N))


def test_a_restart_that_forgets_the_spool_is_found_out(broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, N)
    given = plan(broker, tmp_path / "spool")
    assert run(given, die="after fsync", count=4) == -signal.SIGKILL
    assert run(given, forgets=True) == 0
    found = Counter(bodies(tmp_path / "spool"))
    assert set(found) == set(range(N))
    assert max(found.values()) == 2


def test_accepting_too_early_is_found_out(broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, N)
    given = plan(broker, tmp_path / "spool")
    assert run(given, hasty=True, die="before rename", count=2) == -signal.SIGKILL
    assert run(given) == 0
    assert set(bodies(tmp_path / "spool")) < set(range(N))

"""What a receiver tells the peer after a loss, where messages have no id: the peer has kept the link."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqpforge.broker import BrokerConfig, ListenerConfig
from amqpforge.testing import ScriptedBroker, ThreadedBroker
from amqpforge_protocol.amqp_1_0 import Attach, Disposition, Role

from .scene import bodies, options, publish, receiving, until

N = 500
CREDIT = 50


@pytest.fixture
def slow_to_settle(tmp_path: Path) -> Iterator[ThreadedBroker]:
    """A broker that has an outcome in a file before it settles, and sends what is waiting meanwhile."""
    config = BrokerConfig(listeners=(ListenerConfig(port=0),), store=f"sqlite:{tmp_path / 'store.db'}")
    with ScriptedBroker.threaded(config) as broker:
        broker.declare_queue("q", durable=True)
        yield broker


def lose(broker: ThreadedBroker) -> None:
    """The connection is lost when the first messages are accepted: the peer does not hear of that."""
    broker.script.on(Disposition, role=Role.RECEIVER, times=1).drop().cut()


def test_messages_that_are_waiting_do_not_keep_the_peer_from_settling(
    slow_to_settle: ThreadedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are sent over the link that is attached again, and take the credit that it was given."""
    broker = slow_to_settle
    publish(broker.url, N, ids=False, durable=True)
    lose(broker)
    with receiving(options(broker.url, tmp_path / "spool", credit=CREDIT)) as live:
        until(lambda: live.intake.progress.rows >= N, "all rows", live)
        until(lambda: len(broker.queue("q")) == 0, "settling", live)
        assert 0 < live.intake.progress.resumed <= CREDIT
    assert sorted(bodies(tmp_path / "spool")) == list(range(N))
    assert "does not settle" not in caplog.text


def test_a_connection_that_is_lost_meanwhile_is_made_again(broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, N, ids=False)
    lose(broker)
    again = broker.script.on(Attach, when=lambda seen: bool(seen.performative.unsettled), times=2).cut()
    with receiving(options(broker.url, tmp_path / "spool", credit=CREDIT)) as live:
        until(lambda: live.intake.progress.rows >= N, "all rows", live)
        until(lambda: len(broker.queue("q")) == 0, "settling", live)
    assert again.acted == 2
    assert sorted(bodies(tmp_path / "spool")) == list(range(N))


def test_a_peer_that_cannot_stand_it_is_not_told_for_ever(broker: ThreadedBroker, tmp_path: Path) -> None:
    """It has the messages still: what has an id is known when it comes again."""
    publish(broker.url, N)
    lose(broker)
    again = broker.script.on(Attach, when=lambda seen: bool(seen.performative.unsettled)).cut()
    with receiving(options(broker.url, tmp_path / "spool", credit=CREDIT)) as live:
        until(lambda: len(broker.queue("q")) == CREDIT, "settling of all others", live)
    assert again.acted == 3
    assert set(range(CREDIT, N)) <= set(bodies(tmp_path / "spool"))

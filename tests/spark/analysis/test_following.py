"""What following a connection costs: an end of one session has nothing to do with the others."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine.observed_session import ObservedSession
from amqpforge.spark.analysis import following
from amqpforge.spark.analysis.following import Follower, Item
from amqpforge.spark.analysis.observations import Observations
from amqpforge_protocol.amqp_1_0 import End, Open, Role
from tests.engine.observing import a_begin, a_flow, a_transfer, an_attach

WAITING = 20


def told(found: Observations, kind: str) -> list[dict[str, Any]]:
    return [row[kind] for batch in found.batches() for row in batch.to_pylist() if row["kind"] == kind]


def test_the_end_of_a_session_looks_at_its_own_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    """While another session has deliveries that nobody has settled."""
    looked: list[ObservedSession] = []
    real = following._unsettled

    def look(session: ObservedSession) -> Any:
        looked.append(session)
        return real(session)

    monkeypatch.setattr(following, "_unsettled", look)
    found = Observations()
    follower = Follower("file", 0, found, 0)

    def say(direction: str, performative: Any, channel: int = 0) -> None:
        name = performative.XML_NAME
        item = Item(1, 0, direction, 0, 20, "amqp", channel, name, 0, performative, None)
        follower.take(item, "a", "b")

    def begin(channel: int) -> None:
        say("c2s", a_begin(), channel)
        say("s2c", a_begin(remote_channel=channel), channel)
        say("c2s", an_attach("out", 0, Role.SENDER), channel)
        say("s2c", an_attach("out", 0, Role.RECEIVER), channel)
        say("s2c", a_flow(handle=0, delivery_count=0, link_credit=50), channel)

    say("c2s", Open(container_id="c"))
    say("s2c", Open(container_id="s"))
    begin(0)
    for number in range(WAITING):
        say("c2s", a_transfer(number)[0])
    begin(1)
    say("c2s", a_transfer(0)[0], 1)
    for direction in ("c2s", "s2c"):
        say(direction, End(), 1)
    assert len(set(map(id, looked))) == 1
    (delivery,) = told(found, "delivery")
    assert (delivery["channel"], delivery["is_settled"]) == (1, False)
    follower.finish()
    assert len(told(found, "delivery")) == WAITING

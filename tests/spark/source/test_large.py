"""A message of which a part is here when the peer is asked what there is: it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

import amqpforge
from amqpforge.testing import ThreadedBroker
from amqpforge_protocol.amqp_1_0 import Transfer

from .scene import options, receiving, until

COUNT = 5
SIZE = 1 << 20


@pytest.mark.parametrize("mode", ["consume", "browse"])
def test_what_there_is_has_messages_that_are_under_way(
    broker: ThreadedBroker, tmp_path: Path, mode: str
) -> None:
    for number in range(COUNT):
        broker.put("q", amqpforge.Message(bytes([number]) * SIZE, message_id=str(number)))
    # The end of the last message comes long after the peer was asked whether there are more.
    broker.script.before(Transfer, more=False, skip=COUNT - 1, times=1).delay(0.4)
    with receiving(options(broker.url, tmp_path / "spool", credit=1, mode=mode), once=True) as live:
        until(lambda: live.is_over, "the end", live)
        live.check()
        assert live.intake.progress.rows == COUNT
    assert len(broker.queue("q")) == (0 if mode == "consume" else COUNT)

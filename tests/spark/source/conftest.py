"""A broker for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amqpforge.testing import ScriptedBroker, ThreadedBroker


@pytest.fixture
def broker() -> Iterator[ThreadedBroker]:
    """With the queue ``q``."""
    with ScriptedBroker.threaded() as broker:
        broker.declare_queue("q")
        yield broker

"""How long a peer is waited for, and what ends that at once. No Spark is needed."""

from __future__ import annotations

import time

import pytest

from amqpforge.engine.headers import HeaderRefused
from amqpforge.errors import (
    AmqpforgeError,
    ConnectionClosed,
    ConnectionLost,
    LinkDetached,
    LocalError,
    OperationTimedOut,
)
from amqpforge.spark.patience import Patience, PeerAway
from amqpforge_protocol.amqp_1_0 import AmqpError, Error, ProtocolHeader

LOST = ConnectionLost("gone")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def wait(self, patience: Patience) -> float:
        """Wait for the next attempt; returns for how long."""
        pause = patience.pause(LOST)
        self.now += pause
        return pause


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_pauses_grow_up_to_some_seconds(clock: Clock) -> None:
    patience = Patience(1000, "connect")
    pauses = [clock.wait(patience) for _ in range(20)]
    assert 0.05 <= pauses[0] <= 0.1
    assert all(2.5 <= pause <= 5 for pause in pauses[8:])


def test_the_time_for_all_pauses_is_limited(clock: Clock) -> None:
    patience = Patience(10, "connect")
    begin = clock.now

    def wait_on() -> None:
        for _ in range(1000):
            clock.wait(patience)

    with pytest.raises(PeerAway, match=r"no way to connect for 10 s, .* 'startTimeout' sets: gone") as caught:
        wait_on()
    assert caught.value.__cause__ is LOST
    assert 5 < clock.now - begin <= 10


def test_a_peer_that_was_there_is_waited_for_anew(clock: Clock) -> None:
    patience = Patience(10, "receive")
    for _ in range(3):
        assert clock.wait(patience) <= 0.1
        assert clock.wait(patience) > 0.1 / 2
        clock.now += 100
        patience.renew()


@pytest.mark.parametrize(
    "error",
    [
        LocalError("our fault"),
        ConnectionClosed("closed", Error(condition=AmqpError.NOT_ALLOWED)),
        LinkDetached("refused", Error(condition=AmqpError.NOT_FOUND)),
        HeaderRefused(ProtocolHeader(), ProtocolHeader(major=2), "another one"),
        OperationTimedOut("what is final for this one"),
    ],
)
def test_what_is_of_no_use_is_not_tried_again(error: AmqpforgeError) -> None:
    with pytest.raises(type(error)) as caught:
        Patience(10, "receive", final=(OperationTimedOut,)).pause(error)
    assert caught.value is error


@pytest.mark.parametrize(
    "error",
    [
        LOST,
        OperationTimedOut("slow"),
        LinkDetached("detached", Error(condition=AmqpError.INTERNAL_ERROR)),
        HeaderRefused(ProtocolHeader(), None, "ending"),
    ],
)
def test_what_may_pass_is_tried_again(error: AmqpforgeError) -> None:
    assert 0 < Patience(10, "receive").pause(error) <= 0.1

"""``receiveOn=executors``, started again with fewer receivers: what the slots that go had is neither lost nor
doubled.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from amqpforge.spark.source import intake, links
from amqpforge.spark.source.options import ReadOptions
from amqpforge.spark.source.rounds import AmqpRoundReader
from amqpforge.spark.source.slot import SlotPartition
from amqpforge.testing import ThreadedBroker
from amqpforge_protocol.amqp_1_0 import Detach, Disposition, Role

from .scene import publish, until
from .test_executors import die_in, given, numbers, plan

N = 60
Offset = dict[str, Any]


def begin(reader: AmqpRoundReader, start: Offset) -> Offset:
    """Where a round ends that begins now."""
    end = start
    limit = reader.getDefaultReadLimit()

    def has_begun() -> bool:
        nonlocal end
        end = reader.latestOffset(start, limit)
        return end != start

    until(has_begun, "a round")
    return end


def take(
    options: ReadOptions, reader: AmqpRoundReader, start: Offset, count: int
) -> tuple[list[int], Offset]:
    """So many messages at least, in rounds from this one on; and where the last one ended."""
    taken: list[int] = []
    while len(taken) < count:
        end = begin(reader, start)
        for part in plan(reader, start, end):
            taken += numbers(options, part)
        start = end
    return taken, start


def of_receivers(count: int, broker: ThreadedBroker, folder: Path) -> ReadOptions:
    """Options with so many slots for the queue, which share 20 rows in a round."""
    return given(broker.url, folder / "spool", receivers=count, credit=5, maxRowsPerBatch=20)


def of_two(
    broker: ThreadedBroker, folder: Path
) -> tuple[ReadOptions, AmqpRoundReader, Offset, list[SlotPartition]]:
    """A query with two slots that has begun its first round: where that ends, and its parts."""
    options = of_receivers(2, broker, folder)
    reader = AmqpRoundReader(options)
    start = reader.initialOffset()
    end = begin(reader, start)
    return options, reader, end, plan(reader, start, end)


def test_a_round_that_was_not_finished_keeps_its_slots(broker: ThreadedBroker, tmp_path: Path) -> None:
    """Those that go take nothing more than they have."""
    publish(broker.url, N)
    options, reader, end, (stays, goes) = of_two(broker, tmp_path)
    taken = numbers(options, stays)
    assert die_in(options, goes, "after fsync", 1) == -signal.SIGKILL
    reader.stop()

    options = of_receivers(1, broker, tmp_path)
    reader = AmqpRoundReader(options)
    again = plan(reader, reader.initialOffset(), end)
    assert [(part.name, part.rows > 0) for part in again] == [(stays.name, True), (goes.name, False)]
    assert numbers(options, again[0]) == taken
    left = numbers(options, again[1])
    assert left
    taken += left
    until(lambda: len(broker.queue("q")) == N - len(taken), "giving back")
    rest, _ = take(options, reader, end, N - len(taken))
    assert sorted(taken + rest) == list(range(N))
    reader.stop()


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "forgotten"])
def test_what_was_not_confirmed_does_not_come_twice(
    broker: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    """The connection of a slot that goes was lost at the end of its last round. The peer has kept the link,
    or has given its messages back to the node; they are known there until many others came.
    """
    monkeypatch.setattr(intake, "_SURE", 20)
    if not is_kept:
        monkeypatch.setattr(links, "KEPT", 0)
    publish(broker.url, N)
    options, reader, end, (stays, goes) = of_two(broker, tmp_path)
    taken = numbers(options, stays)
    broker.script.on(Disposition, role=Role.RECEIVER).drop()
    broker.script.on(Detach).cut()
    taken += numbers(options, goes)
    broker.script.clear()
    assert len(taken) == 20
    if not is_kept:
        until(lambda: len(broker.queue("q")) == N - 10, "giving back")
    reader.stop()

    options = of_receivers(1, broker, tmp_path)
    reader = AmqpRoundReader(options)
    rest, end = take(options, reader, end, N - len(taken))
    assert sorted(taken + rest) == list(range(N))
    until(lambda: len(broker.queue("q")) == 0, "settling")
    publish(broker.url, 2 * N, start=N)
    more_yet, end = take(options, reader, end, 2 * N)
    assert more_yet == list(range(N, 3 * N))
    publish(broker.url, 1)
    last = plan(reader, end, begin(reader, end))
    assert [part.name for part in last] == [stays.name], "nothing of the other one is expected any more"
    reader.stop()

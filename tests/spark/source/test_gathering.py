"""Messages are shared out to segments as they come, and what is accepted makes room for more."""

from __future__ import annotations

import pytest

from amqpforge.engine.delivery import IncomingDelivery
from amqpforge.engine.receiver import Receiver
from amqpforge.spark.source.gathering import Gathered
from amqpforge.spark.source.spool import Link
from amqpforge.spark.source.writer import _make_room

LINK = Link("a link", "q")


def deliveries(*sizes: int) -> list[IncomingDelivery]:
    """Messages of so many octets, which all belong to one receiver."""
    end = Receiver("a link")
    made = []
    for number, size in enumerate(sizes):
        one = IncomingDelivery(end, number, b"%d" % number, 0)
        one.payload = bytes(size)
        end.unsettled[one.tag] = one
        end.hold(one)
        made.append(one)
    return made


def segments(gathered: Gathered) -> list[list[int]]:
    """The sizes of the messages of each segment."""
    found = []
    while gathered:
        gathering = gathered.take()
        sizes = [len(payload) for payload in gathering.rows.payloads]
        assert gathering.octets == sum(sizes)
        assert [len(one.payload) for one in gathering.deliveries] == sizes
        found.append(sizes)
    return found


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1] * 7, [[1, 1, 1], [1, 1, 1], [1]]),
        ([4, 4, 2, 1], [[4, 4, 2], [1]]),
        ([8, 3, 7], [[8], [3, 7]]),
        ([30, 1, 30], [[30], [1], [30]]),
        ([0, 10, 1], [[0, 10], [1]]),
    ],
)
@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_no_segment_has_more_than_it_may(sizes: list[int], expected: list[list[int]], at_once: int) -> None:
    gathered = Gathered(most_rows=3, most_octets=10)
    coming = deliveries(*sizes)
    for first in range(0, len(coming), at_once):
        gathered.add(LINK, coming[first : first + at_once])
    assert segments(gathered) == expected


def test_rows_say_where_they_came_from() -> None:
    gathered = Gathered(most_rows=10, most_octets=100)
    gathered.add(LINK, deliveries(1, 2))
    gathered.add(Link("another", "r"), deliveries(3))
    batch = gathered.take().rows.batch()
    assert batch["address"].to_pylist() == ["q", "q", "r"]
    assert batch["link"].to_pylist() == ["a link", "a link", "another"]
    assert batch["delivery_tag"].to_pylist() == [b"0", b"1", b"0"]


def test_enough_is_what_was_asked_for_or_a_full_segment() -> None:
    gathered = Gathered(most_rows=3, most_octets=100)
    gathered.add(LINK, deliveries(1, 1))
    assert gathered.has(2)
    assert not gathered.has(3)
    gathered.add(LINK, deliveries(1, 1))
    assert gathered.has(1000)


def test_what_is_accepted_makes_room_before_it_is_settled() -> None:
    messages = deliveries(*[1] * 6)
    end = messages[0].link
    _make_room([end], messages[:4], 3)
    assert end.held == 2
    assert len(end.unsettled) == 6


def test_a_peer_that_settles_nothing_gets_no_more() -> None:
    messages = deliveries(*[1] * 7)
    end = messages[0].link
    _make_room([end], messages[:4], 3)
    assert end.held == 7


def test_each_link_has_its_own_credit() -> None:
    slow, prompt = deliveries(*[1] * 7), deliveries(*[1] * 6)
    ends = [slow[0].link, prompt[0].link]
    _make_room(ends, [*slow[:4], *prompt[:4]], 3)
    assert [end.held for end in ends] == [7, 2]
